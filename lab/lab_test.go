//go:build !race

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
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
		"unknown command":                 {"nonsense"},
		"it takes one trace at most":      {"matrix", "a.csv", "b.csv"},
		"it takes one trace and 1 server": {"tune", "a.csv", "b.csv"},
		"there is no scenario":            {"matrix", "-scenario", "overload,calm"},
		`there is no scheduler "magic"`:   {"matrix", "-schedulers", "magic"},
		"flag provided but not defined":   {"matrix", "-nonsense"},
		"no such file":                    {"matrix", "no-such-file.csv"},
		"0 seeds":                         {"matrix", "-seeds", "0"},
		"0 servers, not":                  {"matrix", "-servers", "0", "-"},
		"0 rounds":                        {"bench", "-rounds", "0"},
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
		if !strings.Contains(help, "go run ./lab "+command.name+" ") || !strings.Contains(succeeded(t, "", command.name, "-help"), "usage: ") {
			t.Errorf("%s is not in the help, or has none", command.name)
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

// serviceTrace is twelve hours of a small service: 20 shops send 3 documents at a
// time, 3 archives send 5 long ones, and one customer uploads 200 now and then.
func serviceTrace() string {
	type row struct {
		submitted, service int
		customer           string
	}
	var rows []row
	random := rand.New(rand.NewPCG(1, 1))
	const minute = 60_000
	send := func(name string, customers, documents, every, service int) {
		for i := range customers {
			for at := random.IntN(every); at < 12*60*minute; at += every*4/5 + random.IntN(every*2/5) {
				for range documents {
					rows = append(rows, row{at, service/2 + random.IntN(service), fmt.Sprint(name, i+1)})
				}
			}
		}
	}
	send("shop", 20, 3, 12*minute, 4_000)
	send("archive", 3, 5, 14*minute, 100_000)
	send("upload", 1, 200, 90*minute, 4_000)
	slices.SortStableFunc(rows, func(a, b row) int { return a.submitted - b.submitted })
	text := "submitted_ms,customer,service_ms\n"
	for _, r := range rows {
		text += fmt.Sprintf("%d,%s,%d\n", r.submitted, r.customer, r.service)
	}
	return text
}

func TestTune(t *testing.T) {
	text := succeeded(t, serviceTrace(), "tune", "-", "-servers", "3", "-service-cap", "3m", "-light", "250")
	for _, want := range []string{
		": 5973 documents of 24 customers", "on the first 8.0 hours", "\n| Next, policy found ", "\n| Submit ÷ Next, better policy ",
		"Call Submit and Done: on the part held back, Submit serves your customers better than Next.", "store.Submit(",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTune_TooLittle(t *testing.T) {
	for _, test := range []struct{ trace, want string }{
		{"", "the trace has no documents"},
		{strings.Repeat("0,a,1\n", 21) + strings.Repeat("9,b,1\n", 22), "no customer of the trace is light: each has at least 21 documents"},
		{"0,a,1\n" + strings.Repeat("9000,b,1\n", 21), "in the last third"},
		{"0,a,1\nsoon,b,1\n", "standard input:2"},
	} {
		status, stdout, stderr := called(t, test.trace, "tune", "-")
		if status != 1 || stdout != "" || !strings.HasPrefix(stderr, "lab tune: ") || !strings.Contains(stderr, test.want) {
			t.Errorf("%.40q: exit status %d, stdout %q, stderr %q, want %q", test.trace, status, stdout, stderr, test.want)
		}
	}
	small := succeeded(t, "0,a\n1000,b\n2000,c\n3000,a\n", "tune", "-")
	for _, want := range []string{"too small to tell a difference from luck", "store.Next(", "unknown ones drawn: lognormal"} {
		if !strings.Contains(strings.Join(strings.Fields(small), " "), want) {
			t.Errorf("no %q in\n%s", want, small)
		}
	}
}
