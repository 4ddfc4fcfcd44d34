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
