package priority_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// ruleTable is the rule of nine levels, count for count.
var ruleTable = []struct {
	count int64
	level priority.Level
}{
	{math.MaxInt64, 1}, {1, 1}, {0, 1}, {-1, 1}, {-2, 1},
	{-3, 2}, {-4, 2},
	{-5, 3}, {-6, 3},
	{-7, 4}, {-8, 4},
	{-9, 5}, {-10, 5},
	{-11, 6}, {-12, 6},
	{-13, 7}, {-14, 7},
	{-15, 8}, {-16, 8}, {-17, 8}, {-18, 8}, {-19, 8}, {-20, 8},
	{-21, 9}, {-22, 9}, {-23, 9}, {-24, 9}, {-25, 9}, {-26, 9}, {-27, 9}, {-28, 9}, {-29, 9}, {-30, 9},
	{-1_000_000, 9}, {math.MinInt64, 9},
}

func TestPolicy_Level(t *testing.T) {
	for _, policy := range []priority.Policy{priority.DefaultPolicy(), {}, {ResetMode: priority.SinceLastReset}} {
		for _, row := range ruleTable {
			if got := policy.Level(row.count); got != row.level {
				t.Errorf("Level(%d) = %d, want %d", row.count, got, row.level)
			}
		}
	}
}

// edgePolicies are valid policies of every kind with what they decide.
var edgePolicies = []struct {
	name       string
	thresholds []int64
	last       priority.Level
	levels     map[int64]priority.Level // by count
}{
	{
		"one level", []int64{}, 1,
		map[int64]priority.Level{math.MaxInt64: 1, 0: 1, -1: 1, -5: 1, math.MinInt64: 1},
	},
	{
		"two levels", []int64{0}, 2,
		map[int64]priority.Level{1: 1, 0: 1, -1: 2, -2: 2, math.MinInt64: 2},
	},
	{
		// A positive threshold keeps even the first document off the first levels.
		"positive thresholds", []int64{10, 1, -1}, 4,
		map[int64]priority.Level{10: 1, 9: 2, 1: 2, 0: 3, -1: 3, -2: 4},
	},
	{
		// Lua's numbers are exact up to 2^53.
		"far away", []int64{1 << 53, 0, -1_000_000_000_000, -1 << 53}, 5,
		map[int64]priority.Level{0: 2, -1: 3, -5: 3, -1_000_000_000_001: 4, -1 << 53: 4, -1<<53 - 1: 5},
	},
	{
		// Level n begins right at count 1-n.
		"255 levels", descending(0, 254), 255,
		map[int64]priority.Level{1: 1, 0: 1, -1: 2, -2: 3, -100: 101, -253: 254, -254: 255, -255: 255, math.MinInt64: 255},
	},
}

// descending returns n thresholds from first down.
func descending(first int64, n int) []int64 {
	thresholds := make([]int64, n)
	for i := range thresholds {
		thresholds[i] = first - int64(i)
	}
	return thresholds
}

func TestPolicy_LevelEdges(t *testing.T) {
	for _, edge := range edgePolicies {
		t.Run(edge.name, func(t *testing.T) {
			policy := priority.Policy{Thresholds: edge.thresholds}
			if err := policy.Validate(); err != nil {
				t.Errorf("Validate() = %v", err)
			}
			if got := policy.Last(); got != edge.last {
				t.Errorf("Last() = %d, want %d", got, edge.last)
			}
			for count, want := range edge.levels {
				if got := policy.Level(count); got != want {
					t.Errorf("Level(%d) = %d, want %d", count, got, want)
				}
			}
		})
	}
}

// loadTable is the table by load of nine levels, load for load.
var loadTable = []struct {
	load  float64
	level priority.Level
}{
	{-1, 1}, {0, 1}, {1e-9, 1}, {8, 1}, {8.0000004, 1}, {8.000001, 2},
	{9, 2}, {64, 2}, {64.000001, 3}, {72, 3}, {512, 3}, {513, 4}, {8192, 4}, {8193, 5}, {32768, 5},
	{32768.000001, 6}, {1e9, 6}, {1e300, 6}, {math.Inf(1), 6},
}

func TestPolicy_LevelOfLoad(t *testing.T) {
	for _, policy := range []priority.Policy{priority.DefaultPolicy(), {}, {Thresholds: descending(0, 20)}, {Turns: 13}} {
		for _, row := range loadTable {
			if got := policy.LevelOfLoad(row.load, 0); got != row.level {
				t.Errorf("LevelOfLoad(%v) = %d, want %d", row.load, got, row.level)
			}
		}
	}
}

// Both rules have as many levels: by load, those beyond six are turns.
func TestPolicy_Levels(t *testing.T) {
	five := []float64{8, 64, 512, 8192, 32768}
	for levels, want := range map[int][]float64{
		1: {}, 2: {32768}, 3: {8192, 32768}, 4: {128, 8192, 32768}, 5: {8, 512, 8192, 32768}, 6: five, 7: five, 9: five, 22: five, 255: five,
	} {
		policy := priority.Policy{Thresholds: descending(0, levels-1)}
		filled := must(memory.New(&memory.Options{Policy: policy}))(t).PolicyOf("acme")
		if !slices.Equal(filled.Loads, want) || filled.Loads == nil || filled.Turns != levels-1-len(want) {
			t.Errorf("%d levels have the loads %v and %d turns, want %v", levels, filled.Loads, filled.Turns, want)
		}
		again := must(memory.New(&memory.Options{Policy: filled}))(t).PolicyOf("acme")
		if !reflect.DeepEqual(again, filled) {
			t.Errorf("%d levels: %+v, filled in again %+v", levels, filled, again)
		}
		if last := policy.Last(); last != priority.Level(levels) || filled.Last() != last || policy.LevelOfLoad(1e9, 0) != priority.Level(len(want)+1) {
			t.Errorf("%d levels: the last is %d, filled in %d, by load %d", levels, last, filled.Last(), policy.LevelOfLoad(1e9, 0))
		}
		if err := policy.Validate(); err != nil {
			t.Errorf("%d levels: %v", levels, err)
		}
	}
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
	for _, test := range invalidPolicies {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, test.policy.Validate(), priority.ErrInvalid, test.shown)
		})
	}
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
