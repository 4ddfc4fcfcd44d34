package page

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
)

// In Chromium, axe finds nothing wrong with any page, in light and dark colours, on a desk and on
// a phone. Nothing is wider than the screen, the table of levels included. A page is refreshed,
// but not while it is paused.
func TestPages_InABrowser(t *testing.T) {
	axe := axeScript(t)
	w := full(t)
	w.page.interval = 200 * time.Millisecond
	web := httptest.NewServer(w.handler)
	defer web.Close()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(redistest.Find(t, "chromium", "chromium")), chromedp.NoSandbox)
	tab, end := chromedp.NewExecAllocator(t.Context(), options...)
	defer end()
	tab, end = chromedp.NewContext(tab)
	defer end()
	// eval returns what a script returns, as a text.
	eval := func(script string) string {
		t.Helper()
		return must(chromedp.Run(tab, chromedp.Evaluate[string]("(async () => { "+script+" })().then(String)", chromedp.EvalAwaitPromise)))(t)
	}
	shows := func(text string) bool {
		return strings.Contains(must(chromedp.Run(tab, chromedp.Text(chromedp.ID("main"))))(t), text)
	}
	for _, path := range pages {
		w.has("customers?q=nothing", "of all customers") // the searches are over
		must(0, chromedp.Do(tab, chromedp.Navigate(web.URL+"/"+path)))(t)
		eval("if (!pause.hidden) pause.click();" + axe)
		for _, width := range []int64{1280, 400} {
			for _, scheme := range []string{"light", "dark"} {
				must(0, chromedp.Do(tab, chromedp.EmulateViewport(width, 900)))(t)
				must(chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))(t)
				if found := eval("return axe.run({resultTypes: ['violations']}).then(found => JSON.stringify(found.violations.map(v => [v.help, v.nodes.map(n => n.html)])))"); found != "[]" {
					t.Errorf("%q, %d pixels, %s: %s", path, width, scheme, found)
				}
				if eval("return [document.documentElement, ...document.querySelectorAll('.wide:has(.levels)')].every(e => e.scrollWidth <= e.clientWidth)") != "true" {
					t.Errorf("%q is wider than %d pixels", path, width)
				}
			}
		}
	}

	must(0, chromedp.Do(tab, chromedp.Navigate(web.URL+"/workers"), chromedp.SetValue(chromedp.ID("q"), "half a wor")))(t)
	w.report("anna", 0, fleet.Report{})
	redistest.Await(t, "the page is refreshed", func() bool { return shows("anna") })
	must(0, chromedp.Do(tab, chromedp.Click(chromedp.ID("pause"))))(t)
	w.report("berta", 0, fleet.Report{})
	w.has("workers", "berta")
	eval("return new Promise(done => setTimeout(done, 3 * every))") // a refresh would have come
	if shows("berta") {
		t.Error("the page is refreshed while it is paused")
	}
	must(0, chromedp.Do(tab, chromedp.Click(chromedp.ID("pause"))))(t)
	redistest.Await(t, "the page is refreshed again", func() bool { return shows("berta") })
	if typed := eval("return document.getElementById('q').value"); typed != "half a wor" {
		t.Errorf("what was typed is %q", typed)
	}
}

// axeScript is axe-core, which npm installs into a folder that is gone afterwards.
func axeScript(t *testing.T) string {
	t.Helper()
	npm, folder := redistest.Find(t, "npm", "nodejs npm"), t.TempDir()
	must(0, os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "axe"))))(t)
	command := exec.CommandContext(t.Context(), npm, "ci", "--fetch-retries=5", "--ignore-scripts", "--no-audit", "--no-fund")
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		redistest.Skip(t, fmt.Sprintf("npm ci: %v\n%s", err, output))
	}
	return string(must(os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js")))(t))
}
