package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// operators change all that operators may change, while the fleet runs and faults happen.
type operators struct {
	admin  *control.Admin
	store  priority.Store // the fleet's numbers, without a fallback
	resets time.Duration  // the reset interval of all rules

	made, refused int   // changes; refused or of unknown outcome
	wrong         error // the first change that was made and had not its effect
}

// work makes one change after another until the context ends.
func (o *operators) work(ctx context.Context) {
	whole := context.WithoutCancel(ctx)
	for n := 0; rest(ctx, operatorsEvery); n++ {
		if err := o.change(whole, n); err != nil {
			o.refused++
		} else {
			o.made++
		}
	}
}

const operatorsEvery = 100 * time.Millisecond

func (o *operators) change(ctx context.Context, n int) error {
	why := control.Change{By: "soak", Why: fmt.Sprint("change ", n)}
	switch customer := fmt.Sprint("operated-", n); n % 6 {
	case 0:
		thresholds := [][]int64{nil, {-2, -6, -12, -20}, {-5}}[rand.N(3)]
		return o.apply(ctx, control.Rules{Policy: priority.Policy{Thresholds: thresholds, ResetInterval: o.resets}}, why)
	case 1:
		var err error
		if why.Replaces, err = o.version(ctx); err == nil {
			_, err = o.admin.Withdraw(ctx, why)
		}
		return err
	case 2, 3:
		customer = []string{"customer-0", "customer-1", "flood-0", fmt.Sprint("small-", rand.N(smallCustomers))}[rand.N(4)]
		held, err := o.admin.OverrideOf(ctx, customer)
		switch {
		case err != nil:
		case held != nil:
			why.Replaces = held.Version
			_, err = o.admin.EndOverride(ctx, customer, why)
		default:
			_, err = o.admin.SetOverride(ctx, customer, priority.Override{Earliest: 2, Latest: 7}, time.Minute, why)
		}
		return err
	case 4:
		return o.reset(ctx, customer, why)
	default:
		return o.forget(ctx, customer, why)
	}
}

// version returns the version of the present rules.
func (o *operators) version(ctx context.Context) (int64, error) {
	settings, err := o.admin.Settings(ctx)
	if err != nil || settings.Rules == nil {
		return 0, err
	}
	return settings.Rules.Version, nil
}

func (o *operators) apply(ctx context.Context, rules control.Rules, why control.Change) (err error) {
	if why.Replaces, err = o.version(ctx); err == nil {
		_, err = o.admin.Apply(ctx, rules, why)
	}
	return err
}

// reset resets a customer who has sent three documents: the next one is the first.
func (o *operators) reset(ctx context.Context, customer string, why control.Change) error {
	_, err := o.store.NextN(ctx, customer, 3)
	if err == nil {
		_, err = o.admin.NoteReset(ctx, customer, why)
	}
	if err == nil {
		err = o.store.Reset(ctx, customer)
	}
	var first priority.Decision
	if err == nil {
		first, err = o.store.Next(ctx, customer)
	}
	if err == nil && first.Count != 0 {
		o.found(fmt.Errorf("after a reset the count of %s is %d", customer, first.Count))
	}
	_ = o.store.Reset(ctx, customer) // so that Redis does not grow
	return err
}

// forget forgets a customer with a pending document, a count and an override.
func (o *operators) forget(ctx context.Context, customer string, why control.Change) error {
	_, err := o.store.Submit(ctx, customer, "a document", 0)
	if err == nil {
		_, err = o.store.Next(ctx, customer)
	}
	if err == nil {
		_, err = o.admin.SetOverride(ctx, customer, priority.Override{Earliest: 9}, time.Minute, why)
	}
	if err == nil {
		_, err = o.admin.Forget(ctx, customer, why)
	}
	var state priority.State
	if err == nil {
		state, err = o.store.Peek(ctx, customer)
	}
	if err == nil && (state.Rule != priority.Unknown || state.Override != priority.Override{}) {
		o.found(fmt.Errorf("%s is forgotten, and has %+v", customer, state))
	}
	return err
}

func (o *operators) found(wrong error) {
	if o.wrong == nil {
		o.wrong = wrong
	}
}
