package insight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/redis/go-redis/v9"
)

// Customer is all that is known of one. It does not change.
type Customer struct {
	Name
	Level     priority.Level `json:"level"` // by Submit where something is pending, else by Next; with the override
	Pending   int64          `json:"pending"`
	Submit    Submitted      `json:"submit"`
	Count     int64          `json:"count"`
	Documents int64          `json:"documents"` // since the last reset
	RuleLevel priority.Level `json:"rule_level"`
	NextLevel priority.Level `json:"next_level"` // that Next would give to the next document, with the override
	Row       string         `json:"row"`
	Counted   bool           `json:"counted"` // there is a count
	ResetInMS int64          `json:"reset_in_ms"`
	NoTTL     bool           `json:"no_ttl"`

	CountKey   string        `json:"count_key"`
	PendingKey string        `json:"pending_key"`
	UsageKey   string        `json:"usage_key"`
	Policy     control.Rules `json:"policy"`
	PolicyName string        `json:"policy_name"`

	// Tier is the customer's tier, where it has a policy of its own.
	Tier string `json:"tier,omitempty"`

	// Override is what operators have set for the customer: see [Inspector.Follow]. Nil:
	// nothing.
	Override *OverrideInForce `json:"override,omitempty"`

	policy priority.Policy
	last   priority.Level // of the queue
	rule   levels         // without an override
}

// levels are those that a customer has, and the next document gets.
type levels struct{ now, next, submit priority.Level }

// OverrideInForce is the override of a customer, and what the levels are without it.
type OverrideInForce struct {
	Overridden
	RuledLevel           priority.Level `json:"ruled_level"`
	RuledNextLevel       priority.Level `json:"ruled_next_level"`
	RuledSubmitNextLevel priority.Level `json:"ruled_submit_next_level"`
}

// What Customer asks Redis for: what peek.lua replies, the average time from Submit to
// Done in tenths of a second, and the TTLs of the usage and of the count. It is one
// call, so that the numbers fit together.
const (
	beforePeek = "local function peek()\n"
	afterPeek  = `
end
local reply = peek()
if not reply.err then
  reply[9] = math.floor((redis.call('GET', KEYS[3]) or 0) / 1000000)
  reply[10] = redis.call('PTTL', KEYS[3])
  reply[11] = redis.call('PTTL', KEYS[1])
end
return reply`

	customerRights = "+evalsha +eval +get +pttl +zcount +zrange +time"
)

// Customer looks a customer up. It changes nothing. An error wraps
// [priority.ErrInvalidCustomer] or [priority.ErrCorruptCount], says which rights are
// missing where it is [Forbidden], or is that of go-redis.
func (i *Inspector) Customer(ctx context.Context, customer string) (*Customer, error) {
	if err := priority.CheckCustomer(customer); err != nil {
		return nil, err
	}
	keys := i.keys(customer)
	script := redis.NewScript(beforePeek + i.Store.PeekScript(customer) + afterPeek)
	reply, err := script.Run(ctx, i.Client, keys).Int64Slice()
	var refused redis.Error
	switch {
	case errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "CORRUPT"):
		return nil, i.corrupt(ctx, customer, refused)
	case Forbidden(err):
		return nil, fmt.Errorf("%s: %w; it needs %s on the keys ~%s:*", Shown(customer), err, customerRights, i.prefix())
	case err != nil:
		return nil, fmt.Errorf("%s: %w", Shown(customer), err)
	case len(reply) != 11:
		return nil, fmt.Errorf("%s: Redis replied %d numbers, not 11", Shown(customer), len(reply))
	}
	level, count, pending, resetIn, countTTL := priority.Level(reply[0]), reply[1], reply[2], reply[3], reply[10]
	policy := i.policyOf(customer)
	ruled := policy.Level(count)
	c := &Customer{
		Name: NameOf(customer), Level: level, Count: count, Pending: pending,
		RuleLevel: ruled, Row: rowOf(policy.Policy, ruled).Condition(),
		Counted: countTTL != -2, ResetInMS: resetIn, NoTTL: countTTL == -1,
		CountKey: keys[0], PendingKey: keys[1], UsageKey: keys[2],
		Policy: RulesOf(policy.Policy), PolicyName: policy.Name, policy: policy.Policy,
	}
	c.NextLevel = policy.Level(0)
	if c.Counted {
		c.Documents = 1 - count
		c.NextLevel = policy.Level(count - 1)
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	known := history{
		pending: pending, ordinary: reply[5], cost: reply[6], lease: ms(reply[7]),
		sojourn: 100 * ms(reply[8]), usageTTL: max(ms(reply[9]), 0), known: reply[9] != -2,
	}
	c.Submit = submittedOf(policy.Policy, level, known)
	c.rule, c.last = levels{level, c.NextLevel, c.Submit.NextLevel}, i.LastLevel()
	if tier, ok := i.tierOf(customer); ok {
		c.Tier = tier
	}
	if overridden := i.OverrideOf(customer); overridden != nil {
		c.Override = &OverrideInForce{*overridden, c.rule.now, c.rule.next, c.rule.submit}
		for _, level := range []*priority.Level{&c.Level, &c.NextLevel, &c.Submit.NextLevel} {
			*level = overridden.Override().Level(*level, c.last)
		}
	}
	return c, nil
}
