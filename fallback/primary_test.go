package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/memory"
)

const (
	ms      = time.Millisecond
	timeout = 250 * ms // of a primary that hangs
	lease   = 10 * time.Minute
)

// primary is a store in memory that notes what it is asked, and that waits and fails
// as it is told.
type primary struct {
	*memory.Store
	mu     sync.Mutex
	calls  []call
	before failure // of calls, or of their entries, that are not made
	after  failure // of calls that were made
}

// call is a call for one customer, or what an entry of one asks for one document.
type call struct {
	operation, customer string
	documents           []string
	took                time.Duration
}

type failure func(ctx context.Context, c call) error

// fail sets how calls fail, and which wait.
func (p *primary) fail(before, after failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.after = before, after
}

// do makes a call, without the entries that fail.
func (p *primary) do(ctx context.Context, c call, each bool, do func(entries []int) error) error {
	p.mu.Lock()
	if c.operation != "Peek" {
		p.calls = append(p.calls, c)
	}
	before, after := p.before, p.after
	p.mu.Unlock()
	var entries []int
	errs, failed := make([]error, len(c.documents)), false
	if before != nil {
		if err := before(ctx, c); err != nil {
			return err
		}
	}
	for i, document := range c.documents {
		if each && before != nil {
			errs[i] = before(ctx, call{"entry", c.customer, []string{document}, 0})
		}
		if errs[i] == nil {
			entries = append(entries, i)
		}
		failed = failed || errs[i] != nil
	}
	if err := do(entries); err != nil {
		return err
	}
	if after != nil {
		if err := after(ctx, c); err != nil {
			return err
		}
	}
	if failed {
		return &priority.BatchError{Errs: errs}
	}
	return nil
}

// take returns the calls of an operation since the last take.
func (p *primary) take(operation string) (calls []call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if strings.HasPrefix(c.operation, operation) && c.customer != "" {
			calls = append(calls, c)
		}
	}
	p.calls = nil
	return calls
}

func (p *primary) Next(ctx context.Context, customer string) (d priority.Decision, err error) {
	err = p.do(ctx, call{"Next", customer, nil, 0}, false, func([]int) error { d, err = p.Store.Next(ctx, customer); return err })
	return d, err
}

func (p *primary) NextN(ctx context.Context, customer string, n int) (ds []priority.Decision, err error) {
	err = p.do(ctx, call{"NextN", customer, nil, 0}, false, func([]int) error { ds, err = p.Store.NextN(ctx, customer, n); return err })
	return ds, err
}

// NextEach takes the customers for what it fails by.
func (p *primary) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	decisions := make([]priority.Decision, len(customers))
	return decisions, p.do(ctx, call{"NextEach", customers[0], customers, 0}, true, func(entries []int) (err error) {
		for _, i := range entries {
			if decisions[i], err = p.Store.Next(ctx, customers[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *primary) Submit(ctx context.Context, customer string, document priority.Document) (d priority.Decision, err error) {
	err = p.do(ctx, call{"Submit", customer, []string{document.ID}, 0}, false, func([]int) error {
		d, err = p.Store.Submit(ctx, customer, document)
		return err
	})
	return d, err
}

func (p *primary) SubmitN(ctx context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	decisions, ids := make([]priority.Decision, len(documents)), make([]string, len(documents))
	for i, document := range documents {
		ids[i] = document.ID
	}
	return decisions, p.do(ctx, call{"SubmitN", customer, ids, 0}, true, func(entries []int) (err error) {
		for _, i := range entries {
			if decisions[i], err = p.Store.Submit(ctx, customer, documents[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *primary) Done(ctx context.Context, customer, document string, took time.Duration) (e priority.Ended, err error) {
	operation := "Done"
	if len(document) > 20 { // of a document that does not exist
		operation = "probe"
	}
	err = p.do(ctx, call{operation, customer, []string{document}, took}, false, func([]int) error {
		e, err = p.Store.Done(ctx, customer, document, took)
		return err
	})
	return e, err
}

func (p *primary) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]priority.Ended, error) {
	ended := make([]priority.Ended, len(documents))
	return ended, p.do(ctx, call{"DoneN", customer, slices.Clone(documents), took}, true, func(entries []int) (err error) {
		for _, i := range entries {
			if ended[i], err = p.Store.Done(ctx, customer, documents[i], took); err != nil {
				return err
			}
		}
		return nil
	})
}

// DoneLate is noted as a DoneN.
func (p *primary) DoneLate(ctx context.Context, customer string, documents []priority.Late, took time.Duration) ([]priority.Ended, error) {
	ended, ids := make([]priority.Ended, len(documents)), make([]string, len(documents))
	for i, document := range documents {
		ids[i] = document.ID
	}
	return ended, p.do(ctx, call{"DoneN", customer, ids, took}, true, func(entries []int) error {
		for _, i := range entries {
			one, err := p.Store.DoneLate(ctx, customer, documents[i:i+1], took)
			if err != nil {
				return err
			}
			ended[i] = one[0]
		}
		return nil
	})
}

func (p *primary) Peek(ctx context.Context, customer string) (s priority.State, err error) {
	err = p.do(ctx, call{"Peek", customer, nil, 0}, false, func([]int) error { s, err = p.Store.Peek(ctx, customer); return err })
	return s, err
}

func (p *primary) Reset(ctx context.Context, customer string) error {
	return p.do(ctx, call{"Reset", customer, nil, 0}, false, func([]int) error { return p.Store.Reset(ctx, customer) })
}

// down is a primary that refuses everything.
func down(context.Context, call) error {
	return fmt.Errorf("%w: connection refused", priority.ErrNotCounted)
}

// hang is a primary that answers nothing within its timeout.
func hang(ctx context.Context, _ call) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	<-ctx.Done()
	return fmt.Errorf("%w: %w", priority.ErrOutcomeUnknown, ctx.Err())
}

// only is a failure of the operations that begin so and of a customer.
func only(operation, customer string, fail failure) failure {
	return func(ctx context.Context, c call) error {
		if strings.HasPrefix(c.operation, operation) && (customer == "" || c.customer == customer) {
			return fail(ctx, c)
		}
		return nil
	}
}

func with(err error) failure { return func(context.Context, call) error { return err } }

func newPrimary(t testing.TB) *primary {
	t.Helper()
	store, err := memory.New(&memory.Options{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	return &primary{Store: store}
}

func open(t testing.TB, p priority.Store, opts *fallback.Options) *fallback.Store {
	t.Helper()
	f, err := fallback.New(p, opts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// test runs a test in virtual time. When it ends, nothing may be left running.
func test(t *testing.T, opts *fallback.Options, test func(t *testing.T, f *fallback.Store, p *primary)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		f := open(t, p, opts)
		test(t, f, p)
		p.fail(nil, nil)
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// outage makes the primary refuse everything, and opens the circuit.
func outage(t testing.TB, f *fallback.Store, p *primary) {
	t.Helper()
	p.fail(down, nil)
	for range 10 {
		if d, err := f.Next(context.Background(), "whoever"); err != nil || !d.Degraded {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	time.Sleep(time.Second) // until a probe fails, too
	synctest.Wait()
	if !f.Open() || !f.Degraded() {
		t.Fatalf("Open is %v, Degraded is %v after 10 failures", f.Open(), f.Degraded())
	}
}

// back lets the primary work again, and waits without any calls until this is noticed.
func back(t testing.TB, f *fallback.Store, p *primary) {
	t.Helper()
	p.fail(nil, nil)
	time.Sleep(7 * time.Second)
	synctest.Wait()
	if f.Open() || f.Degraded() {
		t.Fatalf("Open is %v, Degraded is %v 7 s after the outage", f.Open(), f.Degraded())
	}
}

func submit(t testing.TB, s priority.Store, customer string, documents ...string) {
	t.Helper()
	for _, document := range documents {
		if _, err := s.Submit(context.Background(), customer, priority.Document{ID: document}); err != nil {
			t.Fatal(err)
		}
	}
}

func done(t testing.TB, s priority.Store, customer string, documents ...string) {
	t.Helper()
	for _, document := range documents {
		if _, err := s.Done(context.Background(), customer, document, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// pending checks how many documents of acme the primary takes for pending.
func pending(t testing.TB, p *primary, want int64) {
	t.Helper()
	if d, err := p.Store.Peek(context.Background(), "acme"); err != nil || d.Pending != want {
		t.Fatalf("the primary holds %+v, %v; want %d pending", d, err, want)
	}
}

// classes are the classes that an error is of.
func classes(err error) (of []error) {
	for _, class := range []error{priority.ErrInvalid, priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorrupt} {
		if errors.Is(err, class) {
			of = append(of, class)
		}
	}
	return of
}
