package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/docpriority/priority/internal/redistest"
)

// TestMain lets the test's own binary be the program, which starts itself again
// for each worker, and a worker that misbehaves.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		output, pretends := os.LookupEnv("PRETENDED_OUTPUT")
		switch {
		case os.Args[1] == "worker" && pretends:
			fmt.Print(output)
			fmt.Fprint(os.Stderr, os.Getenv("PRETENDED_COMPLAINT"))
			status, _ := strconv.Atoi(os.Getenv("PRETENDED_STATUS"))
			os.Exit(status)
		case os.Args[1] == "worker":
			main()
		case os.Args[1] == "fleet":
			os.Exit(run(os.Args[2:], os.Stdout, os.Stderr))
		}
	}
	if _, set := os.LookupEnv("GORACE"); !set {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // else each worker sleeps a second at its end
	}
	os.Exit(m.Run())
}

// fleet runs the program in this process, its workers in processes of their own.
func fleet(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(args, &out, &errs)
	seconds := regexp.MustCompile(` in [0-9.]+ s\.`)
	return status, seconds.ReplaceAllString(out.String(), " in some s."), errs.String()
}

const expected = `4 worker processes counted 2001 documents of 5 customers in some s.

customer  documents  different counts   from      to  each given once
archive         401               401      0    -400  yes
bakery          400               400      0    -399  yes
clinic          400               400      0    -399  yes
dealer          400               400      0    -399  yes
embassy         400               400      0    -399  yes

No count was given twice or skipped: the n documents of a customer were given
0, -1 … -(n-1), each once, whichever process counted them.
`

func TestNoCountIsGivenTwiceOrSkipped(t *testing.T) {
	status, stdout, stderr := fleet("-workers", "4", "-documents", "2001")
	if status != succeeded || stdout != expected || stderr != "" {
		t.Errorf("exit status %d, stderr %q, stdout\n%s\nwant\n%s", status, stderr, stdout, expected)
	}
}

func TestNoCountIsGivenTwiceOrSkippedByARealServer(t *testing.T) {
	running := redistest.Start(t)
	client := running.Client()
	if err := client.Set(t.Context(), "priority:{archive}:count", -7, 0).Err(); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := fleet("-redis", running.Addr, "-workers", "4", "-documents", "2001")
	if status != succeeded || stdout != expected || stderr != "" {
		t.Errorf("exit status %d, stderr %q, stdout\n%s\nwant\n%s", status, stderr, stdout, expected)
	}
	left, err := client.Keys(t.Context(), "*").Result()
	if err != nil || fmt.Sprint(left) != "[priority:{archive}:count]" || client.Get(t.Context(), left[0]).Val() != "-7" {
		t.Errorf("keys afterwards: %q, %v; want the server's own one as it was", left, err)
	}
}

func TestThereMayBeFewerDocumentsThanWorkers(t *testing.T) {
	status, stdout, stderr := fleet("-workers", "3", "-documents", "1")
	if status != succeeded || !strings.Contains(stdout, "archive           1                 1      0       0  yes\n") || stderr != "" {
		t.Errorf("exit status %d, stderr %q, stdout\n%s", status, stderr, stdout)
	}
}

func TestEachFaultOfAWorkerIsTold(t *testing.T) {
	for _, test := range []struct {
		name, output, complaint, status string
		stdout, stderr                  string // what they have to contain
	}{
		{"well", "a 0\na -1\na -2\n", "", "0", "a                 3                 3      0      -2  yes\n", ""},
		{"twice", "a 0\na -1\na -1\n", "", "0", "a                 3                 2      0      -1  no: -1 given 2 times\n", ""},
		{"skipped", "a 0\na -1\na -3\n", "", "0", "a                 3                 3      0      -3  no: -2 skipped\n", ""},
		{"begins late", "a -1\na -2\na -3\n", "", "0", "no: 0 skipped\n", ""},
		{"above zero", "a 1\na 0\na -1\n", "", "0", "no: -2 skipped\n", ""},
		{"other customer", "a 0\na -1\nb -1\n", "", "0", "b                 1                 1     -1      -1  no: 0 skipped\n", ""},
		{"too few", "a 0\na -1\n", "", "0", "were to count 3 documents and counted 2.\n", ""},
		{"too many", "a 0\na -1\na -2\na -3\n", "", "0", "were to count 3 documents and counted 4.\n", ""},
		{"prints nonsense", "a 0\na minus one\na -2\n", "", "0", "", `fleet: worker 0: it printed "a minus one", not a customer and a count`},
		{"fails", "a 0\na -1\na -2\n", "something broke\n", "3", "", "fleet: worker 0: exit status 3 something broke\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PRETENDED_OUTPUT", test.output)
			t.Setenv("PRETENDED_COMPLAINT", test.complaint)
			t.Setenv("PRETENDED_STATUS", test.status)
			want := failed
			if test.name == "well" {
				want = succeeded
			}
			status, stdout, stderr := fleet("-workers", "1", "-documents", "3")
			if status != want || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit status %d, stderr %q, stdout\n%s", status, stderr, stdout)
			}
			if (stdout == "") != (test.stdout == "") || (stderr == "") != (test.stderr == "") {
				t.Errorf("the report and an error exclude each other: stderr %q, stdout\n%s", stderr, stdout)
			}
			if clean := "No count was given twice or skipped"; strings.Contains(stdout, clean) != (want == succeeded) {
				t.Errorf("stdout\n%s", stdout)
			}
		})
	}
}

func TestMisuseIsTold(t *testing.T) {
	for _, args := range [][]string{
		{"-workers", "0"}, {"-workers", "101"}, {"-documents", "0"}, {"-documents", "1000001"},
		{"-workers", "many"}, {"-nonsense"}, {"something"},
	} {
		if status, stdout, stderr := fleet(args...); status != misused || stdout != "" || stderr == "" {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
	if status, stdout, stderr := fleet("-redis", "127.0.0.1:1"); status != failed || stdout != "" || !strings.Contains(stderr, "redis at 127.0.0.1:1: ") {
		t.Errorf("no server: exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// started is a fleet that would run for long, in a process of its own, on a
// Redis that counts who is connected.
func started(t *testing.T) (*exec.Cmd, *miniredis.Miniredis) {
	t.Helper()
	double := miniredis.RunT(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, program, "fleet", "-redis", double.Addr(), "-workers", "3", "-documents", "1000000")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the fleet alone
	command.Stderr = new(bytes.Buffer)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "the parent and three workers are connected and count", func() bool {
		return double.CurrentConnectionCount() >= 4 && len(double.Keys()) == len(customers)
	})
	return command, double
}

func TestAnInterruptLeavesNothing(t *testing.T) {
	for name, whom := range map[string]int{"the whole group, as a terminal does": -1, "the parent alone": 1} {
		command, double := started(t)
		if err := syscall.Kill(whom*command.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait()
		stderr := fmt.Sprint(command.Stderr)
		if status := command.ProcessState.ExitCode(); status != failed || !strings.HasPrefix(stderr, "fleet: ") {
			t.Errorf("%s: exit status %d, stderr %q", name, status, stderr)
		}
		if strings.Contains(stderr, "worker") {
			t.Errorf("%s: %q; want workers that end when they are told to", name, stderr)
		}
		if left := double.Keys(); len(left) > 0 {
			t.Errorf("%s: keys left behind: %q", name, left)
		}
		redistest.Await(t, name+": no worker is left", func() bool { return double.CurrentConnectionCount() == 0 })
	}
}

func TestAWorkerEndsWithItsInput(t *testing.T) {
	double := miniredis.RunT(t)
	input, parent := io.Pipe()
	double.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
		_ = parent.Close()
		return false
	})
	var stdout, stderr bytes.Buffer
	status := work([]string{"-redis", double.Addr(), "-prefix", "p", "-documents", "20000"}, input, &stdout, &stderr)
	if status != failed || stderr.String() != "told to end\n" {
		t.Errorf("exit status %d, stderr %q", status, stderr.String())
	}
}

func TestWorkersEndWithTheirParent(t *testing.T) {
	command, double := started(t)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	redistest.Await(t, "no worker is left", func() bool { return double.CurrentConnectionCount() == 0 })
}
