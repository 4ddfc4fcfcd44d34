package priority

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisClient is what a store needs of a client. *redis.Client,
// *redis.ClusterClient, *redis.Ring, redis.UniversalClient and
// *redis.AutoPipeliner have it. The caller owns the client and closes it.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// RedisOptions configures a [RedisStore] or a [RedisTracker]. The zero value works.
type RedisOptions struct {
	// Policy decides for every customer who has no tier of their own. Default:
	// DefaultPolicy; a zero field takes its value from there. All processes that
	// share a prefix must have the same policies.
	Policy Policy

	// Tiers are policies for some of the customers, by the name of the tier.
	// Default: none.
	Tiers map[string]Policy

	// TierOf names a customer's tier; customers of a tier that is not in Tiers
	// have Policy. It must be safe for concurrent use. Required with Tiers.
	TierOf func(customer string) string

	// Prefix begins every key; it may not contain a brace. Default: "priority".
	Prefix string

	// Lease is how long a tracker holds a document that nobody finishes for
	// pending: whole milliseconds. All processes that share a prefix must have the
	// same. A store has no use for it. Default: 900 s.
	Lease time.Duration

	// Timeout bounds every call, retries included, whatever the client's own
	// timeouts are. A NextEach of many thousands of customers may need a longer
	// one: reckon with 20 µs a customer. Default: 250 ms. Negative: only the
	// call's context bounds it.
	Timeout time.Duration
}

const (
	defaultPrefix  = "priority"
	defaultTimeout = 250 * time.Millisecond
)

// RedisStore is a [Store] whose counts live in Redis, shared by all processes
// that use the same server, prefix and policies. Each decision is one call of
// an atomic script on one key.
type RedisStore struct {
	caller  caller
	prefix  string
	scripts tiered[*redisScripts]
}

// redisScripts are the scripts of one policy.
type redisScripts struct {
	policy     Policy
	next, peek *script
}

var (
	_ Store = (*RedisStore)(nil)

	_ RedisClient = (*redis.Client)(nil)
	_ RedisClient = (*redis.ClusterClient)(nil)
	_ RedisClient = (*redis.Ring)(nil)
	_ RedisClient = (redis.UniversalClient)(nil)
	_ RedisClient = (*redis.AutoPipeliner)(nil)
)

// NewRedisStore returns a store on a client. It sends nothing. Nil opts are the
// defaults. An error wraps [ErrInvalidPolicy] or [ErrInvalidOption].
func NewRedisStore(client RedisClient, opts *RedisOptions) (*RedisStore, error) {
	if client == nil || reflect.ValueOf(client).Kind() == reflect.Pointer && reflect.ValueOf(client).IsNil() {
		return nil, fmt.Errorf("%w: the client is nil", ErrInvalidOption)
	}
	if opts == nil {
		opts = &RedisOptions{}
	}
	if strings.ContainsAny(opts.Prefix, "{}") {
		return nil, fmt.Errorf("%w: Prefix %s has a brace in it", ErrInvalidOption, quote(opts.Prefix))
	}
	s := &RedisStore{
		caller: caller{client: client, timeout: opts.Timeout},
		prefix: opts.Prefix,
	}
	if s.caller.timeout == 0 {
		s.caller.timeout = defaultTimeout
	}
	if s.prefix == "" {
		s.prefix = defaultPrefix
	}
	var err error
	s.scripts, err = newTiered(opts.Policy, opts.Tiers, opts.TierOf, func(p Policy) *redisScripts {
		return &redisScripts{
			policy: p,
			next:   newScript(render(nextLua, p), 2),
			peek:   newScript(render(peekLua, p), 3),
		}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Next implements [Store].
func (s *RedisStore) Next(ctx context.Context, customer string) (Decision, error) {
	if err := checkCustomer(customer); err != nil {
		return Decision{}, err
	}
	scripts := s.scripts.of(customer)
	reply, err := s.caller.call(ctx, &scriptCall{
		operation: "Next", key: s.Key(customer), script: scripts.next,
	})
	if err != nil {
		return Decision{}, err
	}
	return decisionOf(reply, scripts.policy), nil
}

// NextN implements [Store].
func (s *RedisStore) NextN(ctx context.Context, customer string, n int) ([]Decision, error) {
	if err := checkDocuments(customer, n); err != nil || n == 0 {
		return nil, err
	}
	scripts := s.scripts.of(customer)
	reply, err := s.caller.call(ctx, &scriptCall{
		operation: "NextN", key: s.Key(customer), script: scripts.next, count: n,
	})
	if err != nil {
		return nil, err
	}
	decisions := make([]Decision, n)
	last := decisionOf(reply, scripts.policy)
	for i := range decisions {
		decisions[i] = earlier(last, n-1-i, scripts.policy)
	}
	return decisions, nil
}

// NextEach implements [Store]. It takes one round trip to each node, the nodes
// side by side, for up to 10,000 different customers.
func (s *RedisStore) NextEach(ctx context.Context, customers []string) ([]Decision, error) {
	if err := checkCustomers(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	// The documents of one customer are counted by one command, so that they
	// keep their order whatever has to be tried again.
	type share struct {
		scripts            *redisScripts
		documents, decided int
	}
	shares := make([]share, 0, len(customers))
	calls := make([]scriptCall, 0, len(customers))
	callOf := make(map[string]int, len(customers))
	for _, customer := range customers {
		i, ok := callOf[customer]
		if !ok {
			i = len(calls)
			callOf[customer] = i
			scripts := s.scripts.of(customer)
			calls = append(calls, scriptCall{operation: "NextEach", key: s.Key(customer), script: scripts.next})
			shares = append(shares, share{scripts: scripts})
		}
		shares[i].documents++
	}
	for i := range calls {
		if n := shares[i].documents; n > 1 {
			calls[i].count = n
		}
	}

	replies, failures := s.caller.callEach(ctx, calls)
	decisions := make([]Decision, len(customers))
	var errs []error
	for at, customer := range customers {
		i := callOf[customer]
		if failures[i] != nil {
			if errs == nil {
				errs = make([]error, len(customers))
			}
			errs[at] = failures[i]
			continue
		}
		policy := shares[i].scripts.policy
		decisions[at] = decisionOf(replies[i], policy)
		shares[i].decided++
		if before := shares[i].documents - shares[i].decided; before > 0 {
			decisions[at] = earlier(decisions[at], before, policy)
		}
	}
	if errs != nil {
		return decisions, &BatchError{Errs: errs}
	}
	return decisions, nil
}

// Peek implements [Store].
func (s *RedisStore) Peek(ctx context.Context, customer string) (Decision, error) {
	if err := checkCustomer(customer); err != nil {
		return Decision{}, err
	}
	scripts := s.scripts.of(customer)
	reply, err := s.caller.call(ctx, &scriptCall{
		operation: "Peek", key: s.Key(customer), script: scripts.peek, readOnly: true,
	})
	if err != nil {
		return Decision{}, err
	}
	return decisionOf(reply, scripts.policy), nil
}

// Reset implements [Store].
func (s *RedisStore) Reset(ctx context.Context, customer string) error {
	if err := checkCustomer(customer); err != nil {
		return err
	}
	_, err := s.caller.call(ctx, &scriptCall{
		operation: "Reset", key: s.Key(customer), script: resetScript,
	})
	return err
}

// Key returns the key of a customer's count. The customer stands in it between
// braces, as the hash tag by which a Redis Cluster places the key.
func (s *RedisStore) Key(customer string) string {
	return s.keyOf(customer, "}:count")
}

func (s *RedisStore) keyOf(customer, end string) string {
	if strings.ContainsAny(customer, "%}") {
		customer = keyEscaper.Replace(customer)
	}
	return s.prefix + ":{" + customer + end
}

// Script returns the Lua script that counts the customer's documents:
// lua/next.lua with the numbers of the customer's policy. A program in another
// language runs it on the same key to share the count.
func (s *RedisStore) Script(customer string) string {
	return s.scripts.of(customer).next.text.(string)
}

// PolicyOf returns the policy that decides for a customer, with every field
// filled in.
func (s *RedisStore) PolicyOf(customer string) Policy {
	return s.scripts.of(customer).policy.filled()
}

// keyEscaper keeps the hash tag whole and the keys of two customers apart.
var keyEscaper = strings.NewReplacer("%", "%25", "}", "%7D")

// decisionOf reads a reply of next.lua or peek.lua.
func decisionOf(reply []int64, policy Policy) Decision {
	resetIn := policy.resetInterval()
	if len(reply) > 2 {
		resetIn = time.Duration(reply[2]) * time.Millisecond
	}
	return Decision{Level: Level(reply[0]), Count: reply[1], ResetIn: resetIn}
}

// earlier returns the decision of the document that came before documents ahead
// of the last one of the same call.
func earlier(last Decision, before int, policy Policy) Decision {
	last.Count += int64(before)
	last.Level = policy.Level(last.Count)
	return last
}
