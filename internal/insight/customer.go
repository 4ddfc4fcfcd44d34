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
	Policy     control.Rules `json:"policy"`
	PolicyName string        `json:"policy_name"`

	// Tier is the customer's tier, if it has a policy of its own.
	Tier string `json:"tier,omitempty"`

	// Override is what operators have set for the customer. Nil: no override.
	Override *Overridden `json:"override,omitempty"`

	policy priority.Policy
	last   priority.Level // of the queue
}

// PeekRights are what Customer and a walk need, as ACL SETUSER takes them.
const PeekRights = "+evalsha +script|load +get +pttl +zcard +zcount +zmscore +zrange +time"

// Customer looks a customer up. It changes nothing. An error wraps
// [priority.ErrInvalid] or [priority.ErrCorrupt], says which rights are
// missing if it is [Forbidden], or is the store's.
func (i *Inspector) Customer(ctx context.Context, customer string) (*Customer, error) {
	known, err := i.peek(ctx, customer)
	if err != nil {
		return nil, err
	}
	override, err := i.OverrideOf(ctx, customer)
	if Unreachable(err) {
		return nil, fmt.Errorf("%s: %w", Shown(customer), err)
	} // else it is unknown who set it
	keys, policy, waits := i.Store.Keys(customer), i.policyOf(customer), i.Waits[known.NextLevel]
	c := &Customer{
		Name: NameOf(customer), State: stateOf(known), Override: i.inForce(override, customer, known),
		LevelDone: waits.Count(), LevelMedianMS: waits.Median().Milliseconds(), LevelP95MS: waits.P95().Milliseconds(),
		CountKey: keys.Count, PendingKey: keys.Pending,
		Policy: RulesOf(policy.Policy), PolicyName: policy.Name, policy: policy.Policy, last: i.LastLevel(),
	}
	c.Better = betterOf(policy.Policy, c.State)
	if tier, ok := i.Tier(customer); ok {
		c.Tier = tier
	}
	return c, nil
}
