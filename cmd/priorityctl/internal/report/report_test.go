package report

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

func TestAPolicyIsPrintedAsGoCode(t *testing.T) {
	for _, test := range []struct {
		policy priority.Policy
		want   string
	}{
		{priority.DefaultPolicy(), `priority.Policy{
	Thresholds:    []int64{-2, -4, -6, -8, -10, -12, -14, -20},
	ResetInterval: 25 * time.Minute,
	ResetMode:     priority.SinceLastUpdate,
}`},
		{priority.Policy{Thresholds: []int64{}, ResetInterval: 1500 * time.Millisecond, ResetMode: priority.SinceLastReset}, `priority.Policy{
	Thresholds:    []int64{},
	ResetInterval: 1500 * time.Millisecond,
	ResetMode:     priority.SinceLastReset,
}`},
	} {
		if got := GoCode(test.policy); got != test.want {
			t.Errorf("got\n%s\nwant\n%s", got, test.want)
		}
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0.00", 0.00123: "0.0012", 0.0149: "0.01", 9.99: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 182018.4: "182018",
	} {
		if got := number(value); got != want {
			t.Errorf("number(%v) = %s, want %s", value, got, want)
		}
	}
}

// The longest names and figures fit, too.
func TestTheLongestNamesFitATerminal(t *testing.T) {
	long := simulation.Estimate{Mean: 612071.9, Within: 98765.4}
	measures := make(map[string]simulation.Estimate)
	for _, group := range []string{"others", "light", "heavy", "lightest_half", "worst_customer", "pauser", "flooder"} {
		for _, measure := range []string{"documents", "wait_mean_s", "wait_p50_s", "wait_p95_s", "wait_p99_s", "wait_max_s", "slowdown_p99"} {
			measures[group+"_"+measure] = long
		}
	}
	for _, measure := range []string{"jain", "smallest_share", "worst_tenth_wait_s", "makespan_s", "overtaken", "oldest_unserved_s", "pauser_to_others_p50"} {
		measures[measure] = long
	}
	s := Simulation{
		About:    About{Name: "name", Summary: strings.Repeat("word ", 50), Service: "some service"},
		Seeds:    10,
		Outcomes: []simulation.Outcome{{Scheduler: "submit:halving", Measures: measures}, {Scheduler: "least-in-flight"}},
		Results:  []simulation.Result{{Target: simulation.Target{Scheduler: "submit", Measure: "makespan_to_first_come", AtLeast: true, Value: 1}}},
	}
	var table strings.Builder
	if err := s.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestABarIsDrawnOnATerminalOnly(t *testing.T) {
	var terminal strings.Builder
	bar := &Progress{terminal: &terminal, started: time.Now().Add(-time.Hour)}
	bar.Show(1, 4)
	bar.Show(2, 4) // too early to be drawn
	bar.Clear()
	want := "\r[" + strings.Repeat("=", 12) + strings.Repeat(" ", 38) + "]  25 %\r" + strings.Repeat(" ", 79) + "\r"
	if terminal.String() != want {
		t.Errorf("got %q, want %q", terminal.String(), want)
	}
	var file strings.Builder
	none := NewProgress(&file)
	none.Show(1, 4)
	none.Clear()
	short := &Progress{terminal: &file, started: time.Now()}
	short.Show(1, 4)
	short.Clear()
	if file.Len() > 0 {
		t.Errorf("not on a terminal, or too short for a bar: %q", file.String())
	}
}

func TestScalesHaveAFewRoundTicks(t *testing.T) {
	logarithmic := logarithm(0.01, 100, "")
	logarithmic.start, logarithmic.end = 0, 400
	for value, want := range map[float64]float64{0: 0, 0.01: 0, 0.1: 100, 1: 200, 100: 400, 1000: 400} {
		if got := logarithmic.at(value); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is at %v, want %v", value, got, want)
		}
	}
	for _, s := range []scale{linear(0, 61, ""), linear(0, 100, ""), linear(0, 0.3, ""), logarithm(0.01, 1e6, "")} {
		if n := len(s.ticks); n < 3 || n > 8 {
			t.Errorf("from %v to %v there are %d ticks: %v", s.from, s.to, n, s.ticks)
		}
	}
}

func TestGapsAreNotDrawn(t *testing.T) {
	series := simulation.Series{
		Bin:   time.Minute,
		Waits: map[string][]float64{"others": {math.NaN(), 1, math.NaN(), 2}},
	}
	plot := string(waitPlot(series, []string{"others"}, 0.01, 10))
	if strings.Contains(plot, "NaN") || strings.Count(plot, "M") != 1 || strings.Count(plot, "L") != 1 {
		t.Errorf("got %s", plot)
	}
}
