package insight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/script"
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

// customerRights are what Customer needs, as ACL SETUSER takes them.
const customerRights = "+evalsha +eval +get +pttl +zcount +zrange +time"

// Customer looks a customer up. It changes nothing. An error wraps
// [priority.ErrInvalidCustomer] or [priority.ErrCorruptCount], says which rights are
// missing where it is [Forbidden], or is that of go-redis.
func (i *Inspector) Customer(ctx context.Context, customer string) (*Customer, error) {
	if err := priority.CheckCustomer(customer); err != nil {
		return nil, err
	}
	keys := i.keys(customer)
	reply, err := redis.NewScript(i.Store.PeekScript(customer)).Run(ctx, i.Client, keys).Int64Slice()
	var refused redis.Error
	switch {
	case errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "CORRUPT"):
		return nil, i.corrupt(ctx, customer, refused)
	case Forbidden(err):
		return nil, fmt.Errorf("%s: %w; it needs %s on the keys ~%s:*", Shown(customer), err, customerRights, i.prefix())
	case err != nil:
		return nil, fmt.Errorf("%s: %w", Shown(customer), err)
	case len(reply) != script.PeekReplies:
		return nil, fmt.Errorf("%s: Redis replied %d numbers, not %d", Shown(customer), len(reply), script.PeekReplies)
	}
	known := script.PeekedOf(reply)
	level, policy := priority.Level(known.Level), i.policyOf(customer)
	ruled := policy.Level(known.Count)
	c := &Customer{
		Name: NameOf(customer), Level: level, Count: known.Count, Pending: known.Pending,
		RuleLevel: ruled, Row: rowOf(policy.Policy, ruled).Condition(),
		Counted: known.HasCount, ResetInMS: known.ResetIn.Milliseconds(), NoTTL: known.HasCount && known.CountLeft < 0,
		CountKey: keys[0], PendingKey: keys[1], UsageKey: keys[2],
		Policy: RulesOf(policy.Policy), PolicyName: policy.Name, policy: policy.Policy,
	}
	c.NextLevel = policy.Level(0)
	if c.Counted {
		c.Documents = 1 - c.Count
		c.NextLevel = policy.Level(c.Count - 1)
	}
	c.Submit = submittedOf(policy.Policy, known)
	c.rule, c.last = levels{level, c.NextLevel, c.Submit.NextLevel}, i.LastLevel()
	if tier, ok := i.Tier(customer); ok {
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
