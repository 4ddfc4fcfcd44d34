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
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/memory"
)

// Options configures a [Store]. The zero value works.
type Options struct {
	// MaxFailures is how many failures of the primary in a row, of all callers
	// together, open the circuit if a probe fails, too. Default: 10.
	MaxFailures int

	// RetryAfter is how often the Store probes the primary in the background after a
	// failure, and sends it the Dones that it missed. Default: 500 ms.
	RetryAfter time.Duration

	// MaxDones is the most Dones remembered for the primary. Each further one replaces one of a
	// customer with many, whose document counts as pending in the primary until its lease
	// ends. Default: 100,000.
	MaxDones int

	// OnChange is called when the circuit opens (true, and the primary's last
	// error) and when it closes again (false, nil). Calls do not overlap, and the primary
	// is not probed meanwhile. It may call Close. Default: nothing is called.
	OnChange func(open bool, cause error)

	// OnError is called with each error of the primary, also in the background, except of
	// calls that were wrong or canceled. It must be safe for concurrent use and return
	// soon. Default: nothing is called.
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
// primary, until it answers. A probe sends Dones of a few customers and documents that do not
// exist. If the primary fails for some customers and works for others, as when one node of a
// cluster hangs, the circuit stays closed, and each call for the former takes the primary's
// timeout.
//
// What was counted without the primary is forgotten when it is back, which can only make
// levels better. But Dones are remembered, as a document that still looks pending makes
// its customer's next levels worse. They reach the primary soon after it is back, and do not end
// a document that was submitted again meanwhile. (A primary without DoneLate, which a RedisStore
// has, never gets them.)
//
// Some calls still return an error: a wrong call ([priority.ErrInvalid]), a call
// whose context was canceled, and a Reset that the primary did not make. A call whose own
// deadline ends first does not count as a failure.
//
// It is safe for concurrent use. Close it before the primary's client.
type Store struct {
	primary priority.Store
	late    late // the primary, if it can be told late Dones; else nil
	memory  *memory.Store
	opts    Options

	breaker breaker
	dones   dones
	used    atomic.Bool // memory has answered since it was last cleared

	retries atomic.Bool     // a goroutine runs retry
	told    bool            // the last argument of OnChange; only that goroutine uses it
	closed  context.Context // ends with Close
	close   func()
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
	if split, ok := priority.As[interface{ Accounts() bool }](primary); ok {
		options.Accounts = split.Accounts()
	}
	if timed, ok := priority.As[interface{ Now() time.Time }](primary); ok { // a simulation
		options.Now = timed.Now
	}
	own, err := memory.New(&options)
	if err != nil {
		return nil, err
	}
	s := &Store{primary: primary, memory: own, opts: *opts}
	s.closed, s.close = context.WithCancel(context.Background())
	s.late, _ = priority.As[late](primary)
	s.opts.RetryAfter = cmp.Or(opts.RetryAfter, defaultRetryAfter)
	s.breaker.most = int32(min(cmp.Or(opts.MaxFailures, defaultMaxFailures), math.MaxInt32))
	s.dones = dones{most: cmp.Or(opts.MaxDones, defaultMaxDones), missed: make(map[document]missed), counts: make(map[string]int)}
	return s, nil
}

// Degraded reports whether the primary's last call failed, or the circuit is not closed.
// It becomes false again when the primary counts a document. Without such a call it becomes
// false after ten successful probes, as a readiness check needs.
func (s *Store) Degraded() bool { return s.breaker.failing() }

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return ask(s, ctx, customer, true,
		func() (priority.Decision, error) { return s.primary.Next(ctx, customer) },
		func(ctx context.Context) (priority.Decision, error) { return degraded(s.memory.Next(ctx, customer)) })
}

// degraded marks a decision of memory.
func degraded(decision priority.Decision, err error) (priority.Decision, error) {
	decision.Degraded = err == nil
	return decision, err
}

func (s *Store) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	if err := check.N(customer, n); err != nil || n == 0 {
		return nil, err
	}
	return ask(s, ctx, customer, true,
		func() ([]priority.Decision, error) { return s.primary.NextN(ctx, customer, n) },
		func(ctx context.Context) ([]priority.Decision, error) {
			decisions, err := s.memory.NextN(ctx, customer, n)
			for i := range decisions {
				decisions[i].Degraded = true
			}
			return decisions, err
		})
}

// NextEach implements [priority.Store]. Memory answers for the entries that the primary
// did not count.
func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if err := check.Each(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	return each(s, ctx, true, customers, s.counted,
		func() ([]priority.Decision, error) { return s.primary.NextEach(ctx, customers) },
		func(ctx context.Context, customer string) (priority.Decision, error) {
			return degraded(s.memory.Next(ctx, customer))
		})
}

func (s *Store) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	return ask(s, ctx, customer, true,
		func() (priority.Decision, error) { return s.primary.Submit(ctx, customer, document) },
		func(ctx context.Context) (priority.Decision, error) {
			return degraded(s.memory.Submit(ctx, customer, document))
		})
}

// SubmitN implements [priority.Store]. Memory answers for the documents that the primary
// did not count: for the first 1,000, and for others until 250 ms have passed or the context
// has ended.
func (s *Store) SubmitN(ctx context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	if err := check.SubmitN(customer, documents); err != nil || len(documents) == 0 {
		return nil, err
	}
	return each(s, ctx, true, documents, func(priority.Document) { s.counted(customer) },
		func() ([]priority.Decision, error) { return s.primary.SubmitN(ctx, customer, documents) },
		func(ctx context.Context, document priority.Document) (priority.Decision, error) {
			return degraded(s.memory.Submit(ctx, customer, document))
		})
}

// Done implements [priority.Store]. A Done that the primary did not accept is remembered for
// it, and is not an error unless the call was canceled.
func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	if err := check.Done(customer, document, took); err != nil {
		return priority.Ended{}, err
	}
	since := time.Now()
	return ask(s, ctx, customer, false,
		func() (priority.Ended, error) {
			ended, err := s.primary.Done(ctx, customer, document, took)
			if err == nil {
				s.ended(customer, document)
			}
			return ended, err
		},
		func(ctx context.Context) (priority.Ended, error) {
			s.owe(customer, document, took, since)
			return s.memory.Done(ctx, customer, document, took)
		})
}

// DoneN implements [priority.Store], as Done does, in the time of SubmitN.
func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]priority.Ended, error) {
	if err := check.DoneN(customer, documents, took); err != nil || len(documents) == 0 {
		return nil, err
	}
	since, apiece := time.Now(), took/time.Duration(len(documents))
	return each(s, ctx, false, documents, func(document string) { s.ended(customer, document) },
		func() ([]priority.Ended, error) { return s.primary.DoneN(ctx, customer, documents, took) },
		func(ctx context.Context, document string) (priority.Ended, error) {
			s.owe(customer, document, apiece, since)
			return s.memory.Done(ctx, customer, document, apiece)
		})
}

// owe remembers a Done that the primary did not accept.
func (s *Store) owe(customer, id string, took time.Duration, since time.Time) {
	if s.late != nil {
		s.dones.add(document{customer, id}, missed{took, since})
		s.retryLater()
	}
}

func (s *Store) Peek(ctx context.Context, customer string) (priority.State, error) {
	return ask(s, ctx, customer, false,
		func() (priority.State, error) { return s.primary.Peek(ctx, customer) },
		func(ctx context.Context) (priority.State, error) {
			state, err := s.memory.Peek(ctx, customer)
			state.Degraded = err == nil
			return state, err
		})
}

// Reset implements [priority.Store]. It returns the primary's error, since the fleet's
// count then remains; memory always forgets the customer.
func (s *Store) Reset(ctx context.Context, customer string) error {
	if err := check.Customer(customer); err != nil {
		return err
	}
	_, err := s.try(ctx, false, func() error { return s.primary.Reset(ctx, customer) })
	_ = s.memory.Reset(context.WithoutCancel(ctx), customer)
	return err
}

func (s *Store) PolicyOf(customer string) priority.Policy { return s.primary.PolicyOf(customer) }

func (s *Store) Last() priority.Level { return s.primary.Last() }

// Unwrap returns the primary; see [priority.As].
func (s *Store) Unwrap() priority.Store { return s.primary }
