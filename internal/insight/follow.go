package insight

import (
	"context"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Follow returns an Inspector that decides by what operators have set now, and that
// can Follow in its turn, which reads only what has changed since. Where nothing is
// set, or there is no Admin, it decides by the workers' own options.
//
// An error is that of [control.Admin.DocumentSince], says which rights are missing
// where it is [Forbidden], or wraps [priority.ErrInvalidPolicy] where workers with
// these options cannot use what is set. The Inspector that did not follow can then be
// used further.
func (i *Inspector) Follow(ctx context.Context) (*Inspector, error) {
	if i.Admin == nil {
		return i, nil
	}
	own := i.before
	if own == nil {
		copied := *i
		own = &copied
	}
	document, now, err := i.Admin.DocumentSince(ctx, i.Document)
	if err != nil {
		if Forbidden(err) {
			err = fmt.Errorf("%w; it needs %s on the keys ~%s:{control}:*", err, ControlReadRights, i.prefix())
		}
		return nil, err
	}
	next := *own
	next.before, next.Own, next.Document = own, own.Store, document
	next.Now, next.read = now, time.Now()
	if next.Options, err = document.Options(own.Options); err == nil {
		next.Store, err = priority.NewRedisStore(own.Client, &next.Options)
	}
	if err != nil {
		return nil, fmt.Errorf("what operators have set is not used by workers with these options: %w", err)
	}
	if document.Rules != nil {
		next.Policy = NamedPolicy{filled(document.Rules.Value.Policy), ItemName(*document.Rules)}
	}
	next.PolicyName = next.nameOf
	return &next, nil
}

// The rights that reading and changing what operators have set need, as ACL SETUSER
// takes them.
const (
	ControlReadRights  = "+evalsha +eval +hmget +hget +hscan +xrange +xrevrange +time"
	ControlWriteRights = ControlReadRights + " +hset +hdel +xadd +zadd +zrem +zcount +zrangebyscore"
)

// ItemName is what people call rules that operators have set, such as "version 12, by mary".
func ItemName[T any](item control.Item[T]) string {
	return fmt.Sprintf("version %d, by %s", item.Version, Shown(item.By))
}

// policyOf returns a customer's policy with its name.
func (i *Inspector) policyOf(customer string) NamedPolicy {
	name := i.Policy.Name
	if i.PolicyName != nil {
		name = i.PolicyName(customer)
	}
	return NamedPolicy{i.Store.PolicyOf(customer), name}
}

// nameOf names a customer's policy where operators may have set it.
func (i *Inspector) nameOf(customer string) string {
	if i.Document.Rules == nil {
		return i.before.policyOf(customer).Name
	}
	name := i.Policy.Name
	if tier, ok := i.Tier(customer); ok {
		name += ", tier " + Shown(tier)
	}
	return name
}

// Tier returns a customer's tier, and whether it has a policy of its own.
func (i *Inspector) Tier(customer string) (tier string, ok bool) {
	tier = i.tier(customer)
	_, ok = i.Options.Tiers[tier]
	return tier, ok
}

func (i *Inspector) tier(customer string) string {
	if i.Options.TierOf == nil {
		return ""
	}
	return i.Options.TierOf(customer)
}

// Rules returns the policy and the tiers that decide, with every field filled in.
func (i *Inspector) Rules() control.Rules {
	rules := control.Rules{Policy: filled(i.Options.Policy), Tiers: make(map[string]priority.Policy, len(i.Options.Tiers))}
	for name, policy := range i.Options.Tiers {
		rules.Tiers[name] = filled(policy)
	}
	return rules
}

// filled returns a valid policy with every field filled in.
func filled(policy priority.Policy) priority.Policy {
	policies, err := priority.NewPolicies(policy, nil, nil)
	if err != nil {
		return policy
	}
	return policies.PolicyOf("")
}

// LastLevel returns the last level of the queue, which overrides may reach too.
func (i *Inspector) LastLevel() priority.Level {
	if i.Own != nil {
		return i.Own.Last()
	}
	return i.Store.Last()
}

// now is the time by Redis's clock, as far as this process can tell.
func (i *Inspector) now() time.Time {
	if i.read.IsZero() {
		return i.Now
	}
	return i.Now.Add(time.Since(i.read))
}

// override returns a customer's override that is in force.
func (i *Inspector) override(customer string) (control.Item[control.Override], bool) {
	if i.Document == nil {
		return control.Item[control.Override]{}, false
	}
	item, ok := i.Document.Overrides[customer]
	return item, ok && i.now().Before(item.Until)
}

// overridden returns what a level of a customer becomes by the override that is in
// force, and whether there is one.
func (i *Inspector) overridden(customer string, level priority.Level) (priority.Level, bool) {
	item, ok := i.override(customer)
	if ok {
		level = item.Value.Level(level, i.LastLevel())
	}
	return level, ok
}
