package priority_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// What Peek tells of a customer, field by field.
func TestPeekTellsAllThatIsKnown(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := newStore(t, client, rule{policy: priority.Policy{Loads: []float64{3, 8, 20, 40}, Turns: 2}, lease: time.Hour})
		w := &world{Store: store, slack: 20 * time.Second}
		w.peek(t, "acme", unknown)

		// By count.
		w.nextN(t, "acme", 5, countdown(0, 5)...)
		counted := priority.State{Rule: priority.ByCount, Level: 2, NextLevel: 3, Count: -4, ResetIn: quiet}
		w.peek(t, "acme", counted)
		client.Persist(t.Context(), store.Key("acme"))
		counted.ResetIn = 0
		w.peek(t, "acme", counted)
		w.done(t, "acme", "unknown")
		w.peek(t, "acme", counted)

		// By load, beside the count.
		w.submitN(t, "acme", []string{"a", "b", "c"}, pendingEach(1, 3)...)
		loaded := priority.State{
			Rule: priority.ByLoad, Level: 3, NextLevel: 3, Count: -4, ResetIn: 0,
			Load: 4 * 4, Lately: 3, Cost: 1, Pending: 3, Lease: time.Hour,
		}
		w.peek(t, "acme", loaded)
		w.next(t, "acme", priority.Decision{Level: 3, Count: -5, ResetIn: quiet})
		loaded.Count, loaded.ResetIn = -5, quiet
		w.peek(t, "acme", loaded)
		w.reset(t, "acme")

		// By load alone.
		w.submitN(t, "acme", []string{"a", "b", "c"}, pendingEach(1, 3)...)
		loaded.Count, loaded.ResetIn = 0, 0
		w.peek(t, "acme", loaded)
		pendingKey := store.PendingKey("acme")
		backdate(t, client, pendingKey, 100*time.Second, "a")
		backdate(t, client, pendingKey, 50*time.Second, "c")
		loaded.Level, loaded.Oldest = 2, 100*time.Second // b is the newest one now
		w.peek(t, "acme", loaded)
		w.doneN(t, "acme", "a")
		loaded.NextLevel, loaded.Load, loaded.Pending = 3, 4*3, 2
		loaded.Oldest, loaded.Sojourn = 50*time.Second, 100*time.Second
		state := must(w.Peek(t.Context(), "acme"))(t)
		loaded.Lease = 20 * state.Sojourn
		w.peek(t, "acme", loaded)

		// Those beyond the last load, too. (Of one millisecond the last level is the newest.)
		w.submitN(t, "acme", documentIDs("more", 6), pendingEach(3, 6)...) // 4 × 3 … 6 × 5, 7 × 6 …
		w.submit(t, "acme", "last", pending(9))
		state = must(w.Peek(t.Context(), "acme"))(t)
		loaded = priority.State{
			Rule: priority.ByLoad, Level: 7, NextLevel: 7, Load: 11 * 6, Lately: 10, Cost: 1, Pending: 9, PendingLast: 4,
			Oldest: 50 * time.Second, Sojourn: 100 * time.Second, Lease: 20 * state.Sojourn,
		}
		w.peek(t, "acme", loaded)
		backdate(t, client, pendingKey, 200*time.Second, "more 4")
		loaded.Oldest = 200 * time.Second
		w.peek(t, "acme", loaded)
		w.done(t, "acme", "last", "more 5", "more 4")
		loaded.Level, loaded.NextLevel, loaded.Pending, loaded.PendingLast, loaded.Oldest = 5, 6, 6, 1, 50*time.Second
		state = must(w.Peek(t.Context(), "acme"))(t)
		loaded.Lease = 20 * state.Sojourn // those beyond do not move it
		w.peek(t, "acme", loaded)

		// Nothing is pending, and what was submitted is remembered.
		w.doneN(t, "acme", append(documentIDs("more", 6), "b", "c")...)
		state = must(w.Peek(t.Context(), "acme"))(t)
		loaded = priority.State{
			Rule: priority.ByLoad, NextLevel: 3, Load: 11, Lately: 10, Cost: 1, Sojourn: state.Sojourn,
			Lease: min(max(20*state.Sojourn, 3*time.Minute), time.Hour),
		}
		w.peek(t, "acme", loaded)

		// What is pending though its usage is gone, and what is neither.
		w.submit(t, "globex", "a", pending(1))
		client.Del(t.Context(), store.UsageKey("globex"))
		w.peek(t, "globex", priority.State{
			Rule: priority.ByLoad, Level: 1, NextLevel: 1, Load: 2, Cost: 1, Pending: 1, Lease: time.Hour,
		})
		endLeases(t, client, store.PendingKey("globex"))
		w.peek(t, "globex", unknown)
	})
}

// The levels in the scores take no memory: a customer takes no more of Redis than with
// the documents by their times alone, but for the allocator's rounding.
func TestPendingDocumentsTakeLittleMemory(t *testing.T) {
	const rounding = 32
	t.Parallel()
	client := redistest.Start(t).Client()
	w := storeOf(t, client)
	ctx := t.Context()
	size := func(prefix string) (total int64) {
		for _, end := range []string{"pending", "usage"} {
			total += client.MemoryUsage(ctx, prefix+":{customer-000001}:"+end, 0).Val()
		}
		return total
	}
	client.Set(ctx, "by-times:{customer-000001}:usage", 1000, time.Hour)
	at := time.Now().UnixMilli()
	for n := 1; n <= 100; n++ {
		id := fmt.Sprintf("document-%08d", n)
		must(w.Submit(ctx, "customer-000001", id, 0))(t)
		client.ZAdd(ctx, "by-times:{customer-000001}:pending", redis.Z{Score: float64(at), Member: id})
		client.PExpire(ctx, "by-times:{customer-000001}:pending", day)
		if got, plain := size("priority"), size("by-times"); got > plain+rounding || got == 0 {
			t.Fatalf("%d documents take %d bytes, more than %d", n, got, plain)
		}
	}
	t.Logf("1 to 100 documents take up to %d bytes", size("priority"))
}

// What the process has learned of costs stays when the rules change.
func TestMeansOutliveAChangeOfPolicies(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	store := openStore(t, client, patient)
	w := &world{Store: store, slack: handSlack}
	ctx := t.Context()
	ids := documentIDs("page", 100)
	costs := make([]float64, len(ids))
	for i := range costs {
		costs[i] = 4
	}
	must(store.SubmitN(ctx, "usual", ids, costs))(t)
	for _, id := range ids {
		if err := store.Done(ctx, "usual", id, 2*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	w.Store = store.With(must(priority.NewPolicies(priority.Policy{Loads: []float64{3}}, nil, nil))(t))
	got, err := w.Submit(ctx, "acme", "a", 10)
	w.decided(t, "Submit", got, err, priority.Decision{Level: 1, Load: 2.5, Pending: 1})
	if err := w.Done(ctx, "acme", "a", 8*time.Second); err != nil {
		t.Fatal(err)
	}
	if state := must(w.Peek(ctx, "acme"))(t); state.Cost != .9+.1*4 {
		t.Errorf("Peek: %+v, want a cost of 1.3", state)
	}
	got, err = store.Submit(ctx, "acme", "b", 0) // and back
	w.decided(t, "Submit", got, err, priority.Decision{Level: 2, Load: 2 * 1.3, Pending: 1})
}

// A score that somebody set by hand may be no time at all. It must not spoil what else is
// known of the customer.
func TestADoneOfAnInfiniteScoreLearnsNothing(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := openStore(t, client, patient)
		w := &world{Store: store, slack: time.Minute}
		for _, score := range []float64{math.Inf(1), math.Inf(-1)} {
			w.submitN(t, "acme", []string{"a", "b"}, pendingEach(1, 2)...)
			if err := client.ZAdd(t.Context(), store.PendingKey("acme"), redis.Z{Score: score, Member: "a"}).Err(); err != nil {
				t.Fatal(err)
			}
			w.done(t, "acme", "a")
			w.pends(t, "acme", 1)
			w.submit(t, "acme", "a", pending(2))
			w.reset(t, "acme")
		}
	})
}
