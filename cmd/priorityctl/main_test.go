package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

// called runs the program with a standard input, and without a variable.
func called(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return calledIn(t, environment{getenv: noVariable}, stdin, args...)
}

func noVariable(string) string { return "" }

// calledIn runs the program with an environment and a standard input.
func calledIn(t *testing.T, env environment, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	notTheDefault(t, args...)
	var out, errs bytes.Buffer
	status = run(t.Context(), env, args, strings.NewReader(stdin), &out, &errs)
	return status, out.String(), errs.String()
}

var defaultPort = regexp.MustCompile(`:6379\b`)

// notTheDefault fails if arguments, such as those that documents show, name what may be
// somebody's own Redis.
func notTheDefault(t *testing.T, args ...string) {
	t.Helper()
	if words := strings.Join(args, " "); defaultPort.MatchString(words) {
		t.Fatalf("a Redis that no test has started: %s", words)
	}
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

func TestFlagsHaveOneDashOrTwo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"simulate -scenario steady-flood -json", "simulate --scenario steady-flood --json"},
		{"simulate --scenario steady-flood --json=true", "simulate --scenario steady-flood --json=true"},
		{"simulate -seeds=3 -h -5 - -nonsense", "simulate --seeds=3 -h -5 - -nonsense"},
		{"tune -help -- -json", "tune --help -- -json"},
	} {
		got := doubleDashes(newRoot(), strings.Fields(test.args))
		if !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%s: got %s, want %s", test.args, strings.Join(got, " "), test.want)
		}
	}
}

func TestAWrongCallSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const wrong = 2
	for want, args := range map[string][]string{
		"takes either -scenario or a trace": {"simulate"},
		"there is no scenario":              {"simulate", "-scenario", "calm"},
		"there is no scheduler":             {"simulate", "-scenario", "overload", "-schedulers", "magic"},
		"unknown shorthand flag":            {"simulate", "-nonsense"},
		"unknown command":                   {"nonsense"},
		"no such file":                      {"simulate", "no-such-file.csv"},
		"accepts at most 1 arg":             {"simulate", "a.csv", "b.csv"},
		"accepts 1 arg(s)":                  {"tune"},
		"it is last-update or last-reset":   {"simulate", "-scenario", "overload", "-reset-mode", "never"},
		"is not below":                      {"simulate", "-scenario", "overload", "-thresholds", "-1,-1"},
		"not a whole number":                {"simulate", "-scenario", "overload", "-thresholds", "-1,x"},
		"0 seeds":                           {"simulate", "-scenario", "overload", "-seeds", "0"},
		"0 servers":                         {"simulate", "-scenario", "overload", "-servers", "0"},
		"service times are":                 {"simulate", "-scenario", "overload", "-service", "slow"},
		"a consumer discipline is":          {"simulate", "-scenario", "overload", "-discipline", "lazy"},
		"missing service times":             {"simulate", "-missing-service", "guess", "-"},
		"-counting is":                      {"tune", "-counting", "fingers", "-"},
		"0 servers are not":                 {"tune", "-servers", "0", "-"},
		"-heavy-cost":                       {"tune", "-heavy-cost", "-1", "-"},
		"has at most -1 documents":          {"tune", "-light", "-1", "-"},
		"is a directory":                    {"tune", "."},
		"lost Dones, 2,":                    {"simulate", "-scenario", "overload", "-lost-done", "2"},
		"there is no scenario \"calm\"":     {"simulate", "-scenario", "overload,calm"},
		"a flood of -1":                     {"simulate", "-scenario", "overload", "-flood", "-1"},
		"did you mean bash":                 {"completion", "bsh"},
		"unknown command \"extra\"":         {"completion", "bash", "extra"},
		"did you mean check":                {"help", "policy", "chek"},
	} {
		status, stdout, stderr := called(t, "0,a,1\n", args...)
		if status != wrong || stdout != "" || !strings.HasPrefix(stderr, "priorityctl: ") || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
}

func TestTheHelpNamesTheScenarios(t *testing.T) {
	t.Parallel()
	help := succeeded(t, "", "simulate", "-help")
	for _, scenario := range simulation.Scenarios() {
		if !strings.Contains(help, scenario.Name) {
			t.Errorf("%s is not in the help", scenario.Name)
		}
	}
}

const smallTrace = "0,a,1000\n0,a,1000\n500,b,\n700,a,3000\n"

func TestATraceIsSimulatedFromAFileOrAPipe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(file, []byte(smallTrace), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile := succeeded(t, "", "simulate", file, "-servers", "1", "-light", "2")
	fromPipe := succeeded(t, smallTrace, "simulate", "-", "-servers", "1", "-light", "2")
	if _, tables, _ := strings.Cut(fromFile, "\n\n"); !strings.HasSuffix(fromPipe, tables) {
		t.Errorf("from a file:\n%s\nfrom a pipe:\n%s", fromFile, fromPipe)
	}
	for _, want := range []string{"4 documents of 2 customers", "1 seed.", "capped at 1m0s", "Wait of light customers", "Wait of heavy customers"} {
		if !strings.Contains(fromFile, want) {
			t.Errorf("no %q in\n%s", want, fromFile)
		}
	}
}

func TestTuneSuggestsAPolicyInGo(t *testing.T) {
	t.Parallel()
	text := succeeded(t, smallTrace, "tune", "-", "-light", "20", "-thresholds", "-50,-100")
	start := strings.Index(text, "store, err :=")
	if start < 0 || !strings.Contains(text, "priority.Policy{") {
		t.Fatalf("got\n%s", text)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+text[start:]+"}\n", 0); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}
