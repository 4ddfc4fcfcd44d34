package priority

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// ResetMode says from which moment the reset interval runs.
type ResetMode int

const (
	// SinceLastUpdate resets a count when more than the reset interval has
	// passed since the customer's last document. A customer who never pauses
	// that long is never reset. It is the default.
	SinceLastUpdate ResetMode = iota

	// SinceLastReset resets a count when more than the reset interval has
	// passed since its last reset, whatever came in between.
	SinceLastReset
)

// String returns "SinceLastUpdate" or "SinceLastReset".
func (m ResetMode) String() string {
	switch m {
	case SinceLastUpdate:
		return "SinceLastUpdate"
	case SinceLastReset:
		return "SinceLastReset"
	}
	return fmt.Sprintf("ResetMode(%d)", int(m))
}

const (
	defaultResetInterval = 1500 * time.Second

	// maxThresholds keeps a rendered script small: 255 levels is as many as a
	// queue with a priority of one byte can tell apart.
	maxThresholds = 254

	// maxThreshold is what Redis's Lua, whose numbers are doubles, compares exactly.
	maxThreshold = 1 << 53
)

var defaultThresholds = []int64{-2, -4, -6, -8, -10, -12, -14, -20}

// Policy is the rule by which a count becomes a level. A zero field stands for
// the default policy's value, so the zero Policy is the default policy and
// Policy{ResetMode: SinceLastReset} is complete.
type Policy struct {
	// Thresholds are strictly descending counts within ±2^53, at most 254 of them:
	// a count below Thresholds[i] has level i+2 or a lower priority. Nil means the
	// default, -2, -4, -6, -8, -10, -12, -14, -20; empty but not nil means that
	// every document has level 1.
	Thresholds []int64

	// ResetInterval is how long a customer must pause (see ResetMode) to start
	// afresh: whole milliseconds, at least 1 ms. Default: 1500 s.
	ResetInterval time.Duration

	// ResetMode says from when the interval runs. Default: SinceLastUpdate.
	ResetMode ResetMode
}

// DefaultPolicy returns the policy of nine levels with every field filled in.
func DefaultPolicy() Policy {
	return Policy{}.filled()
}

// Level returns the level of a count.
func (p Policy) Level(count int64) Level {
	thresholds := p.thresholds()
	below := sort.Search(len(thresholds), func(i int) bool { return count >= thresholds[i] })
	return Highest + Level(below)
}

// Lowest returns the level that is processed last: one more than the policy has
// thresholds.
func (p Policy) Lowest() Level {
	return Highest + Level(len(p.thresholds()))
}

// Validate returns an error that wraps [ErrInvalidPolicy] and names the field,
// or nil.
func (p Policy) Validate() error {
	if n := len(p.Thresholds); n > maxThresholds {
		return fmt.Errorf("%w: %d thresholds, more than %d", ErrInvalidPolicy, n, maxThresholds)
	}
	for i, threshold := range p.Thresholds {
		if threshold < -maxThreshold || threshold > maxThreshold {
			return fmt.Errorf("%w: Thresholds[%d] = %d is beyond ±2^53", ErrInvalidPolicy, i, threshold)
		}
		if i > 0 && threshold >= p.Thresholds[i-1] {
			return fmt.Errorf("%w: Thresholds[%d] = %d is not below Thresholds[%d] = %d",
				ErrInvalidPolicy, i, threshold, i-1, p.Thresholds[i-1])
		}
	}
	if d := p.resetInterval(); d < time.Millisecond || d%time.Millisecond != 0 {
		return fmt.Errorf("%w: ResetInterval %v is not a whole number of milliseconds from 1 ms up", ErrInvalidPolicy, d)
	}
	if p.ResetMode != SinceLastUpdate && p.ResetMode != SinceLastReset {
		return fmt.Errorf("%w: unknown %v", ErrInvalidPolicy, p.ResetMode)
	}
	return nil
}

// filled returns the policy with every field filled in, and thresholds of its own.
func (p Policy) filled() Policy {
	p.Thresholds = slices.Clone(p.thresholds())
	p.ResetInterval = p.resetInterval()
	return p
}

func (p Policy) thresholds() []int64 {
	if p.Thresholds == nil {
		return defaultThresholds
	}
	return p.Thresholds
}

func (p Policy) resetInterval() time.Duration {
	if p.ResetInterval == 0 {
		return defaultResetInterval
	}
	return p.ResetInterval
}

// tiered holds one T, made from a policy, for each tier of customers.
type tiered[T any] struct {
	standard T
	byTier   map[string]T
	tierOf   func(customer string) string
}

// newTiered validates all policies and makes a T of each.
func newTiered[T any](policy Policy, tiers map[string]Policy, tierOf func(string) string, newT func(Policy) T) (tiered[T], error) {
	if err := policy.Validate(); err != nil {
		return tiered[T]{}, err
	}
	policy.Thresholds = slices.Clone(policy.Thresholds)
	t := tiered[T]{standard: newT(policy), byTier: make(map[string]T, len(tiers)), tierOf: tierOf}
	for tier, policy := range tiers {
		if err := policy.Validate(); err != nil {
			return tiered[T]{}, fmt.Errorf("%w (tier %s)", err, quote(tier))
		}
		policy.Thresholds = slices.Clone(policy.Thresholds)
		t.byTier[tier] = newT(policy)
	}
	if len(tiers) > 0 && tierOf == nil {
		return tiered[T]{}, fmt.Errorf("%w: Tiers without a TierOf would never be used", ErrInvalidOption)
	}
	return t, nil
}

func (t *tiered[T]) of(customer string) T {
	if len(t.byTier) > 0 {
		if tier, ok := t.byTier[t.tierOf(customer)]; ok {
			return tier
		}
	}
	return t.standard
}

// policied is a store that tells the policy by which it decides for a customer.
type policied interface {
	Store
	PolicyOf(customer string) Policy
}

// policyOf returns what tells a store's policies: the default policy where the
// store does not.
func policyOf(store Store) func(customer string) Policy {
	if s, ok := store.(policied); ok {
		return s.PolicyOf
	}
	return func(string) Policy { return Policy{} }
}
