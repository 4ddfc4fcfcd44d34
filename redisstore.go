package priority

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/lua"
)

// RedisClient is what a store needs from a client. *redis.Client, *redis.ClusterClient,
// *redis.Ring, redis.UniversalClient and *redis.AutoPipeliner implement it. The caller owns
// the client and closes it. While a shard is down, a Ring moves its customers to other
// shards, where their counts start again. So a store on a Ring reads no overrides and
// cannot join a fleet.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// RedisOptions configures a [RedisStore]. The zero value works.
type RedisOptions struct {
	// Policy applies to every customer without a tier. All processes that share a prefix
	// must have the same policies. Default: DefaultPolicy.
	Policy Policy

	// Tiers are policies for some of the customers, at most 1,000, by the name of the tier.
	// No tier may have more levels than Policy. Default: no tiers.
	Tiers map[string]Policy

	// TierOf names a customer's tier; for a tier that is not in Tiers, Policy applies. It
	// must be safe for concurrent use. Required with Tiers.
	TierOf func(customer string) string

	// Prefix begins every key; it may not contain a brace. Default: "priority".
	Prefix string

	// Overrides says whether decisions apply the overrides that operators set for customers
	// with priorityctl or package control. Each decision then reads one more key. A
	// control.Store and a fleet.Member always apply overrides. Default: overrides are not
	// read.
	Overrides bool

	// Lease bounds how long a submitted document without a Done counts as pending: whole
	// milliseconds, from 1 s to 24 h. Within the bound, a lease is 20 times the customer's
	// average time from Submit to Done, but at least 3 minutes. Before the first Done it is
	// the bound itself. Processes with different bounds may share a prefix. Keep it above
	// Timeout: a Submit whose reply was lost is resent within Timeout, and counts twice if
	// the lease has expired by then. Default: 24 h.
	Lease time.Duration

	// Timeout bounds every call, retries included, whatever the client's own timeouts are.
	// At most 1024 single calls and 32 batches run concurrently, or slightly more on a
	// cluster; further calls wait within the timeout. For a NextEach of many thousands of
	// customers allow 20 µs per customer. Default: 250 ms. Negative: only the call's
	// context bounds it.
	Timeout time.Duration
}

const (
	defaultPrefix  = "priority"
	defaultTimeout = 250 * time.Millisecond

	// DefaultLease is the default and the maximum of Lease.
	DefaultLease = 24 * time.Hour

	// The most items in one script call, so that none blocks Redis for a millisecond, and
	// in one round trip, to bound its memory.
	submittedPerCall, donePerCall = 50, 250
	documentsPerTrip              = 100_000
)

// RedisStore is a [Store] whose numbers live in Redis, shared by all processes that use the
// same server, prefix and policies. Each decision is one call of an atomic script on the
// customer's keys, by Redis's clock. Create it with NewRedisStore; the zero value is not
// usable.
type RedisStore struct {
	runner  *script.Runner
	timeout time.Duration
	prefix  string
	lease   time.Duration
	rules   atomic.Pointer[rules] // in force
	means   *means
	reads   bool // overrides
	tierOf  func(customer string) string
	levels  Level // last level of the queue; bounds overrides under any policy
}

// rules assign a tier to each customer.
type rules struct {
	base  *tier // for customers without a tier
	tiers map[string]*tier
}

// means are the costs of documents, for the customers that this process has seen.
type means struct {
	costs fair.Costs // passed to Submit, in the team's unit
	times fair.Costs // passed to Done, in seconds
}

// tier is a policy and its scripts.
type tier struct {
	policy             Policy
	next, submit, peek *script.Script
}

var (
	doneScript  = script.New(lua.Done, 0, 2)
	resetScript = script.New(lua.Reset, 1, 0)
)

var (
	_ Store       = (*RedisStore)(nil)
	_ RedisClient = (*redis.Client)(nil)
	_ RedisClient = (*redis.ClusterClient)(nil)
	_ RedisClient = (*redis.Ring)(nil)
	_ RedisClient = (redis.UniversalClient)(nil)
)

// NewRedisStore returns a store on a client. It sends nothing. Nil opts are the
// defaults. An error wraps [ErrInvalid].
func NewRedisStore(client RedisClient, opts *RedisOptions) (*RedisStore, error) {
	if typednil.Is(client) {
		return nil, fmt.Errorf("%w option: the client is nil", ErrInvalid)
	}
	if opts == nil {
		opts = &RedisOptions{}
	}
	if strings.ContainsAny(opts.Prefix, "{}") {
		return nil, fmt.Errorf("%w option: Prefix %.80q has a brace in it", ErrInvalid, opts.Prefix)
	}
	if _, ring := client.(*redis.Ring); ring && opts.Overrides {
		return nil, fmt.Errorf("%w option: Overrides on a *redis.Ring: while a shard is down its customers move to others, without overrides", ErrInvalid)
	}
	s := &RedisStore{runner: script.NewRunner(client), timeout: opts.Timeout, prefix: opts.Prefix, means: new(means)}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	if s.prefix == "" {
		s.prefix = defaultPrefix
	}
	var err error
	if s.lease, err = fair.LeaseOf(opts.Lease); err != nil {
		return nil, fmt.Errorf("%w option: %w", ErrInvalid, err)
	}
	if len(opts.Tiers) > 0 && opts.TierOf == nil {
		return nil, fmt.Errorf("%w option: Tiers without a TierOf would never be used", ErrInvalid)
	}
	s.reads, s.tierOf, s.levels = opts.Overrides, opts.TierOf, opts.Policy.Last()
	if err := s.Follow(opts.Policy, opts.Tiers); err != nil {
		return nil, err
	}
	return s, nil
}

// Follow makes later calls decide by another policy and other tiers. TierOf, without which tiers
// have no effect, stays, and so does Last: the policy may not have more levels. Calls in progress
// finish by the old policy, and no count is lost or doubled. An error wraps [ErrInvalid]; the store
// is then unchanged.
func (s *RedisStore) Follow(policy Policy, tiers map[string]Policy) error {
	if err := policy.ValidateTiers(tiers); err != nil {
		return err
	}
	if policy.Last() > s.levels {
		return fmt.Errorf("%w policy: %d levels, more than the %d of the queue", ErrInvalid, policy.Last(), s.levels)
	}
	// Each distinct policy's scripts are rendered once and reused.
	rendered := make(map[string]*tier)
	if known := s.rules.Load(); known != nil {
		rendered[fmt.Sprint(known.base.policy)] = known.base
		for _, tier := range known.tiers {
			rendered[fmt.Sprint(tier.policy)] = tier
		}
	}
	render := func(policy Policy) *tier {
		policy = policy.WithDefaults()
		name := fmt.Sprint(policy)
		if rendered[name] == nil {
			rendered[name] = newTier(policy, s.levels, s.lease)
		}
		return rendered[name]
	}
	now := &rules{base: render(policy)}
	if s.tierOf != nil && len(tiers) > 0 {
		now.tiers = make(map[string]*tier, len(tiers))
		for name, policy := range tiers {
			now.tiers[name] = render(policy)
		}
	}
	s.rules.Store(now)
	return nil
}

func newTier(policy Policy, levels Level, lease time.Duration) *tier {
	numbers := lua.Numbers{
		Thresholds: policy.Thresholds, Interval: policy.ResetInterval, SinceLastReset: policy.ResetMode == SinceLastReset,
		Lease: lease, Loads: policy.Loads, Turns: policy.Turns, Levels: int(levels),
	}
	return &tier{
		policy: policy,
		next:   script.New(lua.With(lua.Next, numbers), 2, 0),
		submit: script.New(lua.With(lua.Submit, numbers), 0, numbersPerSubmit),
		peek:   script.New(lua.With(lua.Peek, numbers), lua.PeekIntegers, 0),
	}
}

func (s *RedisStore) Peek(ctx context.Context, customer string) (State, error) {
	if err := check.Customer(customer); err != nil {
		return State{}, err
	}
	call := s.peekCall(customer)
	reply, err := s.run(ctx, "Peek", &call)
	if err != nil {
		return State{}, err
	}
	return peeked(reply), nil
}

// PeekEach returns the State of each customer, in one round trip to each node for
// every 10,000 customers. If some fail, the error is a *BatchError with the error of
// each.
func (s *RedisStore) PeekEach(ctx context.Context, customers []string) ([]State, error) {
	if err := check.Each(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	states := make([]State, len(customers))
	err := s.inTrips(ctx, s.timeout, "PeekEach", len(customers), script.MaxPipeline,
		func(d *script.Deadline, from, to int, fail func(at int, err error)) {
			calls := make([]script.Call, to-from)
			for i := range calls {
				calls[i] = s.peekCall(customers[from+i])
			}
			replies, errs := s.runEach(d, "PeekEach", calls)
			for i, err := range errs {
				if err != nil {
					fail(i, err)
				} else {
					states[from+i] = peeked(replies[i])
				}
			}
		})
	return states, err
}

func (s *RedisStore) peekCall(customer string) script.Call {
	return script.Call{
		Script: s.of(customer).peek, Key: s.key(customer, countEnd),
		Others:   [3]string{s.key(customer, pendingEnd), s.overrideRead(customer)},
		ReadOnly: true,
	}
}

// peeked parses a reply of peek.lua.
func peeked(reply []int64) State {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	p := lua.PeekedOf(reply)
	state := State{
		Rule: Rule(p.Rule), Level: Level(p.Level), NextLevel: Level(p.NextLevel), RuleLevel: Level(p.RuleLevel), Count: p.Count, ResetIn: ms(p.ResetIn),
		Load: float64(p.Load) / 1e6, Recent: float64(p.Recent) / 1000, Cost: float64(p.Cost) / 1000,
		Pending: p.Pending, PendingLast: p.Beyond, Oldest: ms(p.Oldest), Latency: ms(p.Latency), Lease: ms(p.Lease),
	}
	if p.Latest > 0 {
		state.Override = Override{Earliest: Level(p.Earliest), Latest: Level(p.Latest)}
		state.OverrideEndsIn = ms(max(p.EndsIn, 0))
	}
	return state
}

func (s *RedisStore) Reset(ctx context.Context, customer string) error {
	if err := check.Customer(customer); err != nil {
		return err
	}
	_, err := s.run(ctx, "Reset", &script.Call{
		Script: resetScript, Key: s.key(customer, countEnd), Others: [3]string{s.key(customer, pendingEnd)},
	})
	return err
}

func (s *RedisStore) PolicyOf(customer string) Policy { return s.of(customer).policy.WithDefaults() }

func (s *RedisStore) Last() Level { return s.levels }

// Lease returns the longest time that a submitted document without a Done counts as
// pending.
func (s *RedisStore) Lease() time.Duration { return s.lease }

// Keys are one customer's keys in Redis. lua/next.lua and lua/submit.lua describe their
// values.
type Keys struct{ Count, Pending, Override string }

// Keys returns a customer's keys. Each contains the customer in braces, the hash tag by which
// a Redis Cluster places it.
func (s *RedisStore) Keys(customer string) Keys {
	return Keys{s.key(customer, countEnd), s.key(customer, pendingEnd), s.key(customer, overrideEnd)}
}

const countEnd, pendingEnd, overrideEnd = "}:count", "}:pending", "}:override"

func (s *RedisStore) key(customer, end string) string {
	if strings.ContainsAny(customer, "%}") {
		customer = keyEscaper.Replace(customer)
	}
	return s.prefix + ":{" + customer + end
}

// overrideRead returns the override's key, or "" if overrides are not read.
func (s *RedisStore) overrideRead(customer string) string {
	if !s.reads {
		return ""
	}
	return s.key(customer, overrideEnd)
}

// keyEscaper keeps the hash tag whole and the keys of two customers apart.
var keyEscaper = strings.NewReplacer("%", "%25", "}", "%7D")

func (s *RedisStore) of(customer string) *tier {
	rules := s.rules.Load()
	if rules.tiers != nil {
		if tier := rules.tiers[s.tierOf(customer)]; tier != nil {
			return tier
		}
	}
	return rules.base
}

// run makes one call within the timeout.
func (s *RedisStore) run(ctx context.Context, operation string, call *script.Call) ([]int64, error) {
	d := script.Begin(ctx, s.timeout)
	defer d.End()
	reply, failure := s.runner.Run(&d, call)
	if failure != nil {
		return nil, failed(operation, call, failure)
	}
	return reply, nil
}

// runEach makes calls in one round trip.
func (s *RedisStore) runEach(d *script.Deadline, operation string, calls []script.Call) ([][]int64, []error) {
	replies, failures := s.runner.RunEach(d, calls)
	errs := make([]error, len(calls))
	for i, failure := range failures {
		if failure != nil {
			errs[i] = failed(operation, &calls[i], failure)
		}
	}
	return replies, errs
}

// inTrips runs n items in round trips of at most perTrip, within one timeout. Unsent items
// cost nothing and share one error.
func (s *RedisStore) inTrips(ctx context.Context, timeout time.Duration, operation string, n, perTrip int,
	trip func(d *script.Deadline, from, to int, fail func(at int, err error))) error {
	d := script.Begin(ctx, timeout)
	defer d.End()
	var errs []error
	for from := 0; from < n; from += perTrip {
		to := min(from+perTrip, n)
		fail := func(at int, err error) {
			if errs == nil {
				errs = make([]error, n)
			}
			errs[from+at] = err
		}
		if err := d.Err(); err != nil && from > 0 {
			err = fmt.Errorf("%w: %s: %d of %d were not sent: %w", ErrNotCounted, operation, n-from, n, err)
			for at := range n - from {
				fail(at, err)
			}
			break
		}
		trip(&d, from, to, fail)
	}
	if errs != nil {
		return &BatchError{Errs: errs}
	}
	return nil
}

// failed returns the error of a call: its class, the operation, the key and the
// cause.
func failed(operation string, call *script.Call, failure *script.Failure) error {
	class, key := ErrNotCounted, call.Key
	switch failure.Outcome {
	case script.Unknown:
		class = ErrOutcomeUnknown
	case script.CorruptCount:
		class = ErrCorrupt
	case script.CorruptPending:
		class = ErrCorrupt
		if call.ReadOnly {
			key = call.Others[0]
		}
	}
	return fmt.Errorf("%w: %s %.200q: %w", class, operation, key, failure.Err)
}
