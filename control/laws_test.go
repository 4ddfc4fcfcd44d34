package control_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

// lawfulPolicies are options with policies that differ in everything.
var lawfulPolicies = priority.RedisOptions{
	Policy: priority.Policy{ResetInterval: 20 * time.Minute, Turns: 4},
	Tiers: map[string]priority.Policy{
		"short":  {Thresholds: []int64{-1, -3, -9}, ResetInterval: time.Minute, Loads: []float64{1, 8.5}, Turns: 3},
		"steady": {ResetMode: priority.SinceLastReset, ResetInterval: 10 * time.Minute},
	},
	TierOf: func(customer string) string { tier, _, _ := strings.Cut(customer, " "); return tier },
	Lease:  3 * time.Minute,
}

var lawfulCustomers = []string{"acme", "short {b}%", "steady \x00"}

// controlled sets the policies of lawfulPolicies as operators do, and returns a worker
// that has them from there.
func (v *virtual) controlled(t *testing.T) *control.Store {
	ctx, last := t.Context(), lawfulPolicies.Policy.Last()
	admin := must(control.NewAdmin(v.Client(nil), &control.AdminOptions{Levels: last}))(t)
	own := lawfulPolicies
	own.Policy, own.Tiers = priority.Policy{Turns: int(last) - 9}, nil // as many levels, by another policy
	store := v.worker(&own, seldom)                                    // each of a bubble's days has many half seconds
	rules := control.Rules{Policy: lawfulPolicies.Policy, Tiers: lawfulPolicies.Tiers}
	must(admin.Apply(ctx, rules, demo(0)))(t)
	must(admin.SetOverride(ctx, "somebody else", pinned(5), control.MaxOverride, demo(0)))(t)
	check(t, store.Refresh(ctx))
	for _, customer := range lawfulCustomers { // the server knows the scripts: who hangs keeps nobody from sending theirs
		for _, calls := range []func() error{
			func() error { _, err := store.Next(ctx, customer); return err },
			func() error { _, err := store.NextEach(ctx, []string{customer}); return err },
			func() error { _, err := store.SubmitN(ctx, customer, []string{"d"}, nil); return err },
			func() error { _, err := store.Submit(ctx, customer, "d", 0); return err },
			func() error { return store.Done(ctx, customer, "d", 0) },
			func() error { _, err := store.Peek(ctx, customer); return err },
			func() error { return store.Reset(ctx, customer) },
		} {
			if err := calls(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return store
}

// redisGoroutines is as many as a RedisStore lets be under way, and those of the
// connections with their server.
const redisGoroutines = 1024 + 32 + 100

// miniredis with -race is slow: -rapid.checks asks for more sequences.
func init() { _ = flag.Set("rapid.checks", "8") }

func TestControlKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		v := newVirtual(t)
		store := v.controlled(t)
		return prioritytest.Subject{
			Store: store, Other: must(priority.NewRedisStore(v.Client(nil), &lawfulPolicies))(t),
			Faulty: []prioritytest.Faulty{v.Faults}, Goroutines: redisGoroutines, Customers: lawfulCustomers,
			Close: store.Close,
		}
	})
}

// RedisStore, control, fallback and observe, one around the other.
func TestTheStackWithControlKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		v := newVirtual(t)
		store := v.controlled(t)
		failing := prioritytest.NewFailingStore(observe.New(store, func(context.Context, observe.Call) {}))
		fallen := must(fallback.New(failing, nil))(t)
		return prioritytest.Subject{
			Store: observe.New(fallen, new(prioritytest.Recorder).Observe), Other: must(priority.NewRedisStore(v.Client(nil), &lawfulPolicies))(t),
			Faulty: []prioritytest.Faulty{failing, v.Faults}, Goroutines: redisGoroutines, Customers: lawfulCustomers,
			Recovery: 1250 * time.Millisecond,
			Close: func(ctx context.Context) error {
				return errors.Join(fallen.Close(ctx), store.Close(ctx))
			},
		}
	})
}
