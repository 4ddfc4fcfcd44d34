// Package fallback keeps answering while the fleet's counts cannot be reached: from this
// process's memory, with Degraded set and no error.
package fallback

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/memory"
)

// Options configures a [Store]. The zero value works.
type Options struct {
	// MaxFailures is how many failures of the primary in a row, of all callers
	// together, open the circuit. Default: 10.
	MaxFailures int

	// RetryAfter is how often the Store probes the primary in the background after a
	// failure, and sends it the Dones that it missed. Default: 500 ms.
	RetryAfter time.Duration

	// MaxDones is the most Dones remembered for the primary. Each further one replaces another,
	// most likely of a customer with many, whose document counts as pending in the primary until
	// its lease ends. Default: 100,000.
	MaxDones int

	// OnChange is called when the circuit opens (true, and the primary's last
	// error) and when it closes again (false, nil). Calls do not overlap. Default:
	// nothing is called.
	OnChange func(open bool, cause error)

	// OnError is called with each error of the primary that callers do not get: memory
	// answered, or a Done failed in the background. It must be safe for concurrent use
	// and return soon. Default: nothing is called.
	OnError func(err error)
}

const (
	defaultMaxFailures = 10
	defaultRetryAfter  = 500 * time.Millisecond
	defaultMaxDones    = 100_000
	maxEntries         = 100_000 // the bound of the memory
)

// Store is a [priority.Store] that answers from memory if the primary cannot, with
// Degraded set and no error: fair within this process, by the primary's policies, without
// operators' overrides. It remembers the newest 100,000 pending documents and as many
// customers.
//
// A call that fails can take as long as the primary's timeout. After MaxFailures in a row
// the circuit opens: memory answers at once, and only probes in the background go to the
// primary, until it answers. A probe sends a Done of a document that does not exist, for
// each of a few recent customers. If the primary fails for some customers and works for
// others, as when one node of a cluster hangs, the circuit stays closed, and each call for
// the former takes the primary's timeout.
//
// What was counted without the primary is forgotten when it is back, which can only make
// levels better. But Dones are remembered, as a document that still looks pending makes
// its customer's next levels worse. They reach the primary soon after it is back, up to a
// day later, and do not end a document that was submitted again meanwhile. (Where the primary has
// no DoneLate, as a RedisStore has, only Submits of this process are known.)
//
// Some calls still return an error: a wrong call ([priority.ErrInvalid]), a call
// whose context was canceled, and a Reset that the primary did not make. A call whose own
// deadline ends first does not count as a failure.
//
// It is safe for concurrent use. Close it before the primary's client.
type Store struct {
	primary priority.Store
	late    late // the primary, if it can tell late Dones from others; else nil
	memory  *memory.Store
	opts    Options

	breaker breaker
	dones   dones
	used    atomic.Bool // memory has answered since it was last cleared
	retry   retry
	news    news
}

var _ priority.Store = (*Store)(nil)

// New returns a Store. Nil opts are the defaults. An error wraps
// [priority.ErrInvalid].
func New(primary priority.Store, opts *Options) (*Store, error) {
	if typednil.Is(primary) {
		return nil, fmt.Errorf("%w option: the primary is nil", priority.ErrInvalid)
	}
	if opts == nil {
		opts = &Options{}
	}
	if opts.MaxFailures < 0 || opts.RetryAfter < 0 || opts.MaxDones < 0 {
		return nil, fmt.Errorf("%w option: MaxFailures %d, RetryAfter %v or MaxDones %d is negative",
			priority.ErrInvalid, opts.MaxFailures, opts.RetryAfter, opts.MaxDones)
	}
	options := memory.Options{PolicyOf: primary.PolicyOf, Levels: primary.Last(), MaxEntries: maxEntries}
	if leased, ok := priority.As[interface{ Lease() time.Duration }](primary); ok {
		options.Lease = leased.Lease()
	}
	if timed, ok := priority.As[interface{ Now() time.Time }](primary); ok { // a simulation
		options.Now = timed.Now
	}
	own, err := memory.New(&options)
	if err != nil {
		return nil, err
	}
	s := &Store{primary: primary, memory: own, opts: *opts}
	s.late, _ = priority.As[late](primary)
	s.opts.RetryAfter = cmp.Or(opts.RetryAfter, defaultRetryAfter)
	s.breaker.most = int32(min(cmp.Or(opts.MaxFailures, defaultMaxFailures), math.MaxInt32))
	s.dones.most = cmp.Or(opts.MaxDones, defaultMaxDones)
	s.retry.turn = make(chan struct{}, 1)
	return s, nil
}

// Degraded reports whether the primary's last call failed, or the circuit is not closed.
// It becomes false again when the primary counts a document. Without any calls it becomes
// false after ten successful probes, as a readiness check needs.
func (s *Store) Degraded() bool { return s.breaker.failing() }

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return decide(s, ctx, customer, func(ctx context.Context, store priority.Store) (priority.Decision, error) {
		return store.Next(ctx, customer)
	})
}

func (s *Store) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	if err := check.N(customer, n); err != nil || n == 0 {
		return nil, err
	}
	decisions, fromMemory, err := ask(s, ctx, customer, true, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
		return store.NextN(ctx, customer, n)
	})
	for i := range decisions {
		decisions[i].Degraded = decisions[i].Degraded || fromMemory
	}
	return decisions, err
}

// NextEach implements [priority.Store]. Memory answers for the entries that the primary
// did not count.
func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if err := check.Each(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	return each(s, ctx, customers, func(customer string) string { return customer }, func(ctx context.Context, store priority.Store, customers []string) ([]priority.Decision, error) {
		return store.NextEach(ctx, customers)
	})
}

func (s *Store) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	return decide(s, ctx, customer, func(ctx context.Context, store priority.Store) (priority.Decision, error) {
		began := time.Now()
		decision, err := store.Submit(ctx, customer, document)
		if store == s.primary {
			s.dones.submitted(customer, document.ID, began, err)
		}
		return decision, err
	})
}

// SubmitN implements [priority.Store]. Memory answers for the documents that the primary
// did not count.
func (s *Store) SubmitN(ctx context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	if err := check.SubmitN(customer, documents); err != nil || len(documents) == 0 {
		return nil, err
	}
	return each(s, ctx, documents, func(priority.Document) string { return customer }, func(ctx context.Context, store priority.Store, documents []priority.Document) ([]priority.Decision, error) {
		began := time.Now()
		decisions, err := store.SubmitN(ctx, customer, documents)
		if store == s.primary && s.dones.len() > 0 {
			for i, err := range itemerrors.Of(err, len(documents)) {
				s.dones.submitted(customer, documents[i].ID, began, err)
			}
		}
		return decisions, err
	})
}

// Done implements [priority.Store]. A Done that the primary did not accept is remembered for
// it, and is not an error.
func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) (ended priority.Ended, err error) {
	if err := check.Done(customer, document, took); err != nil {
		return priority.Ended{}, err
	}
	since := time.Now()
	err = s.try(ctx, customer, false, func() (err error) {
		ended, err = s.primary.Done(ctx, customer, document, took)
		return err
	})
	answered := err == nil || s.answers(ctx, err)
	if s.used.Load() {
		if inMemory, _ := s.memory.Done(context.WithoutCancel(ctx), customer, document, took); err != nil && answered {
			ended = inMemory
		}
	}
	s.settle(customer, document, owed{took: took, since: since}, err, &ended)
	if answered {
		return ended, nil
	}
	return ended, err
}

// DoneN implements [priority.Store], as Done does.
func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) (ended []priority.Ended, err error) {
	if err := check.DoneN(customer, documents, took); err != nil || len(documents) == 0 {
		return nil, err
	}
	since := time.Now()
	err = s.try(ctx, customer, false, func() (err error) {
		ended, err = s.primary.DoneN(ctx, customer, documents, took)
		return err
	})
	errs := itemerrors.Of(err, len(documents))
	if ended == nil {
		ended = make([]priority.Ended, len(documents))
	}
	answered := err == nil || s.answers(ctx, err)
	if s.used.Load() {
		inMemory, _ := s.memory.DoneN(context.WithoutCancel(ctx), customer, documents, took)
		for i, e := range inMemory {
			if errs[i] != nil && answered {
				ended[i] = e
			}
		}
	}
	for i, document := range documents {
		s.settle(customer, document, owed{took: took / time.Duration(len(documents)), since: since}, errs[i], &ended[i])
	}
	if answered {
		return ended, nil
	}
	return ended, &priority.BatchError{Errs: errs}
}

func (s *Store) Peek(ctx context.Context, customer string) (priority.State, error) {
	state, fromMemory, err := ask(s, ctx, customer, false, func(ctx context.Context, store priority.Store) (priority.State, error) {
		return store.Peek(ctx, customer)
	})
	state.Degraded = state.Degraded || fromMemory && err == nil
	return state, err
}

// Reset implements [priority.Store]. It returns the primary's error, since the fleet's
// count then remains; memory always forgets the customer.
func (s *Store) Reset(ctx context.Context, customer string) error {
	if err := check.Customer(customer); err != nil {
		return err
	}
	err := s.try(ctx, customer, false, func() error { return s.primary.Reset(ctx, customer) })
	_ = s.memory.Reset(context.WithoutCancel(ctx), customer)
	return err
}

func (s *Store) PolicyOf(customer string) priority.Policy { return s.primary.PolicyOf(customer) }

func (s *Store) Last() priority.Level { return s.primary.Last() }

// Unwrap returns the primary; see [priority.As].
func (s *Store) Unwrap() priority.Store { return s.primary }
