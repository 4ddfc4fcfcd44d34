package priority

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/keys"
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

	// Levels is how many levels the queue has, at most 255. No policy may have more.
	// Default: as many as Policy.
	Levels Level

	// Prefix begins every key; it may not contain a brace. Default: "priority".
	Prefix string

	// Overrides says whether decisions apply the overrides that operators set for customers
	// with priorityctl or package control. Each decision then reads one more key. A
	// fleet.Member always applies overrides. Default: overrides are not read.
	Overrides bool

	// Accounts makes a customer "acme/mary" the user mary of the account acme, split at the first
	// slash: Submit counts both, and Next the user. Set it, alike in all processes, if customers
	// can create ids: else one who floods by a hundred of them is a hundred customers. It reads
	// overrides: one of acme holds for its users who have none. Reset of a user leaves their documents
	// in the account's numbers until their Done or lease. Default: names are not split.
	Accounts bool

	// Lease bounds how long a submitted document without a Done counts as pending: whole
	// milliseconds, from 1 s to 24 h. Within the bound, a lease is 20 times the customer's
	// average time until Done, but at least 3 minutes. Before the first Done it is
	// the bound itself. Processes with different bounds may share a prefix. Keep it above
	// Timeout: a Submit whose reply was lost is resent within Timeout, and counts twice if
	// the lease has expired by then. Default: 24 h.
	Lease time.Duration

	// Timeout bounds every call, retries included, whatever the client's own timeouts are.
	// Connecting has those, and may take longer. As many calls as the client's PoolSize, at
	// most 1024 single ones and 32 batches, run concurrently on each node of a cluster;
	// further calls wait within the timeout. A call that is given up still takes a place until
	// the client's ReadTimeout ends it, so never switch that off. For a NextEach of many
	// thousands of customers allow 20 µs per customer. Default: 250 ms. Negative: only the
	// call's context bounds it.
	Timeout time.Duration
}

const (
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
	runner    *script.Runner
	timeout   time.Duration
	prefix    keys.Prefix
	lease     time.Duration
	own       Policies // those of the options
	policies  atomic.Pointer[policies]
	means     *means
	overrides bool // whether they are read
	accounts  bool // whether names are split
	tierOf    func(customer string) string
	levels    Level // how many the queue has, whatever policies are followed
}

// means are the costs of documents, for the customers that this process has seen.
type means struct {
	costs fair.Costs // passed to Submit, in the team's unit
	times fair.Costs // passed to Done, in seconds
}

var (
	doneScript  = script.New(lua.Done)
	resetScript = script.New(lua.Reset)
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
	if err := keys.Prefix(opts.Prefix).Validate(); err != nil {
		return nil, err
	}
	if _, ring := client.(*redis.Ring); ring && (opts.Overrides || opts.Accounts) {
		return nil, fmt.Errorf("%w option: Overrides or Accounts on a *redis.Ring: while a shard is down its customers move to others, without overrides", ErrInvalid)
	}
	s := &RedisStore{
		runner: script.NewRunner(client), timeout: cmp.Or(opts.Timeout, defaultTimeout), prefix: keys.Prefix(opts.Prefix), means: new(means),
		own: Policies{opts.Policy, maps.Clone(opts.Tiers)}, overrides: opts.Overrides || opts.Accounts, accounts: opts.Accounts, tierOf: opts.TierOf, levels: cmp.Or(opts.Levels, opts.Policy.Last()),
	}
	var err error
	if s.lease, err = fair.LeaseOf(opts.Lease); err != nil {
		return nil, fmt.Errorf("%w option: %w", ErrInvalid, err)
	}
	if len(opts.Tiers) > 0 && opts.TierOf == nil {
		return nil, fmt.Errorf("%w option: Tiers without a TierOf would never be used", ErrInvalid)
	}
	if err := s.Follow(nil); err != nil {
		return nil, err
	}
	if s.levels < First || s.levels > maxLevels {
		return nil, fmt.Errorf("%w option: Levels %d is not 1 to %d", ErrInvalid, s.levels, maxLevels)
	}
	return s, nil
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
	return s.peeked(reply), nil
}

// PeekEach returns the State of each customer, in one round trip to each node for
// every 10,000 customers. If some fail, the error is a *BatchError with the error of
// each.
func (s *RedisStore) PeekEach(ctx context.Context, customers []string) ([]State, error) {
	if err := check.Each(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	states := make([]State, len(customers))
	err := s.inTrips(ctx, "PeekEach", len(customers), script.MaxPipeline,
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
					states[from+i] = s.peeked(replies[i])
				}
			}
		})
	return states, err
}

func (s *RedisStore) peekCall(customer string) script.Call {
	call := script.Call{
		Script: s.tier(customer).peek, Key: s.key(customer, keys.Count), OtherKeys: []string{s.key(customer, keys.Pending)},
		Integers: lua.PeekIntegers, ReadOnly: true,
	}
	s.addOverride(&call, customer, keys.Pending)
	return call
}

// peeked parses a reply of peek.lua.
func (s *RedisStore) peeked(reply script.Reply) State {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	p := lua.PeekedOf(reply.Integers)
	state := State{
		Rule: Rule(p.Rule), Level: Level(p.Level), NextLevel: Level(p.NextLevel), RuleLevel: Level(p.RuleLevel), Count: p.Count, ResetIn: ms(p.ResetIn),
		Load: float64(p.Load) / 1e6, Recent: float64(p.Recent) / 1000, Cost: float64(p.Cost) / 1000,
		Pending: p.Pending, PendingFlood: p.PendingFlood, Oldest: ms(p.Oldest), Latency: ms(p.Latency), Lease: ms(p.Lease),
		Scheduled: p.Scheduled, AccountLoad: float64(p.AccountLoad) / 1e6, AccountFlood: p.AccountFlood,
	}
	if p.Latest > 0 {
		state.Bounds = Bounds{Earliest: Level(p.Earliest), Latest: Level(p.Latest)}
		state.OverrideEndsIn = ms(max(p.EndsIn, 0))
	} else if bounds := apart(reply); bounds != (Bounds{}) {
		state.Bounds, state.NextLevel = bounds, bounds.Level(state.RuleLevel, s.levels)
	}
	return state
}

func (s *RedisStore) Reset(ctx context.Context, customer string) error {
	if err := check.Customer(customer); err != nil {
		return err
	}
	_, err := s.run(ctx, "Reset", &script.Call{
		Script: resetScript, Key: s.key(customer, keys.Count), OtherKeys: []string{s.key(customer, keys.Pending)}, Integers: 1,
	})
	return err
}

func (s *RedisStore) PolicyOf(customer string) Policy { return s.tier(customer).policy.WithDefaults() }

func (s *RedisStore) Last() Level { return s.levels }

// Lease returns the longest time that a submitted document without a Done counts as
// pending.
func (s *RedisStore) Lease() time.Duration { return s.lease }

// Accounts reports whether names are split into accounts and users.
func (s *RedisStore) Accounts() bool { return s.accounts }

// Prefix returns what begins every key.
func (s *RedisStore) Prefix() string { return cmp.Or(string(s.prefix), keys.DefaultPrefix) }

// Keys are one customer's keys in Redis. lua/next.lua and lua/submit.lua describe their
// values.
type Keys struct{ Count, Pending, Override string }

// Keys returns a customer's keys. Each contains the customer in braces, the hash tag by which
// a Redis Cluster places it.
func (s *RedisStore) Keys(customer string) Keys {
	return Keys{s.key(customer, keys.Count), s.key(customer, keys.Pending), s.key(customer, keys.Override)}
}

// key returns a customer's key of a kind.
func (s *RedisStore) key(customer, kind string) string {
	if s.accounts {
		if account, user, ok := keys.Account(customer); ok {
			return s.prefix.OfUser(account, user, kind)
		}
	}
	return s.prefix.Of(customer, kind)
}

// addOverride adds the key of the customer's override to a call, if overrides are read. Behind it
// come the account's keys of some kinds and its override, for a user of one.
func (s *RedisStore) addOverride(call *script.Call, customer string, kinds ...string) {
	if !s.overrides {
		return
	}
	call.OtherKeys = append(call.OtherKeys, s.key(customer, keys.Override))
	account, _, isUser := keys.Account(customer)
	if call.Override = !s.accounts || !isUser; !call.Override {
		for _, kind := range append(kinds, keys.Override) {
			call.OtherKeys = append(call.OtherKeys, s.prefix.Of(account, kind))
		}
	}
}

// tier returns what decides for a customer.
func (s *RedisStore) tier(customer string) *tier {
	followed := s.policies.Load()
	if followed.tiers != nil {
		if tier := followed.tiers[s.tierOf(customer)]; tier != nil {
			return tier
		}
	}
	return followed.base
}

// run makes one call within the timeout.
func (s *RedisStore) run(ctx context.Context, operation string, call *script.Call) (script.Reply, error) {
	d := script.Begin(ctx, s.timeout)
	defer d.End()
	reply, failure := s.runner.Run(&d, call)
	if failure != nil {
		return reply, failed(operation, call, failure)
	}
	return reply, nil
}

// apart returns the bounds of an override that was not read by the script; zero if there is none.
func apart(reply script.Reply) (bounds Bounds) {
	if reply.Override != "" {
		_ = bounds.UnmarshalText([]byte(reply.Override)) // of another text nothing is left, as in the scripts
	}
	return bounds
}

// runEach makes calls in one round trip.
func (s *RedisStore) runEach(d *script.Deadline, operation string, calls []script.Call) ([]script.Reply, []error) {
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
func (s *RedisStore) inTrips(ctx context.Context, operation string, n, perTrip int,
	trip func(d *script.Deadline, from, to int, fail func(at int, err error))) error {
	d := script.Begin(ctx, s.timeout)
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
	class := ErrNotCounted
	switch failure.Outcome {
	case script.Unknown:
		class = ErrOutcomeUnknown
	case script.Corrupt:
		class = ErrCorrupt
	}
	return fmt.Errorf("%w: %s %.200q: %w", class, operation, failure.Key(call), failure.Err)
}
