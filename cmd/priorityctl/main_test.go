package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
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
		{"list -prefix fleet -json", "list --prefix fleet --json"},
		{"list --prefix fleet --json=true", "list --prefix fleet --json=true"},
		{"list -limit=3 -h -5 - -nonsense", "list --limit=3 -h -5 - -nonsense"},
		{"get -help -- -json", "get --help -- -json"},
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
		"unknown shorthand flag":          {"list", "-nonsense"},
		"unknown command":                 {"nonsense"},
		"it is last-update or last-reset": {"policy", "-reset-mode", "never"},
		"is not below":                    {"policy", "-thresholds", "-1,-1"},
		"not a whole number":              {"policy", "-thresholds", "-1,x"},
		"did you mean bash":               {"completion", "bsh"},
		"unknown command \"extra\"":       {"completion", "bash", "extra"},
		"did you mean check":              {"help", "policy", "chek"},
	} {
		status, stdout, stderr := called(t, "", args...)
		if status != wrong || stdout != "" || !strings.HasPrefix(stderr, "priorityctl: ") || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
}
