//go:build !race

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// quick makes a simulation small.
var quick = []string{"-seeds", "1", "-servers", "2", "-flood", "300"}

func TestSeveralScenariosArePrintedOneAfterTheOther(t *testing.T) {
	simulated := func(args ...string) string {
		return succeeded(t, "", append(append([]string{"simulate"}, args...), quick...)...)
	}
	one, two := simulated("-scenario", "overload"), simulated("-scenario", "pauser")
	if got, want := simulated("-scenario", "overload,pauser"), one+"\n\n"+two; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	one, two = simulated("-scenario", "overload", "-json"), simulated("-scenario", "pauser", "-json")
	if got, want := simulated("-scenario", "overload,pauser", "-json"), one+two; got != want || strings.Count(got, "\n") != 2 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAWrongListOfScenariosIsRefused(t *testing.T) {
	for scenarios, want := range map[string]string{
		"overload,calm":     `there is no scenario "calm"`,
		"overload,overload": `"overload" twice`,
		"all,overload":      `there is no scenario "all"`,
		"":                  "either -scenario or a trace",
	} {
		status, stdout, stderr := called(t, "", append([]string{"simulate", "-scenario", scenarios}, quick...)...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", scenarios, status, stdout, stderr)
		}
	}
}

func TestTheSameSeedsGiveTheSameJSON(t *testing.T) {
	args := []string{"simulate", "-scenario", "starve", "-seeds", "2", "-schedulers", "rule:linear,submit:linear", "-json"}
	stdout := succeeded(t, "", args...)
	if again := succeeded(t, "", args...); again != stdout {
		t.Error("the same seeds give other figures")
	}
	var object struct {
		Name       string
		Seeds      int
		Schedulers []struct {
			Scheduler string
			Measures  map[string]struct{ Mean, CI95 float64 }
		}
		Targets []struct {
			Scheduler string
			Reached   bool
		}
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	if err := decoder.Decode(&object); err != nil || decoder.More() {
		t.Fatalf("%v, or more than one object: %s", err, stdout)
	}
	if object.Name != "starve" || object.Seeds != 2 || len(object.Schedulers) != 2 || len(object.Targets) != 2 {
		t.Errorf("got %+v", object)
	}
	for _, s := range object.Schedulers {
		wait := s.Measures["flooder_wait_max_s"]
		if s.Scheduler == "rule:linear" && !(wait.Mean > 200 && wait.Mean < 300 && wait.CI95 > 0) {
			t.Errorf("%s: the longest wait is %+v", s.Scheduler, wait)
		}
	}
}

func TestTheTablesFitATerminal(t *testing.T) {
	table := succeeded(t, "", "simulate", "-scenario", "starve", "-seeds", "2", "-lease", "1h")
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"Targets\n  reached: rule:linear", "lease 1h0m0s", "mean\nof 2 seeds", "Wait of the flooder, s", "\n  least-in-flight ", "\n  submit:halving "} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}
