package insight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// steered returns an Inspector with an Admin.
func steered(t *testing.T, client *redis.Client, options priority.RedisOptions) *insight.Inspector {
	t.Helper()
	inspector := inspectorOf(t, client, options)
	admin, err := control.NewAdmin(client, &control.AdminOptions{Prefix: options.Prefix, Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	inspector.Admin = admin
	return inspector
}

func followed(t *testing.T, inspector *insight.Inspector) *insight.Inspector {
	t.Helper()
	next, err := inspector.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func pin(level priority.Level) priority.Override {
	return priority.Override{Earliest: level, Latest: level}
}

var change = control.Change{By: "mary", Why: "a test"}

// Who interrupts the wait for the workers is not told that they do not obey: they may yet.
func TestAWaitThatIsInterruptedBlamesNobody(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	inspector := steered(t, client, tiered(""))
	client.Set(t.Context(), "priority:{fleet}:1", `{"format":1,"id":"1","name":"w1","levels":9}`, 30*time.Second)
	client.ZAdd(t.Context(), "priority:{fleet}:members", redis.Z{Score: 1e15, Member: "1"})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	policy := priority.DefaultPolicy()
	if got, want := inspector.AwaitRules(ctx, 1, &policy).String(), "in force; who obeys is not known: interrupted"; got != want {
		t.Errorf("got %q, not %q", got, want)
	}
}

func TestWhereNothingIsSetNothingIsSaid(t *testing.T) {
	inspector := steered(t, redistest.Start(t).Client(), tiered(""))
	if _, err := inspector.Store.NextN(t.Context(), "acme", 30); err != nil {
		t.Fatal(err)
	}
	now := followed(t, inspector)
	for _, customer := range []string{"acme", "nobody"} {
		before, after := lookup(t, inspector, customer), lookup(t, now, customer)
		before.ResetInMS, after.ResetInMS = 0, 0
		one, err1 := json.Marshal(before)
		two, err2 := json.Marshal(after)
		if err1 != nil || err2 != nil || string(one) != string(two) || before.Why() != after.Why() || before.String() != after.String() {
			t.Errorf("got\n%s\n%s\n%s\n%s", one, two, before, after)
		}
	}
	if overrides, err := now.Overrides(t.Context()); now.RulesVersion() != 0 || err != nil || len(overrides) != 0 {
		t.Errorf("got %+v, %v, %v", now.Settings, overrides, err)
	}
	// Nothing that follows: as if there were nothing set.
	alone := inspectorOf(t, redistest.Start(t).Client(), priority.RedisOptions{})
	if next, err := alone.Follow(t.Context()); err != nil || next != alone {
		t.Errorf("got %v", err)
	}
}

func TestAnInspectorFollowsEveryChangeAndForgetsWhatIsOver(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, tiered("team"))
	admin := inspector.Admin
	now := followed(t, inspector)
	const customer = "gold mine"
	steps := []struct {
		do   func() (int64, error)
		want string
	}{
		{func() (int64, error) {
			return admin.Apply(t.Context(), control.Rules{Policy: priority.Policy{Thresholds: []int64{-2, -9}}}, change)
		}, "3 version 1, by mary"},
		{func() (int64, error) {
			return admin.Apply(t.Context(), control.Rules{Policy: priority.Policy{Thresholds: []int64{-2, -9}}, Tiers: map[string]priority.Policy{"gold": {Thresholds: []int64{}}}}, control.Change{By: "\x1b", Why: "x", Replaces: 1})
		}, `1 version 2, by "\x1b", tier gold`},
		{func() (int64, error) {
			return admin.SetOverride(t.Context(), customer, pin(9), time.Hour, change)
		}, `9 version 2, by "\x1b", tier gold`},
		{func() (int64, error) {
			return admin.Withdraw(t.Context(), control.Change{By: "tom", Why: "x", Replaces: 2})
		}, "9 the team's"},
		{func() (int64, error) {
			return admin.EndOverride(t.Context(), customer, control.Change{By: "tom", Why: "x", Replaces: 3})
		}, "2 the team's"},
	}
	if _, err := inspector.Store.NextN(t.Context(), customer, 120); err != nil {
		t.Fatal(err)
	}
	for i, step := range steps {
		if _, err := step.do(); err != nil {
			t.Fatal(i, err)
		}
		now = followed(t, now)
		found := lookup(t, now, customer)
		if got := fmt.Sprint(found.NextLevel, " ", found.PolicyName); got != step.want {
			t.Errorf("step %d: got %s, not %s", i, got, step.want)
		}
	}
	if now.Own != inspector.Store {
		t.Error("the workers' own store is another")
	}

	// An override that ends is over, though nobody has followed since.
	if _, err := admin.SetOverride(t.Context(), customer, pin(1), 300*time.Millisecond, change); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "the override ends", func() bool { return lookup(t, now, customer).Override == nil })
	if found := lookup(t, now, customer); found.NextLevel != 2 || found.Overridden() {
		t.Errorf("got %+v", found)
	}
}

func TestWhatCannotBeFollowedIsAnErrorAndTheOwnOptionsStay(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, priority.RedisOptions{Policy: priority.Policy{Thresholds: []int64{-2}}})
	if _, err := inspector.Admin.Apply(t.Context(), control.Rules{}, change); err != nil {
		t.Fatal(err)
	}
	if _, err := inspector.Follow(t.Context()); !errors.Is(err, priority.ErrInvalid) || insight.Unreachable(err) {
		t.Errorf("got %v", err)
	}
	client.Set(t.Context(), "priority:{control}:rules", "x", 0)
	if _, err := inspector.Follow(t.Context()); !errors.Is(err, control.ErrCorrupt) || insight.Unreachable(err) {
		t.Errorf("got %v", err)
	}
	lookup(t, inspector, "acme")
}

func TestAComparisonGoesByEachCustomersTier(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, tiered("team"))
	for customer, documents := range map[string]int{"gold mine": 30, "acme": 30, "bakery": 12, "first": 1} {
		if _, err := inspector.Store.NextN(t.Context(), customer, documents); err != nil {
			t.Fatal(err)
		}
	}
	client.Set(t.Context(), "team:{bad}:count", "x", 0)
	if _, err := inspector.Admin.SetOverride(t.Context(), "acme", pin(2), time.Hour, change); err != nil {
		t.Fatal(err)
	}
	now := followed(t, inspector)
	a := insight.NamedRules{Rules: control.Rules{Policy: priority.DefaultPolicy()}, Name: "A"}
	b := insight.NamedRules{Rules: control.Rules{
		Policy: priority.Policy{Thresholds: []int64{-2, -20}},
		Tiers:  map[string]priority.Policy{"gold": {Thresholds: []int64{}}},
	}, Name: "B"}
	comparison, err := insight.NewComparison(now, a, b, insight.ComparisonOptions{Examples: 2})
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if done, err = comparison.Advance(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	found := comparison.Found()
	// By A gold mine shares 9 with acme, behind bakery's 6 and first's 1. By B it shares 1
	// with first, before bakery's 2 and acme's 3.
	if found.Customers != 4 || found.Forward != 1 || found.Back != 2 || found.Corrupt != 1 || len(found.Shifts) != 4 || comparison.Progress() != 100 ||
		found.Pairs != (insight.Pairs{All: 6, Reversed: 1, Split: 1, Merged: 1}) {
		t.Errorf("got %+v", found)
	}
	if len(found.Examples) != 2 || found.Examples[0].Customer != "gold mine" || found.Examples[0].Before != 2 || found.Examples[0].Tier != "gold" ||
		found.Examples[1].Customer != "acme" || found.Examples[1].After != 1 || !found.Examples[1].Overridden() {
		t.Errorf("got %+v", found.Examples)
	}
	if want := "Of 4 customers, 1 would move forward, and 2 back. The order of 3 of 6 pairs (50 %) changes: 1 reversed, 1 split, 1 merged."; found.Summary() != want {
		t.Errorf("got %s", found.Summary())
	}
	b.Tiers["gold"] = priority.Policy{Thresholds: []int64{-1, -2, -3}}
	if _, err := insight.NewComparison(now, a, b, insight.ComparisonOptions{}); !errors.Is(err, priority.ErrInvalid) || !strings.HasPrefix(err.Error(), "B: ") {
		t.Errorf("got %v", err)
	}
}

// Those who submit are compared by their loads and, behind the last one, by their turns.
func TestTurnsSplitFloods(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, priority.RedisOptions{})
	for customer, documents := range map[string]int{"flood": 300, "deluge": 3000, "clinic": 2} {
		ids := make([]string, documents)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		if _, err := inspector.Store.SubmitN(t.Context(), customer, ids, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := inspector.Store.NextN(t.Context(), "acme", 30); err != nil {
		t.Fatal(err)
	}
	a := insight.NamedRules{Rules: insight.RulesOf(priority.Policy{Loads: priority.DefaultPolicy().Loads}), Name: "A"}
	b := insight.NamedRules{Rules: insight.RulesOf(priority.DefaultPolicy()), Name: "B"}
	comparison, err := insight.NewComparison(inspector, a, b, insight.ComparisonOptions{Examples: 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := comparison.Advance(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	got := make(map[string][2]priority.Level)
	found := comparison.Found()
	for _, e := range found.Examples {
		got[e.Customer] = [2]priority.Level{e.From, e.To}
	}
	// 120 and 2,820 would be pending beyond the last load: turns 1 and 2.
	want := map[string][2]priority.Level{"flood": {6, 7}, "deluge": {6, 8}}
	if !maps.Equal(got, want) || found.Customers != 4 || found.Pairs != (insight.Pairs{All: 6, Split: 1}) {
		t.Errorf("got %v of %+v", got, found)
	}
}

// Levels that are merged put nobody before anybody: fewer levels have lower numbers, and
// that alone says nothing.
func TestMergedLevelsMoveNobody(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, priority.RedisOptions{})
	for i := range 30 {
		if _, err := inspector.Store.NextN(t.Context(), fmt.Sprint("customer ", i), 1+i); err != nil {
			t.Fatal(err)
		}
	}
	rules := func(name string, thresholds ...int64) insight.NamedRules {
		return insight.NamedRules{Rules: control.Rules{Policy: priority.Policy{Thresholds: thresholds}}, Name: name}
	}
	nine, three := rules("nine", priority.DefaultPolicy().Thresholds...), rules("three", -6, -12)
	for _, test := range []struct {
		a, b    insight.NamedRules
		want    string
		forward int64
	}{
		{nine, three, "Of 30 customers, none would overtake another: levels are merged. In 116 of 435 pairs (26.7 %), two levels become one.", 0},
		{three, nine, "Of 30 customers, 12 would move forward, and 14 back.", 12},
		{nine, nine, "The order of 30 customers does not change.", 0},
		{rules("a", 5, -6), rules("b", -6), "The order of 30 customers does not change.", 0}, // 2 and 3; 1 and 2
	} {
		comparison, err := insight.NewComparison(inspector, test.a, test.b, insight.ComparisonOptions{Examples: 3})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := comparison.Advance(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		found := comparison.Found()
		if !strings.HasPrefix(found.Summary(), test.want) || found.Forward != test.forward || (len(found.Examples) > 0) != (test.forward > 0) {
			t.Errorf("%s to %s: got %s, %+v", test.a.Name, test.b.Name, found.Summary(), found)
		}
	}
}

func TestAConflictNamesWhoWasFirst(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, priority.RedisOptions{})
	const odd = "\xff\x1b[2J"
	if _, err := inspector.Admin.SetOverride(t.Context(), odd, pin(2), time.Hour, control.Change{By: "\x1b]0;", Why: "<b>\n"}); err != nil {
		t.Fatal(err)
	}
	_, err := inspector.Admin.SetOverride(t.Context(), odd, pin(3), time.Hour, change)
	err = inspector.Explained(t.Context(), err, "override", odd)
	if !errors.Is(err, control.ErrConflict) || insight.Unreachable(err) || strings.ContainsAny(err.Error(), "\x1b\n") ||
		!strings.Contains(err.Error(), `by "\x1b]0;" at `) || !strings.Contains(err.Error(), `pinned to level 2, for 1h, "<b>\n" (version 1)`) {
		t.Errorf("got %q", err)
	}
	entries, err := inspector.Admin.Log(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(insight.LoggedOf(entries[0]))
	if err != nil {
		t.Fatal(err)
	}
	var logged insight.Logged
	if err := json.Unmarshal(text, &logged); err != nil || logged.Exact() != odd || logged.Kind != "override" {
		t.Errorf("%v: %s", err, text)
	}
}

func TestNobodyIsBlamedForAnOverrideThatEndedByItself(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, priority.RedisOptions{})
	explained := func(version int64) string {
		stale := change
		stale.Replaces = version
		_, err := inspector.Admin.EndOverride(t.Context(), "acme", stale)
		err = inspector.Explained(t.Context(), err, "override", "acme")
		if !errors.Is(err, control.ErrConflict) {
			t.Errorf("got %v", err)
		}
		return fmt.Sprint(err)
	}
	version, err := inspector.Admin.SetOverride(t.Context(), "acme", pin(2), time.Millisecond, change)
	if err != nil {
		t.Fatal(err)
	}
	for until := client.Time(t.Context()).Val().Add(2 * time.Millisecond); !client.Time(t.Context()).Val().After(until); {
	}
	if text := explained(version); !strings.Contains(text, "has ended by itself, at ") || strings.Contains(text, "mary") {
		t.Errorf("got %s", text)
	}
	ended := change
	if ended.Replaces, err = inspector.Admin.SetOverride(t.Context(), "acme", pin(2), time.Hour, change); err != nil {
		t.Fatal(err)
	}
	if _, err := inspector.Admin.EndOverride(t.Context(), "acme", ended); err != nil {
		t.Fatal(err)
	}
	if text := explained(ended.Replaces); !strings.Contains(text, "by mary") || strings.Contains(text, "by itself") {
		t.Errorf("got %s", text)
	}
}

func TestRulesAreReadFromAnyJSONThatHasThem(t *testing.T) {
	want := control.Rules{Policy: priority.Policy{Thresholds: []int64{-3}, ResetInterval: time.Minute}}
	rules, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(rules), `{"policy":` + string(rules) + `,"verdict":"x"}`, `{"kind":"policy","new":` + string(rules) + `}`, ` {"policy":` + string(rules) + "}\n",
	} {
		got, err := insight.ParseRules([]byte(text))
		if again, _ := json.Marshal(got); err != nil || string(again) != string(rules) {
			t.Errorf("%s: got %s, %v", text, again, err)
		}
	}
	for _, text := range []string{"", "null", "[]", `"x"`, `{"policy":null}`, `{"policy":{}}{"policy":{}}`, `{"kind":"override","new":{}}`, `{"tiers":{"a":{"thresholds":[-1,-2,-3,-4,-5,-6,-7,-8,-9]}}}`, `{"customer":"a","policy":{"thresholds":[-3]}}`} {
		if got, err := insight.ParseRules([]byte(text)); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}
