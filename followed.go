package priority

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

// Follow makes later calls decide by other policies; nil: by those of the store's options. TierOf,
// without which tiers have no effect, stays, and so does Last: the policies may not have more
// levels. Calls in progress finish by the policies with which they began, and no count is lost or
// doubled. An error wraps [ErrInvalid]; the store is then unchanged.
func (s *RedisStore) Follow(followed *Policies) error {
	if followed == nil {
		followed = &s.own
	}
	if err := followed.Validate(s.levels); err != nil {
		return err
	}
	// Each distinct policy's scripts are rendered once and reused.
	var rendered []*tier
	if before := s.policies.Load(); before != nil {
		rendered = slices.AppendSeq([]*tier{before.base}, maps.Values(before.tiers))
	}
	render := func(policy Policy) *tier {
		at := slices.IndexFunc(rendered, func(tier *tier) bool { return tier.policy.Equal(policy) })
		if at < 0 {
			at = len(rendered)
			rendered = append(rendered, newTier(policy.WithDefaults(), s.levels, s.lease))
		}
		return rendered[at]
	}
	next := &policies{base: render(followed.Policy)}
	if s.tierOf != nil && len(followed.Tiers) > 0 {
		next.tiers = make(map[string]*tier, len(followed.Tiers))
		for name, policy := range followed.Tiers {
			next.tiers[name] = render(policy)
		}
	}
	next.digest = next.sum()
	s.policies.Store(next)
	return nil
}

func newTier(policy Policy, levels Level, lease time.Duration) *tier {
	numbers := lua.Numbers{
		Thresholds: policy.Thresholds, Interval: policy.ResetInterval, SinceLastReset: policy.ResetMode == SinceLastReset,
		Lease: lease, Loads: policy.Loads, Turns: policy.Turns, Levels: int(levels), InOrder: policy.InOrder,
	}
	return &tier{
		policy: policy,
		next:   script.New(lua.With(lua.Next, numbers)),
		submit: script.New(lua.With(lua.Submit, numbers)),
		peek:   script.New(lua.With(lua.Peek, numbers)),
	}
}

// policies are the policies that are followed.
type policies struct {
	base   *tier // for customers without a tier
	tiers  map[string]*tier
	digest string
}

// tier is a policy and its scripts.
type tier struct {
	policy             Policy
	next, submit, peek *script.Script
}

// Digest returns 16 hex digits of what decides: the policy and the tiers that are followed, the
// queue's levels and the lease. Processes with equal digests decide alike. Different versions of
// this module may have different ones for the same policies, and without a TierOf there are no tiers.
func (s *RedisStore) Digest() string { return s.policies.Load().digest }

// sum returns the digest of the scripts that decide, which have all numbers in their text.
func (p *policies) sum() string {
	all := sha1.New()
	write := func(name string, tier *tier) {
		_, _ = fmt.Fprintf(all, "%s\n%s\n%s\n", name, tier.next.SHA1(), tier.submit.SHA1()) // a hash returns no error
	}
	write("", p.base)
	for _, name := range slices.Sorted(maps.Keys(p.tiers)) {
		write(name, p.tiers[name])
	}
	return hex.EncodeToString(all.Sum(nil))[:16]
}
