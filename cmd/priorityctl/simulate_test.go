package main

import (
	"strings"
	"testing"
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
