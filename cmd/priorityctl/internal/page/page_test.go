package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lua"
)

// world is a fleet's Redis, and the page of it on a web server.
type world struct {
	*testing.T
	client redis.UniversalClient
	store  *priority.RedisStore
	admin  *control.Admin
	page   *Page
	root   string // the page's address, with a slash at its end
}

func newWorld(t *testing.T, client redis.UniversalClient, secrets ...string) *world {
	t.Helper()
	options := priority.RedisOptions{Timeout: 10 * time.Second, Overrides: true, Tiers: map[string]priority.Policy{"gold": {Thresholds: []int64{-20}}}, TierOf: func(string) string { return "" }}
	store := must(priority.NewRedisStore(client, &options))(t)
	admin := must(control.NewAdmin(client, &control.AdminOptions{Timeout: 10 * time.Second}))(t)
	p := New(&insight.Inspector{
		Client: client, Store: store, Options: options, Prefix: insight.DefaultPrefix, Admin: admin, Secrets: secrets,
		Policy: insight.NamedPolicy{Policy: priority.DefaultPolicy(), Name: "the default"}, Server: insight.Server{Address: "redis://counts", Kind: insight.SingleServer},
	}, "redis://counts/1?a&b")
	p.interval = 20 * time.Millisecond
	web := httptest.NewServer(p.Handler())
	t.Cleanup(web.Close)
	return &world{T: t, client: client, store: store, admin: admin, page: p, root: web.URL + "/"}
}

func TestMain(m *testing.M) {
	logging.Disable() // what matters is on the page
	m.Run()
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

func (w *world) get(path string) string {
	w.Helper()
	response := must(http.Get(w.root + path))(w)
	defer response.Body.Close()
	return string(must(io.ReadAll(response.Body))(w))
}

// has fails the test unless a page has all texts, and soon.
func (w *world) has(path string, texts ...string) {
	w.Helper()
	body := ""
	defer func() {
		if w.Failed() {
			_, main, _ := strings.Cut(body, "<main")
			w.Logf("%q has\n%s", path, main)
		}
	}()
	for _, text := range texts {
		redistest.Await(w, path+" has "+text, func() bool {
			body = w.get(path)
			return strings.Contains(body, text)
		})
	}
}

func (w *world) count(customer string, documents int) {
	w.Helper()
	must(w.store.NextN(w.Context(), customer, documents))(w)
}

func (w *world) override(customer string, level priority.Level) {
	w.Helper()
	must(w.admin.SetOverride(w.Context(), customer, priority.Override{Earliest: level, Latest: level}, 6*time.Hour, control.Change{By: "<b>mary", Why: "<script>why()</script>"}))(w)
}

func (w *world) apply(thresholds ...int64) {
	w.Helper()
	replaces := int64(0)
	if settings := must(w.admin.Settings(w.Context()))(w); settings.Rules != nil {
		replaces = settings.Rules.Version
	}
	must(w.admin.Apply(w.Context(), control.Rules{Policy: priority.Policy{Thresholds: thresholds}}, control.Change{By: "mary", Why: "less level 9", Replaces: replaces}))(w)
}

// report writes the report of a process.
func (w *world) report(r fleet.Report) {
	w.Helper()
	if r.Levels == 0 {
		r.Levels = 9
	}
	r.Language, r.Version, r.Window = "go", "0.1.0", time.Minute
	text := must(json.Marshal(r))(w)
	const key = "priority:{fleet}:"
	if err := w.client.Eval(w.Context(), lua.Report, []string{key + r.ID, key + "members"}, r.ID, text).Err(); err != nil {
		w.Fatal(err)
	}
}

// full has something of all that the pages show.
func full(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, redistest.Start(t).Client())
	w.count("acme", 30)
	w.count(strings.Repeat("long", 128), 40)
	ids := make([]string, 11)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	must(w.store.SubmitN(t.Context(), "clinic", ids, nil))(t)
	w.client.Set(t.Context(), "priority:{bro ken}:count", "junk", 0)
	w.override("acme", 2)
	w.apply(-10, -20)
	w.apply(-5, -20)
	busy := []fleet.Busy{{Customer: "acme", Documents: 120, Rule: priority.ByCount, Level: 2, Count: -29}, {Customer: strings.Repeat("long", 128), Documents: 1, Rule: priority.ByCount, Level: 3}, {Customer: "bro ken", Documents: 1, Rule: priority.ByCount, Level: 1}}
	for i, rules := range []fleet.Rules{{Version: 3}, {Version: 2, Error: "its queue has 3 levels, the rules 9"}, {Version: 3}} {
		w.report(fleet.Report{
			ID: fmt.Sprint("id", i), Name: fmt.Sprint("w", i), Host: "b", PID: 100 + i, Overrides: true, Degraded: i == 2, Rules: rules, Up: 3 * time.Hour,
			ByLoad: map[priority.Level]int64{4: 1950, 9: 10}, ByCount: map[priority.Level]int64{1: 7}, Overridden: 7, Fallback: 2,
			Waits: map[priority.Level]fleet.Histogram{1: {40: 100}, 4: {53: 100}}, Errors: map[string]int64{"not_counted": 3, "corrupt": 1}, Busiest: busy,
		})
	}
	if err := w.page.addSample(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

var pages = []string{"", "customers", "customers?corrupt=", "customers?q=nobody", "customer?c=acme", "customer?c=clinic", "customer?c=bro+ken", "customer?c=" + strings.Repeat("long", 128), "workers", "policy", "log"}

func TestPages_ShowTheFleet(t *testing.T) {
	t.Parallel()
	w := full(t)
	for path, texts := range map[string][]string{
		"": {
			`<th class="left" scope="row">4</th><td>0</td><td>5,850</td>`, `<th class="left" scope="row">1</th><td>21</td><td>0</td>`, "5,901 in the last minute", `<strong class="figure">98.3</strong>`,
			`<strong class="figure">1s</strong><span class="faint">median`, "9 could not be counted", "2 do not obey", "w1 on host b does not: its queue has 3 levels, the rules 9", "1 of 3 workers cannot reach Redis",
			"Find the customers", `<a class="name" href="customer?c=acme">`, "Documents a minute: at most 5,901", `class="mark"`, "Some things could be better", "Ping ",
		},
		"customers":          {`<strong class="figure">4</strong> of all customers`, `href="customer?c=clinic"`, "<td>144.0</td><td>11</td>", `<td>2</td><td class="left">by count</td><td>-29</td>`},
		"customers?corrupt=": {`<strong class="figure">1</strong>`, `<a class="name" href="customer?c=bro&#43;ken"><bdi>&#34;bro ken&#34;</bdi></a> <span class="tag">corrupt key`},
		"customer?c=acme":    {`<strong class="figure">2</strong> <span class="faint">by the rule 3`, "&lt; -20 <strong>◂ -30</strong>", "30 documents since the last reset", "pinned to level 2, until", "acme overridden"},
		"customer?c=clinic":  {"12.0 recent × 12 pending × 1.00 cost = 144.0", "<strong>◂ 144.0</strong>", "priority:{clinic}:pending"},
		"customer?c=bro+ken": {"holds a string, not a count", "priorityctl reset -why &#39;&#39; -redis &#39;redis://counts/1?a&amp;b&#39; &#39;bro ken&#39;"},
		"workers":            {`<strong class="figure">1</strong> of 3 workers obey operators; 1 cannot reach Redis`, "its queue has 3 levels, the rules 9", "on <bdi>b</bdi>, process 101", "version 3"},
		"policy":             {"version 3, by mary", "less level 9", "&lt; -5", "Version 2: 3 levels", "decides now", "pinned to level 2", "priorityctl policy rollback 2 -why", "priorityctl policy withdraw -why"},
		"policy?q=nobody":    {"No override matches"},
		"log":                {"policy applied", "acme overridden: pinned to level 2, for 6h", "version 1, "},
	} {
		w.has(path, texts...)
	}
	if body := w.get("workers"); strings.Index(body, ">w1<") > strings.Index(body, ">w0<") {
		t.Error("who obeys comes before who does not")
	}
	if body := w.get("workers?q=W2"); strings.Contains(body, ">w1<") || !strings.Contains(body, ">w2<") {
		t.Error("the search for w2 finds another")
	}
	must(w.admin.Forget(t.Context(), "acme", control.Change{By: "mary", Why: "ticket 4711"}))(t)
	w.has("log", "<bdi>a customer forgotten</bdi></p>", "ticket 4711")
}

// A browser runs, shows and sends nothing but what is from this page, and no request
// changes anything.
func TestPages_FromHereAndReadOnly(t *testing.T) {
	t.Parallel()
	w := full(t)
	w.has("", "Ping ")
	held := func() (all []string) {
		for _, key := range must(w.client.Keys(t.Context(), "*").Result())(t) {
			all = append(all, key+"="+w.client.Dump(t.Context(), key).Val())
		}
		slices.Sort(all)
		return all
	}
	before := held()
	foreign := regexp.MustCompile(`(?i)(?:src|href|action)="(?:[a-z]+:|//|/)|<[^>]+\s(?:style|on[a-z]+)=|<style|<script>|url\(|method=|ZgotmplZ|NaN|%!|<no value>`)
	for _, path := range pages {
		for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodPut: 405, http.MethodDelete: 405} {
			response := must(http.DefaultClient.Do(must(http.NewRequest(method, w.root+path, strings.NewReader("c=acme&why=x")))(t)))(t)
			body := string(must(io.ReadAll(response.Body))(t))
			_ = response.Body.Close()
			if found := foreign.FindString(body); response.StatusCode != want || found != "" {
				t.Errorf("%s %q: status %d, with %q", method, path, response.StatusCode, found)
			}
			for header, want := range map[string]string{
				"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
				"X-Frame-Options":         "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			} {
				if got := response.Header.Get(header); got != want {
					t.Errorf("%s %q: %s is %q", method, path, header, got)
				}
			}
		}
	}
	if after := held(); !slices.Equal(before, after) {
		t.Errorf("Redis holds\n%q\nand not\n%q", after, before)
	}
	for path, want := range map[string]int{"nothing": 404, "customer": 400, "customer?c=" + strings.Repeat("x", 513): 400, "assets/style.css": 200, "assets/nothing": 404} {
		if response := must(http.Head(w.root + path))(t); response.StatusCode != want {
			t.Errorf("%q has status %d, not %d", path, response.StatusCode, want)
		}
	}
}

// Every customer is shown as text, every link about one leads to the same one, and every
// command names no other.
func TestPages_HostileCustomers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t).Client())
	hostile := []string{
		"<script>nonsense()</script>", `"><img src=x onerror=nonsense()>`, "{{.}}' onfocus=nonsense() x='", "javascript:nonsense()", "line\r\nbreak\x00\t",
		"\u202eright to left", "\xff\xfe<b>", "100% & ?c=other#fragment+plus;/../", " ", "-rf", "it's; $(touch x)", strings.Repeat("é", 256),
	}
	var busy []fleet.Busy
	for i, customer := range hostile {
		w.count(customer, 3+i)
		w.override(customer, 2)
		busy = append(busy, fleet.Busy{Customer: customer, Documents: 1, Rule: priority.ByCount, Level: 9, Count: -30})
	}
	w.report(fleet.Report{ID: "<b>", Name: "<b>", Host: "<b>", Overrides: true, Busiest: busy})
	w.has("customers", `<strong class="figure">12</strong> of all customers`)
	raw := []string{"<script>nonsense", "<script>why", "<img", "<b>", "\u202e", "\x00", "\xff"}
	check := func(path string) string {
		body := w.get(path)
		for _, bad := range raw {
			if strings.Contains(body, bad) {
				t.Errorf("%q has %q", path, bad)
			}
		}
		return body
	}
	for _, path := range []string{"", "customers", "log", "policy", "workers", "workers?q=%22%3E%3Cimg"} {
		var found []string
		for _, link := range regexp.MustCompile(`href="(customer\?c[^"]+)"`).FindAllStringSubmatch(check(path), -1) {
			found = append(found, must(url.Parse(html.UnescapeString(link[1])))(t).Query().Get("c"))
		}
		for _, customer := range hostile {
			if !slices.Contains(found, customer) && !strings.HasPrefix(path, "workers") {
				t.Errorf("%q: no link to %q", path, customer)
			}
		}
	}
	for i, customer := range hostile {
		path := "customer?c=" + url.QueryEscape(customer)
		if !strings.Contains(check(path), fmt.Sprintf("%d documents since the last reset", 3+i)) {
			t.Errorf("%q is another customer's page", path)
		}
	}
}

func TestCustomers_SearchAndSort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t).Client())
	pipeline := w.client.Pipeline()
	for i := range 12_000 { // more than a step looks at
		pipeline.Set(t.Context(), w.store.Keys(fmt.Sprintf("Customer-%05d", i)).Count, -i%30, time.Hour)
	}
	must(pipeline.Exec(t.Context()))(t)
	if body := w.get("customers"); !strings.Contains(body, " so far, in ") || !strings.Contains(body, `data-refresh="500"`) {
		t.Error("a search of a step is over")
	}
	w.has("customers", `<strong class="figure">12,000</strong> of all customers`, "11,800 customers more")
	w.has("customers?q=customer-11999", `<strong class="figure">1</strong> of all customers`, "<bdi>Customer-11999</bdi>")
	w.has("customers?level=1", `<strong class="figure">800</strong> of all customers`) // counts 0 and -1 are followed by level 1
	for sort, first := range map[string]string{"": "00029", "customer": "00000", "number": "00029", "nonsense": "00029"} {
		path := "customers?q=-000&sort=" + sort
		w.has(path, "</strong> of all customers")
		if _, rows, _ := strings.Cut(w.get(path), "<tbody>"); !strings.HasPrefix(rows, "\n"+`<tr><th class="left who" scope="row"><a class="name" href="customer?c=Customer-`+first) {
			t.Errorf("sorted by %q, the first is\n%.120s", sort, rows)
		}
	}
}

// A hundred people who look cost Redis what one does, and what is kept of their questions
// has a bound.
func TestCache_ManyReaders(t *testing.T) {
	t.Parallel()
	w := full(t)
	w.page.interval = time.Minute
	for _, path := range pages {
		w.get(path)
	}
	before := redistest.Calls(t, w.client.(*redis.Client))
	var readers sync.WaitGroup
	for range 25 {
		readers.Go(func() {
			for _, path := range pages {
				w.get(path)
			}
		})
	}
	readers.Wait()
	for name, calls := range redistest.Calls(t, w.client.(*redis.Client)) {
		if name != "info" && calls != before[name] {
			t.Errorf("%d more calls of %s", calls-before[name], name)
		}
	}
	for i := range 1100 {
		for _, kind := range []string{"customer", "log", "search"} {
			w.page.answerTo(fmt.Sprint(kind, " ", i)).asked = time.Now()
		}
	}
	if kept := len(w.page.known); kept > 1100 || w.page.known["rules"] == nil || w.page.known["customer 1099"] == nil {
		t.Errorf("%d answers are kept", kept)
	}
}

// When Redis stops or hangs, what was read last stays, with its age and one message. When
// it is back, so is the page.
func TestPages_RedisAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes")
	proxy := redistest.StartProxy(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 100 * time.Millisecond})
	defer client.Close()
	w := newWorld(t, client)
	known := map[string]string{"": "customer?c=acme", "customers": "customer?c=acme", "customer?c=acme": "◂ -30", "workers": ">w0<", "policy": "less level 9", "log": "less level 9"}
	all := func(while string, texts ...string) {
		t.Helper()
		for path := range known {
			w.has(path, texts...)
			if body := w.get(path); strings.Count(body, "Not up to date") > 1 || regexp.MustCompile(`dial tcp|deadline|\bEOF\b|i/o|strconv|context|All is well|could be better`).MatchString(body) {
				t.Errorf("%s, %q has\n%s", while, path, body)
			}
		}
	}
	server.Kill()
	all("never read", "cannot be reached")
	w.has("", "✗ Something does not work")
	w.has("policy", "What operators have set is not known now", "The overrides are not known now")
	server.Restart()
	w.count("acme", 30)
	w.apply(-3)
	w.report(fleet.Report{ID: "0", Name: "w0", Overrides: true, Busiest: []fleet.Busy{{Customer: "acme", Documents: 1, Rule: priority.ByCount, Level: 9}}})
	for path, text := range known {
		w.has(path, text)
	}
	proxy.Set(redistest.Swallow)
	all("hanging", "cannot be reached", "What you see was read")
	for path, text := range known {
		w.has(path, text)
	}
	proxy.Set(redistest.None)
	redistest.Await(t, "the page is back", func() bool { return !strings.Contains(w.get("log"), "Not up to date") })
}

func TestPages_LostRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t).Client())
	w.apply(-3)
	w.apply(-4)
	w.has("policy", "version 2, by mary")
	w.client.FlushAll(t.Context())
	w.report(fleet.Report{ID: "1", Name: "w1", Overrides: true, Rules: fleet.Rules{Version: 2, Error: "Redis lost data"}})
	for _, path := range []string{"", "customers", "workers", "customer?c=acme", "policy", "log"} {
		w.has(path, "version 2 was known, 0 is there")
	}
	w.has("", "Decided by version 2, which Redis lost.")
	w.has("policy", "Workers follow version 2, which Redis lost.")
	w.apply(-5)
	redistest.Await(t, "it is decided", func() bool { return !strings.Contains(w.get(""), "was known") })
	w.client.Set(t.Context(), "priority:{control}:rules", "junk", 0)
	w.has("policy", "Not up to date", "corrupt", "priority:{control}:rules")
}

// Where a right is missing the page says which; an operator's rights, as docs/redis.md has
// them, are enough.
func TestPages_Rights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	keys, commands := markdown.Read(t, "../../../../docs/redis.md").Rights(t, "operator")
	user := func(name string, rights ...string) *world {
		args := []any{"ACL", "SETUSER", name, "on", ">pw"}
		for _, right := range rights {
			args = append(args, right)
		}
		if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: name, Password: "pw", MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		return newWorld(t, client)
	}
	none := user("none", "~*", "+info")
	none.has("", strings.ReplaceAll("it needs "+insight.ReportRights, "+", "&#43;"))
	none.has("customers", "it needs &#43;scan "+strings.ReplaceAll(insight.PeekRights, "+", "&#43;"))
	w := user("operator", slices.Concat(keys, commands)...)
	admin := newWorld(t, server.Client())
	admin.count("acme", 3)
	admin.report(fleet.Report{ID: "1", Name: "w1", Overrides: true})
	if err := w.page.addSample(t.Context()); err != nil {
		t.Error(err)
	}
	for _, path := range pages {
		w.get(path)
	}
	if refused := must(server.Client().Do(t.Context(), "ACL", "LOG").Slice())(t); strings.Contains(fmt.Sprint(refused), "operator") {
		t.Errorf("Redis has refused %v", refused)
	}
}

// No password is shown, not even where an error quotes one.
func TestPages_NoPassword(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("cannot dial redis://mary:swordfish@counts with hunter2")
	}})
	defer client.Close()
	w := newWorld(t, client, "hunter2")
	for _, path := range pages {
		w.has(path, "cannot dial redis://***@counts with ***")
		if body := w.get(path); strings.Contains(body, "hunter2") || strings.Contains(body, "swordfish") {
			t.Errorf("%q shows a password", path)
		}
	}
}

// The last day has a sample a minute, however many pages there are, and so many at most.
func TestDay_KeptOnce(t *testing.T) {
	t.Parallel()
	w := full(t)
	const key = "priority:{fleet}:history"
	for i := range 1500 {
		w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: key + "2", ID: fmt.Sprintf("%d-0", i+1), Values: []string{"s", "{}"}})
	}
	w.client.Rename(t.Context(), key+"2", key)
	began := time.Now().Truncate(time.Minute)
	for range 3 {
		if err := w.page.addSample(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	samples := must(w.client.XRevRange(t.Context(), key, "+", "-").Result())(t)
	if len(samples) != dayMinutes || samples[1].ID != "1500-0" && time.Now().Truncate(time.Minute).Equal(began) {
		t.Errorf("%d samples, the last %v", len(samples), samples[:2])
	}
	if text := fmt.Sprint(samples[0].Values); !strings.Contains(text, `"documents":{"1":21,"4":5850,"9":30}`) {
		t.Errorf("the sample is %s", text)
	}
	if left := w.client.TTL(t.Context(), key).Val(); left < 24*time.Hour || left > 25*time.Hour {
		t.Errorf("the day is kept for %v", left)
	}
}

// The log is paged by version, without a gap.
func TestLog_Pages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t).Client())
	for i := range 120 {
		must(w.admin.NoteReset(t.Context(), fmt.Sprint("customer-", i), control.Change{By: "mary", Why: "many"}))(t)
	}
	seen, path := 120, "log"
	for range 3 {
		body := w.get(path)
		for _, found := range regexp.MustCompile(`>version (\d+),`).FindAllStringSubmatch(body, -1) {
			if found[1] != fmt.Sprint(seen) {
				t.Fatalf("%s: version %s, not %d", path, found[1], seen)
			}
			seen--
		}
		_, older, _ := strings.Cut(body, `href="log?upto=`)
		older, _, _ = strings.Cut(older, `"`)
		path = "log?upto=" + older
	}
	if seen != 0 {
		t.Errorf("%d entries are not there", seen)
	}
}

func TestPages_Cluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	w := newWorld(t, cluster.Client())
	for _, customer := range []string{"a", "b", "c", "d", "e", "f"} {
		w.count(customer, 30)
	}
	w.has("customers", `<strong class="figure">6</strong> of all customers`)
	for _, node := range cluster.Masters {
		w.has("", "of <code>"+node.Addr)
	}
	w.has("customer?c=a", `next document</dt><dd><strong class="figure">9</strong>`)
}
