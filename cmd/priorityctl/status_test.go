package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// Of a real server status says what it lacks, with what to do, and where else workers are.
func TestStatus_Server(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o, client := operatorOn(t, "-redis", "redis://"+server.Addr), server.Client()
	checks := func(want int) (checks map[string]found) {
		t.Helper()
		status, out, errs := o.ask("status", "-json")
		var said struct{ Checks []found }
		if err := json.Unmarshal([]byte(out), &said); err != nil || status != want {
			t.Fatalf("status %d: %s%s", status, out, errs)
		}
		checks = make(map[string]found)
		for _, c := range said.Checks {
			checks[c.Check] = c
		}
		return checks
	}
	write(t, client, fleet.Report{ID: "w1", Name: "w1", Levels: 9, Overrides: true}, 0)
	for _, key := range []string{"members", "w1"} {
		client.Rename(t.Context(), "priority:{fleet}:"+key, "typo:{fleet}:"+key)
		client.Move(t.Context(), "typo:{fleet}:"+key, 3)
	}
	if c := checks(exitFailed)["prefix"]; !strings.Contains(c.Found, "1 worker with the prefix typo in database 3") || c.Remedy == "" {
		t.Errorf("of a worker elsewhere: %+v", c)
	}

	client.ConfigSet(t.Context(), "maxmemory", "1mb")
	all := checks(exitFailed)
	if c := all["redis"]; !strings.Contains(c.Found, "full: ") || !strings.Contains(c.Remedy, "raise maxmemory") || all["waits"].Remedy == "" || all["done"].Remedy == "" {
		t.Errorf("of a full Redis: %+v", all)
	}
	for _, command := range [][]string{{"get", "acme"}, {"list"}} {
		if status, _, says := o.ask(command[0], command[1:]...); status != 0 || !strings.Contains(says, "full: ") {
			t.Errorf("%q says nothing of it: %s", command, says)
		}
	}
	client.ConfigSet(t.Context(), "maxmemory", "0")

	server.Signal(syscall.SIGSTOP)
	o.flags = append(o.flags, "-timeout", "500ms")
	if all := checks(exitUnreachable); len(all) != 1 || all["redis"].Remedy == "" {
		t.Errorf("of one that hangs: %+v", all)
	}
	o.refused(exitUnreachable, server.Addr, "get", "acme")
}

// On a terminal, status is as wide and in color, unless the user wants none.
func TestStatus_Terminal(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	write(t, client, fleet.Report{ID: "w3", Name: "w3", Levels: 3, Overrides: true, Degraded: true}, 0)
	o.terminal = func(any) (int, int, bool) { return 200, 24, true }
	_, wide, _ := o.ask("status")
	_, plain, _ := o.with("NO_COLOR", "1").ask("status")
	if !strings.Contains(wide, "\x1b[32mok      \x1b[m ") || !strings.Contains(wide, "w3: Redis was not reached at the latest report, so each decides by itself\n") || strings.Contains(plain, "\x1b") {
		t.Errorf("got %q and %q", wide, plain)
	}
}

// What cannot be written was not said.
func TestOutput_Full(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here: ", err)
	}
	defer full.Close()
	o, _ := started(t)
	for _, command := range []string{"status", "list", "log", "policy"} {
		var stderr strings.Builder
		status := run(t.Context(), o.environment, append([]string{command}, o.flags...), nil, full, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), "cannot write the output: ") {
			t.Errorf("%s has status %d and says %q", command, status, stderr.String())
		}
	}
}
