//go:build !race

package main

import (
	"bytes"
	"strings"
	"testing"
)

// called runs the program with a standard input.
func called(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), terminal{strings.NewReader(stdin), &out, &errs}, args)
	return status, out.String(), errs.String()
}

// succeeded runs the program and returns what it prints.
func succeeded(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	status, stdout, stderr := called(t, stdin, args...)
	if status != 0 || stderr != "" {
		t.Fatalf("%q: exit status %d, stderr %q", args, status, stderr)
	}
	return stdout
}

func TestWrongCalls(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown command":                  {"nonsense"},
		"it takes one trace at most":       {"matrix", "a.csv", "b.csv"},
		"there is no scenario":             {"matrix", "-scenario", "overload,calm"},
		`there is no scheduler "magic"`:    {"matrix", "-schedulers", "magic"},
		"flag provided but not defined":    {"matrix", "-nonsense"},
		"submitted_ms,customer,service_ms": {"matrix", "no-such-file.csv"},
		"0 seeds":                          {"matrix", "-seeds", "0"},
		"0 servers, not":                   {"matrix", "-servers", "0", "-"},
		"0 rounds":                         {"bench", "-rounds", "0"},
	} {
		status, stdout, stderr := called(t, "0,a,1\n", args...)
		if status != 2 || stdout != "" || !strings.HasPrefix(stderr, "lab") || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	help := succeeded(t, "", "help")
	for _, command := range commands {
		own := succeeded(t, "", command.name, "-help")
		if !strings.Contains(help, "go run ./lab "+command.name+" ") || !strings.Contains(own, "usage: ") {
			t.Errorf("%s is not in the help, or has none", command.name)
		}
		for line := range strings.Lines(help + own) {
			if strings.Count(line, "")-2 > 80 {
				t.Errorf("%s -help has a line of more than 80 columns: %s", command.name, line)
			}
		}
	}
}

func TestMatrix(t *testing.T) {
	const small = "0,a,1000\n0,a,1000\n500,b,\n700,a,3000\n"
	tables := succeeded(t, small, "matrix", "-", "-seeds", "2", "-scenario", "long-overload,tiers-calm", "-servers", "1,2", "-light", "2")
	for _, want := range []string{"seeds: 2.", "\n| long-overload | worst tenth wait | ", " ± ", "\n| trace-1 ", "\n| trace-2 ", "\n| first-come | ", "| submit*weight |\n"} {
		if !strings.Contains(strings.Join(strings.Fields(tables), " "), strings.TrimSpace(want)) {
			t.Errorf("no %q in\n%s", want, tables)
		}
	}
}
