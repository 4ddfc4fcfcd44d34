package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

func TestGoCode(t *testing.T) {
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

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0.00", 0.00123: "0.0012", 0.0149: "0.01", 9.99: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 182018.4: "182018",
	} {
		if got := number(value); got != want {
			t.Errorf("number(%v) = %s, want %s", value, got, want)
		}
	}
}

func TestScales(t *testing.T) {
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
