// Package control lets operators change a running fleet's levels without a deployment: the
// policies, and temporarily the levels of single customers.
//
// An override is a key beside the customer's numbers, which each decision reads. Rules, the
// policies for all customers, are in one key that all workers follow.
//
// A worker creates its [Store] with [New] instead of priority.NewRedisStore. An operator's
// program uses an [Admin], as priorityctl does.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
)

// FollowedWithin is how soon a worker with the default Interval follows a change of the
// rules while Redis answers. An override applies from the next document on.
const FollowedWithin = time.Second

var (
	// ErrLost: Redis has no rules, or older ones than the Store has read, as after a restart
	// without its data or a failover to a replica that lagged. The rules that the Store
	// follows stay in force until operators apply, import or withdraw rules.
	ErrLost = errors.New("control: Redis lost what operators set")

	// ErrCorrupt: the key named in the message holds something that this module does not
	// write.
	ErrCorrupt = errors.New("control: corrupt")

	// ErrNewer: a later version of this module wrote what the message names.
	ErrNewer = errors.New("control: written by a later version of the module")
)

// Options configures a [Store]. The zero value works.
type Options struct {
	// Store configures the RedisStore: its Policy and Tiers apply until operators set
	// others. The Store always reads overrides.
	Store priority.RedisOptions

	// Interval is how often to check for changed rules, with one short command. At least 10
	// ms, at most a minute. Default: 500 ms.
	Interval time.Duration

	// OnChange is called when the Store starts to follow other rules, and when the reason
	// in Status.Err changes or goes away. It must return soon. Calls do not overlap.
	// Default: none.
	OnChange func(Status)
}

const (
	defaultPrefix    = "priority"
	defaultInterval  = 500 * time.Millisecond
	shortestInterval = 10 * time.Millisecond
	longestInterval  = time.Minute
)

// Store is a [priority.Store] around a RedisStore that decides by the rules that operators
// have set. From the first call until Close it checks for changes every Interval, and no
// call waits for that. A change never loses or doubles a document, because counts do not
// depend on policies. A call in progress finishes by the rules with which it began.
//
// Until the rules have been read once, and if operators never set any, the policies
// in Options.Store apply. While the rules cannot be read or used, or if Redis lost
// them, the last known rules apply; see Status.
//
// Last never changes, whatever operators set: a queue is declared with that many
// levels, and rules with more levels are not used.
//
// It is safe for concurrent use. Close it before the store's client.
type Store struct {
	own      *priority.RedisStore
	options  priority.RedisOptions // of own
	client   priority.RedisClient
	rulesKey string
	interval time.Duration
	onChange func(Status)

	current atomic.Pointer[known]
	begin   sync.Once
	ask     chan chan error // follow answers when it has read the rules
	live    context.Context // until Close
	stop    context.CancelFunc
	ended   chan struct{} // closed when reading has stopped
}

var _ priority.Store = (*Store)(nil)

// New returns a Store around a RedisStore that it creates on the client. It sends nothing.
// Nil opts are the defaults. An error wraps [priority.ErrInvalid].
func New(client priority.RedisClient, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	options := opts.Store
	options.Overrides = true
	own, err := priority.NewRedisStore(client, &options)
	if err != nil {
		return nil, err
	}
	s := &Store{
		own: own, options: options, client: client, rulesKey: keysOf(options.Prefix).rules,
		interval: cmp.Or(opts.Interval, defaultInterval), onChange: opts.OnChange,
		ask: make(chan chan error), ended: make(chan struct{}),
	}
	if s.interval < shortestInterval || s.interval > longestInterval {
		return nil, fmt.Errorf("%w option: Interval %v is not from %v to %v", priority.ErrInvalid, opts.Interval, shortestInterval, longestInterval)
	}
	s.live, s.stop = context.WithCancel(context.Background())
	s.current.Store(new(known))
	return s, nil
}

// keys are the operators' keys of one prefix, all in one slot.
type keys struct{ rules, overrides, log string }

// keysOf returns the keys; "" means the default prefix.
func keysOf(prefix string) keys {
	control := cmp.Or(prefix, defaultPrefix) + ":{control}:"
	return keys{control + "rules", control + "overrides", control + "log"}
}

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return s.now().Next(ctx, customer)
}

func (s *Store) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	return s.now().NextN(ctx, customer, n)
}

func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	return s.now().NextEach(ctx, customers)
}

func (s *Store) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	return s.now().Submit(ctx, customer, document, cost)
}

func (s *Store) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]priority.Decision, error) {
	return s.now().SubmitN(ctx, customer, documents, costs)
}

func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	return s.now().Done(ctx, customer, document, took)
}

func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]priority.Ended, error) {
	return s.now().DoneN(ctx, customer, documents, took)
}

func (s *Store) Peek(ctx context.Context, customer string) (priority.State, error) {
	return s.now().Peek(ctx, customer)
}

func (s *Store) Reset(ctx context.Context, customer string) error {
	return s.now().Reset(ctx, customer)
}

func (s *Store) PolicyOf(customer string) priority.Policy { return s.now().PolicyOf(customer) }

func (s *Store) Last() priority.Level { return s.own.Last() }

// Unwrap returns the RedisStore that decides, with the operators' rules; see [priority.As].
func (s *Store) Unwrap() priority.Store { return s.own }

// now returns the store that decides, and starts following changes.
func (s *Store) now() *priority.RedisStore {
	s.begin.Do(func() { go s.follow() })
	return s.own
}

// Close stops following changes, and gives up waiting when ctx ends. Later calls follow
// the last known rules. Close may be called again.
func (s *Store) Close(ctx context.Context) error {
	s.stop()
	s.begin.Do(func() { close(s.ended) }) // it never began
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("control: the rules are being read: %w", ctx.Err())
	}
}
