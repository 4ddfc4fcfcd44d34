package insight_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

func TestEveryLoadIsInTheRowOfItsLevel(t *testing.T) {
	wants := map[int]string{ // by the number of loads
		0: "any load; any load, ≥ 64 pending; any load, ≥ 4,096 pending; none; none; none; none; none; none",
		2: "load ≤ 0.5; load > 0.5; load > 3; load > 3, ≥ 8 pending; load > 3, ≥ 64 pending; load > 3, ≥ 512 pending; load > 3, ≥ 4,096 pending; none; none",
		5: "load ≤ 8; load > 8; load > 64; load > 512; load > 8,192; load > 32,768; load > 32,768, ≥ 16 pending; load > 32,768, ≥ 256 pending; load > 32,768, ≥ 4,096 pending",
	}
	for _, policy := range []priority.Policy{
		{}, {Loads: []float64{}, Turns: 2}, {Loads: []float64{0.5, 3}, Turns: 4}, {Thresholds: []int64{}, Loads: []float64{7}},
	} {
		policy = policy.WithDefaults()
		var texts []string
		for _, row := range insight.Rows(policy) {
			texts = append(texts, row.Load())
			for _, load := range []float64{0, 0.5, 0.6, 2, 3, 4, 7, 8, 32, 33, 1e9} {
				if holds := row.UpTo > 0 && row.Pending == 0 && load <= row.UpTo && (load > row.Over || row.Over == 0); holds != (row.Level == policy.LevelOfLoad(load)) {
					t.Errorf("%+v: load %v in %+v: %v", policy, load, row, holds)
				}
			}
		}
		if want := wants[len(policy.Loads)]; want != "" && strings.Join(texts, "; ") != want {
			t.Errorf("got %q, not %q", strings.Join(texts, "; "), want)
		}
	}
}

func TestEveryCountIsInTheRowOfItsLevel(t *testing.T) {
	for _, thresholds := range [][]int64{priority.DefaultPolicy().Thresholds, {}, {5, -3}, {0}} {
		policy := priority.Policy{Thresholds: thresholds, Loads: []float64{0.5, 3}, Turns: 2}
		rows := insight.Rows(policy)
		if len(rows) != max(len(thresholds)+1, 5) {
			t.Errorf("%v: %d rows", thresholds, len(rows))
		}
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
		for _, band := range insight.CountBands(a, b) {
			if (band.From == nil || count <= int64(*band.From)) && (band.To == nil || count >= int64(*band.To)) {
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
	for _, band := range insight.CountBands(a, b) {
		changes = append(changes, band.Change)
	}
	// ≥ 5, 4 to -2, -3 to -4, -5 to -9, ≤ -10
	if want := []insight.Change{"", insight.Merged, "", insight.Merged, insight.Split}; !slices.Equal(changes, want) {
		t.Errorf("got %q, not %q", changes, want)
	}
	changes = nil
	for _, band := range insight.LoadBands(priority.DefaultPolicy(), priority.Policy{Loads: []float64{1, 8, 9}}) {
		changes = append(changes, band.Change)
		if load := middle(band); band.A != priority.DefaultPolicy().LevelOfLoad(load) || band.B != (priority.Policy{Loads: []float64{1, 8, 9}}).LevelOfLoad(load) {
			t.Errorf("%+v", band)
		}
	}
	// ≤ 1, to 8, to 9, to 64, to 512, to 8,192, to 32,768, more
	if want := []insight.Change{"", insight.Split, "", insight.Split, insight.Merged, insight.Merged, insight.Merged, insight.Merged}; !slices.Equal(changes, want) {
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

// middle is a load within a band.
func middle(band insight.Band) float64 {
	switch {
	case band.From == nil:
		return *band.To
	case band.To == nil:
		return *band.From + 1
	}
	return (*band.From + *band.To) / 2
}

func TestAPolicyIsReadAsItIsWritten(t *testing.T) {
	for _, policy := range []priority.Policy{
		priority.DefaultPolicy(),
		{Thresholds: []int64{}, ResetInterval: time.Millisecond, ResetMode: priority.SinceLastReset, Loads: []float64{0.5, 3}, Turns: 7},
	} {
		text, err := json.Marshal(insight.RulesOf(policy))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := insight.ParseRules(text); err != nil || !reflect.DeepEqual(got.Policy, policy) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	if _, err := insight.ParseRules([]byte(`{"thresholds":[-2,-2]}`)); !errors.Is(err, priority.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
