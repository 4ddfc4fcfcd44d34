package insight_test

import (
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
)

func TestAnOverridesConsequenceNamesWhoWins(t *testing.T) {
	t.Parallel()
	busy := fleet.Totals{
		ByLoad:  map[priority.Level]int64{1: 100, 4: 50, 9: 860},
		Busiest: []fleet.Busy{{Customer: "flood", Documents: 812, Level: 9}, {Customer: "shop", Documents: 12, Level: 4}},
	}
	small := fleet.Totals{ByCount: map[priority.Level]int64{1: 60, 2: 30}, Busiest: []fleet.Busy{{Customer: "shop", Documents: 30, Level: 2}}}
	pin := func(level priority.Level) priority.Override { return priority.Override{Earliest: level, Latest: level} }
	for _, test := range []struct {
		customer string
		state    priority.State
		override priority.Override
		all      fleet.Totals
		others   int64
		want     string
	}{
		{"acme", priority.State{NextLevel: 1, RuleLevel: 1}, pin(2), busy, 0, "This is worse for acme: the next document gets level 2 instead of 1."},
		{"acme", priority.State{NextLevel: 2, RuleLevel: 2}, pin(2), busy, 0, "No change now: the next document has level 2 without it too."},
		{"acme", priority.State{NextLevel: 3, RuleLevel: 3}, priority.Override{Latest: 4}, busy, 0, "No change now: the next document has level 3 without it too."},
		{"acme", priority.State{NextLevel: 3, RuleLevel: 3}, priority.Override{Earliest: 22}, busy, 0, "This is worse for acme: the next document gets level 9 instead of 3."},
		// by another override now
		{"acme", priority.State{NextLevel: 1, RuleLevel: 9}, priority.Override{Latest: 4}, busy, 0, "This is worse for acme: the next document gets level 4 instead of 1."},
		{"shop", priority.State{NextLevel: 4, RuleLevel: 4, Pending: 3}, pin(1), busy, 138, "This is better for shop: the next document gets level 1 instead of 4."},
		{
			"flood", priority.State{NextLevel: 9, RuleLevel: 9, Pending: 3000}, pin(1), busy, 198,
			"This is better for flood: the next document gets level 1 instead of 9. But others will wait: flood sent 812 of the fleet's 1,010 documents in the last minute and has 3,000 pending. " +
				"At level 1, 198 documents of others a minute, at levels 1 to 9, wait for its next ones.",
		},
		{
			"silent", priority.State{NextLevel: 9, RuleLevel: 9, Pending: 3000}, priority.Override{Latest: 4}, fleet.Totals{}, 0,
			"This is better for silent: the next document gets level 4 instead of 9. But others will wait: silent has 3,000 pending. At level 4, the documents of others at levels 4 to 9 wait for its next ones.",
		},
		{
			"shop", priority.State{NextLevel: 2, RuleLevel: 2}, pin(1), small, 60,
			"This is better for shop: the next document gets level 1 instead of 2. But others will wait: shop sent 30 of the fleet's 90 documents in the last minute. " +
				"At level 1, 60 documents of others a minute, at levels 1 to 2, wait for its next ones.",
		},
	} {
		got := insight.ConsequenceOf(test.customer, test.state, test.override, 9, test.all)
		if got.Says != test.want || got.Others != test.others {
			t.Errorf("%s, %+v: got %d others, %q\nnot %q", test.customer, test.override, got.Others, got.Says, test.want)
		}
	}
}
