package report

import (
	"math"
	"regexp"
	"slices"
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

func TestWaitsAreSaidAsPeopleDo(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 s", 0.0004: "0 s", 0.015: "15 ms", 0.0994: "99 ms", 0.0996: "0.1 s", 0.15: "0.15 s", 1.54: "1.5 s", 9.96: "10 s",
		99: "99 s", 99.6: "1.7 min", 1236: "21 min", 3600: "60 min", 6000: "1.7 h", 12_240: "3.4 h", 259_200: "3 days", 1e6: "12 days",
	} {
		if got := lasting(seconds); got != want {
			t.Errorf("%v s are %s, want %s", seconds, got, want)
		}
	}
}

func TestAScaleOfWaitsHoldsThem(t *testing.T) {
	for _, test := range []struct{ shortest, longest float64 }{
		{0, 0}, {0, 1e7}, {0.001, 0.002}, {0.15, 1236}, {1236, 1236}, {math.Inf(1), 0}, {1e9, 1e9},
	} {
		s := logarithmOfWaits(test.shortest, test.longest, "")
		if n := len(s.ticks); n < 2 || n > 7 || s.from >= s.to || s.to < min(test.longest, moments[len(moments)-1]) {
			t.Errorf("for %v to %v: from %v to %v with %d ticks", test.shortest, test.longest, s.from, s.to, n)
		}
	}
	if s := logarithmOfWaits(0.15, 1236, ""); s.from != 0.1 || s.to != 3600 || s.text(0.1) != "≤ 0.1 s" || s.text(3600) != "1 h" {
		t.Errorf("got %+v", s)
	}
	if s := linearWaits(400, ""); s.to != 400 || s.text(s.ticks[1]) != "1 min" {
		t.Errorf("got %+v", s)
	}
}

func TestLinesEndAtLongGaps(t *testing.T) {
	waits := slices.Repeat([]float64{math.NaN()}, 20)
	for _, bin := range []int{1, 3, 15} {
		waits[bin] = 1
	}
	series := simulation.Series{Bin: time.Minute, Waits: map[string][]float64{"others": waits}}
	plot := string(waitPlot("Before", series, []string{"others"}, logarithmOfWaits(0.01, 10, "")))
	line := regexp.MustCompile(`class="line g0" d="([^"]*)"`).FindStringSubmatch(plot)[1]
	if strings.Contains(plot, "NaN") || strings.Count(line, "M") != 1 || strings.Count(line, "L") != 1 || strings.Count(plot, "<circle") != 1 {
		t.Errorf("want a line from bin 1 to 3, and a point, not %s", plot)
	}
}

func TestEachScenarioHasAStory(t *testing.T) {
	for _, scenario := range simulation.Scenarios() {
		if stories[scenario.Name] == "" {
			t.Errorf("%s has none", scenario.Name)
		}
	}
	if len(stories) != len(simulation.Scenarios()) {
		t.Errorf("%d stories of %d scenarios", len(stories), len(simulation.Scenarios()))
	}
}

func TestNamesAreShownAsTheyAreIfTheyCanBeSeen(t *testing.T) {
	for name, want := range map[string]string{
		"acme":                     "acme",
		"Müller & Söhne":           "\u2068Müller & Söhne\u2069",
		"a\nb":                     `"a\nb"`,
		"\xff":                     `"\xff"`,
		"\u202eab":                 `"\u202eab"`,
		strings.Repeat("long", 16): "\u2068" + strings.Repeat("long", 15) + "…\u2069",
	} {
		if got := shownName(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
}

func TestADotSaysWhomItStandsFor(t *testing.T) {
	one := simulation.Dot{Customers: 1, Customer: "acme", Sent: simulation.Spread{Least: 12, Most: 12}, Waited: simulation.Spread{Least: 90, Most: 90}}
	many := simulation.Dot{Customers: 1500, Sent: simulation.Spread{Least: 2, Most: 3}, Waited: simulation.Spread{Least: 0, Most: 90}}
	for got, want := range map[string]string{
		dotText(one):                             "acme: sent 12, waited 90 s",
		dotText(many):                            "1,500 customers: sent 2 to 3 each, waited 0 s to 90 s",
		dotsInWords([]simulation.Dot{one}):       "One customer.",
		dotsInWords([]simulation.Dot{one, many}): "1,501 customers in 2 dots; the largest stands for 1,500.",
		dotsInWords(nil):                         "No customers.",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestManyLevelsShareNineColours(t *testing.T) {
	for levels, want := range map[int]int{1: 1, 2: 2, 3: 3, 9: 9, 10: 9, 255: 9} {
		bands := levelBands(levels)
		if len(bands) != want || bands[0].first != 0 || bands[len(bands)-1].end != levels {
			t.Errorf("%d levels are %+v", levels, bands)
		}
		for i, b := range bands[1:] {
			if b.first != bands[i].end {
				t.Errorf("%d levels: after %+v comes %+v", levels, bands[i], b)
			}
		}
	}
}
