package fallback_test

import (
	"fmt"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

// overriding is a primary that knows an override of acme's, as a control.Store does.
type overriding struct{ *primary }

func (overriding) Override(customer string, decision priority.Decision) priority.Decision {
	if customer == "acme" {
		decision.Ruled, decision.Level = decision.Level, 7
	}
	return decision
}

// What operators have set holds while Redis is away too, through every wrapper.
func TestOverridesHoldForDegradedDecisions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		inner := overriding{&primary{Store: new(memory.Store)}}
		store, err := fallback.New(observe.New(inner), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close(t.Context())
		inner.fail(down, nil)
		ctx := t.Context()
		var got []priority.Decision
		note := func(decisions []priority.Decision, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, decisions...)
		}
		one := func(decision priority.Decision, err error) ([]priority.Decision, error) {
			return []priority.Decision{decision}, err
		}
		note(one(store.Next(ctx, "acme")))
		note(store.NextN(ctx, "acme", 2))
		note(one(store.Submit(ctx, "acme", "a", 0)))
		note(store.SubmitN(ctx, "acme", []string{"b", "c"}, nil))
		if state, err := store.Peek(ctx, "acme"); err != nil || state.NextLevel != 7 || !state.Degraded {
			t.Errorf("%+v, %v; want 7 next", state, err)
		}
		each, err := store.NextEach(ctx, []string{"bolt", "acme", "bolt"})
		note(each[1:2], err)
		for i, decision := range got {
			if decision.Level != 7 || decision.Ruled == 0 || decision.Ruled == 7 || !decision.Degraded {
				t.Errorf("decision %d: %+v; want level 7 by the override", i, decision)
			}
		}
		for _, decision := range []priority.Decision{each[0], each[2]} {
			if decision.Level != 1 || decision.Ruled != 0 {
				t.Errorf("of a customer without one: %+v", decision)
			}
		}
	})
}

// A decision of the primary has its override already.
func TestOverridesAreAppliedOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		inner := overriding{&primary{Store: new(memory.Store)}}
		store, err := fallback.New(inner, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close(t.Context())
		decision, err := store.Next(t.Context(), "acme")
		if want := (priority.Decision{Level: 1, ResetIn: decision.ResetIn}); err != nil || decision != want {
			t.Error(fmt.Sprintf("%+v", decision), err)
		}
	})
}
