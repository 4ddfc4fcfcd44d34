package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
)

// All that docs/priorityctl.md shows is run, and what is printed is compared, but
// for times, versions, and where lines and columns that hold them end.
func TestTheDocumentsCommandsPrintWhatItSays(t *testing.T) {
	t.Parallel()
	bin, dir := filepath.Dir(installed(t)), t.TempDir() // before anything ages, as it may take a minute
	server := redistest.Start(t, "--appendonly", "yes")
	client := server.Client()
	count(t, client, map[string]int{"acme": 30, "bakery": 5, "first": 1})
	submit(t, client, "clinic", 11)
	working(t, client, counting(), submitting())
	page := markdown.Read(t, "../../docs/priorityctl.md")
	// What varies from run to run; the load is less after half a minute.
	varying := regexp.MustCompile(`\b201\.[0-6]\b|\b(\d+h)?(\d+m)?\d+(\.\d+)?(h|ms|µs|m|s)\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|"reset_in_ms":\d+|Redis \d[\d.]*|\d+ MB`)
	plain := func(text string) string {
		text = strings.ReplaceAll(text, server.Addr, "localhost:6379")
		return strings.Join(strings.Fields(varying.ReplaceAllString(text, "~")), " ")
	}
	calls := 0
	for _, block := range page.Blocks("console") {
		fits(t, block)
		for _, call := range strings.Split("\n"+block, "\n$ ")[1:] {
			calls++
			command, want, _ := strings.Cut(call, "\n")
			status, stdout, stderr := inShell(t, bin, dir, "redis://"+server.Addr, command)
			if got := plain(stdout + stderr); status != 0 || got != plain(want) {
				t.Errorf("%s: exit status %d, it prints\n%s\nand not\n%s", command, status, got, plain(want))
			}
		}
	}
	if calls < 8 {
		t.Errorf("only %d commands were found", calls)
	}
	if !strings.Contains(string(page), exitTable()) {
		t.Errorf("the exit statuses differ from the help's:\n%s", exitTable())
	}
}

// exitTable is the help's exit statuses in Markdown.
func exitTable() string {
	var table strings.Builder
	table.WriteString("| exit status | meaning |\n|---|---|\n")
	for line := range strings.Lines(exitHelp) {
		if status, meaning, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			table.WriteString("| " + status + " | " + strings.TrimSpace(meaning) + " |\n")
		}
	}
	return table.String()
}
