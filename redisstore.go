package priority

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/lua"
)

// RedisClient is what a store needs from a client. *redis.Client,
// *redis.ClusterClient, *redis.Ring, redis.UniversalClient and *redis.AutoPipeliner
// implement it. The caller owns the client and closes it.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// RedisOptions configures a [RedisStore]. The zero value works.
type RedisOptions struct {
	// Policy decides for every customer who has no tier of their own. A zero field
	// takes its value from DefaultPolicy, which is the default. All processes that
	// share a prefix must have the same policies.
	Policy Policy

	// Tiers are policies for some of the customers, by the name of the tier. No
	// tier may have more levels than Policy. Default: no tiers.
	Tiers map[string]Policy

	// TierOf names a customer's tier; customers of a tier that is not in Tiers
	// have Policy. It must be safe for concurrent use. Required with Tiers.
	TierOf func(customer string) string

	// Prefix begins every key; it may not contain a brace. Default: "priority".
	Prefix string

	// Overrides says whether decisions apply the overrides that operators set for customers
	// with priorityctl or package control. Each decision then also reads the override's key,
	// beside the customer's count. A control.Store and a fleet.Member always apply
	// overrides. Default: overrides are not read.
	Overrides bool

	// Lease bounds how long a submitted document that nobody finishes counts as pending:
	// whole milliseconds, from 1 ms to 24 h. Within the bound, a lease is 20 times the
	// customer's average time from Submit to Done, but at least 3 minutes. Before the
	// first Done it is the bound itself. Processes with different bounds may share a
	// prefix. Keep it above Timeout: a Submit whose reply was lost is sent again within
	// that, and counts twice if the lease ended before. Default: 24 h.
	Lease time.Duration

	// Timeout bounds every call, retries included, whatever the client's own
	// timeouts are. At most 1024 calls of one document and 32 of many, or slightly
	// more on a cluster, are under way at a time; others wait for their turn within
	// the timeout. For a NextEach of many thousands of customers allow 20 µs per
	// customer. Default: 250 ms. Negative: only the call's context bounds it.
	Timeout time.Duration
}

const (
	defaultPrefix  = "priority"
	defaultTimeout = 250 * time.Millisecond

	// DefaultLease is the default and the maximum of Lease.
	DefaultLease = fair.Day

	// How many items one script call takes, so that no call blocks Redis for a
	// millisecond, and how many one round trip takes, which bounds its memory.
	submittedPerCall, donePerCall = 50, 250
	documentsPerTrip              = 100_000
)

// RedisStore is a [Store] whose numbers live in Redis, shared by all processes
// that use the same server, prefix and policies. Each decision is one call of
// an atomic script on the customer's keys, by Redis's clock. NewRedisStore makes it; the
// zero value is not ready to use.
type RedisStore struct {
	runner   *script.Runner
	timeout  time.Duration
	prefix   string
	lease    time.Duration
	policies *Policies
	tiers    []tier // by the policies' index
	means    *means
	reads    bool  // overrides
	levels   Level // of the queue: the bound of overrides, whatever policies are followed
}

// means are the average costs of this process's documents.
type means struct {
	told fair.Mean // as given to Submit, in the team's unit
	took fair.Mean // as given to Done, in seconds
}

// tier stands for the customers who share a policy.
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
// defaults. An error wraps [ErrInvalidPolicy] or [ErrInvalidOption].
func NewRedisStore(client RedisClient, opts *RedisOptions) (*RedisStore, error) {
	if typednil.Is(client) {
		return nil, fmt.Errorf("%w: the client is nil", ErrInvalidOption)
	}
	if opts == nil {
		opts = &RedisOptions{}
	}
	if strings.ContainsAny(opts.Prefix, "{}") {
		return nil, fmt.Errorf("%w: Prefix %.80q has a brace in it", ErrInvalidOption, opts.Prefix)
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
		return nil, fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	if s.policies, err = NewPolicies(opts.Policy, opts.Tiers, opts.TierOf); err != nil {
		return nil, err
	}
	s.reads = opts.Overrides
	s.levels = s.policies.Last()
	s.tiers = newTiers(s.policies, s.levels, s.lease, nil)
	return s, nil
}

// With returns a store with other policies that shares the counts, the client and
// the limits of s. Calls under way finish by the old policies, and no count is lost
// or doubled.
func (s *RedisStore) With(policies *Policies) *RedisStore {
	with := *s
	with.policies, with.tiers = policies, newTiers(policies, s.levels, s.lease, s.tiers)
	return &with
}

// newTiers renders the scripts of each different policy once, and reuses the known tiers'
// scripts.
func newTiers(policies *Policies, levels Level, lease time.Duration, known []tier) []tier {
	rendered := make(map[string]tier, len(known))
	for _, tier := range known {
		rendered[fmt.Sprint(tier.policy)] = tier
	}
	tiers := make([]tier, len(policies.all))
	for i, policy := range policies.all {
		name := fmt.Sprint(policy)
		if _, ok := rendered[name]; !ok {
			rendered[name] = newTier(policy, levels, lease)
		}
		tiers[i] = rendered[name]
	}
	return tiers
}

func newTier(policy Policy, levels Level, lease time.Duration) tier {
	numbers := lua.Numbers{
		Thresholds: policy.Thresholds, Interval: policy.ResetInterval,
		SinceLastReset: policy.ResetMode == SinceLastReset, Lease: lease, Turns: policy.Turns, Levels: int(levels),
	}
	for _, load := range policy.Loads {
		numbers.Loads = append(numbers.Loads, fair.Millionths(load))
	}
	return tier{
		policy: policy,
		next:   script.New(lua.With(lua.Next, numbers), 2, 0),
		submit: script.New(lua.With(lua.Submit, numbers), 0, numbersPerSubmit),
		peek:   script.New(lua.With(lua.Peek, numbers), 17, 0),
	}
}

func (s *RedisStore) Next(ctx context.Context, customer string) (Decision, error) {
	if err := CheckCustomer(customer); err != nil {
		return Decision{}, err
	}
	tier := s.of(customer)
	call := s.nextCall(customer, tier)
	reply, err := s.run(ctx, "Next", &call)
	if err != nil {
		return Decision{}, err
	}
	return s.counted(customer, tier, reply, 0), nil
}

func (s *RedisStore) NextN(ctx context.Context, customer string, n int) ([]Decision, error) {
	if err := CheckN(customer, n); err != nil || n == 0 {
		return nil, err
	}
	tier := s.of(customer)
	call := s.nextCall(customer, tier)
	call.Numbers = []int64{int64(n)}
	reply, err := s.run(ctx, "NextN", &call)
	if err != nil {
		return nil, err
	}
	decisions := make([]Decision, n)
	for i := range decisions {
		decisions[i] = s.counted(customer, tier, reply, n-1-i)
	}
	return decisions, nil
}

func (s *RedisStore) nextCall(customer string, tier *tier) script.Call {
	return script.Call{Script: tier.next, Key: s.Key(customer), Others: [3]string{s.overrideRead(customer)}}
}

// NextEach implements [Store]. Each 10,000 entries are one round trip to each
// node, all nodes at the same time.
func (s *RedisStore) NextEach(ctx context.Context, customers []string) ([]Decision, error) {
	if err := CheckEach(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	decisions := make([]Decision, len(customers))
	err := s.inTrips(ctx, s.timeout, "NextEach", len(customers), script.MaxPipeline,
		func(d *script.Deadline, from, to int, fail func(at int, err error)) {
			s.nextEach(d, customers[from:to], decisions[from:to], fail)
		})
	return decisions, err
}

// nextEach is one round trip of NextEach.
func (s *RedisStore) nextEach(d *script.Deadline, customers []string, decisions []Decision, fail func(at int, err error)) {
	// One command counts all documents of a customer, so that they keep their order
	// whatever has to be retried.
	calls, tiers := make([]script.Call, 0, len(customers)), make([]*tier, 0, len(customers))
	callOf, documents := make(map[string]int, len(customers)), make([]int, 0, len(customers))
	for _, customer := range customers {
		i, ok := callOf[customer]
		if !ok {
			i = len(calls)
			callOf[customer] = i
			tiers = append(tiers, s.of(customer))
			calls = append(calls, s.nextCall(customer, tiers[i]))
			documents = append(documents, 0)
		}
		documents[i]++
	}
	for i, n := range documents {
		if n > 1 {
			calls[i].Numbers = []int64{int64(n)}
		}
	}
	replies, errs := s.runEach(d, "NextEach", calls)
	for at, customer := range customers {
		i := callOf[customer]
		if documents[i]--; errs[i] != nil {
			fail(at, errs[i])
		} else {
			decisions[at] = s.counted(customer, tiers[i], replies[i], documents[i])
		}
	}
}

// Submit implements [Store]. It is sent again within the timeout if its reply is
// lost.
func (s *RedisStore) Submit(ctx context.Context, customer, document string, cost float64) (Decision, error) {
	documents, costs := []string{document}, []float64{cost}
	if err := CheckSubmit(customer, documents, costs); err != nil {
		return Decision{}, err
	}
	call := s.submitCall(customer)
	call.IDs, call.Costs = documents, []int64{s.means.told.Relative(cost)}
	reply, err := s.run(ctx, "Submit", &call)
	if err != nil {
		return Decision{}, err
	}
	s.means.told.Add(cost)
	return submitted(reply), nil
}

// SubmitN implements [Store]. Each 50 documents are one atomic command, and each
// 100,000 one round trip. Those that Redis refuses for a moment, as in a failover,
// are sent again and so come after the others.
func (s *RedisStore) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]Decision, error) {
	if err := CheckSubmit(customer, documents, costs); err != nil || len(documents) == 0 {
		return nil, err
	}
	call := s.submitCall(customer)
	call.Ordered = len(documents) > submittedPerCall
	relative := make([]int64, len(documents))
	for i, cost := range costs {
		relative[i] = s.means.told.Relative(cost)
	}
	decisions := make([]Decision, len(documents))
	err := s.eachDocument(ctx, "SubmitN", documents, relative, submittedPerCall, call, func(at, in int, reply []int64) {
		decisions[at] = submitted(reply[numbersPerSubmit*in:])
		if costs != nil {
			s.means.told.Add(costs[at])
		}
	})
	return decisions, err
}

func (s *RedisStore) submitCall(customer string) script.Call {
	return script.Call{
		Script: s.of(customer).submit, Key: s.PendingKey(customer),
		Others: [3]string{s.UsageKey(customer), s.overrideRead(customer)}, Repeatable: true,
	}
}

// Done implements [Store]. It is sent again within the timeout if its reply is
// lost.
func (s *RedisStore) Done(ctx context.Context, customer, document string, took time.Duration) error {
	documents := []string{document}
	if err := CheckDone(customer, documents, took); err != nil {
		return err
	}
	each := fair.Each(took, 1)
	call := s.doneCall(customer, each)
	call.IDs = documents
	reply, err := s.run(ctx, "Done", &call)
	if err == nil {
		s.ended(ctx, document, each, reply)
	}
	return err
}

// DoneN implements [Store]. Each 250 documents are one atomic command, and each
// 100,000 one round trip.
func (s *RedisStore) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error {
	if err := CheckDone(customer, documents, took); err != nil || len(documents) == 0 {
		return err
	}
	each := fair.Each(took, len(documents))
	return s.eachDocument(ctx, "DoneN", documents, nil, donePerCall, s.doneCall(customer, each), func(at, in int, reply []int64) {
		s.ended(ctx, documents[at], each, reply[2*in:])
	})
}

// doneCall returns a call for documents that each took that many seconds.
func (s *RedisStore) doneCall(customer string, each float64) script.Call {
	return script.Call{
		Script: doneScript, Key: s.PendingKey(customer), Others: [3]string{s.UsageKey(customer)},
		Numbers: []int64{s.means.took.Relative(each)}, Repeatable: true,
	}
}

// ended learns from one document's part of a reply of done.lua, and reports it.
func (s *RedisStore) ended(ctx context.Context, document string, each float64, reply []int64) {
	sojourn, level := time.Duration(reply[0])*time.Millisecond, Level(reply[1])
	if level > 0 {
		s.means.took.Add(each)
		ReportEnded(ctx, Ended{Document: document, Sojourn: sojourn, Level: level})
	}
}

// eachDocument makes one call for every perCall documents, with their costs if there are
// any, and passes each document its call's reply and its index in it.
func (s *RedisStore) eachDocument(ctx context.Context, operation string, documents []string, costs []int64, perCall int, call script.Call,
	replied func(at, in int, reply []int64)) error {
	return s.inTrips(ctx, s.timeout, operation, len(documents), documentsPerTrip,
		func(d *script.Deadline, from, to int, fail func(at int, err error)) {
			var calls []script.Call
			for first := from; first < to; first += perCall {
				last := min(first+perCall, to)
				call.IDs = documents[first:last]
				if costs != nil {
					call.Costs = costs[first:last]
				}
				calls = append(calls, call)
			}
			replies, errs := s.runEach(d, operation, calls)
			for at := range to - from {
				if i := at / perCall; errs[i] != nil {
					fail(at, errs[i])
				} else {
					replied(from+at, at%perCall, replies[i])
				}
			}
		})
}

func (s *RedisStore) Peek(ctx context.Context, customer string) (State, error) {
	if err := CheckCustomer(customer); err != nil {
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
	if err := CheckEach(customers); err != nil || len(customers) == 0 {
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
		Script: s.of(customer).peek, Key: s.Key(customer),
		Others:   [3]string{s.PendingKey(customer), s.UsageKey(customer), s.overrideRead(customer)},
		ReadOnly: true,
	}
}

// peeked reads a reply of peek.lua.
func peeked(r []int64) State {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return State{
		Rule: Rule(r[0]), Level: Level(r[1]), NextLevel: Level(r[2]),
		Count: r[3], ResetIn: ms(r[4]),
		Load: float64(r[5]) / 1e6, Lately: float64(r[6]) / 1000, Cost: float64(r[7]) / 1000,
		Pending: r[8], PendingLast: r[9],
		Oldest: ms(r[10]), Sojourn: ms(r[11]), Lease: ms(r[12]),
		Ruled: Level(r[13]), Override: overrideOf(r[14:]), OverrideEndsIn: ms(max(r[16], 0)),
	}
}

func (s *RedisStore) Reset(ctx context.Context, customer string) error {
	if err := CheckCustomer(customer); err != nil {
		return err
	}
	_, err := s.run(ctx, "Reset", &script.Call{
		Script: resetScript, Key: s.Key(customer), Others: [3]string{s.PendingKey(customer), s.UsageKey(customer)},
	})
	return err
}

func (s *RedisStore) PolicyOf(customer string) Policy { return s.policies.PolicyOf(customer) }

func (s *RedisStore) Last() Level { return s.policies.Last() }

// Lease returns the longest time that a submitted document without a Done counts as
// pending.
func (s *RedisStore) Lease() time.Duration { return s.lease }

// Key returns the key of a customer's count. The customer stands in it between
// braces, as the hash tag by which a Redis Cluster places the key.
func (s *RedisStore) Key(customer string) string {
	return s.keyOf(customer, "}:count")
}

// PendingKey returns the key of a customer's pending documents. lua/submit.lua says what
// it holds.
func (s *RedisStore) PendingKey(customer string) string {
	return s.keyOf(customer, "}:pending")
}

// UsageKey returns the key of a customer's usage: how many documents were submitted
// lately, how long they stay pending, and what they cost. lua/submit.lua describes
// it.
func (s *RedisStore) UsageKey(customer string) string {
	return s.keyOf(customer, "}:usage")
}

// OverrideKey returns the key of a customer's override. lua/next.lua says what it holds.
func (s *RedisStore) OverrideKey(customer string) string {
	return s.keyOf(customer, "}:override")
}

// overrideRead returns the override's key, or "" if overrides are not read.
func (s *RedisStore) overrideRead(customer string) string {
	if !s.reads {
		return ""
	}
	return s.OverrideKey(customer)
}

// overrideOf reads {earliest, latest, …} of a reply.
func overrideOf(end []int64) Override {
	if len(end) < 3 {
		return Override{}
	}
	return Override{Earliest: Level(end[0]), Latest: Level(end[1])}
}

func (s *RedisStore) keyOf(customer, end string) string {
	if strings.ContainsAny(customer, "%}") {
		customer = keyEscaper.Replace(customer)
	}
	return s.prefix + ":{" + customer + end
}

// keyEscaper keeps the hash tag whole and the keys of two customers apart.
var keyEscaper = strings.NewReplacer("%", "%25", "}", "%7D")

// NextScript returns lua/next.lua with the numbers of the customer's policy. A
// program in another language runs it on the same keys to share the counts.
func (s *RedisStore) NextScript(customer string) string { return s.of(customer).next.Text }

// SubmitScript returns lua/submit.lua with the numbers of the customer's policy and
// the lease.
func (s *RedisStore) SubmitScript(customer string) string { return s.of(customer).submit.Text }

// PeekScript returns lua/peek.lua.
func (s *RedisStore) PeekScript(customer string) string { return s.of(customer).peek.Text }

func (s *RedisStore) of(customer string) *tier {
	return &s.tiers[s.policies.index(customer)]
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

// inTrips runs n items in round trips of at most perTrip, within one timeout. Items that
// are not sent cost nothing and share one error.
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
		class = ErrCorruptCount
	case script.CorruptPending:
		class, key = ErrCorruptCount, keyLike(call, "}:pending")
	case script.CorruptUsage:
		class, key = ErrCorruptCount, keyLike(call, "}:usage")
	}
	return fmt.Errorf("%w: %s %.200q: %w", class, operation, key, failure.Err)
}

// keyLike returns the call's key with the given suffix, or its first key.
func keyLike(call *script.Call, end string) string {
	for _, key := range call.Others {
		if strings.HasSuffix(key, end) {
			return key
		}
	}
	return call.Key
}

// counted reads a reply of next.lua: the decision for the document that before
// others of the same call follow.
func (s *RedisStore) counted(customer string, tier *tier, reply []int64, before int) Decision {
	policy := &tier.policy
	d := Decision{Level: Level(reply[0]), Count: reply[1], ResetIn: policy.ResetInterval}
	if before > 0 {
		d.Count += int64(before)
		d.Level = policy.Level(d.Count)
	}
	if len(reply) > 2 {
		d.ResetIn = time.Duration(reply[2]) * time.Millisecond
	}
	var end []int64
	if len(reply) > 4 {
		d.Ruled, end = Level(reply[3]), reply[4:]
		if before > 0 {
			d.Ruled, d.Level = d.Level, overrideOf(end).Level(d.Level, s.levels)
		}
	}
	if before == 0 {
	}
	return d
}

// numbersPerSubmit is how many numbers a reply of submit.lua has for each document.
const numbersPerSubmit = 4

// submitted reads one document's part of a reply of submit.lua.
func submitted(reply []int64) Decision {
	return Decision{Level: Level(reply[0]), Load: float64(reply[1]) / 1e6, Pending: reply[2], Ruled: Level(reply[3])}
}
