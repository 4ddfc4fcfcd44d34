package insight

import (
	"context"
	"fmt"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Customer is all that is known about a customer. It does not change.
type Customer struct {
	Name
	State
	Better

	// LevelDone is how many documents of NextLevel, of all customers, were done in the last
	// minute. LevelMedianMS and LevelP95MS are how long they took from Submit to Done. 0:
	// no document was done, or Waits is not known. See [Inspector.Waits].
	LevelDone     int64 `json:"level_done"`
	LevelMedianMS int64 `json:"level_median_ms"`
	LevelP95MS    int64 `json:"level_p95_ms"`

	CountKey   string        `json:"count_key"`
	PendingKey string        `json:"pending_key"`
	UsageKey   string        `json:"usage_key"`
	Policy     control.Rules `json:"policy"`
	PolicyName string        `json:"policy_name"`

	// Tier is the customer's tier, if it has a policy of its own.
	Tier string `json:"tier,omitempty"`

	// Override is what operators have set for the customer. Nil: no override.
	Override *Overridden `json:"override,omitempty"`

	// Corrupt is a corrupt key that the rule does not read. Empty: there is none.
	Corrupt string `json:"corrupt,omitempty"`

	found  string // in Corrupt
	policy priority.Policy
	last   priority.Level // of the queue
}

// PeekRights are what Customer and a walk need, as ACL SETUSER takes them.
const PeekRights = "+evalsha +eval +get +mget +pttl +zcard +zcount +zrange +time"

// Customer looks a customer up. It changes nothing. An error wraps
// [priority.ErrInvalidCustomer] or [priority.ErrCorruptCount], says which rights are
// missing if it is [Forbidden], or is the store's.
func (i *Inspector) Customer(ctx context.Context, customer string) (*Customer, error) {
	known, damaged, err := i.peek(ctx, customer)
	if err != nil {
		return nil, err
	}
	// Submit does not read the count.
	unread := len(damaged) == 1 && damaged[0].key == i.Store.Key(customer) && known.Rule == priority.ByLoad
	if len(damaged) > 0 && !unread {
		return nil, i.corrupt(ctx, customer, known, damaged)
	}
	override, err := i.OverrideOf(ctx, customer)
	if Unreachable(err) {
		return nil, fmt.Errorf("%s: %w", Shown(customer), err)
	} // else it is unknown who set it
	keys, policy, waits := i.keys(customer), i.policyOf(customer), i.Waits[known.NextLevel]
	c := &Customer{
		Name: NameOf(customer), State: stateOf(known), Override: i.inForce(override, customer, known),
		LevelDone: waits.Count(), LevelMedianMS: waits.Median().Milliseconds(), LevelP95MS: waits.P95().Milliseconds(),
		CountKey: keys[0], PendingKey: keys[1], UsageKey: keys[2],
		Policy: RulesOf(policy.Policy), PolicyName: policy.Name, policy: policy.Policy, last: i.LastLevel(),
	}
	c.Better = betterOf(policy.Policy, c.State)
	if tier, ok := i.Tier(customer); ok {
		c.Tier = tier
	}
	if unread {
		c.Corrupt, c.found = damaged[0].key, i.found(ctx, damaged[0])
	}
	return c, nil
}
