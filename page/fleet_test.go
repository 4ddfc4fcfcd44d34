package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/page"
	"github.com/docpriority/priority/page/internal/browser"
)

// Now says what the callers were told, by rule, and not what the keys look like.
func TestNowSaysWhatDocumentsGot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.count("keys", 500) // at level 9, if one looks at keys
	for i := range 2 {
		w.report(fleet.Report{
			ID: fmt.Sprint(i), Name: fmt.Sprint("w", i), Language: "go", Overrides: true, Window: time.Minute,
			ByLoad: map[priority.Level]int64{4: 1950, 9: 10}, ByCount: map[priority.Level]int64{1: 7},
			Waits:  map[priority.Level]fleet.Histogram{1: {40: 100}, 4: {53: 100}},
			Errors: map[string]int64{"not_counted": 3},
		})
	}
	w.get("").has(t, 200,
		`<th class="left" scope="row">4</th><td>0</td><td>3,900</td>`, `<th class="left" scope="row">9</th><td>0</td><td>20</td>`, `<th class="left" scope="row">1</th><td>14</td><td>0</td>`,
		"<dt>Workers</dt><dd><strong class=\"figure\">2</strong>", "all obey", "3,934 in the last minute", `<strong class="figure">65.6</strong>`,
		"<strong class=\"figure\">1s</strong><span class=\"faint\">median", "<td>9.7s</td><td>9.7s</td>", "6 could not be counted",
	)
}

// Who does not obey is named, with the reason, on the pages Now and Workers.
func TestAWorkerThatDoesNotObeyIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(w.admin.Apply(t.Context(), control.Rules{}, control.Change{By: "mary", Why: "a test"}))(t)
	w.get("workers").has(t, 200, "No worker has reported")
	w.report(fleet.Report{ID: "1", Name: "w1", Language: "python", Version: "0.1", Host: "a", PID: 7, Overrides: true, Rules: fleet.Rules{Version: 1}})
	w.report(fleet.Report{ID: "4", Name: "w4", Language: "go", Host: "b", Overrides: true, Levels: 3})
	w.report(fleet.Report{ID: "5", Name: "w5", Language: "go", Host: "b", Rules: fleet.Rules{Version: 1}})
	w.report(fleet.Report{ID: "6", Name: "w6", Language: "go", Host: "b", Overrides: true, Degraded: true, Rules: fleet.Rules{Version: 1}})
	w.client.Set(t.Context(), "priority:{fleet}:junk", "junk", time.Minute)
	w.client.ZAdd(t.Context(), "priority:{fleet}:members", redis.Z{Score: float64(time.Now().Add(time.Minute).UnixMilli()), Member: "junk"})
	var workers answer
	redistest.Await(t, "all reports", func() bool {
		workers = w.get("workers")
		return strings.Contains(workers.body, "of 5 workers obey operators")
	})
	workers.has(t, 200, `<strong class="figure">1</strong> of 5`, "its queue has 3 levels, the rules 9", "does not read overrides", "cannot be reached", "python 0.1", "on <bdi>a</bdi>, process 7", "report cannot be read")
	if first, last := strings.Index(workers.body, ">w4<"), strings.Index(workers.body, ">w1<"); first < 0 || first > last {
		t.Error("who obeys comes before who does not")
	}
	if found := w.get("workers?q=PYTHON"); !strings.Contains(found.body, ">w1<") || strings.Contains(found.body, ">w4<") {
		t.Error("the search finds\n", found.main())
	}
	w.get("").has(t, 200, "Needs a look", "w4 on host b does not: its queue has 3 levels, the rules 9", "do not obey")
}

// Of a worker that has gone silent nothing is shown as good.
func TestASilentWorkerIsNotSaidToReachRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.report(fleet.Report{ID: "1", Name: "w1", Language: "go", Overrides: true})
	w.client.PExpire(t.Context(), "priority:{fleet}:1", 15*time.Second) // written 15 s ago
	workers := w.get("workers")
	workers.has(t, 200, `<strong class="figure">0</strong> of 1 worker`, "it has not reported for 15s", "not known")
	if strings.Contains(workers.body, "✓") {
		t.Error("the page says\n", workers.main())
	}
}

// After a change the page says who obeys it.
func TestAChangeSaysWhoObeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	reports := func(version int64) {
		for i := range 6 {
			r := fleet.Report{ID: fmt.Sprint(i), Name: fmt.Sprint("w", i), Language: "go", Host: "b", Overrides: i != 5, Rules: fleet.Rules{Version: version}}
			if i == 4 {
				r.Levels, r.Rules = 3, fleet.Rules{Error: "its queue has 3 levels, the rules 9"}
			}
			w.report(r)
		}
	}
	reports(0)
	var following sync.WaitGroup
	following.Go(func() { // as soon as there are rules
		redistest.Await(t, "the rules", func() bool { return w.document().Version == 1 })
		reports(1)
	})
	applied := w.post("apply", "rules", "{}", "replaces", "0", "why", "a test")
	w.get(applied.Header.Get("Location")).has(t, 200, "Recorded as version 1: <bdi>in force; 5 of 6 workers obey; w4 on host b does not: its queue has 3 levels, the rules 9", "notice warning")
	following.Wait()
	set := w.post("override", "c", "acme", "kind", "pin", "level", "2", "for", "1h", "replaces", "0", "why", "a test")
	w.get(set.Header.Get("Location")).has(t, 200, "in force; 5 of 6 workers obey; w5 on host b does not: it does not read overrides")
	reset := w.post("reset", "c", "acme", "replaces", "0", "why", "a test")
	w.get(reset.Header.Get("Location")).has(t, 200, "numbers are forgotten")
	w.client.Del(t.Context(), w.store.OverrideKey("acme"))
	for _, path := range []string{"policy", "customer?c=acme"} {
		redistest.Await(t, path+" says that it is not in force", func() bool {
			return strings.Contains(w.get(path).body, "not in force: its key is gone")
		})
	}
}

// Of a fleet that keeps rules that Redis lost, no page says that its own options decide.
func TestRulesThatWorkersKeepAreNotCalledTheirOwnOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.report(fleet.Report{ID: "1", Name: "w1", Overrides: true, Rules: fleet.Rules{Version: 5, Error: "Redis lost data"}})
	const kept = "version 5, which Redis lost"
	w.get("").has(t, 200, "Decided by "+kept+".", "1 does not obey")
	w.get("policy").has(t, 200, "Workers follow "+kept+".")
}

// A Redis that lost what operators set is said on every page, until they decide.
func TestLostRulesAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for version := range int64(3) {
		must(w.admin.Apply(t.Context(), control.Rules{}, control.Change{By: "mary", Why: "a test", Replaces: version}))(t)
	}
	w.get("policy").has(t, 200, "version 3, by mary")
	w.client.FlushAll(t.Context())
	for _, path := range []string{"", "customers", "workers", "customer?c=acme", "policy", "log"} {
		redistest.Await(t, path+" says it", func() bool { return strings.Contains(w.get(path).body, "version 3 was known, 0 is there") })
	}
	w.get("compare?version=own").has(t, 200, "Withdraw what Redis lost")
	w.post("apply", "kind", "withdraw", "replaces", "0", "why", "start again").has(t, http.StatusSeeOther)
	w.get("log").has(t, 200, "start again")
	redistest.Await(t, "it is decided", func() bool { return !strings.Contains(w.get("").body, "was known") })
}

// Health is bad as soon as Redis does not answer, and no text has Go in it.
func TestHealthIsBadAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.busy("acme")
	redistest.Await(t, "the checks", func() bool { return strings.Contains(w.get("").body, "hecked ") })
	w.redis.Kill()
	redistest.Await(t, "Redis is away", func() bool { return strings.Contains(w.get("").body, "Not up to date") })
	for _, path := range []string{"", "customers", "workers", "customer?c=acme", "policy", "log", "customer?c=other"} {
		body := w.get(path).body
		for _, bad := range []string{"All is well", "could be better", "dial tcp", "deadline", "EOF", "i/o", "connect:", "strconv", "context"} {
			if strings.Contains(body, bad) {
				t.Errorf("%q has %q", path, bad)
			}
		}
	}
	w.get("").has(t, 200, "✗ Something does not work", "acme")
	w.redis.Restart()
	redistest.Await(t, "it is well again", func() bool { return !strings.Contains(w.get("").body, "✗ Something") })
}

// The last day has a sample a minute, however many pages there are, and so many at most.
func TestTheLastDayIsKeptOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fleet()
	samples := func() []redis.XMessage {
		return must(w.client.XRange(t.Context(), "priority:{fleet}:history", "-", "+").Result())(t)
	}
	began, written := time.Now().Truncate(time.Minute), redistest.Calls(t, w.client)["xadd"]
	for range 3 {
		other := must(page.New(w.client, &page.Options{Interval: 100 * time.Millisecond}))(t)
		t.Cleanup(func() { _ = other.Close(t.Context()) })
		other.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	recent := func() (n int) {
		for _, sample := range samples() {
			if sample.ID >= fmt.Sprint(began.UnixMilli()) {
				n++
			}
		}
		return n
	}
	redistest.Await(t, "what each page writes", func() bool { return redistest.Calls(t, w.client)["xadd"] >= written+3 })
	if n := recent(); n != 1 && time.Now().Truncate(time.Minute).Equal(began) {
		t.Errorf("%d samples of this minute", n)
	}
	entries := must(w.client.XRevRangeN(t.Context(), "priority:{fleet}:history", "+", "-", 3).Result())(t)
	if text := fmt.Sprint(entries[0].Values); !strings.Contains(text, `"workers":6`) || !strings.Contains(text, `"documents":{"1":720,"3":54,"4":240,"9":1800}`) || !strings.Contains(text, `"3":[5792,5792]`) {
		t.Errorf("the sample is %s", text)
	}
	if left := w.client.TTL(t.Context(), "priority:{fleet}:history").Val(); left < 24*time.Hour || left > 25*time.Hour {
		t.Errorf("the day is kept for %v", left)
	}
	must(w.admin.NoteReset(t.Context(), "acme", control.Change{By: "mary", Why: "a mark"}))(t)
	redistest.Await(t, "the day", func() bool { return strings.Contains(w.get("").body, `class="mark"`) })
	w.get("").has(t, 200, "Documents a minute: now 2,814, in the last day from ", "95 of 100 documents of level 1 waited at most: now 510ms", ": acme reset, by mary", "1 change by operators")
	for i := range 2000 {
		w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "priority:{fleet}:full", ID: fmt.Sprintf("%d-0", i+1), Values: []string{"s", "{}"}})
	}
	must(w.client.Rename(t.Context(), "priority:{fleet}:full", "priority:{fleet}:history").Result())(t)
	other := must(page.New(w.client, nil))(t)
	t.Cleanup(func() { _ = other.Close(t.Context()) })
	redistest.Await(t, "the oldest samples go", func() bool { return len(samples()) == 24*60 })
}

// A search goes through all customers, and finds them by a part of the name.
func TestAllCustomersAreSearched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	pipeline := w.client.Pipeline()
	for i := range 3000 {
		pipeline.Set(t.Context(), w.store.Key(fmt.Sprintf("Customer-%04d", i)), -i%30, time.Hour)
	}
	must(pipeline.Exec(t.Context()))(t)
	awaitCustomers(w, 3000)
	w.get("customers").has(t, 200, "1 to 50 of 1,000", "2,000 customers more, of earlier levels", `href="customers?p=1"`)
	redistest.Await(t, "the one", func() bool {
		body := w.get("customers?q=customer-2999").body
		return strings.Contains(body, `<strong class="figure">1</strong> of all customers`) && strings.Contains(body, ">Customer-2999<")
	})
	redistest.Await(t, "a level", func() bool {
		return strings.Contains(w.get("customers?level=1").body, `<strong class="figure">200</strong> of all customers`) // counts 0 and -1 are followed by level 1
	})
}

// A long name is clamped wherever it is, and whole where somebody asks for it.
func TestALongNameIsClamped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	long := strings.Repeat("0123456789", 51)
	w.count(long, 30)
	w.busy(long)
	must(w.admin.SetOverride(t.Context(), long, pin(2), time.Hour, control.Change{By: "mary", Why: "a test"}))(t)
	awaitCustomers(w, 1)
	for _, path := range []string{"", "customers", "policy", "log", "customer?c=" + long} {
		body := w.get(path).body
		body = strings.ReplaceAll(body, "c="+long, "")
		body = strings.ReplaceAll(body, `value="`+long, "")
		body = strings.ReplaceAll(body, "<code>priority:{"+long, "")
		body = strings.ReplaceAll(body, "<summary>whole name</summary><bdi>"+long, "")
		if strings.Contains(body, long) || !strings.Contains(body, "…890123456789") {
			t.Errorf("%.20q has the name as a whole, or not at all", path)
		}
	}
}

// What is printed has no forms, and black letters even at night.
func TestWhatIsPrintedIsForPaper(t *testing.T) {
	w := fullWorld(t)
	tab := browser.Start(t).Open(browser.Look{Width: 700, Height: 1000, Dark: true, Print: true})
	tab.Headers(map[string]string{actor: "mary"})
	for _, path := range []string{"", "policy", "customer?c=acme"} {
		tab.Go(w.root + path)
		for _, selector := range []string{"header nav", ".search", ".refresh", "#pause"} {
			if display := tab.Text(`(e => e.checkVisibility() ? "shown" : "none")(document.querySelector(` + quoted(selector) + `))`); display != "none" {
				t.Errorf("%q prints %s", path, selector)
			}
		}
		if color := tab.Text("getComputedStyle(document.body).color"); color != "rgb(0, 0, 0)" {
			t.Errorf("%q is printed in %s", path, color)
		}
	}
}
