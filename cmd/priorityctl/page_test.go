package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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

func TestAnErrorInAPageIsNoticed(t *testing.T) {
	page := filepath.Join(t.TempDir(), "bad.html")
	if err := os.WriteFile(page, []byte("<script>nonsense()</script>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, console := browse(t, page); len(console) == 0 {
		t.Error("an error in a page is not noticed")
	}
}

func TestThePageStandsAlone(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	succeeded(t, "", "simulate", "-scenario", "pauser", "-seeds", "2", "-html", page)
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if link := regexp.MustCompile(`(?i)(src|href)="(?:[^"d]|d[^"a])|https?:|url\(|@import`).Find(content); link != nil {
		t.Errorf("the page needs something else: %s", link)
	}
	document, console := browse(t, page)
	if len(console) > 0 {
		t.Errorf("on the console: %s", console)
	}
	// 8 schedulers over time, 3 groups, and the levels of 2 schedulers.
	if got := strings.Count(document, "<svg"); got != 8+3+2 {
		t.Errorf("%d plots, want 13", got)
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!"} {
		if strings.Contains(document, bad) {
			t.Errorf("%s is in the page", bad)
		}
	}
}

// A trace's name and customers are not trusted.
func TestThePageEscapesCustomersAndNames(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "<img src=x onerror=nonsense()>.csv")
	if err := os.WriteFile(name, []byte("0,<script>nonsense()</script>,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(folder, "report.html")
	succeeded(t, "", "simulate", name, "-html", page)
	document, console := browse(t, page)
	if len(console) > 0 || strings.Contains(document, "<img") || !strings.Contains(document, "&lt;img") {
		t.Errorf("on the console: %s; %.300s", console, document)
	}
}
