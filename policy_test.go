package priority_test

import (
	"math"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

// descending returns n thresholds from first down.
func descending(first int64, n int) []int64 {
	thresholds := make([]int64, n)
	for i := range thresholds {
		thresholds[i] = first - int64(i)
	}
	return thresholds
}

func TestDefaultPolicy_Changed(t *testing.T) {
	policy := priority.DefaultPolicy()
	policy.Thresholds[0], policy.Loads[0] = 100, 0
	if load, count := (priority.Policy{}).LevelOfLoad(1, 0), (priority.Policy{}).Level(0); load != 1 || count != 1 {
		t.Errorf("a changed copy changed the default: levels %d and %d", load, count)
	}
}

// invalidPolicies are wrong values and what the error's message must show of them.
var invalidPolicies = []struct {
	name   string
	policy priority.Policy
	shown  string
}{
	{"ascending thresholds", priority.Policy{Thresholds: []int64{-2, -61, -53}}, "-53"},
	{"too many thresholds", priority.Policy{Thresholds: descending(0, 255)}, "255"},
	{"threshold too high", priority.Policy{Thresholds: []int64{1<<53 + 1, 0}}, "9007199254740993"},
	{"threshold too low", priority.Policy{Thresholds: []int64{0, -1<<53 - 1}}, "-9007199254740993"},
	{"negative interval", priority.Policy{ResetInterval: -3 * time.Second}, "-3s"},
	{"interval below 1 ms", priority.Policy{ResetInterval: 999 * time.Microsecond}, "999µs"},
	{"interval of no whole ms", priority.Policy{ResetInterval: time.Second + time.Nanosecond}, "1.000000001s"},
	{"equal loads", priority.Policy{Loads: []float64{1, 47, 47}}, "Loads[2] = 47"},
	{"descending loads", priority.Policy{Loads: []float64{61, 53}}, "Loads[1] = 53"},
	{"loads less than a millionth apart", priority.Policy{Loads: []float64{1, 1 + 4e-7}}, "Loads[1] = 1.0000004"},
	{"a negative load", priority.Policy{Loads: []float64{-3}}, "Loads[0] = -3"},
	{"a load above a billion", priority.Policy{Loads: []float64{1, 1.1e9}}, "Loads[1] = 1.1e+09"},
	{"a load that is no number", priority.Policy{Loads: []float64{1, math.NaN()}}, "Loads[1] = NaN"},
	{"an infinite load", priority.Policy{Loads: []float64{1, math.Inf(1)}}, "Loads[1] = +Inf"},
	{"negative turns", priority.Policy{Turns: -1}, "-1 Turns"},
	{"too many turns", priority.Policy{Turns: 250}, "250 Turns"},
	{"too many loads", priority.Policy{Loads: ascending(255)}, "255 Loads"},
	{"unknown mode", priority.Policy{ResetMode: 2}, "2"},
}

// ascending returns n loads.
func ascending(n int) []float64 {
	loads := make([]float64, n)
	for i := range loads {
		loads[i] = float64(i + 1)
	}
	return loads
}

func TestPolicy_Validate(t *testing.T) {
	for _, interval := range []time.Duration{time.Millisecond, 1001 * time.Millisecond, longestInterval} {
		if err := (priority.Policy{ResetInterval: interval}).Validate(); err != nil {
			t.Errorf("an interval of %v is refused: %v", interval, err)
		}
	}
	for _, policy := range []priority.Policy{
		{Turns: 249}, {Loads: ascending(254)}, {Loads: ascending(12), Turns: 242}, {Loads: []float64{}, Turns: 254},
		{Loads: []float64{1e-6, 2e-6, 1e9}}, {Loads: []float64{1, 1.000001}},
	} {
		if err := policy.Validate(); err != nil {
			t.Errorf("%+v is refused: %v", policy, err)
		}
	}
}

// longestInterval is as many whole milliseconds as a time.Duration holds.
const longestInterval = math.MaxInt64 / time.Millisecond * time.Millisecond
