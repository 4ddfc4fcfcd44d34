package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
)

// Rules and tiers change while counts go on.
func TestRulesChangeAndCountsGoOn(t *testing.T) {
	t.Parallel()
	own := &priority.RedisOptions{
		Tiers:  map[string]priority.Policy{"gold": only().Policy},
		TierOf: func(string) string { return "gold" },
	}
	w := newWorld(t, own)
	ctx := t.Context()
	count := int64(0)
	want := func(what string, level priority.Level) {
		t.Helper()
		got := must(w.store.Next(ctx, "acme"))(t)
		if got.Level != level || got.Count != count {
			t.Errorf("%s: %+v, want level %d and count %d", what, got, level, count)
		}
		count--
	}
	want("at first", 1)
	want("at first", 1)
	w.apply(strict())
	want("strict", 3)
	want("strict, without a policy of the tier", 3)
	rules := strict()
	rules.Tiers = map[string]priority.Policy{"gold": {Thresholds: []int64{-3}}}
	w.apply(rules)
	want("gold of two levels", 2)
	must(w.admin.Withdraw(ctx, demo(w.rulesVersion())))(t)
	w.refresh()
	want("gold of the options", 1)
	if got := w.store.PolicyOf("acme"); got.Last() != 1 {
		t.Errorf("acme has %v", got)
	}
	if w.store.Last() != 9 || w.store.Unwrap().PolicyOf("acme").Last() != 1 {
		t.Errorf("last level %d, of acme by the options %v", w.store.Last(), w.store.Unwrap().PolicyOf("acme"))
	}
}

func TestEarlierRulesAreAppliedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	numbered := func(i int) control.Rules {
		return control.Rules{Policy: priority.Policy{Thresholds: []int64{int64(-i)}}}
	}
	if got := must(w.admin.History(ctx))(t); len(got) != 0 {
		t.Errorf("the history of nothing is %v", got)
	}
	_, err := w.admin.Rollback(ctx, 1, demo(0))
	wantError(t, "a rollback to nothing", err, control.ErrNotFound)
	const changes = 105
	for i := 1; i <= changes; i++ {
		must(w.admin.Apply(ctx, numbered(i), demo(int64(i-1))))(t)
	}
	history := must(w.admin.History(ctx))(t)
	if len(history) != 100 {
		t.Fatalf("the history has %d", len(history))
	}
	for i, item := range history {
		version := changes - i
		if item.Version != int64(version) || item.Value.Policy.Thresholds[0] != int64(-version) || item.By != "mary" || item.Why != "a demo" {
			t.Errorf("%d of the history is %+v", i, item)
		}
	}
	version := must(w.admin.Rollback(ctx, 6, control.Change{By: "bob", Why: "back", Replaces: changes}))(t)
	w.refresh()
	if got := w.store.PolicyOf("acme").Thresholds; !slices.Equal(got, []int64{-6}) {
		t.Errorf("after a rollback: %v", got)
	}
	if got := must(w.admin.History(ctx))(t); got[0].Version != version || got[0].By != "bob" || got[0].Value.Policy.Thresholds[0] != -6 || len(got) != 100 {
		t.Errorf("after a rollback the history has %d, the first %+v", len(got), got[0])
	}
	for _, gone := range []int64{0, -1, 5, 6, version + 1, 1 << 60} { // 6 has made room
		_, err := w.admin.Rollback(ctx, gone, demo(version))
		wantError(t, fmt.Sprint("a rollback to ", gone), err, control.ErrNotFound)
	}
	_, err = w.admin.Rollback(ctx, 50, demo(version-1))
	wantError(t, "a rollback of another version", err, control.ErrConflict)
	must(w.admin.Withdraw(ctx, demo(version)))(t)
	if got := must(w.admin.History(ctx))(t); len(got) != 100 || got[0].Version != version {
		t.Errorf("when withdrawn the history has %d, the first %+v", len(got), got[0])
	}
	must(w.admin.Rollback(ctx, version, demo(0)))(t)
	w.refresh()
	if got := w.store.PolicyOf("acme").Thresholds; !slices.Equal(got, []int64{-6}) {
		t.Errorf("after a withdrawal and a rollback: %v", got)
	}
	// of a queue with fewer levels no rollback brings more
	must(w.admin.Apply(ctx, control.Rules{}, demo(w.rulesVersion())))(t)
	small := openAdmin(t, w.client, &control.AdminOptions{Levels: 3})
	_, err = small.Rollback(ctx, w.rulesVersion(), demo(w.rulesVersion()))
	wantError(t, "a rollback to more levels", err, priority.ErrInvalid)
}

func TestRulesInJSON(t *testing.T) {
	t.Parallel()
	full := `{"thresholds":[-1,-5],"reset_interval_ms":60000,"reset_mode":"last-reset","loads":[0.5,9],"turns":13,"tiers":{"gold":{"thresholds":[],"reset_interval_ms":1,"reset_mode":"last-update","loads":[],"turns":0}}}`
	var rules control.Rules
	check(t, json.Unmarshal([]byte(full), &rules))
	var again control.Rules
	check(t, json.Unmarshal(must(json.Marshal(rules))(t), &again))
	if !reflect.DeepEqual(rules, again) || len(again.Tiers) != 1 || again.Tiers["gold"].Thresholds == nil || again.Policy.ResetMode != priority.SinceLastReset {
		t.Errorf("%+v became %+v", rules, again)
	}
	if text := string(must(json.Marshal(rules))(t)); text != full {
		t.Errorf("written again: %s", text)
	}
	if rules.Policy.Last() != 16 || rules.Validate(15) == nil || rules.Validate(16) != nil {
		t.Errorf("3 levels by load and 13 turns are %d levels", rules.Policy.Last())
	}
	check(t, json.Unmarshal([]byte(`{"thresholds":[-2,-9]}`), &rules))
	if got := must(json.Marshal(rules))(t); !strings.Contains(string(got), `"loads":[8192,32768],"turns":0`) {
		t.Errorf("three levels without loads are %s", got)
	}
	check(t, json.Unmarshal([]byte(`{}`), &rules))
	if err := rules.Validate(9); err != nil || rules.Policy.Last() != 9 || len(rules.Tiers) != 0 {
		t.Errorf("{} is %+v, %v", rules, err)
	}
	for _, wrong := range []string{
		`{"threshold":[-1]}`, `{"thresholds":["-1"]}`, `{"thresholds":[-1.5]}`, `{"reset_mode":"x"}`, `{"reset_mode":1}`,
		`{"reset_interval_ms":"1"}`, `{"reset_interval_ms":1e300}`, `{"reset_interval_ms":9223372036854775807}`, `{"reset_interval_ms":-1}`,
		`{"tiers":{"gold":{"x":1}}}`, `{"tiers":[]}`, `{"thresholds":[1,2]}`, `[]`, `"x"`, `5`,
		`{"tiers":{"gold":{"tiers":{}}}}`,
		`{"loads":[8,8]}`, `{"loads":[-1]}`, `{"loads":["1"]}`, `{"turns":-1}`, `{"turns":4}`, `{"turns":0.5}`, `{"turns":55}`, `{"thresholds":[-1],"thresholds":"x"}`,
	} {
		var rules control.Rules
		err := json.Unmarshal([]byte(wrong), &rules)
		if err == nil {
			err = rules.Validate(9)
		}
		if !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// Many customers' tiers share a few policies: a change sends and renders those only.
func TestManyTiersOfAFewPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &priority.RedisOptions{Timeout: time.Minute, TierOf: func(customer string) string { return customer }})
	ctx := t.Context()
	tiers := func(n, policies int) control.Rules {
		rules := control.Rules{Tiers: make(map[string]priority.Policy, n)}
		for i := range n {
			rules.Tiers[fmt.Sprint("tier ", i)] = priority.Policy{Thresholds: []int64{int64(-1 - i%policies)}}
		}
		return rules
	}
	w.apply(tiers(1000, 99))
	check(t, w.client.ScriptFlush(ctx).Err())
	check(t, w.client.ConfigResetStat(ctx).Err())
	for i := range 1000 {
		w.wantLevel(w.store, fmt.Sprint("tier ", i), 1, 1)
	}
	if got := redistest.Calls(t, w.client); got["script|load"] < 99 || got["script|load"] > 110 { // once a script
		t.Errorf("1,000 tiers of 99 policies are %d scripts", got["script|load"])
	}
	before := w.store.PolicyOf("tier 7")
	rules := tiers(1000, 99)
	rules.Policy.Thresholds = []int64{-3}
	w.apply(rules)
	check(t, w.client.ConfigResetStat(ctx).Err())
	for i := range 99 {
		w.wantLevel(w.store, fmt.Sprint("tier ", i), 1, 1)
	}
	if got := redistest.Calls(t, w.client); got["script|load"] > 0 || !reflect.DeepEqual(before, w.store.PolicyOf("tier 7")) {
		t.Errorf("%d scripts of unchanged policies are sent again", got["script|load"])
	}
}
