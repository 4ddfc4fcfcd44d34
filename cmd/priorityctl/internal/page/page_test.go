package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/customer"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/lua"
)

// world is a fleet's Redis, and the page of it.
type world struct {
	*testing.T
	client  *redis.Client
	store   *priority.RedisStore
	admin   *control.Admin
	page    *Page
	handler http.Handler
}

func newWorld(t *testing.T, client *redis.Client) *world {
	t.Helper()
	store := must(priority.NewRedisStore(client, &priority.RedisOptions{Timeout: time.Minute}))(t)
	inspector := must(insight.New(client, insight.Options{Secrets: []string{"hunter2"}, Address: "redis://counts"}))(t)
	p := New(inspector, "redis://counts/1?a&b")
	p.interval = 20 * time.Millisecond
	return &world{t, client, store, inspector.Admin, p, p.Handler()}
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func (w *world) do(method, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, httptest.NewRequest(method, "/"+path, nil))
	return recorder
}

func (w *world) get(path string) string { return w.do(http.MethodGet, path).Body.String() }

// has fails the test unless a page has all texts, and soon.
func (w *world) has(path string, texts ...string) {
	w.Helper()
	for _, text := range texts {
		redistest.Await(w, path+" has "+text, func() bool { return strings.Contains(w.get(path), text) })
	}
}

var change = control.Change{By: "<b>mary", Why: "<script>why()</script>"}

func (w *world) override(customer string, level priority.Level) {
	must(w.admin.SetOverride(w.Context(), customer, priority.Bounds{Earliest: level, Latest: level}, 6*time.Hour, change))(w)
}

func (w *world) apply(thresholds ...int64) {
	must(w.admin.Apply(w.Context(), control.AnyVersion, priority.Policies{Policy: priority.Policy{Thresholds: thresholds}}, control.Change{By: "mary", Why: "less level 9"}))(w)
}

// pending makes documents pending that were submitted two minutes ago, at a level and the next.
func (w *world) pending(customer string, level priority.Level, documents int) {
	const script = "for i = 1, ARGV[2] do redis.call('ZADD', KEYS[1], string.format('%d', 256000 * (redis.call('TIME')[1] - 120) + ARGV[1] + i % 2), i) end redis.call('ZADD', KEYS[1], 1, ':fades', 1000, ':averages')"
	_ = w.client.Eval(w.Context(), script, []string{w.store.Keys(customer).Pending}, int(level), documents) // it has no reply
}

// report writes the report of a process, which it made a while ago; 0: it is here for the whole
// test.
func (w *world) report(name string, age time.Duration, r fleet.Report) {
	w.Helper()
	r.ID, r.Name, r.Host, r.PID, r.Overrides = name, name, "<i>host", 100, true
	r.Language, r.Version, r.Window, r.Up, r.Levels = "go", "0.1.0", time.Minute, 3*time.Hour, max(r.Levels, 3)
	key, text := "priority:{fleet}:"+name, must(json.Marshal(r))(w)
	must(w.client.Eval(w.Context(), lua.Report, []string{key, "priority:{fleet}:members", "priority:{fleet}:emptied", "priority:{fleet}:history"}, name, text, 0, "d4", 500, "w4.10", 500).Result())(w)
	w.client.PExpire(w.Context(), key, time.Hour-cmp.Or(age, -time.Hour))
}

var long = strings.Repeat("long", 128)

// full has something of all that the pages show.
func full(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, redistest.Start(t).Client())
	must(w.store.NextN(t.Context(), "acme", 30))(t)
	must(w.store.NextN(t.Context(), long, 40))(t)
	w.pending("clinic", 2, 11)
	w.client.Set(t.Context(), "priority:{bro ken}:count", "junk", 0)
	w.apply(-10, -20)
	w.apply(-5, -20)
	for i := range 60 {
		must(0, w.admin.Reset(t.Context(), fmt.Sprint("reset-", i), change))(t)
	}
	w.override("acme", 2)
	for i, r := range []fleet.Report{{Levels: 9, Following: control.Following{Version: 2}}, {Following: control.Following{Version: 2}}, {Levels: 9, Following: control.Following{Version: 1, Own: true}}} {
		r.ByLoad, r.ByCount, r.Overridden = map[priority.Level]int64{4: 1950, 9: 10}, map[priority.Level]int64{1: 7}, 7
		r.Waits, r.Errors = map[priority.Level]fleet.Histogram{1: {64: 100}}, map[string]int64{"not_counted": 3}
		r.Busiest = []fleet.Busy{
			{Customer: "acme", Documents: 120, Rule: priority.ByCount, Level: 2, Count: -29, Hour: []fleet.Part{{Ago: 2 * time.Minute, Documents: 70, Level: 8}, {Ago: 7 * time.Minute, Documents: 50, Level: 7}, {Ago: 22 * time.Minute, Documents: 9, Level: 8}}},
			{Customer: "clinic", Rule: priority.ByLoad, Level: 4, Pending: 11}, {Customer: long, Documents: 1, Rule: priority.ByCount, Level: 3}, {Customer: "bro ken", Documents: 1, Rule: priority.ByCount, Level: 1},
		}
		w.report(fmt.Sprint("w", i), 0, r)
	}
	w.report("w9", 5*time.Minute, fleet.Report{})
	return w
}

var pages = []string{"", "?over=day", "customers", "customer?c=acme", "customer?c=clinic", "customer?c=bro+ken", "customer?c=" + long, "workers", "policy", "log"}

func TestPages_Flood(t *testing.T) {
	t.Parallel()
	w := full(t)
	for path, texts := range map[string][]string{
		"": {
			`<th class="left" scope="row">1</th><td>21</td>`, `2 <strong class="bad">✗ stuck</strong></th><td>0</td>`, "<td>11</td><td>2m", `<strong class="figure">1m6s</strong><span class="faint">median`,
			"No document of level 2 was done in the last minute; at least 5 pending", "9 documents could not be counted", "→ priorityctl ping says why", "1 gone within the hour", "5,901 documents in the last 1m, 21 by overrides",
			"Documents by the workers’ reports: at most level 4 2,000", "waited at most that: at most level 4 1s", "Pending, at least seen here since", ": at most level 2 5, level 3 6",
			`<a class="name" href="customer?c=acme">`,
		},
		"customer?c=acme":    {`<strong class="figure">2</strong> <span class="faint">by the rule 3`, "&lt; -20 <strong>◂ -30</strong>", "30 documents since the last reset", "pinned to level 2, until", "acme pinned to level 2", "<td>210</td><td>8</td>", `<td>150</td><td>7`},
		"customer?c=clinic":  {"1.0 recent × 12 pending × 1.00 cost = 12.0", "<strong>◂ 12.0</strong>", "priority:{clinic}:pending"},
		"customer?c=bro+ken": {"holds a string, not a count", "priorityctl reset -why &#39;&#39; -redis &#39;redis://counts/1?a&amp;b&#39; &#39;bro ken&#39;"},
		"customers?c=CLI":    {`name: <a class="name" href="customer?c=CLI">`, "workers report, 1 has it", `href="customer?c=clinic">`},
		"?over=day":          {"<h2 id=\"over\">The last day", `aria-label="Pending, at least seen here since`, ": level 2 5, level 3 6</li>", `class="area shade2" d="M47.06`},
		"customer?c=new":     {"nothing is known about it", "No listed change is about this customer"},
		"workers": {
			`<td class="left">own</td>`, "Gone within the hour", `<td class="left text">5m`, ">w9<",
			"2 of 3 workers follow; w2 on &lt;i&gt;host does not", `<td>3 <strong class="bad">≠ most`, "version 2",
		},
		"policy": {
			"pinned to level 2", "A customer’s page has the commands", "1 in force",
			"version 2, by mary", "less level 9", "&lt; -5", "policies applied (version 1): 3 levels", "priorityctl policy rollback 1 -why",
		},
		"log": {"acme pinned to level 2, for 6h", ">reset-59 reset<", ">reset-11 reset<"},
	} {
		w.has(path, texts...)
	}
	if body := w.get("workers"); strings.Index(body, ">w2<") > strings.Index(body, ">w0<") {
		t.Error("a worker that follows comes first")
	}
	must(w.admin.Withdraw(t.Context(), control.AnyVersion, change))(t)
	w.has("policy", "the workers’ own options decide, here <bdi>the module&#39;s default policy", "policies withdrawn (version 3)", "priorityctl policy rollback 2 -why")
}

// The number of what was lost is what workers knew, whatever the page has seen before.
func TestPages_NoWorkersThenEmptied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t).Client())
	w.has("", "! workers:", "no worker reports with the prefix", "No worker has reported", "none is known to wait")
	w.has("workers", "no worker reports, so who follows is unknown")
	w.has("policy", "There are no overrides", "No policy is among")
	w.has("log", "The latest 50 changes")
	w.client.Set(t.Context(), "priority:{fleet}:emptied", time.Now().Add(-4*time.Minute).UnixMilli(), 0)
	w.has("", "! data:", "Redis lost its data 4m", "no worker knows of policies")
	w.report("w1", 0, fleet.Report{})
	w.has("", "ago: operators had set nothing")
	w.report("w1", 0, fleet.Report{Following: control.Following{Version: 15, Code: control.Lost}})
	w.has("", "✗ data:", "Redis lost its data 4m", "✗ policies:", "version 15 was known, none is there", "→ priorityctl control import brings an export back")
	w.has("policy", "✗ Redis lost policies", "version 15 was known", "Where the lost policies are not known, the workers’ own options decide")
	w.client.Set(t.Context(), "priority:{control}:policies", "junk", 0)
	w.has("policy", "Not up to date", "corrupt", "priority:{control}:policies", "What operators have set cannot be read")
}

// A browser gets nothing that is not from this page, and no request changes anything.
func TestPages_FromHereAndReadOnly(t *testing.T) {
	t.Parallel()
	w := full(t)
	changes := func() string {
		return regexp.MustCompile("rdb_changes_since_last_save:.*").FindString(w.client.Info(t.Context(), "persistence").Val())
	}
	before := changes()
	foreign := regexp.MustCompile(`(?i)(?:src|href|action)="(?:[a-z]+:|//|/)|<[^>]+\s(?:style|on[a-z]+)=|<style|<script>|url\(|method=|ZgotmplZ|NaN|%!|<no value>`)
	for _, path := range pages {
		response := w.do(http.MethodGet, path)
		h := response.Header()
		guards := []string{h.Get("Content-Security-Policy"), h.Get("X-Frame-Options"), h.Get("X-Content-Type-Options"), h.Get("Referrer-Policy"), h.Get("Cache-Control")}
		if !slices.Equal(guards, []string{"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'", "DENY", "nosniff", "no-referrer", "no-store"}) {
			t.Errorf("%q: %q", path, guards)
		}
		if found := foreign.FindString(response.Body.String()); response.Code != 200 || found != "" || w.do(http.MethodPost, path).Code != 405 {
			t.Errorf("%q: status %d, with %q", path, response.Code, found)
		}
	}
	if after := changes(); after != before || before == "" {
		t.Errorf("Redis has had %q, and then %q", before, after)
	}
	if location := w.do(http.MethodGet, "customers?c=a+b").Header().Get("Location"); location != "customer?c=a+b" {
		t.Errorf("nothing to choose from leads to %q", location)
	}
	for path, want := range map[string]int{"nothing": 404, "customer": 400, "customers?c=acme": 303, "customer?c=" + long + "x": 400, "assets/style.css": 200} {
		if status := w.do(http.MethodGet, path).Code; status != want {
			t.Errorf("%q has status %d, not %d", path, status, want)
		}
	}
}

// Every customer is shown as text, every link about one leads to the same one, and a shell
// reads the same one in every command.
func TestPages_HostileCustomers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t).Client())
	hostile := []string{
		"<script>nonsense()</script>", `"><img src=x onerror=nonsense()>`, "{{.}}' onfocus=nonsense() x='", "javascript:nonsense()", "line\r\nbreak\x00\t",
		"\u202eright to left", "\xff\xfe<b>", " a  b", "~", "*", "100% & ?c=other#fragment+plus;/../", " ", "-rf", "it's; $(touch x)", strings.Repeat("é", 256),
	}
	var busy []fleet.Busy
	for i, who := range hostile {
		must(w.store.NextN(t.Context(), who, 3+i))(t)
		w.override(who, 2)
		busy = append(busy, fleet.Busy{Customer: who, Documents: 1, Rule: priority.ByCount, Level: 9, Count: -30})
	}
	w.report("<b>", 0, fleet.Report{Busiest: busy})
	w.has("", ">-rf<")
	check := func(path string) string {
		body := w.get(path)
		if bad := regexp.MustCompile("<script>nonsense|<script>why|<img|<b>|<i>|\u202e|\x00").FindString(body); bad != "" || !utf8.ValidString(body) {
			t.Errorf("%q has %q", path, bad)
		}
		return body
	}
	check("workers")
	for _, path := range []string{"", "customers", "log", "policy"} {
		body := html.UnescapeString(check(path))
		for _, who := range hostile {
			if query := url.QueryEscape(who); !strings.Contains(body, `href="customer?c=`+query+`"`) {
				t.Errorf("%q has no link to %s", path, query)
			}
		}
	}
	for i, who := range hostile {
		body := check("customer?c=" + url.QueryEscape(who))
		commands := regexp.MustCompile(`<code class="command"[^>]*>([^<]*)<`).FindAllStringSubmatch(body, 5)
		for _, command := range commands {
			// The last argument is the customer, or else the input is JSON that has it.
			script := `priorityctl() { case $* in *"-from -") cat;; *) for last; do :; done; printf %s "$last";; esac; }; ` + html.UnescapeString(command[1])
			read := customer.Name{Customer: string(must(exec.Command("sh", "-c", script).Output())(t))}
			_ = json.Unmarshal([]byte(read.Customer), &read)
			if read.Exact() != who {
				t.Errorf("a shell reads %q for %q in %s", read.Exact(), who, command[1])
			}
		}
		if !strings.Contains(body, fmt.Sprintf("%d documents since the last reset", 3+i)) || len(commands) != 5 {
			t.Errorf("%q is another customer's page, or has %d commands", who, len(commands))
		}
	}
}

func TestLook_ManyVisitors(t *testing.T) {
	t.Parallel()
	w := full(t)
	w.has("", "acme")
	w.page.interval = time.Minute
	reads := func() string { // how often Redis was asked for its time
		_, stats, _ := strings.Cut(w.client.Info(t.Context(), "commandstats").Val(), "cmdstat_time:")
		times, _, _ := strings.Cut(stats, ",")
		return times
	}
	before := reads()
	var visitors sync.WaitGroup
	for i := range 100 {
		visitors.Go(func() { w.get([]string{"", "workers", "policy", "log"}[i%4]) })
	}
	visitors.Wait()
	if after := reads(); after != before || before == "" {
		t.Errorf("Redis was asked for its time: %s, and then %s", before, after)
	}
}

// While Redis is away, what was read last stays, with its age and one message, which shows no
// password. When it is back, so is the page.
func TestPages_RedisAway(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 500 * time.Millisecond})
	defer client.Close()
	w := newWorld(t, client)
	proxy.Set(redistest.Swallow)
	const message = "Not up to date.</strong> Redis at redis://counts cannot be reached: "
	for _, path := range pages {
		w.has(path, message, "Redis was not reached yet")
	}
	proxy.Set(redistest.None)
	must(w.store.NextN(t.Context(), "acme", 30))(t)
	w.override("acme", 2)
	w.apply(-3)
	w.report("w0", 0, fleet.Report{Following: control.Following{Version: 1}, Busiest: []fleet.Busy{{Customer: "acme", Documents: 1, Rule: priority.ByCount, Level: 9}}})
	texts := map[string]string{"": "customer?c=acme", "customer?c=acme": "acme pinned to level 2", "workers": ">w0<", "policy": "less level 9", "log": "less level 9"}
	w.has("workers", texts["workers"]) // and so the same look has all else
	proxy.Set(redistest.Swallow)
	for path, text := range texts {
		w.has(path, message, "What you see was read", text)
		if body := w.get(path); strings.Count(body, "Not up to date") != 1 || strings.Contains(body, "checks are ok") {
			t.Errorf("%q has\n%s", path, body)
		}
	}
	w.has("customer?c=acme", "cannot be read now")
	proxy.Set(redistest.None)
	w.has("customer?c=acme", "◂ -30")
	if text := w.page.text(errors.New("redis://mary:swordfish@counts with hunter2")); text != "redis://***@counts with ***" {
		t.Error(text)
	}
}
