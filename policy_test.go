package priority_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
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

func TestTheDefaultPolicyIsTheRule(t *testing.T) {
	for name, policy := range map[string]priority.Policy{
		"DefaultPolicy":  priority.DefaultPolicy(),
		"zero":           {},
		"other mode":     {ResetMode: priority.SinceLastReset},
		"other interval": {ResetInterval: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for _, row := range ruleTable {
				if got := policy.Level(row.count); got != row.level {
					t.Errorf("Level(%d) = %d, want %d", row.count, got, row.level)
				}
			}
			if got := policy.Last(); got != 9 {
				t.Errorf("Last() = %d, want 9", got)
			}
			if err := policy.Validate(); err != nil {
				t.Errorf("Validate() = %v", err)
			}
		})
	}
}

// edgePolicies are valid policies of every kind with what they decide. All stores
// are tested against the same table.
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
		"steps of one", []int64{-1, -2, -3}, 4,
		map[int64]priority.Level{0: 1, -1: 1, -2: 2, -3: 3, -4: 4, -5: 4},
	},
	{
		"uneven steps", []int64{-1, -4}, 3,
		map[int64]priority.Level{0: 1, -1: 1, -2: 2, -4: 2, -5: 3},
	},
	{
		// A positive threshold keeps even the first document off the first levels.
		"positive thresholds", []int64{10, 1, -1}, 4,
		map[int64]priority.Level{10: 1, 9: 2, 1: 2, 0: 3, -1: 3, -2: 4},
	},
	{
		"only positive thresholds", []int64{2, 1}, 3,
		map[int64]priority.Level{2: 1, 1: 2, 0: 3, -1: 3, -5: 3},
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

func TestAThresholdBeginsTheNextLevel(t *testing.T) {
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

func TestTheDefaultPolicyCannotBeChanged(t *testing.T) {
	policy := priority.DefaultPolicy()
	if policy.ResetInterval != quiet || policy.ResetMode != priority.SinceLastUpdate || len(policy.Thresholds) != 8 {
		t.Errorf("DefaultPolicy() = %+v", policy)
	}
	policy.Thresholds[0] = 100
	if got := (priority.Policy{}).Level(0); got != 1 {
		t.Errorf("a changed copy of the default policy changed the default: Level(0) = %d", got)
	}
}

// invalidPolicies are wrong values and what the error's message must show of them.
var invalidPolicies = []struct {
	name   string
	policy priority.Policy
	shown  string
}{
	{"equal thresholds", priority.Policy{Thresholds: []int64{-2, -47, -47}}, "-47"},
	{"ascending thresholds", priority.Policy{Thresholds: []int64{-2, -61, -53}}, "-53"},
	{"ascending from the first", priority.Policy{Thresholds: []int64{-71, 0}}, "-71"},
	{"too many thresholds", priority.Policy{Thresholds: descending(0, 255)}, "255"},
	{"threshold too high", priority.Policy{Thresholds: []int64{1<<53 + 1, 0}}, "9007199254740993"},
	{"threshold too low", priority.Policy{Thresholds: []int64{0, -1<<53 - 1}}, "-9007199254740993"},
	{"negative interval", priority.Policy{ResetInterval: -3 * time.Second}, "-3s"},
	{"interval below 1 ms", priority.Policy{ResetInterval: 999 * time.Microsecond}, "999µs"},
	{"interval of 1 ns", priority.Policy{ResetInterval: 1}, "1ns"},
	{"interval of no whole ms", priority.Policy{ResetInterval: time.Second + time.Nanosecond}, "1.000000001s"},
	{"unknown mode", priority.Policy{ResetMode: 2}, "2"},
	{"negative mode", priority.Policy{ResetMode: -1}, "-1"},
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for _, test := range invalidPolicies {
		t.Run(test.name, func(t *testing.T) {
			wantInvalid(t, test.policy.Validate(), priority.ErrInvalidPolicy, test.shown)
		})
	}
	for _, interval := range []time.Duration{time.Millisecond, 1001 * time.Millisecond, longestInterval} {
		if err := (priority.Policy{ResetInterval: interval}).Validate(); err != nil {
			t.Errorf("an interval of %v is refused: %v", interval, err)
		}
	}
}

// longestInterval is as many whole milliseconds as a time.Duration holds.
const longestInterval = math.MaxInt64 / time.Millisecond * time.Millisecond

func TestResetModesHaveNames(t *testing.T) {
	for mode, want := range map[priority.ResetMode]string{
		priority.SinceLastUpdate: "SinceLastUpdate", priority.SinceLastReset: "SinceLastReset", 77: "77",
	} {
		if got := mode.String(); !strings.Contains(got, want) {
			t.Errorf("the mode %d is %q, want %q", int(mode), got, want)
		}
	}
}
