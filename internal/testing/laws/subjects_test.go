package laws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/virtualredis"
	"github.com/docpriority/priority/memory"
)

// subject is a store under test, in a bubble.
type subject struct {
	store priority.Store
	other priority.Store                  // another process's, without faults; it shows what was counted
	close func(ctx context.Context) error // leaves no goroutine behind

	faults   *virtualredis.Faults // nil: nothing can fail
	recovery time.Duration        // after the last fault, until answers are as before
	busy     bool                 // it does something every few seconds: waits of days take long
}

// opener opens a subject without counts.
type opener func(t *testing.T) subject

const (
	timeout = 250 * time.Millisecond
	lease   = 10 * time.Minute

	// recovery is how long after the last fault a fallback may still answer: two times
	// RetryAfter and a timeout.
	recovery = 2*500*time.Millisecond + timeout

	// mostGoroutines is what a RedisStore allows itself: 1024 calls and 32 pipelines under
	// way, and the four goroutines that each of a hundred connections has in this process.
	mostGoroutines = 1024 + 32 + 4*100
)

// customers have policies that differ in everything.
var customers = []string{"acme", "short {b}%", "steady \x00"}

// inOrder have documents in order; the second one is a user of an account.
var inOrder = []string{"ordered", "ordered {b}/ann%"}

// everyone is all of them, other users of accounts, and a customer who looks like one.
var everyone = slices.Concat(customers, inOrder, []string{"acme/", "acme/mary", "ordered {b}", "/short"})

var options = priority.RedisOptions{
	Policy: priority.Policy{ResetInterval: 20 * time.Minute, Turns: 4},
	Tiers: map[string]priority.Policy{
		"short":   {Thresholds: []int64{-1, -3, -9}, ResetInterval: 15 * time.Minute, Loads: []float64{1, 8.5}, Turns: 6},
		"ordered": {Loads: []float64{2, 8, 32}, Turns: 6, InOrder: true},
		"steady":  {ResetMode: priority.SinceLastReset, ResetInterval: 10 * time.Minute},
	},
	TierOf: func(customer string) string { tier, _, _ := strings.Cut(customer, " "); return tier },
	Lease:  lease,

	Accounts: true,
}

// reference is a memory.Store by the same policies.
func reference(now func() time.Time) *memory.Store {
	policyOf := func(customer string) priority.Policy {
		if tier, ok := options.Tiers[options.TierOf(customer)]; ok {
			return tier
		}
		return options.Policy
	}
	store, err := memory.New(&memory.Options{Policy: options.Policy, PolicyOf: policyOf, Accounts: options.Accounts, Lease: options.Lease, Now: now})
	if err != nil {
		panic(err)
	}
	return store
}

func openMemory(*testing.T) subject {
	store := reference(time.Now)
	return subject{store: store, other: store, close: func(context.Context) error { store.Clear(); return nil }}
}

func openRedis(t *testing.T) subject {
	redis := virtualredis.Start(t)
	near, far := redis.Client(redis.Faults), redis.Client(nil)
	store := must(priority.NewRedisStore(near, &options))(t)
	warmUp(t, store)
	return subject{
		store: store, other: must(priority.NewRedisStore(far, &options))(t), faults: redis.Faults,
		close: func(context.Context) error {
			redis.Server.FlushAll()
			return errors.Join(near.Close(), far.Close())
		},
	}
}

func openStack(t *testing.T) subject {
	redis := virtualredis.Start(t)
	near, far := redis.Client(redis.Faults), redis.Client(nil)
	member := must(fleet.Join(near, &fleet.Options{Store: options, Interval: time.Minute}))(t)
	warmUp(t, member)
	return subject{
		store: member, other: must(priority.NewRedisStore(far, &options))(t), faults: redis.Faults,
		recovery: recovery, busy: true,
		close: func(ctx context.Context) error { return errors.Join(member.Close(ctx), near.Close(), far.Close()) },
	}
}

// warmUp lets the server know the scripts: a customer who hangs in a pipeline would keep
// others from sending theirs.
func warmUp(t *testing.T, store priority.Store) {
	ctx := context.Background()
	for _, customer := range append(customers, inOrder[0]) { // one of each policy
		_, err1 := store.NextEach(ctx, []string{customer})
		_, err2 := store.Submit(ctx, customer, priority.Document{ID: "d"})
		_, err3 := store.Peek(ctx, customer)
		_, err4 := store.Done(ctx, customer, "d", 0)
		if err := errors.Join(err1, err2, err3, err4, store.Reset(ctx, customer)); err != nil {
			t.Fatal(err)
		}
	}
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// class returns which of the four classes an error has; they must not be several.
func class(err error) error {
	classes := slices.DeleteFunc([]error{priority.ErrInvalid, priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorrupt},
		func(class error) bool { return !errors.Is(err, class) })
	if err != nil && len(classes) != 1 {
		broken(1, "an error is of %d classes, not one: %v", len(classes), err)
	}
	if err == nil {
		return nil
	}
	return classes[0]
}
