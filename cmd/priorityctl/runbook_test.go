package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// state is what a section of the runbook is for.
type state struct {
	begin    func(t *testing.T, s *redistest.Server, o operator) // nil if acme floods, and that is all
	statuses map[string]int                                      // what commands with these parts end with, if not with 0
}

// decide sets some policies and an override, as operators do.
func decide(_ *testing.T, _ *redistest.Server, o operator) {
	for i := range 6 {
		o.ok("policy", "apply", "default", "-why", fmt.Sprint("change ", i))
	}
	o.ok("override", "set", "acme", "-level", "1", "-for", "1h", "-why", "x")
}

var states = map[string]state{
	"1": {}, "4": {}, "7": {}, "10": {begin: decide},
	"3": {func(_ *testing.T, s *redistest.Server, _ operator) { s.Kill() }, map[string]int{"ping": 3}},
	"5": {func(t *testing.T, s *redistest.Server, _ operator) {
		s.Client().RPush(t.Context(), "priority:{acme}:count", "x")
	}, map[string]int{"get": 1}},
	"6": {func(t *testing.T, s *redistest.Server, _ operator) {
		s.Client().ConfigSet(t.Context(), "maxmemory", "1mb")
	}, map[string]int{"ping": 1}},
	"2": {begin: func(t *testing.T, s *redistest.Server, o operator) {
		count(t, s.Client(), map[string]int{"globex": 30})
	}},
	"9": {func(t *testing.T, s *redistest.Server, o operator) {
		o.ok("policy", "apply", "default", "-why", "x")
		write(t, s.Client(), fleet.Report{ID: "odd", Name: "odd", Levels: 3, Overrides: true, Following: control.Following{Code: control.Invalid}}, 0)
	}, map[string]int{"workers": 1}},
	"11": {func(t *testing.T, s *redistest.Server, o operator) {
		decide(t, s, o)
		if err := os.WriteFile(filepath.Join(o.dir, "control.json"), []byte(o.ok("control", "export")), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Client().FlushAll(t.Context())
		redistest.Await(t, "the loss is reported", func() bool { status, _, _ := o.ask("workers"); return status == exitFailed })
	}, map[string]int{"status": 1, "workers": 1, "export": 1}},
}

var (
	sections = regexp.MustCompile(`(?m)^## (\d+)\. `)
	blocks   = regexp.MustCompile("(?s)```sh\n(.*?)```")
)

// A shell runs every command of the runbook against the state that it is for.
func TestRunbook(t *testing.T) {
	t.Parallel()
	redistest.Find(t, "redis-cli", "redis-tools")
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	at := sections.FindAllStringSubmatchIndex(string(text), -1)
	for i, place := range at {
		number, end := string(text[place[2]:place[3]]), len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		var lines []string
		for _, block := range blocks.FindAllStringSubmatch(string(text[place[0]:end]), -1) {
			lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
		}
		before, ok := states[number]
		if ok == (len(lines) == 0) {
			t.Errorf("section %s has %d commands", number, len(lines))
		}
		if len(lines) == 0 {
			continue
		}
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			o := operatorOn(t, "-redis", "redis://"+server.Addr)
			o.dir = t.TempDir()
			submit(t, join(t, server.Client(), "w1"), "acme", 300)
			redistest.Await(t, "all is reported", func() bool { return strings.Contains(o.ok("top"), "300 documents") })
			if before.begin != nil {
				before.begin(t, server, o)
			}
			for _, line := range lines {
				o.inShell(server.Addr, line, before.statuses)
			}
		})
	}
}

// inShell runs a line of the runbook.
func (o operator) inShell(address, line string, statuses map[string]int) {
	o.Helper()
	line = strings.Replace(line, "reset acme", "reset acme -yes", 1) // as there is no terminal where it could ask
	want := 0
	for part, status := range statuses {
		if strings.Contains(line, "priorityctl "+part) || part == "export" && strings.Contains(line, part) {
			want = status
		}
	}
	script := fmt.Sprintf("priorityctl() { PRIORITYCTL_TEST_RUN=1 '%s' \"$@\"; }\n%s", os.Args[0], line)
	shell := exec.Command("sh", "-c", script)
	shell.Dir, shell.Env = o.dir, append(os.Environ(), urlVariable+"=redis://"+address)
	out, _ := shell.CombinedOutput()
	if got := shell.ProcessState.ExitCode(); got != want {
		o.Errorf("%s\nhas status %d, not %d:\n%s", line, got, want, out)
	}
}
