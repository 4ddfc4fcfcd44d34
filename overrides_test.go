package priority_test

import (
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// A store looks for an override if it is asked to, and leaves alone what is none. vectors/edges.json
// has what overrides do.
func TestOverride(t *testing.T) {
	ctx, hand := t.Context(), redistest.Start(t).Client()
	store := openStore(t, hand, &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	hand.Set(ctx, store.Keys("late").Override, "=7", time.Minute)
	deaf := openStore(t, hand, &priority.RedisOptions{Timeout: time.Minute})
	if decision := must(deaf.Next(ctx, "late"))(t); decision.Level != 1 {
		t.Errorf("%+v by a store that reads no overrides", decision)
	}
	if state := must(store.Peek(ctx, "late"))(t); state.NextLevel != 7 || state.RuleLevel != 1 || state.OverrideEndsIn > time.Minute {
		t.Errorf("%+v", state)
	}
	hand.RPush(ctx, store.Keys("acme").Override, "=1")
	decides(t, countdown(0, 3)...)(store.NextN(ctx, "acme", 3))
	if got := hand.LRange(ctx, store.Keys("acme").Override, 0, -1).Val(); !slices.Equal(got, []string{"=1"}) {
		t.Errorf("the override's key holds %v", got)
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
