package priority

import (
	"context"
	"time"

	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/script"
)

func (s *RedisStore) Next(ctx context.Context, customer string) (Decision, error) {
	if err := check.Customer(customer); err != nil {
		return Decision{}, err
	}
	tier := s.tier(customer)
	call := s.nextCall(customer, tier, 1)
	reply, err := s.run(ctx, "Next", &call)
	if err != nil {
		return Decision{}, err
	}
	return s.counted(tier, reply, 0), nil
}

func (s *RedisStore) NextN(ctx context.Context, customer string, n int) ([]Decision, error) {
	if err := check.N(customer, n); err != nil || n == 0 {
		return nil, err
	}
	tier := s.tier(customer)
	call := s.nextCall(customer, tier, n)
	reply, err := s.run(ctx, "NextN", &call)
	if err != nil {
		return nil, err
	}
	decisions := make([]Decision, n)
	for i := range decisions {
		decisions[i] = s.counted(tier, reply, n-1-i)
	}
	return decisions, nil
}

// nextCall returns a call for n documents.
func (s *RedisStore) nextCall(customer string, tier *tier, n int) script.Call {
	call := script.Call{Script: tier.next, Key: s.key(customer, keys.Count), Integers: 2}
	s.addOverride(&call, customer)
	if n > 1 {
		call.Args = []any{n}
	}
	return call
}

// NextEach implements [Store]. Every 10,000 entries take one round trip to each node, all
// nodes in parallel.
func (s *RedisStore) NextEach(ctx context.Context, customers []string) ([]Decision, error) {
	if err := check.Each(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	decisions := make([]Decision, len(customers))
	err := s.inTrips(ctx, "NextEach", len(customers), script.MaxPipeline,
		func(d *script.Deadline, from, to int, fail func(at int, err error)) {
			s.nextEach(d, customers[from:to], decisions[from:to], fail)
		})
	return decisions, err
}

// nextEach is one round trip of NextEach.
func (s *RedisStore) nextEach(d *script.Deadline, customers []string, decisions []Decision, fail func(at int, err error)) {
	// One command counts all documents of a customer, so that retries keep their order.
	calls, tiers := make([]script.Call, 0, len(customers)), make([]*tier, 0, len(customers))
	callOf, documents := make(map[string]int, len(customers)), make([]int, 0, len(customers))
	for _, customer := range customers {
		i, ok := callOf[customer]
		if !ok {
			i = len(calls)
			callOf[customer] = i
			tiers = append(tiers, s.tier(customer))
			calls = append(calls, s.nextCall(customer, tiers[i], 1))
			documents = append(documents, 0)
		}
		documents[i]++
	}
	for i, n := range documents {
		if n > 1 {
			calls[i].Args = []any{n}
		}
	}
	replies, errs := s.runEach(d, "NextEach", calls)
	for at, customer := range customers {
		i := callOf[customer]
		if documents[i]--; errs[i] != nil {
			fail(at, errs[i])
		} else {
			decisions[at] = s.counted(tiers[i], replies[i], documents[i])
		}
	}
}

// counted reads a decision from a reply of next.lua; before is how many documents of the
// call come later.
func (s *RedisStore) counted(tier *tier, answer script.Reply, before int) Decision {
	policy, reply, bounds := &tier.policy, answer.Integers, apart(answer)
	d := Decision{RuleLevel: Level(reply[0]), Count: reply[1] + int64(before), ResetIn: policy.ResetInterval}
	if len(reply) > 2 {
		d.ResetIn = time.Duration(reply[2]) * time.Millisecond
	}
	if len(reply) > 3 {
		d.RuleLevel, bounds = Level(reply[3]), Bounds{Earliest: Level(reply[4]), Latest: Level(reply[5])}
	}
	if before > 0 {
		d.RuleLevel = policy.Level(d.Count)
	}
	d.Level = bounds.Level(d.RuleLevel, s.levels)
	return d
}
