// Package control lets operators change a fleet's levels while it runs: the policies,
// and the level of single customers, for a time. What they set is a document in Redis
// that all workers follow, and no deployment.
//
// A worker makes its [Store] by [New], in the place of priority.NewRedisStore. An
// operator's program uses an [Admin], as priorityctl does.
package control

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
)

// Options configures a [Store]. The zero value works.
type Options struct {
	// Store makes the RedisStore: its Policy and Tiers hold until operators set others,
	// and the document has its Prefix.
	Store priority.RedisOptions

	// Interval is how often to ask whether something was changed: two short commands in
	// one round trip. At least 10 ms, at most a minute. Default: 500 ms.
	Interval time.Duration

	// OnError is told why the document cannot be followed: once, until the reason
	// changes or it can be followed again. It must return soon and may not use the
	// Store. Default: nobody is told.
	OnError func(err error)
}

const (
	defaultPrefix    = "priority"
	defaultInterval  = 500 * time.Millisecond
	shortestInterval = 10 * time.Millisecond
	longestInterval  = time.Minute
)

// Store is a [priority.Store] around a RedisStore that decides by what operators have
// set. It asks for changes every Interval, from the first call until Close, and no
// call waits for that. A change never loses or doubles a count, for counts do not
// depend on policies: a call that is under way ends by what held when it began.
//
// Until the document was read once, and where none was ever written, the policies are
// those of the RedisStore's own options. While it cannot be read, or cannot be used,
// the last one holds. Overrides end by Redis's clock, also while Redis is away.
//
// Last is that of the RedisStore, whatever operators set: a queue is declared with so
// many levels, and rules with more of them are not used.
//
// It is safe for concurrent use. Close it before the store's client.
type Store struct {
	own      *priority.RedisStore
	options  priority.RedisOptions // of own
	reader   reader
	interval time.Duration
	onError  func(error)

	current atomic.Pointer[state]
	readers chan struct{} // of maxReaders
	reading sync.Mutex    // held while what was read, or why not, is noted
	failure error         // of the reading that began at noted; reading guards both
	noted   time.Time

	unusable unusable
	begin    sync.Once
	live     context.Context // until Close
	stop     context.CancelFunc
	ended    chan struct{} // closed when nothing is read in the background any more
	closing  chan struct{} // of one: who closes holds it
}

var _ priority.Store = (*Store)(nil)

// New returns a Store around a RedisStore that it makes on the client. It sends nothing.
// Nil opts are the defaults. An error wraps [priority.ErrInvalidPolicy] or
// [priority.ErrInvalidOption].
func New(client priority.RedisClient, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	own, err := priority.NewRedisStore(client, &opts.Store)
	if err != nil {
		return nil, err
	}
	s := &Store{
		own: own, options: opts.Store,
		reader: newReader(client, cmp.Or(opts.Store.Prefix, defaultPrefix)), interval: opts.Interval, onError: opts.OnError,
		readers: make(chan struct{}, maxReaders), ended: make(chan struct{}), closing: make(chan struct{}, 1),
	}
	if s.interval == 0 {
		s.interval = defaultInterval
	}
	if s.interval < shortestInterval || s.interval > longestInterval {
		return nil, fmt.Errorf("%w: Interval %v is not from %v to %v", priority.ErrInvalidOption, opts.Interval, shortestInterval, longestInterval)
	}
	s.live, s.stop = context.WithCancel(context.Background())
	s.current.Store(&state{store: own, document: &Document{}, last: own.Last()})
	return s, nil
}

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	now := s.now()
	decision, err := now.store.Next(ctx, customer)
	return now.decided(customer, decision, err)
}

func (s *Store) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	now := s.now()
	decisions, err := now.store.NextN(ctx, customer, n)
	for i, decision := range decisions {
		decisions[i], _ = now.decided(customer, decision, err)
	}
	return decisions, err
}

func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	now := s.now()
	decisions, err := now.store.NextEach(ctx, customers)
	if len(decisions) > 0 {
		for i, failure := range priority.ItemErrors(err, len(decisions)) {
			decisions[i], _ = now.decided(customers[i], decisions[i], failure)
		}
	}
	return decisions, err
}

func (s *Store) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	now := s.now()
	decision, err := now.store.Submit(ctx, customer, document, cost)
	return now.decided(customer, decision, err)
}

func (s *Store) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]priority.Decision, error) {
	now := s.now()
	decisions, err := now.store.SubmitN(ctx, customer, documents, costs)
	if len(decisions) > 0 {
		for i, failure := range priority.ItemErrors(err, len(decisions)) {
			decisions[i], _ = now.decided(customer, decisions[i], failure)
		}
	}
	return decisions, err
}

func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) error {
	return s.now().store.Done(ctx, customer, document, took)
}

func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error {
	return s.now().store.DoneN(ctx, customer, documents, took)
}

// Peek implements [priority.Store]. NextLevel is the level with the customer's override.
func (s *Store) Peek(ctx context.Context, customer string) (priority.State, error) {
	now := s.now()
	state, err := now.store.Peek(ctx, customer)
	if err == nil {
		state.NextLevel = now.override(customer, priority.Decision{Level: state.NextLevel}).Level
	}
	return state, err
}

func (s *Store) Reset(ctx context.Context, customer string) error {
	return s.now().store.Reset(ctx, customer)
}

func (s *Store) PolicyOf(customer string) priority.Policy {
	return s.now().store.PolicyOf(customer)
}

func (s *Store) Last() priority.Level { return s.own.Last() }

// Unwrap returns the RedisStore by the options; see [priority.As].
func (s *Store) Unwrap() priority.Store { return s.own }

// Override returns a decision with the override that holds for the customer, for
// stores around this one that decide themselves, as package fallback does.
func (s *Store) Override(customer string, decision priority.Decision) priority.Decision {
	return s.now().override(customer, decision)
}

// now returns what holds, and sees to it that changes are noticed.
func (s *Store) now() *state {
	s.begin.Do(func() { go s.follow() })
	return s.current.Load()
}

// Close ends what runs in the background, until ctx ends. Later calls go by what was
// known last. Close may be called again.
func (s *Store) Close(ctx context.Context) error {
	s.stop()
	s.begin.Do(func() { close(s.ended) }) // it never began
	select {
	case <-s.ended:
	case <-ctx.Done():
		return fmt.Errorf("control: the document is being read: %w", ctx.Err())
	}
	select {
	case s.closing <- struct{}{}:
		defer func() { <-s.closing }()
	case <-ctx.Done():
		return fmt.Errorf("control: another Close is under way: %w", ctx.Err())
	}
	for range maxReaders {
		select {
		case s.readers <- struct{}{}:
			defer func() { <-s.readers }()
		case <-ctx.Done():
			return fmt.Errorf("control: the document is being read: %w", ctx.Err())
		}
	}
	return nil
}
