package priority_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// breakable is a store that fails with an error for as long as one is set.
type breakable struct {
	*priority.MemoryStore
	calls atomic.Int64
	mu    sync.Mutex
	err   error
}

func newBreakable(t *testing.T, policy priority.Policy) *breakable {
	t.Helper()
	store, err := priority.NewMemoryStore(&priority.MemoryOptions{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	return &breakable{MemoryStore: store}
}

func (b *breakable) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *breakable) fails() error {
	b.calls.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *breakable) Next(ctx context.Context, customer string) (priority.Decision, error) {
	if err := b.fails(); err != nil {
		return priority.Decision{}, err
	}
	return b.MemoryStore.Next(ctx, customer)
}

func (b *breakable) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	if err := b.fails(); err != nil {
		return nil, err
	}
	return b.MemoryStore.NextN(ctx, customer, n)
}

// NextEach fails for the customers whose name begins with "lost" only.
func (b *breakable) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	err := b.fails()
	decisions, errs := make([]priority.Decision, len(customers)), make([]error, len(customers))
	for i, customer := range customers {
		if err != nil && customer[:4] == "lost" {
			errs[i] = err
			continue
		}
		decisions[i], errs[i] = b.MemoryStore.Next(ctx, customer)
	}
	if errors.Join(errs...) != nil {
		return decisions, &priority.BatchError{Errs: errs}
	}
	return decisions, nil
}

func (b *breakable) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	if err := b.fails(); err != nil {
		return priority.Decision{}, err
	}
	return b.MemoryStore.Peek(ctx, customer)
}

func (b *breakable) Reset(ctx context.Context, customer string) error {
	if err := b.fails(); err != nil {
		return err
	}
	return b.MemoryStore.Reset(ctx, customer)
}

var (
	errAway = fmt.Errorf("%w: away", priority.ErrNotCounted)
	errLost = fmt.Errorf("%w: lost", priority.ErrOutcomeUnknown)
)

func TestFallbackAnswersForThePrimary(t *testing.T) {
	ctx := context.Background()
	for _, cause := range []error{errAway, errLost, fmt.Errorf("%w: list", priority.ErrCorruptCount), errors.New("boom")} {
		primary := newBreakable(t, priority.Policy{})
		primary.set(cause)
		var told error
		fallback := priority.NewFallback(primary, nil, &priority.FallbackOptions{OnError: func(err error) { told = err }})
		for i := range 4 {
			decision, err := fallback.Next(ctx, "acme")
			if err != nil || !decision.Degraded || decision.Count != int64(-i) {
				t.Errorf("%v: Next gave %+v, %v", cause, decision, err)
			}
		}
		if !errors.Is(told, cause) {
			t.Errorf("OnError was told %v; want %v", told, cause)
		}
		if decision, err := fallback.Peek(ctx, "acme"); err != nil || !decision.Degraded || decision.Count != -3 {
			t.Errorf("%v: Peek gave %+v, %v", cause, decision, err)
		}
		decisions, err := fallback.NextN(ctx, "acme", 2)
		if err != nil || len(decisions) != 2 || !decisions[1].Degraded || decisions[1].Count != -5 {
			t.Errorf("%v: NextN gave %+v, %v", cause, decisions, err)
		}
	}
}

func TestFallbackAnswersForTheEntriesThatFailed(t *testing.T) {
	primary := newBreakable(t, priority.Policy{})
	primary.set(errAway)
	fallback := priority.NewFallback(primary, nil, nil)
	decisions, err := fallback.NextEach(context.Background(), []string{"good", "lost1", "good", "lost1", "lost2"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		count    int64
		degraded bool
	}{{0, false}, {0, true}, {-1, false}, {-1, true}, {0, true}} {
		if decisions[i].Count != want.count || decisions[i].Degraded != want.degraded {
			t.Errorf("entry %d: got %+v; want %+v", i, decisions[i], want)
		}
	}
}

func TestFallbackLeavesWrongCallsAlone(t *testing.T) {
	ctx := context.Background()
	primary := newBreakable(t, priority.Policy{})
	fallback := priority.NewFallback(primary, nil, nil)
	for _, err := range []error{nil, errAway} {
		primary.set(err)
		_, err1 := fallback.Next(ctx, "")
		_, err2 := fallback.NextN(ctx, "acme", -1)
		_, err3 := fallback.NextEach(ctx, []string{"lost", ""})
		_, err4 := fallback.Peek(ctx, "")
		for i, err := range []error{err1, err2, err3, err4, fallback.Reset(ctx, "")} {
			wantClass(t, err, priority.ErrInvalid)
			if err == nil {
				t.Errorf("wrong call %d gave no error", i)
			}
		}
	}
	if _, err := priority.NewFallback(nil, nil, nil).Next(ctx, "acme"); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("without a primary: got %v", err)
	}
	primary.set(nil)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := fallback.Next(canceled, "acme"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
	past, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	if decision, err := fallback.Next(past, "acme"); err != nil || !decision.Degraded {
		t.Errorf("past its deadline: got %+v, %v; want a degraded decision", decision, err)
	}
}

func TestFallbackLeavesAFailingPrimaryAlone(t *testing.T) {
	ctx := context.Background()
	primary := newBreakable(t, priority.Policy{})
	changes := make(chan bool, 10)
	fallback := priority.NewFallback(primary, nil, &priority.FallbackOptions{
		MaxFailures: 3,
		RetryAfter:  20 * time.Millisecond,
		OnChange: func(degraded bool, cause error) {
			changes <- degraded
			if degraded != errors.Is(cause, errAway) {
				t.Errorf("change to degraded %v because of %v", degraded, cause)
			}
		},
	})
	primary.set(errAway)
	for range 3 {
		_, _ = fallback.Next(ctx, "acme")
	}
	if !fallback.Degraded() || !<-changes {
		t.Error("three failures do not degrade it")
	}
	before := primary.calls.Load()
	for range 1000 {
		if decision, err := fallback.Next(ctx, "acme"); err != nil || !decision.Degraded {
			t.Fatalf("got %+v, %v", decision, err)
		}
	}
	// One call in 20 ms may try it; a thousand calls take no second.
	if tried := primary.calls.Load() - before; tried > 100 {
		t.Errorf("the primary was tried %d times in 1000 calls", tried)
	}
	primary.set(nil)
	redistest.Await(t, "the primary answers again", func() bool {
		decision, err := fallback.Next(ctx, "acme")
		return err == nil && !decision.Degraded
	})
	if fallback.Degraded() || <-changes {
		t.Error("it does not recover")
	}
}

// What the primary surely did not count is counted there later, once.
func TestFallbackPaysItsDebts(t *testing.T) {
	ctx := context.Background()
	outage := func(t *testing.T, policy priority.Policy, cause error, degraded func(*priority.Fallback)) (*breakable, *priority.Fallback) {
		t.Helper()
		primary := newBreakable(t, policy)
		fallback := priority.NewFallback(primary, nil, &priority.FallbackOptions{MaxFailures: 1000})
		if _, err := fallback.NextN(ctx, "lost", 10); err != nil { // counts 0 to -9
			t.Fatal(err)
		}
		primary.set(cause)
		degraded(fallback)
		primary.set(nil)
		return primary, fallback
	}
	five := func(f *priority.Fallback) {
		for range 3 {
			_, _ = f.Next(ctx, "lost")
		}
		_, _ = f.NextEach(ctx, []string{"lost", "lost"})
	}
	t.Run("Next", func(t *testing.T) {
		_, fallback := outage(t, priority.Policy{}, errAway, five)
		for i := range 2 {
			decision, err := fallback.Next(ctx, "lost")
			if want := int64(-15 - i); err != nil || decision.Count != want || decision.Level != 8 || decision.Degraded {
				t.Errorf("got %+v, %v; want count %d", decision, err, want)
			}
		}
	})
	t.Run("NextN", func(t *testing.T) {
		_, fallback := outage(t, priority.Policy{}, errAway, five)
		decisions, err := fallback.NextN(ctx, "lost", 2)
		if err != nil || len(decisions) != 2 || decisions[0].Count != -15 || decisions[1].Count != -16 {
			t.Errorf("got %+v, %v; want counts -15 and -16", decisions, err)
		}
	})
	t.Run("NextEach", func(t *testing.T) {
		_, fallback := outage(t, priority.Policy{}, errAway, five)
		decisions, err := fallback.NextEach(ctx, []string{"other", "lost", "lost"})
		if err != nil || decisions[0].Count != 0 || decisions[1].Count != -15 || decisions[2].Count != -16 {
			t.Errorf("got %+v, %v; want counts 0, -15 and -16", decisions, err)
		}
	})
	t.Run("a failing payment stays owed", func(t *testing.T) {
		primary, fallback := outage(t, priority.Policy{}, errAway, five)
		primary.set(errAway)
		_, _ = fallback.Next(ctx, "lost")
		_, _ = fallback.NextEach(ctx, []string{"lost"})
		primary.set(nil)
		if decision, err := fallback.Next(ctx, "lost"); err != nil || decision.Count != -17 {
			t.Errorf("got %+v, %v; want count -17", decision, err)
		}
	})
	t.Run("an unknown outcome is not owed", func(t *testing.T) {
		_, fallback := outage(t, priority.Policy{}, errLost, five)
		if decision, err := fallback.Next(ctx, "lost"); err != nil || decision.Count != -10 {
			t.Errorf("got %+v, %v; want count -10", decision, err)
		}
	})
	t.Run("Reset forgets", func(t *testing.T) {
		_, fallback := outage(t, priority.Policy{}, errAway, five)
		if err := fallback.Reset(ctx, "lost"); err != nil {
			t.Fatal(err)
		}
		if decision, err := fallback.Next(ctx, "lost"); err != nil || decision.Count != 0 {
			t.Errorf("got %+v, %v; want count 0", decision, err)
		}
	})
	t.Run("a debt that a reset has ended is void", func(t *testing.T) {
		_, fallback := outage(t, priority.Policy{ResetInterval: 10 * time.Millisecond}, errAway, five)
		ended := time.Now()
		redistest.Await(t, "the interval has passed", func() bool { return time.Since(ended) > 11*time.Millisecond })
		if decision, err := fallback.Next(ctx, "lost"); err != nil || decision.Count != 0 {
			t.Errorf("got %+v, %v; want count 0", decision, err)
		}
	})
}

func TestFallbackResetTellsThatThePrimaryFailed(t *testing.T) {
	primary := newBreakable(t, priority.Policy{})
	fallback := priority.NewFallback(primary, nil, nil)
	primary.set(errAway)
	wantClass(t, fallback.Reset(context.Background(), "acme"), priority.ErrNotCounted)
}

// The secondary decides by the primary's own policies.
func TestFallbackSecondaryHasThePrimarysPolicies(t *testing.T) {
	server := redistest.Start(t)
	store := openStore(t, server.Client(), &priority.RedisOptions{
		Policy: priority.Policy{Thresholds: []int64{}},
		Tiers:  map[string]priority.Policy{"strict": {Thresholds: []int64{0}}},
		TierOf: func(customer string) string { return customer },
	})
	fallback := priority.NewFallback(store, nil, nil)
	server.Kill()
	for customer, want := range map[string]priority.Level{"strict": 2, "other": 1} {
		_, _ = fallback.Next(context.Background(), customer)
		decision, err := fallback.Next(context.Background(), customer)
		if err != nil || !decision.Degraded || decision.Level != want {
			t.Errorf("%s: got %+v, %v; want level %d", customer, decision, err, want)
		}
	}
}

// Through an outage of a real server no call fails, and afterwards the fleet's
// counts hold every document but those of unknown outcome.
func TestFallbackThroughAnOutage(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	first, second := twoStores(t, server.Addr)
	fallbacks := []*priority.Fallback{priority.NewFallback(first, nil, nil), priority.NewFallback(second, nil, nil)}
	tr := startTraffic(t, fallbacks[0], fallbacks[1])
	for range 2 {
		tr.await(200)
		server.Kill()
		until := tr.book.Totals().Degraded + 500
		redistest.Await(t, "documents are answered without the server", func() bool { return tr.book.Totals().Degraded >= until })
		server.Restart()
	}
	tr.await(200)
	tr.stop()
	for _, fallback := range fallbacks {
		redistest.Await(t, "the fallback is back", func() bool {
			decisions, err := fallback.NextEach(ctx, tr.customers) // pays what is owed
			tr.book.NoteEach(tr.customers, decisions, err)
			return err == nil && !decisions[0].Degraded
		})
		decisions, err := fallback.NextEach(ctx, tr.customers)
		tr.book.NoteEach(tr.customers, decisions, err)
	}
	tr.mustBeExact(heldBy(server.Client(), first))
	totals := tr.book.Totals()
	if totals.Answered+totals.Degraded != totals.Documents {
		t.Errorf("%v; want none failed", totals)
	}
}
