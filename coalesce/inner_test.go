package coalesce_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/memory"
)

const ms = time.Millisecond

// inner is a store in memory that notes what it is asked, and that waits and fails
// as it is told.
type inner struct {
	*memory.Store
	mu     sync.Mutex
	calls  []call
	before func(ctx context.Context, c call) error // fails a call that is not made
	after  func(ctx context.Context, c call) error // fails a call that was made
}

// call is a call, or an entry of a Settle.
type call struct {
	operation, customer string
	documents           int
	at                  time.Time
}

func newInner(t testing.TB, opts *memory.Options) *inner {
	t.Helper()
	store, err := memory.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return &inner{Store: store}
}

// fail sets how calls fail, and which wait.
func (in *inner) fail(before, after func(context.Context, call) error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.before, in.after = before, after
}

func (in *inner) do(ctx context.Context, c call, do func() error) error {
	in.mu.Lock()
	before, after := in.before, in.after
	in.mu.Unlock()
	if before != nil {
		if err := before(ctx, c); err != nil {
			return err
		}
	}
	if err := do(); err != nil || after == nil {
		return err
	}
	return after(ctx, c)
}

func (in *inner) note(operation, customer string, documents int) call {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := call{operation, customer, documents, time.Now()}
	in.calls = append(in.calls, c)
	return c
}

// take returns the calls of an operation, or of all, since the last take.
func (in *inner) take(operation string) (calls []call) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range in.calls {
		if operation == "" || c.operation == operation {
			calls = append(calls, c)
		}
	}
	in.calls = nil
	return calls
}

func (in *inner) Next(ctx context.Context, customer string) (d priority.Decision, err error) {
	err = in.do(ctx, in.note("Next", customer, 1), func() error { d, err = in.Store.Next(ctx, customer); return err })
	return d, err
}

func (in *inner) NextN(ctx context.Context, customer string, n int) (ds []priority.Decision, err error) {
	err = in.do(ctx, in.note("NextN", customer, n), func() error { ds, err = in.Store.NextN(ctx, customer, n); return err })
	return ds, err
}

func (in *inner) NextEach(ctx context.Context, customers []string) (ds []priority.Decision, err error) {
	err = in.do(ctx, in.note("NextEach", strings.Join(customers, " "), len(customers)), func() error {
		ds, err = in.Store.NextEach(ctx, customers)
		return err
	})
	return ds, err
}

func (in *inner) Peek(ctx context.Context, customer string) (d priority.Decision, err error) {
	err = in.do(ctx, in.note("Peek", customer, 0), func() error { d, err = in.Store.Peek(ctx, customer); return err })
	return d, err
}

func (in *inner) Reset(ctx context.Context, customer string) error {
	return in.do(ctx, in.note("Reset", customer, 0), func() error { return in.Store.Reset(ctx, customer) })
}

// Settle is one call named "Settle" without a customer, and then an entry each
// named "entry".
func (in *inner) Settle(ctx context.Context, owed []priority.Owed) ([]priority.Decision, error) {
	if len(owed) == 0 {
		return nil, nil
	}
	decisions, errs, failed := make([]priority.Decision, len(owed)), make([]error, len(owed)), false
	err := in.do(ctx, in.note("Settle", "", 0), func() error {
		for i, o := range owed {
			errs[i] = in.do(ctx, in.note("entry", o.Customer, o.Documents), func() error {
				one, err := in.Store.Settle(ctx, owed[i:i+1])
				if err == nil {
					decisions[i] = one[0]
				}
				return priority.ItemErrors(err, 1)[0]
			})
			failed = failed || errs[i] != nil
		}
		return nil
	})
	if err == nil && failed {
		err = &priority.BatchError{Errs: errs}
	}
	return decisions, err
}

// only is a failure of one operation and customer.
func only(operation, customer string, err error) func(context.Context, call) error {
	return func(_ context.Context, c call) error {
		if c.operation == operation && (customer == "" || c.customer == customer) {
			return err
		}
		return nil
	}
}

// hold is a failure that lets calls of an operation wait until the channel is closed.
func hold(operation string, until <-chan struct{}) func(context.Context, call) error {
	return func(_ context.Context, c call) error {
		if c.operation == operation {
			<-until
		}
		return nil
	}
}

// test runs a test in virtual time. When it ends, nothing may be left running.
func test(t *testing.T, inOpts *memory.Options, opts *coalesce.Options, test func(t *testing.T, s *coalesce.Store, in *inner)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		in := newInner(t, inOpts)
		test(t, open(t, in, opts), in)
	})
}

func open(t testing.TB, in coalesce.Inner, opts *coalesce.Options) *coalesce.Store {
	t.Helper()
	s, err := coalesce.New(in, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// heat brings a customer to count -29, which is at the last level.
func heat(t testing.TB, s priority.Store, customers ...string) {
	t.Helper()
	for _, customer := range customers {
		if _, err := s.NextN(context.Background(), customer, 30); err != nil {
			t.Fatal(err)
		}
	}
}

// answer counts n documents one by one, which must be answered from memory.
func answer(t testing.TB, s priority.Store, customer string, n int) {
	t.Helper()
	for range n {
		if d, err := s.Next(context.Background(), customer); err != nil || !d.Estimated || d.Level != s.PolicyOf(customer).Last() {
			t.Fatalf("Next(%q) = %+v, %v; want it from memory, at the last level", customer, d, err)
		}
	}
}

// ask counts a document, which the store must be asked about, and returns its count.
func ask(t testing.TB, s priority.Store, customer string) int64 {
	t.Helper()
	d, err := s.Next(context.Background(), customer)
	if err != nil || d.Estimated {
		t.Fatalf("Next(%q) = %+v, %v; want it from the store", customer, d, err)
	}
	return d.Count
}

// held checks a count in the store.
func held(t testing.TB, in *inner, customer string, want int64) {
	t.Helper()
	if d, err := in.Store.Peek(context.Background(), customer); err != nil || d.Count != want {
		t.Fatalf("the store holds %+v, %v for %q; want count %d", d, err, customer, want)
	}
}

func shut(t testing.TB, s *coalesce.Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Fatalf("Close: %v", err)
	}
}
