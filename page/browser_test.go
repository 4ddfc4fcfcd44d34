package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
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

var (
	desktop = browser.Look{Width: 1280, Height: 900}
	phone   = browser.Look{Width: 390, Height: 844, Phone: true}
)

// fullWorld has something of all that the pages show.
func fullWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, &page.Options{Store: priority.RedisOptions{
		Tiers: map[string]priority.Policy{"gold": {Thresholds: []int64{-20, -40, -80}}}, TierOf: func(customer string) string { return map[string]string{"customer-3": "gold"}[customer] },
	}})
	ctx := t.Context()
	for i := range 30 {
		w.count(fmt.Sprintf("customer-%d", i), 1+i)
	}
	w.count("acme", 13)
	w.count("\xff\xfe\n<b>", 4)
	w.count(strings.Repeat("long", 128), 40)
	w.client.Set(ctx, "priority:{broken}:count", "junk", 0)
	must(w.store.Submit(ctx, "acme", "invoice-1", 0))(t)
	must(w.admin.SetOverride(ctx, "acme", pin(2), 6*time.Hour, control.Change{By: "mary", Why: "a demo"}))(t)
	gold := map[string]priority.Policy{"gold": {Thresholds: []int64{-20}}}
	must(w.admin.Apply(ctx, control.Rules{}, control.Change{By: "mary", Why: "the default"}))(t)
	must(w.admin.Apply(ctx, control.Rules{Tiers: gold}, control.Change{By: "mary", Why: "tiers", Replaces: 2}))(t)
	worker := must(control.New(w.client, &control.Options{Store: priority.RedisOptions{Timeout: time.Minute}}))(t)
	if err := worker.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	must(worker.NextN(ctx, "acme", 20))(t)
	if err := worker.Close(ctx); err != nil {
		t.Fatal(err)
	}
	w.fleet()
	redistest.Await(t, "the health and a search", func() bool {
		return strings.Contains(w.get("").body, "hecked ") && strings.Contains(w.get("customers?corrupt=").body, `href="reset?c=broken"`) &&
			strings.Contains(w.get("customers").body, "of all customers")
	})
	return w
}

// fleet writes the reports of six processes, of which three need a look, and a day of
// history.
func (w *world) fleet() {
	w.t.Helper()
	now := time.Now()
	for minutes := 24*60 - 1; minutes > 0; minutes-- {
		if minutes > 400 && minutes < 460 {
			continue // nothing was kept
		}
		at := now.Add(-time.Duration(minutes) * time.Minute).Truncate(time.Minute)
		text := fmt.Sprintf(`{"workers":6,"documents":{"1":%d,"9":%d},"waits":{"1":[%d,%d]}}`, 300+minutes%97, 500+minutes%301, 200+minutes%50, 900+10*(minutes%70))
		must(w.client.XAdd(w.t.Context(), &redis.XAddArgs{Stream: "priority:{fleet}:history", ID: fmt.Sprintf("%d-0", at.UnixMilli()), Values: []string{"s", text}}).Result())(w.t)
	}
	long := strings.Repeat("long", 128)
	for i, fault := range []fleet.Rules{{Version: 3}, {Version: 3}, {Version: 3}, {Version: 2, Error: "its queue has 3 levels, the rules 9"}, {}, {Version: 3}} {
		w.report(fleet.Report{
			ID: fmt.Sprint("id", i), Name: fmt.Sprint("worker-", i), Language: []string{"go", "python", "nodejs"}[i%3], Version: "0.1.0", Host: "host-b", PID: 100 + i,
			Up: 3 * time.Hour, Window: time.Minute, Overrides: i != 4, Degraded: i == 5, Rules: fault,
			ByCount: map[priority.Level]int64{1: 100, 4: 40, 9: 300}, ByLoad: map[priority.Level]int64{1: 20, 3: 9},
			Overridden: 7, Fallback: 2, Errors: map[string]int64{"corrupt_count": 2, "not_counted": 1},
			Waits:   map[priority.Level]fleet.Histogram{1: {31: 50, 36: 3}, 3: {50: 9}},
			Busiest: []fleet.Busy{{Customer: "acme", Documents: 120, Rule: priority.ByLoad, Level: 2, Load: 812.5}, {Customer: long, Documents: 40, Rule: priority.ByCount, Level: 9, Count: -39}, {Customer: "broken", Documents: 1, Rule: priority.ByCount, Level: 1}},
		})
	}
}

// everyPage is all that an operator may come to.
var everyPage = []string{
	"", "customers", "customers?q=nobody", "customers?corrupt=", "workers", "workers?q=nobody", "customer?c=acme", "customer?c=acme&done=1", "customer?c=broken", "customer?c64=__4KPGI-", "customer?c=" + strings.Repeat("long", 128), "policy", "log",
	"override?c=acme&kind=latest&level=1&for=4h", "override?c=acme&kind=end",
	"reset?c=acme", "compare?version=2", "compare?version=own", "nothing",
}

// axe finds nothing wrong with any page, by day and by night, on a desk and on a phone.
func TestEveryPageIsAccessible(t *testing.T) {
	axe := axeScript(t)
	w := fullWorld(t)
	tab := browser.Start(t).Open(desktop)
	tab.Headers(map[string]string{actor: "mary"})
	for _, path := range everyPage {
		tab.Go(w.root + path)
		tab.Eval(axe+"; 0", nil)
		for _, look := range []browser.Look{desktop, phone} {
			for _, dark := range []bool{false, true} {
				look.Dark = dark
				tab.See(look)
				var violations []struct {
					ID, Help string
					Nodes    []struct{ HTML, FailureSummary string }
				}
				tab.Eval("axe.run({resultTypes: ['violations']}).then(found => found.violations)", &violations)
				for _, violation := range violations {
					for _, node := range violation.Nodes {
						t.Errorf("%q, %d pixels, dark %t: %s: %.300s\n%s", path, look.Width, dark, violation.Help, node.HTML, node.FailureSummary)
					}
				}
				var width int
				if tab.Eval("document.documentElement.scrollWidth", &width); width > look.Width {
					t.Errorf("%q needs %d pixels, not %d", path, width, look.Width)
				}
			}
		}
		if problems := tab.Problems(); len(problems) > 0 && path != "nothing" {
			t.Errorf("%q: %s", path, problems)
		}
	}
}

var installed struct {
	sync.Once
	script string
	err    error
}

// axeScript is axe-core, which npm installs into a folder that is gone afterwards.
func axeScript(t *testing.T) string {
	t.Helper()
	npm := redistest.Find(t, "npm", "nodejs npm")
	installed.Do(func() { installed.script, installed.err = install(npm) })
	if installed.err != nil {
		redistest.Skip(t, installed.err.Error())
	}
	return installed.script
}

func install(npm string) (script string, err error) {
	folder, err := os.MkdirTemp("", "axe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "axe"))); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, npm, "ci", "--fetch-retries=5", "--ignore-scripts", "--no-audit", "--no-fund")
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, output)
	}
	text, err := os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js"))
	return string(text), err
}

// An operator does all of their work by keys alone: search, override, reset.
func TestAnOperatorWorksByKeysAlone(t *testing.T) {
	w := newWorld(t, nil)
	w.count("acme", 30)
	tab := browser.Start(t).Open(desktop)
	tab.Headers(map[string]string{actor: "mary"})
	tab.Go(w.root)
	focus := func(selector string) {
		t.Helper()
		for range 100 {
			var there bool
			if tab.Eval("document.activeElement.matches("+quoted(selector)+")", &there); there {
				var shown bool
				if tab.Eval("getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement.matches('.skip, option, input[type=radio]')", &shown); !shown {
					t.Errorf("the focus on %s cannot be seen", selector)
				}
				return
			}
			tab.Press("Tab", "")
		}
		t.Fatalf("no Tab leads to %s", selector)
	}
	enter := func(selector string) {
		t.Helper()
		focus(selector)
		tab.Loads(selector, func() { tab.Press("Enter", "\r") })
	}
	focus("#search")
	tab.Type("acme")
	enter(".search button")
	enter("form[action=override] button")
	if text := tab.Text("document.querySelector('main').innerText"); !strings.Contains(text, "Override: pinned to level 1") {
		t.Fatalf("the preview is\n%s", text)
	}
	focus("#why")
	tab.Type("a demo")
	enter("button.primary")
	if text := tab.Text("document.querySelector('main').innerText"); !strings.Contains(text, "Recorded as version 1") || w.document().Overrides["acme"].Value != pin(1) {
		t.Fatalf("the override is not set:\n%s", text)
	}
	enter("form[action=reset] button")
	focus("#why")
	tab.Type("afresh")
	enter("button.primary")
	if count := w.client.Exists(t.Context(), w.store.Key("acme")).Val(); count != 0 {
		t.Error("the customer is not reset")
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("%s", problems)
	}
}

// In a browser too: compare, apply and roll back, under a prefix.
func TestAPolicyIsAppliedInABrowser(t *testing.T) {
	w := newWorld(t, nil)
	w.count("acme", 30)
	tab := browser.Start(t).Open(desktop)
	tab.Headers(map[string]string{actor: "mary"})
	send := func(form string) {
		t.Helper()
		tab.Loads(form, func() {
			tab.Eval(`{ const form = document.querySelector(`+quoted(form)+`); if (form.why) form.why.value = "a test"; form.querySelector("button").click(); }`, nil)
		})
	}
	says := func(texts ...string) {
		t.Helper()
		shown := tab.Text("document.querySelector('main').innerText")
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				t.Fatalf("no %q in\n%s", text, shown)
			}
		}
	}
	compare := func(thresholds string) {
		t.Helper()
		tab.Go(w.root + "policy")
		tab.Eval(`document.getElementById("rules").value = '{"thresholds":[`+thresholds+`]}'; 0`, nil)
		send("form[action=compare]")
	}
	compare("-10,-50")
	says("The order of 1 customer does not change.")
	send("form[action=apply]")
	says("Recorded as version 1", "version 1, by mary", "3 levels")
	compare("-1")
	send("form[action=apply]")
	tab.Loads("compare", func() { tab.Eval(`document.querySelector("a[href='compare?version=1']").click()`, nil) })
	says("Roll back to version 1")
	send("form[action=apply]")
	says("Recorded as version 3", "decides now")
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("%s", problems)
	}
}

// Another site cannot make an operator's browser change anything, and cannot show the
// page within itself. Who may not write is refused.
func TestABrowserIsRefusedAcrossOriginsAndWithoutRights(t *testing.T) {
	w := newWorld(t, nil)
	w.count("acme", 30)
	attack := fmt.Sprintf(`<form method="post" action="%sreset"><input name="c" value="acme"><input name="why" value="x"><input name="replaces" value="0"></form>
<iframe src="%s"></iframe>`, w.root, w.root)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, attack)
	}))
	defer other.Close()
	tab := browser.Start(t).Open(desktop)
	tab.Headers(map[string]string{actor: "mary"})
	tab.Go(strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	if problems := fmt.Sprint(tab.Problems()); !strings.Contains(problems, "frame-ancestors") {
		t.Errorf("the page is shown within another site: %s", problems)
	}
	tab.Loads("the answer", func() { tab.Eval("document.forms[0].submit()", nil) })
	if text := tab.Text("document.body.innerText"); !strings.Contains(text, "sent from another site") {
		t.Errorf("another site's form: %s", text)
	}
	tab.Go(w.root + "reset?c=acme")
	tab.Headers(map[string]string{}) // the rights are gone since
	tab.Eval("document.getElementById('why').value = 'x'; 0", nil)
	tab.Loads("the answer", func() { tab.Eval("document.querySelector('form[action=reset] button').click()", nil) })
	if text := tab.Text("document.body.innerText"); !strings.Contains(text, "change nothing") {
		t.Errorf("without rights: %s", text)
	}
	if w.document().Version != 0 || w.client.Exists(t.Context(), w.store.Key("acme")).Val() != 1 {
		t.Error("something was changed")
	}
}

// The main part is refreshed by itself, but not while somebody pauses it, and a search
// that is being typed stays.
func TestThePageIsRefreshedUnlessItIsPaused(t *testing.T) {
	w := newWorld(t, nil)
	joins := func(name string) { w.report(fleet.Report{ID: name, Name: name, Overrides: true}) }
	joins("anna")
	tab := browser.Start(t).Open(desktop)
	tab.Go(w.root + "workers")
	tab.Eval(`document.getElementById("q").value = "half a wor"; 0`, nil)
	shows := func(name string) bool {
		return strings.Contains(tab.Text(`document.getElementById("live").innerText`), name)
	}
	joins("berta")
	redistest.Await(t, "the page shows who came since", func() bool { return shows("berta") })
	tab.Eval(`document.getElementById("pause").click()`, nil)
	if pressed := tab.Text(`document.getElementById("pause").getAttribute("aria-pressed")`); pressed != "true" {
		t.Errorf("paused: %s", pressed)
	}
	joins("carla")
	// A refresh by its own would have come: the next one is asked for, twice.
	tab.Eval(`new Promise(done => setTimeout(done, 2500))`, nil)
	if shows("carla") {
		t.Error("the page is refreshed while it is paused")
	}
	tab.Eval(`document.getElementById("again").click()`, nil)
	redistest.Await(t, "the page is refreshed when asked", func() bool { return shows("carla") })
	if typed := tab.Text(`document.getElementById("q").value`); typed != "half a wor" {
		t.Errorf("what was typed is %q", typed)
	}
	w.redis.Kill()
	tab.Eval(`document.getElementById("pause").click()`, nil)
	redistest.Await(t, "the page says that Redis is away", func() bool {
		return strings.Contains(tab.Text(`document.getElementById("notice").innerText`), "Not up to date")
	})
	if !shows("carla") {
		t.Error("the last good data are gone")
	}
}

// What was well is not said to be when the page itself cannot be asked any more.
func TestHealthIsNotKnownWithoutThePage(t *testing.T) {
	w := newWorld(t, nil)
	tab := browser.Start(t).Open(desktop)
	tab.Go(w.root)
	redistest.Await(t, "the health", func() bool {
		return !strings.Contains(tab.Text(`document.querySelector(".status").textContent`), "Being checked")
	})
	w.web.Close()
	redistest.Await(t, "it is not known", func() bool {
		return tab.Text(`[...document.querySelectorAll(".status")].map(e => e.textContent).join()`) == "? Not known now,? Not known now"
	})
}

// Without scripts there is a link to refresh, and nothing that does nothing.
func TestThePageNeedsNoScript(t *testing.T) {
	w := fullWorld(t)
	tab := browser.Start(t).Open(phone)
	tab.Headers(map[string]string{actor: "mary"})
	tab.Scripts(false)
	tab.Go(w.root)
	tab.Scripts(true) // for the test's own
	var paused, refreshes bool
	tab.Eval(`document.getElementById("pause").checkVisibility()`, &paused)
	tab.Eval(`document.getElementById("again").checkVisibility()`, &refreshes)
	if paused || !refreshes {
		t.Errorf("a button to pause is shown: %t; a link to refresh: %t", paused, refreshes)
	}
	if text := tab.Text(`document.querySelector("main").innerText`); !strings.Contains(text, "Needs a look") {
		t.Errorf("the page is\n%s", text)
	}
}

func quoted(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}
