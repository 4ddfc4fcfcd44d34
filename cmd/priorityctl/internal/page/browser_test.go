package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
)

// In Chromium, axe finds nothing wrong with any page, by day and by night, on a desk and on
// a phone, and nothing is wider than the screen. A page is refreshed by itself, but not
// while somebody pauses it, and does without scripts.
func TestPages_InABrowser(t *testing.T) {
	axe := axeScript(t)
	w := full(t)
	w.page.interval = 200 * time.Millisecond
	b := chromium(t)
	for _, path := range pages {
		w.has("customers?q=nobody", "No customer matches") // the searches are over
		b.do(chromedp.Navigate(w.root + path))
		b.eval("if (!pause.hidden) pause.click();" + axe)
		for _, width := range []int64{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.do(chromedp.EmulateViewport(width, 900))
				must(chromedp.Call(b.tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))(t)
				if found := b.eval("return axe.run({resultTypes: ['violations']}).then(found => JSON.stringify(found.violations.map(v => [v.help, v.nodes.map(n => n.html)])))"); found != "[]" {
					t.Errorf("%q, %d pixels, %s: %s", path, width, scheme, found)
				}
				if wide := b.eval("return document.documentElement.scrollWidth <= innerWidth"); wide != "true" {
					t.Errorf("%q is wider than %d pixels", path, width)
				}
			}
		}
	}

	joins := func(name string) { w.report(fleet.Report{ID: name, Name: name, Overrides: true}) }
	shows := func(text string) bool {
		return strings.Contains(must(chromedp.Run(b.tab, chromedp.Text(chromedp.ID("main"))))(t), text)
	}
	b.do(chromedp.Navigate(w.root+"workers"), chromedp.SetValue(chromedp.ID("q"), "half a wor"))
	joins("anna")
	redistest.Await(t, "the page is refreshed", func() bool { return shows("anna") })
	b.do(chromedp.Click(chromedp.ID("pause")))
	joins("berta")
	w.has("workers", "berta")
	b.eval("return new Promise(done => setTimeout(done, 3 * every))") // a refresh by its own would have come
	if shows("berta") {
		t.Error("the page is refreshed while it is paused")
	}
	b.do(chromedp.Click(chromedp.ID("pause")))
	redistest.Await(t, "the page is refreshed again", func() bool { return shows("berta") })
	if typed := b.eval("return document.getElementById('q').value"); typed != "half a wor" {
		t.Errorf("what was typed is %q", typed)
	}
	if b.problems != nil {
		t.Errorf("the browser says %q", b.problems)
	}

	must(chromedp.Call(b.tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))(t)
	if b.do(chromedp.Navigate(w.root)); !shows("Needs a look") || !shows("Refresh") || shows("Pause") {
		t.Error("without scripts the page has less than it should")
	}
}

// browser is a Chromium's tab, and what it has to say about the pages.
type browser struct {
	t        *testing.T
	tab      context.Context
	problems []string
}

func chromium(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(redistest.Find(t, "chromium", "chromium")), chromedp.NoSandbox)
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	ctx, end = context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(end)
	b := &browser{t: t, tab: ctx}
	b.do(chromedp.Navigate("about:blank"))
	must(chromedp.Call(ctx, log.Enable, cdp.Empty{}))(t)
	if err := chromedp.Listen(ctx, func(event any) {
		switch event := event.(type) {
		case *log.EventEntryAdded:
			b.problems = append(b.problems, event.Entry.Text+" "+event.Entry.URL)
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, event.ExceptionDetails.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.tab, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns what a script returns, as a text.
func (b *browser) eval(script string) string {
	b.t.Helper()
	return must(chromedp.Run(b.tab, chromedp.Evaluate[string]("(async () => { "+script+" })().then(String)", chromedp.EvalAwaitPromise)))(b.t)
}

// axeScript is axe-core, which npm installs into a folder that is gone afterwards.
func axeScript(t *testing.T) string {
	t.Helper()
	npm, folder := redistest.Find(t, "npm", "nodejs npm"), t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "axe"))); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithTimeout(t.Context(), 3*time.Minute)
	defer end()
	command := exec.CommandContext(ctx, npm, "ci", "--fetch-retries=5", "--ignore-scripts", "--no-audit", "--no-fund")
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		redistest.Skip(t, fmt.Sprintf("npm ci: %v\n%s", err, output))
	}
	return string(must(os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js")))(t))
}
