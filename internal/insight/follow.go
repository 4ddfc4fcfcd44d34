package insight

import (
	"context"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Follow returns an Inspector that decides by the rules that operators have set now, and
// that can Follow again. If no rules are set, or there is no Admin, it decides by the
// workers' own options.
//
// An error comes from [control.Admin.Settings], says which rights are missing if it is
// [Forbidden], or wraps [priority.ErrInvalid] if workers with these options cannot
// use the rules. The original Inspector can still be used then.
func (i *Inspector) Follow(ctx context.Context) (*Inspector, error) {
	if i.Admin == nil {
		return i, nil
	}
	own := i.before
	if own == nil {
		copied := *i
		own = &copied
	}
	settings, err := i.Admin.Settings(ctx)
	if err != nil {
		return nil, i.unread(err)
	}
	next := *own
	next.before, next.Own, next.Settings, next.read = own, own.Store, &settings, time.Now()
	if rules := settings.Rules; rules != nil {
		if err := next.by(rules); err != nil {
			return nil, fmt.Errorf("version %d of the policy is not used by workers with these options: %w", rules.Version, err)
		}
	}
	next.PolicyName = next.nameOf
	return &next, nil
}

// by makes the Inspector follow rules.
func (i *Inspector) by(rules *control.Item[control.Rules]) error {
	if err := rules.Value.Validate(i.Own.Last()); err != nil {
		return err
	}
	store, err := priority.NewRedisStore(i.Client, &i.Options)
	if err != nil {
		return err
	}
	i.Store = store
	i.Options.Policy, i.Options.Tiers = rules.Value.Policy, rules.Value.Tiers
	i.Policy = NamedPolicy{i.Options.Policy.WithDefaults(), ItemName(*rules)}
	return i.Store.Follow(i.Options.Policy, i.Options.Tiers)
}

// unread adds the missing rights to an error of reading what operators have set.
func (i *Inspector) unread(err error) error {
	if Forbidden(err) {
		return fmt.Errorf("%w; it needs %s on the keys ~%s:{control}:*", err, ControlReadRights, i.prefix())
	}
	return err
}

// The rights that reading and changing what operators have set need, as ACL SETUSER
// takes them. Overrides need them on the customers' keys too.
const (
	ControlReadRights  = "+evalsha +eval +get +hget +hgetall +lrange +xrevrange +time"
	ControlWriteRights = ControlReadRights + " +script|load +set +unlink +hset +hdel +hlen +lpush +ltrim +llen +xadd"
	ForgetRights       = "+pexpire +persist +rename +xrange" // beside the others
)

// RulesVersion returns the version of the rules that operators have set; 0: the workers'
// own options apply.
func (i *Inspector) RulesVersion() int64 {
	if i.Settings == nil || i.Settings.Rules == nil {
		return 0
	}
	return i.Settings.Rules.Version
}

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

// nameOf names a customer's policy, which operators may have set.
func (i *Inspector) nameOf(customer string) string {
	if i.RulesVersion() == 0 {
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
	rules := control.Rules{Policy: i.Options.Policy.WithDefaults(), Tiers: make(map[string]priority.Policy, len(i.Options.Tiers))}
	for name, policy := range i.Options.Tiers {
		rules.Tiers[name] = policy.WithDefaults()
	}
	return rules
}

// LastLevel returns the last level of the queue, which overrides may reach too.
func (i *Inspector) LastLevel() priority.Level {
	if i.Own != nil {
		return i.Own.Last()
	}
	return i.Store.Last()
}

// Now is the time by Redis's clock, as far as this process can tell.
func (i *Inspector) Now() time.Time {
	if i.Settings == nil {
		return time.Now()
	}
	return i.Settings.Now.Add(time.Since(i.read))
}
