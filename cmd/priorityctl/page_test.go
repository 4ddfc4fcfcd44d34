//go:build !race

package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/docpriority/priority/internal/redistest"
)

// browse opens a page in a browser and returns its document once it is loaded,
// and what the page wrote to the console.
func browse(t *testing.T, page string, args ...string) (document string, console []string) {
	t.Helper()
	chromium := redistest.Find(t, "chromium", "chromium")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir=" + t.TempDir(), "--enable-logging=stderr", "--dump-dom",
	}, args...)
	command := exec.CommandContext(ctx, chromium, append(args, "file://"+page)...)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	command.WaitDelay = 10 * time.Second // for processes that outlive the browser
	if err := command.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			console = append(console, line)
		}
	}
	return stdout.String(), console
}

// ask opens a page in a frame of so many pixels, the width of a phone or of a
// desktop, lets it call a function of JavaScript, and reads the answer. The page's
// own policy stays: the function is let through by its hash.
func ask(t *testing.T, page string, width int, function string, answer any) {
	t.Helper()
	script := "(" + function + ")().then(answer => parent.postMessage(answer, '*'))"
	hash := sha256.Sum256([]byte(script))
	content := strings.Replace(read(t, page), "script-src ", "script-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"' ", 1)
	content = strings.Replace(content, "</body>", "<script>"+script+"</script></body>", 1)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "asked.html"), content)
	frame := filepath.Join(folder, "frame.html")
	write(t, frame, fmt.Sprintf(`<p id="answer"></p>
<script>onmessage = message => { document.getElementById("answer").textContent = JSON.stringify(message.data); };</script>
<iframe src="asked.html" style="width: %dpx; height: 800px; border: 0"></iframe>`, width))
	document, console := browse(t, frame, "--virtual-time-budget=20000", "--window-size=1400,900")
	if len(console) > 0 {
		t.Errorf("on the console: %s", console)
	}
	_, text, _ := strings.Cut(document, `<p id="answer">`)
	text, _, _ = strings.Cut(text, "</p>")
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), answer); err != nil {
		t.Fatalf("the answer is %q: %v", text, err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pageOf simulates, quickly, and returns the name of the page.
func pageOf(t *testing.T, args ...string) (page string) {
	t.Helper()
	page = filepath.Join(t.TempDir(), "report.html")
	succeeded(t, "", slices.Concat([]string{"simulate", "-html", page}, quick, args)...)
	return page
}

func TestAnErrorInAPageIsNoticed(t *testing.T) {
	page := filepath.Join(t.TempDir(), "bad.html")
	write(t, page, "<script>nonsense()</script>")
	if _, console := browse(t, page); len(console) == 0 {
		t.Error("an error in a page is not noticed")
	}
}

func TestThePageStandsAlone(t *testing.T) {
	page := pageOf(t, "-scenario", "pauser", "-flood", "3000", "-seeds", "2", "-schedulers", "first-come,rule,submit,stride")
	content := read(t, page)
	if link := regexp.MustCompile(`(?i)(src|href)="(?:[^"d]|d[^"a])|https?:|url\(|@import`).FindString(content); link != "" {
		t.Errorf("the page needs something else: %s", link)
	}
	if !strings.Contains(content, `content="default-src 'none'; style-src 'sha256-`) || strings.Contains(content, "unsafe") {
		t.Error("the page's policy is not strict")
	}
	document, console := browse(t, page)
	if len(console) > 0 {
		t.Errorf("on the console: %s", console)
	}
	// 3 groups' waits before and after, 3 ways over time and as dots, 2 with
	// levels, 3 groups' distributions.
	if got := strings.Count(document, `role="img"`); got != 3+3+3+2+3 {
		t.Errorf("%d pictures, want 14", got)
	}
	if got, want := strings.Count(document, `role="img"><title>`), strings.Count(document, `role="img"`); got != want {
		t.Errorf("%d of %d pictures have a title", got, want)
	}
	if command := "<code>priorityctl simulate -html=report.html -seeds=2 -servers=2 -flood=3000 -scenario=pauser -schedulers=first-come,rule,submit,stride</code>"; !strings.Contains(document, command) {
		t.Error("the page does not say how it was made")
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!"} {
		if strings.Contains(document, bad) {
			t.Errorf("%s is in the page", bad)
		}
	}
}

func TestTheSameCommandMakesTheSamePage(t *testing.T) {
	args := []string{"-scenario", "overload,second-flood", "-seeds", "3"}
	once, again := read(t, pageOf(t, args...)), read(t, pageOf(t, args...))
	if once != again {
		t.Error("the same command makes another page")
	}
}

func TestThePageHasEveryScenario(t *testing.T) {
	content := read(t, pageOf(t, "-scenario", "all", "-schedulers", "first-come,rule,submit"))
	for _, scenario := range simulation.Scenarios() {
		for _, part := range []string{
			`<option value="` + scenario.Name + `">`, `<a href="#` + scenario.Name + `">`, `<section class="scenario" id="` + scenario.Name + `">`,
		} {
			if !strings.Contains(content, part) {
				t.Errorf("no %s", part)
			}
		}
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!"} {
		if strings.Contains(content, bad) {
			t.Errorf("%s is in the page", bad)
		}
	}
	if len(content) > 2_000_000 {
		t.Errorf("the page of all scenarios has %d bytes", len(content))
	}
}

func TestAScenarioIsChosenByItsName(t *testing.T) {
	page := pageOf(t, "-scenario", "overload,steady-flood,pauser")
	var seen []struct {
		Shown  []string
		Listed string
	}
	ask(t, page, 1200, `async () => {
		const list = document.getElementById("chooser");
		const see = () => ({
			shown: [...document.querySelectorAll("section")].filter(s => s.checkVisibility()).map(s => s.id),
			listed: list.checkVisibility() ? list.value : "",
		});
		const after = (act) => new Promise(done => { addEventListener("hashchange", () => done(see()), {once: true}); act(); });
		return [
			see(),
			await after(() => { list.value = "pauser"; list.dispatchEvent(new Event("change")); }),
			await after(() => { location.hash = "overload"; }), // as a link does
			await after(() => { list.value = "all"; list.dispatchEvent(new Event("change")); }),
		];
	}`, &seen)
	all := "all overload steady-flood pauser"
	for i, want := range []struct{ shown, listed string }{{all, "all"}, {"pauser", "pauser"}, {"overload", "overload"}, {all, "all"}} {
		if got := strings.Join(seen[i].Shown, " "); got != want.shown || seen[i].Listed != want.listed {
			t.Errorf("step %d: %s is shown and %s listed, want %s and %s", i, got, seen[i].Listed, want.shown, want.listed)
		}
	}
}

func TestScenariosAreFoundWithoutScripts(t *testing.T) {
	page := pageOf(t, "-scenario", "overload,pauser")
	write(t, page, regexp.MustCompile(`script-src '[^']*'`).ReplaceAllString(read(t, page), "script-src 'none'"))
	document, _ := browse(t, page)
	for _, part := range []string{
		"<label hidden", // nothing to choose from that does nothing
		`<a href="#all">`, `<a href="#overload">overload</a>`, `<a href="#pauser">pauser</a>`, `id="overload"`, `id="pauser"`,
	} {
		if !strings.Contains(document, part) {
			t.Errorf("no %s", part)
		}
	}
}

func TestThePageFitsAPhone(t *testing.T) {
	page := pageOf(t, "-scenario", "overload,second-flood,starve", "-schedulers", "first-come,rule,submit,submit:halving,least-in-flight")
	var got struct {
		Width  int
		Needed map[string]int
		Small  []string // texts of less than 9 pixels
	}
	ask(t, page, 360, `async () => {
		for (const details of document.querySelectorAll("details")) details.open = true;
		const needed = {};
		for (const hash of ["all", "overload", "second-flood", "starve"]) {
			await new Promise(done => { addEventListener("hashchange", done, {once: true}); location.hash = hash; });
			needed[hash] = document.documentElement.scrollWidth;
		}
		const small = [...document.querySelectorAll("svg text")].filter(t => t.checkVisibility() && t.getBoundingClientRect().height < 9);
		return {width: innerWidth, needed, small: small.map(t => t.textContent)};
	}`, &got)
	if got.Width != 360 || len(got.Needed) != 4 {
		t.Fatalf("got %+v", got)
	}
	for hash, needed := range got.Needed {
		if needed > got.Width {
			t.Errorf("#%s needs %d pixels", hash, needed)
		}
	}
	if len(got.Small) > 0 {
		t.Errorf("too small to read: %q", got.Small)
	}
}

// hostile are names of customers that try to be more than names.
var hostile = []string{
	"<script>nonsense()</script>",
	"</title></svg><img src=x onerror=nonsense()>",
	`"'&amp;` + "`",
	"line\nbreak\x00",
	"\u202eright to left",
	"\u05d0\u05d1\u05d2",
	"\xff\xfe",
	strings.Repeat("long", 128),
}

// A trace's name and customers are not trusted.
func TestThePageEscapesCustomersAndNames(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "<img src=x onerror=nonsense()>\u202e.csv")
	var rows strings.Builder
	for i, customer := range hostile {
		fmt.Fprintf(&rows, "%d,\"%s\",1000\n", i, strings.ReplaceAll(customer, `"`, `""`))
	}
	write(t, name, rows.String())
	page := filepath.Join(folder, "report.html")
	succeeded(t, "", "simulate", name, "-html", page)
	document, console := browse(t, page)
	if len(console) > 0 || strings.Contains(document, "<img") || strings.Count(document, "<script") != 1 || !strings.Contains(document, "&lt;img") {
		t.Errorf("on the console: %s; %.300s", console, document)
	}
	for _, raw := range []string{"\u202e", "\x00", "\xff", "line\nbreak", strings.Repeat("long", 16)} {
		if strings.Contains(read(t, page), raw) {
			t.Errorf("%q is in the page", raw)
		}
	}
	for _, text := range []string{"&lt;script&gt;nonsense", `\u202eright to left`, "\u2068\u05d0\u05d1\u05d2\u2069: sent 1", `\xff\xfe`, "longlong…"} {
		if !strings.Contains(document, text) {
			t.Errorf("no %q in the page", text)
		}
	}
}

func TestATraceIsNotTakenForAScenarioOfItsName(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "starve")
	write(t, trace, smallTrace)
	if page := read(t, pageOf(t, trace)); !strings.Contains(page, `<p class="story">Recorded traffic, replayed: 4 documents of 2 customers`) {
		t.Error("the page does not say that it shows a trace")
	}
}

func TestThePageOfManyCustomersIsSmall(t *testing.T) {
	page := read(t, pageOf(t, "-scenario", "occasional-flood", "-servers", "16", "-flood", "10000", "-schedulers", "first-come,rule,submit"))
	if len(page) > 250_000 {
		t.Errorf("it has %d bytes", len(page))
	}
	if !regexp.MustCompile(`1\d,\d\d\d customers in \d+ dots; the largest stands for [\d,]+\.`).MatchString(page) {
		t.Error("it does not say how many customers a dot stands for")
	}
}
