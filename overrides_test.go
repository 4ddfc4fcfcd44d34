package priority_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// What a text means the scripts and Bounds agree about; vectors/edges.json has more for the scripts.
func TestOverride_Text(t *testing.T) {
	for text, want := range map[string]priority.Bounds{
		"=1": {Earliest: 1, Latest: 1}, ">=7": {Earliest: 7}, "<=3": {Latest: 3}, "=255": {Earliest: 255, Latest: 255},
	} {
		var got priority.Bounds
		err := got.UnmarshalText([]byte(text + " because"))
		if again := string(must(want.MarshalText())(t)); err != nil || got != want || again != text {
			t.Errorf("%s is %+v, %v, and again %s", text, got, err, again)
		}
	}
	for _, text := range []string{"", "1", "=", "=0", "=01", "= 1", "=-1", "=1000", ">7", ">=7x", "<=", "=1\n"} {
		var got priority.Bounds
		if err := got.UnmarshalText([]byte(text)); !errors.Is(err, priority.ErrInvalid) || got != (priority.Bounds{}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, bounds := range []priority.Bounds{{}, {Earliest: 2, Latest: 5}, {Earliest: -1}, {Latest: -1, Earliest: -1}, {Earliest: 1000}} {
		if text, err := bounds.MarshalText(); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%+v is %s, %v", bounds, text, err)
		}
	}
}

// A store looks for an override if it is asked to, and touches nothing.
func TestOverride(t *testing.T) {
	server := redistest.Start(t)
	hand := server.Client()
	store := openStore(t, server.Client(), &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	ctx := context.Background()
	hand.Set(ctx, store.Keys("late").Override, "=7", time.Minute)
	deaf := openStore(t, server.Client(), &priority.RedisOptions{Timeout: time.Minute})
	if decision := must(deaf.Next(ctx, "late"))(t); decision.Level != 1 {
		t.Errorf("%+v by a store that reads no overrides", decision)
	}
	if state := must(store.Peek(ctx, "late"))(t); state.NextLevel != 7 || state.RuleLevel != 1 || state.OverrideEndsIn > time.Minute {
		t.Errorf("%+v", state)
	}
	hand.RPush(ctx, store.Keys("acme").Override, "=1")
	hand.RPush(ctx, store.Keys("bad").Pending, "1")
	for range 3 {
		if decision, err := store.Next(ctx, "acme"); err != nil || decision.RuleLevel != decision.Level {
			t.Errorf("%+v, %v", decision, err)
		}
	}
	if _, err := store.Submit(ctx, "bad", priority.Document{ID: "a"}); !errors.Is(err, priority.ErrCorrupt) {
		t.Errorf("a list in the place of pending documents: %v", err)
	}
	if got := hand.LRange(ctx, store.Keys("acme").Override, 0, -1).Val(); !reflect.DeepEqual(got, []string{"=1"}) {
		t.Errorf("the override's key holds %v", got)
	}
	if count := hand.Get(ctx, store.Keys("acme").Count).Val(); count != "-2" {
		t.Errorf("the count is %s", count)
	}
}

// A slot that stays open while it moves takes no call of two keys one of which it does not hold:
// then the override is read by itself.
func TestOverride_SlotMoves(t *testing.T) {
	t.Parallel()
	ctx, cluster := t.Context(), redistest.StartCluster(t, 3)
	hand := cluster.Client()
	store := openStore(t, cluster.Client(), &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	for customer, bounds := range map[string]priority.Bounds{"pinned": {Earliest: 7}, "free": {}} {
		var decisions []priority.Decision
		if text, err := bounds.MarshalText(); err == nil {
			check(t, hand.Set(ctx, store.Keys(customer).Override, text, time.Hour).Err())
		}
		documents, own := 0, true // whether both of the customer's own keys are still in one place
		calls := func() {
			documents += 3
			ids := numbered("invoice", documents)[documents-3:]
			if own {
				state := must(store.Peek(ctx, customer))(t)
				decisions = append(decisions, priority.Decision{Level: state.NextLevel, RuleLevel: state.RuleLevel})
			}
			decisions = slices.Concat(decisions, must(store.NextN(ctx, customer, 2))(t), must(store.NextEach(ctx, []string{customer}))(t),
				must(submit(t, store, customer, ids[0]))(t), must(submit(t, store, customer, ids[1:]...))(t))
		}
		calls()
		cluster.MoveSlot(store.Keys(customer).Count, func() {
			calls()
			own = false
		})
		for i, d := range decisions {
			if d.Level != bounds.Level(d.RuleLevel, 9) {
				t.Errorf("%s, decision %d: %+v", customer, i, d)
			}
		}
		if count := must(hand.Get(ctx, store.Keys(customer).Count).Int())(t); count != 1-documents {
			t.Errorf("%s: the count is %d after %d documents", customer, count, documents)
		}
	}
}
