package insight_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

func TestEveryCountIsInTheRowOfItsLevel(t *testing.T) {
	for _, thresholds := range [][]int64{priority.DefaultPolicy().Thresholds, {}, {5, -3}, {0}} {
		policy := priority.Policy{Thresholds: thresholds}
		rows := insight.Rows(policy)
		for count := int64(10); count > -30; count-- {
			for _, row := range rows {
				if holds := row.Least <= count && count <= row.Most; holds != (row.Level == policy.Level(count)) {
					t.Errorf("%v: count %d in %+v: %v", thresholds, count, row, holds)
				}
			}
		}
	}
}

func TestEveryCountIsInOneBandOfTwoPolicies(t *testing.T) {
	a, b := priority.DefaultPolicy(), priority.Policy{Thresholds: []int64{-2, -9}}
	for count := int64(10); count > -30; count-- {
		found := 0
		for _, band := range insight.Bands(a, b) {
			if (band.From == nil || count <= *band.From) && (band.To == nil || count >= *band.To) {
				found++
				if band.A != a.Level(count) || band.B != b.Level(count) {
					t.Errorf("count %d: %+v", count, band)
				}
			}
		}
		if found != 1 {
			t.Errorf("count %d is in %d bands", count, found)
		}
	}
}

// What becomes of counts is told by their order, not by the numbers of levels.
func TestBandsAreMergedAndSplit(t *testing.T) {
	a, b := priority.Policy{Thresholds: []int64{5, -2, -4}}, priority.Policy{Thresholds: []int64{-2, -9}}
	var changes []insight.Change
	for _, band := range insight.Bands(a, b) {
		changes = append(changes, band.Change)
	}
	// ≥ 5, 4 to -2, -3 to -4, -5 to -9, ≤ -10
	if want := []insight.Change{"", insight.Merged, "", insight.Merged, insight.Split}; !slices.Equal(changes, want) {
		t.Errorf("got %q, not %q", changes, want)
	}
	gold := map[string]priority.Policy{"gold": {Thresholds: []int64{}}}
	fast, tiered := control.Rules{Policy: priority.Policy{Thresholds: []int64{0}}}, control.Rules{Policy: a, Tiers: gold}
	if insight.Reverses(control.Rules{Policy: a}, control.Rules{Policy: b}) || insight.Reverses(fast, fast) {
		t.Error("one policy for all reverses the order of counts")
	}
	if !insight.Reverses(control.Rules{Policy: a}, tiered) {
		t.Error("a tier that goes before all others reverses nothing")
	}
}

func TestAPolicyIsReadAsItIsWritten(t *testing.T) {
	for _, policy := range []priority.Policy{
		priority.DefaultPolicy(),
		{Thresholds: []int64{}, ResetInterval: time.Millisecond, ResetMode: priority.SinceLastReset},
	} {
		text, err := json.Marshal(insight.RulesOf(policy))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := insight.ParseRules(text); err != nil || !reflect.DeepEqual(got.Policy, policy) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	if _, err := insight.ParseRules([]byte(`{"thresholds":[-2,-2]}`)); !errors.Is(err, priority.ErrInvalidPolicy) {
		t.Errorf("got %v", err)
	}
}
