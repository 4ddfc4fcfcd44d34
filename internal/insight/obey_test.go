package insight_test

import (
	"errors"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
)

// following are processes that report.
func following(of ...fleet.Report) []fleet.Report {
	for i := range of {
		of[i].ID = "0123456789abcdef"
		if of[i].Levels == 0 {
			of[i].Levels = 9
		}
	}
	return of
}

func TestWhoObeysRulesIsSaidByName(t *testing.T) {
	t.Parallel()
	policy := priority.DefaultPolicy()
	v12 := fleet.Rules{Version: 12}
	good := func(name string) fleet.Report { return fleet.Report{Name: name, Rules: v12} }
	old := func(name string, version int64) fleet.Report {
		return fleet.Report{Name: name, Rules: fleet.Rules{Version: version}}
	}
	lost := func(name string) fleet.Report {
		return fleet.Report{Name: name, Rules: fleet.Rules{Version: 13, Error: "Redis lost data"}}
	}
	small := fleet.Report{Name: "w4", Host: "b", Levels: 3, Rules: fleet.Rules{Version: 7, Error: "its queue has 3 levels, the rules 9"}}
	for _, test := range []struct {
		reports   []fleet.Report
		undecided bool
		want      string
	}{
		{nil, false, "in force; no worker reports, so who obeys is not known"},
		{following(good("w1")), false, "in force; the only worker obeys"},
		{following(good("w1"), fleet.Report{Name: "w2", Rules: fleet.Rules{Version: 13}}), false, "in force; both workers obey"},
		{
			following(good("w1"), good("w2"), good("w3"), small, good("w5"), good("w6")), false,
			"in force; 5 of 6 workers obey; w4 on host b does not: its queue has 3 levels, the rules 9",
		},
		{following(small), false, "in force; the only worker does not obey; w4 on host b does not: its queue has 3 levels, the rules 9"},
		{
			following(good("w1"), fleet.Report{Name: "b-17", Host: "b", Language: "python", Rules: fleet.Rules{Version: 11}}), true,
			"in force; 1 of 2 workers obeys; b-17 (python) does not: it still follows version 11",
		},
		{following(fleet.Report{Name: "w1"}, good("w2")), true, "in force; 1 of 2 workers obeys; w1 does not: it still goes by its own options"},
		{
			following(fleet.Report{Name: "w1", Rules: fleet.Rules{Version: 11}, Age: 21 * time.Second}, good("w2")), false,
			"in force; 1 of 2 workers obeys; w1 does not: it has not reported for 21s",
		},
		{
			following(fleet.Report{Name: "d", Rules: fleet.Rules{Version: 12, Error: "the rules are lost: \x1b[2J"}}, fleet.Report{Err: errors.New("junk")}, small, small, small), true,
			"in force; none of 5 workers obeys; 0123456789abcdef does not: its report cannot be read; d does not: \"the rules are lost: \\x1b[2J\"; " +
				"w4 on host b, w4 on host b and w4 on host b do not: its queue has 3 levels, the rules 9",
		},
		{
			following(lost("w1"), lost("w2"), small, lost("w5"), lost("w6"), lost("w7")), true,
			"in force; none of 6 workers obeys; w1, w2, w5 and 2 more do not: Redis lost data; w4 on host b does not: its queue has 3 levels, the rules 9",
		},
		{
			following(good("w1"), old("w2", 1), old("w3", 2), old("w4", 3), old("w5", 4), old("w6", 5), old("w7", 5)), true,
			"in force; 1 of 7 workers obeys; w2 does not: it still follows version 1; w3 does not: it still follows version 2; " +
				"w4 does not: it still follows version 3; 3 more do not: see priorityctl workers",
		},
		{
			following(good("w1"), fleet.Report{Name: "w2", Rules: v12, Age: 21 * time.Second}), false,
			"in force; 1 of 2 workers obeys; w2 does not: it has not reported for 21s",
		},
	} {
		got, decided := insight.ObeyRules(test.reports, 12, &policy)
		if got.String() != test.want || decided == test.undecided {
			t.Errorf("got %q (decided: %v), not %q", got, decided, test.want)
		}
	}
}

func TestRulesThatAreWithdrawnAreObeyedByThoseWhoFollowNone(t *testing.T) {
	t.Parallel()
	reports := following(fleet.Report{Name: "w1"}, fleet.Report{Name: "w2", Rules: fleet.Rules{Version: 11}}, fleet.Report{Name: "w3", Rules: fleet.Rules{Version: 12}})
	got, decided := insight.ObeyRules(reports, 12, nil)
	if want := "2 of 3 workers obey; w2 does not: it still follows version 11"; got.Who() != want || decided {
		t.Errorf("got %q, not %q", got.Who(), want)
	}
}

func TestWhoGoesByAnOverrideIsSaidByName(t *testing.T) {
	t.Parallel()
	reports := following(
		fleet.Report{Name: "w1", Overrides: true}, fleet.Report{Name: "w2", Host: "c"}, fleet.Report{Name: "w3", Overrides: true, Levels: 3},
		fleet.Report{Name: "w4", Overrides: true, Degraded: true}, fleet.Report{Name: "w5", Overrides: true, Age: 9 * time.Second},
	)
	for _, test := range []struct {
		override priority.Override
		want     string
	}{
		{priority.Override{Latest: 2}, "in force; 2 of 5 workers obey; w2 on host c does not: it does not read overrides; w4 does not: it could not reach Redis at its last report, 0s ago; w5 does not: it has not reported for 9s"},
		{
			priority.Override{Earliest: 9, Latest: 9},
			"in force; 1 of 5 workers obeys; w2 on host c does not: it does not read overrides; w3 does not: its queue has 3 levels: it gives level 3; w4 does not: it could not reach Redis at its last report, 0s ago; w5 does not: it has not reported for 9s",
		},
	} {
		if got := insight.ObeyOverride(reports, test.override).String(); got != test.want {
			t.Errorf("got %q, not %q", got, test.want)
		}
	}
}
