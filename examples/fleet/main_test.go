package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/docpriority/priority/internal/redistest"
)

// TestMain lets the test's own binary be the program, which starts itself again
// for each worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "fleet" {
		os.Args = os.Args[1:]
		main()
	}
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
	}
	if _, set := os.LookupEnv("GORACE"); !set {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // else each worker sleeps a second at its end
	}
	os.Exit(m.Run())
}

const expected = `4 worker processes counted 2001 documents in some s.

customer  documents   from      to  each given once
archive         401      0    -400  yes
bakery          400      0    -399  yes
clinic          400      0    -399  yes
dealer          400      0    -399  yes
embassy         400      0    -399  yes

No count was given twice or skipped: the n documents of a customer were given
0, -1 … -(n-1), each once, whichever process counted them.
`

func TestNoCountIsGivenTwiceOrSkipped(t *testing.T) {
	for name, address := range map[string]func(t *testing.T) string{
		"of its own": func(*testing.T) string { return "" },
		"a server": func(t *testing.T) string {
			server := redistest.Start(t)
			client := server.Client()
			if err := client.Set(t.Context(), "priority:{archive}:count", -7, 0).Err(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if left := client.Keys(context.Background(), "*").Val(); fmt.Sprint(left) != "[priority:{archive}:count]" {
					t.Errorf("keys afterwards: %q; want the server's own one", left)
				}
			})
			return server.Addr
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := run(t.Context(), []string{"-redis", address(t), "-workers", "4", "-documents", "2001"}, &out)
			got := regexp.MustCompile(` in [0-9.]+ s\.`).ReplaceAllString(out.String(), " in some s.")
			if err != nil || got != expected {
				t.Errorf("%v\n%s\nwant\n%s", err, got, expected)
			}
		})
	}
}

func TestEachFaultOfAWorkerIsTold(t *testing.T) {
	for _, test := range []struct{ output, want string }{
		{"a 0\na -1\na -2\n", "<nil>"},
		{"b 0\na 0\na -1\n", "<nil>"},
		{"a 0\na -1\na -1\n", "a was given -1 where -2 was next: a count twice, or skipped"},
		{"a 0\na -1\na -3\n", "a was given -3 where -2 was next: a count twice, or skipped"},
		{"a -1\na -2\na -3\n", "a was given -1 where 0 was next: a count twice, or skipped"},
		{"a 1\na 0\na -1\n", "a was given 1 where 0 was next: a count twice, or skipped"},
		{"a 0\na -1\nb -1\n", "b was given -1 where 0 was next: a count twice, or skipped"},
		{"a 0\na -1\n", "the workers were to count 3 documents and counted 2"},
		{"a 0\na -1\na -2\na -3\n", "the workers were to count 3 documents and counted 4"},
		{"a 0\na minus one\na -2\n", `a worker printed "a minus one\n", not a customer and a count`},
	} {
		if err := report(io.Discard, test.output, 3); fmt.Sprint(err) != test.want {
			t.Errorf("%q: %v, want %s", test.output, err, test.want)
		}
	}
}

func TestMisuseIsTold(t *testing.T) {
	for line, want := range map[string]string{
		"-workers 0": "wrong arguments", "-documents 0": "wrong arguments", "something": "wrong arguments",
		"-workers many": "invalid value", "-redis 127.0.0.1:1": "redis at 127.0.0.1:1: ",
	} {
		if err := run(t.Context(), strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", line, err)
		}
	}
}

// A fleet that would run for long is ended by a terminal, by a signal, and by its death.
func TestNoWorkerIsLeft(t *testing.T) {
	for name, end := range map[string]struct {
		whom   int
		signal syscall.Signal
	}{"the whole group, as by a terminal": {-1, syscall.SIGINT}, "the parent alone": {1, syscall.SIGTERM}, "killed": {1, syscall.SIGKILL}} {
		t.Run(name, func(t *testing.T) {
			double := miniredis.RunT(t)
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			var complaint bytes.Buffer
			command := exec.Command(program, "fleet", "-redis", double.Addr(), "-workers", "3", "-documents", "1000000")
			command.Stderr = &complaint
			wait := redistest.StartProgram(t, command) // in a group of its own
			redistest.Await(t, "the parent and three workers are connected and count", func() bool {
				return double.CurrentConnectionCount() >= 4 && len(double.Keys()) == len(customers)
			})
			if err := syscall.Kill(end.whom*command.Process.Pid, end.signal); err != nil {
				t.Fatal(err)
			}
			_ = wait()
			redistest.Await(t, "no worker is left", func() bool { return double.CurrentConnectionCount() == 0 })
			if left := double.Keys(); end.signal != syscall.SIGKILL && len(left) > 0 {
				t.Errorf("keys left behind: %q", left)
			}
			if end.signal != syscall.SIGKILL && !strings.Contains(complaint.String(), "told to end") {
				t.Errorf("the workers were not told to end: %s", &complaint)
			}
		})
	}
}
