package priority

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/docpriority/priority/internal/fair"
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

	// maxLevelsByLoad is as many levels as the score of a pending document has room
	// for.
	maxLevelsByLoad = 63

	// maxThreshold is what Redis's Lua, whose numbers are doubles, compares exactly.
	maxThreshold = 1 << 53
)

var defaultThresholds = []int64{-2, -4, -6, -8, -10, -12, -14, -20}

// Policy is the two rules' numbers. A zero field stands for the default policy's value,
// so the zero Policy is the default policy and Policy{ResetMode: SinceLastReset} is
// complete.
type Policy struct {
	// Thresholds are the table of Next: strictly descending counts within ±2^53, at most
	// 254 of them. A count below Thresholds[i] has level i+2 or a later one. Nil means the
	// default, -2, -4, -6, -8, -10, -12, -14, -20; empty but not nil means one level, 1.
	Thresholds []int64

	// ResetInterval is how long a customer must pause (see ResetMode) to
	// be reset by Next: whole milliseconds, at least 1 ms. Default: 1500 s.
	ResetInterval time.Duration

	// ResetMode says from when the interval runs. Default: SinceLastUpdate.
	ResetMode ResetMode

	// Loads are the table of Submit: strictly ascending loads from a millionth to a
	// billion. A load above Loads[i] has level i+2 or a later one. Nil means the default,
	// 2, 8, 32, 128, 512, 2048, 8192, 32768, or as many of them as there are Thresholds, if
	// these are fewer; empty but not nil means one level, 1.
	Loads []float64

	// Turns is how many levels there are behind the last one, so that several customers
	// who flood at once take turns: of each one's pending documents that are beyond the
	// last load, the first stays at the last level, the next 2 go one level further, the
	// next 4 two, and so on. Take as many as the queue has levels to spare, 0 if it has
	// fewer than nine. Loads and Turns give at most 63 levels. Default: 0.
	Turns int
}

// DefaultPolicy returns the policy of nine levels with every field filled in.
func DefaultPolicy() Policy {
	return Policy{}.filled()
}

// Level returns the level of a count.
func (p Policy) Level(count int64) Level {
	thresholds := p.thresholds()
	below := sort.Search(len(thresholds), func(i int) bool { return count >= thresholds[i] })
	return First + Level(below)
}

// LevelOfLoad returns the level of a load, without Turns.
func (p Policy) LevelOfLoad(load float64) Level {
	loads, of := p.loads(), fair.Millionths(load)
	above := sort.Search(len(loads), func(i int) bool { return of <= fair.Millionths(loads[i]) })
	return First + Level(above)
}

// Last returns the last level that either rule gives, Turns included.
func (p Policy) Last() Level {
	return First + Level(max(len(p.thresholds()), len(p.loads())+p.Turns))
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
	return p.validateLoads()
}

func (p Policy) validateLoads() error {
	loads := p.loads()
	if levels := len(loads) + 1 + p.Turns; p.Turns < 0 || p.Turns >= maxLevelsByLoad || levels > maxLevelsByLoad {
		return fmt.Errorf("%w: %d Loads and %d Turns are not 1 to %d levels", ErrInvalidPolicy, len(loads), p.Turns, maxLevelsByLoad)
	}
	for i, load := range loads {
		if !(load >= 1e-6 && load <= fair.MaxLoad) {
			return fmt.Errorf("%w: Loads[%d] = %v is not from a millionth to a billion", ErrInvalidPolicy, i, load)
		}
		if i > 0 && fair.Millionths(load) <= fair.Millionths(loads[i-1]) {
			return fmt.Errorf("%w: Loads[%d] = %v is not above Loads[%d] = %v by a millionth", ErrInvalidPolicy, i, load, i-1, loads[i-1])
		}
	}
	return nil
}

// filled returns the policy with every field filled in, and thresholds of its own.
func (p Policy) filled() Policy {
	p.Thresholds = slices.Clone(p.thresholds())
	p.ResetInterval = p.resetInterval()
	p.Loads = slices.Clone(p.loads())
	return p
}

func (p Policy) thresholds() []int64 {
	if p.Thresholds == nil {
		return defaultThresholds
	}
	return p.Thresholds
}

func (p Policy) loads() []float64 {
	if p.Loads == nil {
		return fair.Loads(len(p.thresholds()) + 1)
	}
	return p.Loads
}

func (p Policy) resetInterval() time.Duration {
	if p.ResetInterval == 0 {
		return defaultResetInterval
	}
	return p.ResetInterval
}

// Policies assigns a policy to each customer: their tier's, or the default one. Its
// PolicyOf and Last are for a [Store] to return. It is safe for concurrent use.
type Policies struct {
	all    []Policy       // filled; all[0] is for customers without a tier
	tiers  map[string]int // where each tier's policy is in all
	tierOf func(customer string) string
}

// NewPolicies validates the policies. tierOf names a customer's tier; customers of
// a tier that is not in tiers have policy. No tier may have more levels than
// policy: all customers' documents are compared in one queue. An error wraps
// [ErrInvalidPolicy] or [ErrInvalidOption] and names the tier.
func NewPolicies(policy Policy, tiers map[string]Policy, tierOf func(customer string) string) (*Policies, error) {
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	if len(tiers) > 0 && tierOf == nil {
		return nil, fmt.Errorf("%w: Tiers without a TierOf would never be used", ErrInvalidOption)
	}
	p := &Policies{all: []Policy{policy.filled()}, tiers: make(map[string]int, len(tiers)), tierOf: tierOf}
	for name, tier := range tiers {
		if err := tier.Validate(); err != nil {
			return nil, fmt.Errorf("%w (tier %.80q)", err, name)
		}
		if tier.Last() > policy.Last() {
			return nil, fmt.Errorf("%w: tier %.80q has %d levels, more than the %d of Policy", ErrInvalidPolicy, name, tier.Last(), policy.Last())
		}
		p.tiers[name] = len(p.all)
		p.all = append(p.all, tier.filled())
	}
	return p, nil
}

// PolicyOf returns a customer's policy, with every field filled in.
func (p *Policies) PolicyOf(customer string) Policy {
	return p.of(customer).filled()
}

// Last returns the last level that any customer can get.
func (p *Policies) Last() Level {
	return p.all[0].Last()
}

// of returns a customer's policy, which may not be changed.
func (p *Policies) of(customer string) *Policy { return &p.all[p.index(customer)] }

// index returns the index of a customer's policy in all.
func (p *Policies) index(customer string) int {
	if len(p.tiers) == 0 {
		return 0
	}
	return p.tiers[p.tierOf(customer)]
}
