package priority

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/docpriority/priority/internal/fair"
)

// ResetMode says when the reset interval begins.
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

	// maxLevels is how many levels a queue with one-byte priorities can distinguish.
	maxLevels = 255

	// maxTiers bounds the scripts that Redis keeps: three per policy, some 35 KB in all.
	maxTiers = 1000

	// maxThreshold is the largest number that Redis's Lua, which uses doubles, compares
	// exactly.
	maxThreshold = 1 << 53
)

var defaultThresholds = []int64{-2, -4, -6, -8, -10, -12, -14, -20}

// Policy holds the numbers of both rules. A zero field means its default, so the zero Policy
// is the default policy, with nine levels, and Policy{ResetMode: SinceLastReset} is complete.
type Policy struct {
	// Thresholds are the table of Next: strictly descending counts within ±2^53, at most
	// 254 of them. A count below Thresholds[i] has level i+2 or a later one. Nil means the
	// default, -2, -4, -6, -8, -10, -12, -14, -20; empty but not nil means one level, 1.
	Thresholds []int64

	// ResetInterval is how long a customer must pause (see ResetMode) to
	// be reset by Next: whole milliseconds, at least 1 ms. Default: 1500 s.
	ResetInterval time.Duration

	// ResetMode says when the interval begins. Default: SinceLastUpdate.
	ResetMode ResetMode

	// Loads are the table of Submit: strictly ascending loads from a millionth to a
	// billion. A load above Loads[i] has level i+2 or a later one. Nil means the default,
	// 8, 64, 512, 8192, 32768, or fewer of them if Thresholds give fewer than six levels;
	// empty but not nil means that every document is beyond the last load.
	Loads []float64

	// Turns is the number of extra levels after the one for documents beyond the last load,
	// so that customers who flood at the same time take turns. Among a customer's pending
	// documents beyond the last load, the ⌈4096^(k/Turns)⌉-th and later ones go k levels
	// further: with three turns, the first 15 stay, the next 240 go one level further, and
	// so on. Loads and Turns give at most 255 levels. 0 means the default: if Loads is nil,
	// the number of levels that Thresholds give beyond those of Loads, three for nine
	// levels; with Loads, none.
	Turns int

	// InOrder keeps the documents that a customer submits in order: none gets an earlier level
	// than the newest pending one that is due no later. So a strict queue never takes a new
	// document before older ones, and a customer's flood delays the customer's own next
	// documents. An override may break the order. Default: false; a new document may overtake.
	InOrder bool
}

// DefaultPolicy returns the policy of nine levels with every field filled in.
func DefaultPolicy() Policy { return Policy{}.WithDefaults() }

// WithDefaults returns a copy of the policy with every field filled in.
func (p Policy) WithDefaults() Policy {
	p.Thresholds, p.ResetInterval = slices.Clone(p.thresholds()), p.resetInterval()
	p.Loads, p.Turns = slices.Clone(p.loads()), p.turns()
	return p
}

// Level returns the level of a count.
func (p Policy) Level(count int64) Level {
	thresholds := p.thresholds()
	below := sort.Search(len(thresholds), func(i int) bool { return count >= thresholds[i] })
	return First + Level(below)
}

// LevelOfLoad returns the level of a load. Beyond the last of the Loads it depends on the
// turn: pendingFlood is how many of the customer's documents are pending there, this one
// included. An infinite load is beyond the last one.
func (p Policy) LevelOfLoad(load float64, pendingFlood int64) Level {
	loads, millionths := p.loads(), fair.Millionths(load)
	above := len(loads)
	if !math.IsInf(load, 1) {
		above = sort.Search(len(loads), func(i int) bool { return millionths <= fair.Millionths(loads[i]) })
	}
	level := First + Level(above)
	if above == len(loads) {
		level += Level(fair.Turn(pendingFlood, p.turns()))
	}
	return level
}

// Last returns the last level that either rule gives, Turns included.
func (p Policy) Last() Level {
	return First + Level(max(len(p.thresholds()), len(p.loads())+p.turns()))
}

// Validate returns an error that wraps [ErrInvalid] and names the field,
// or nil.
func (p Policy) Validate() error {
	if n := len(p.Thresholds); n >= maxLevels {
		return fmt.Errorf("%w policy: %d thresholds, more than %d", ErrInvalid, n, maxLevels-1)
	}
	for i, threshold := range p.Thresholds {
		if threshold < -maxThreshold || threshold > maxThreshold {
			return fmt.Errorf("%w policy: Thresholds[%d] = %d is beyond ±2^53", ErrInvalid, i, threshold)
		}
		if i > 0 && threshold >= p.Thresholds[i-1] {
			return fmt.Errorf("%w policy: Thresholds[%d] = %d is not below Thresholds[%d] = %d",
				ErrInvalid, i, threshold, i-1, p.Thresholds[i-1])
		}
	}
	if d := p.resetInterval(); d < time.Millisecond || d%time.Millisecond != 0 {
		return fmt.Errorf("%w policy: ResetInterval %v is not a whole number of milliseconds from 1 ms up", ErrInvalid, d)
	}
	if p.ResetMode != SinceLastUpdate && p.ResetMode != SinceLastReset {
		return fmt.Errorf("%w policy: unknown %v", ErrInvalid, p.ResetMode)
	}
	return p.validateLoads()
}

// Equal reports whether two policies decide alike.
func (p Policy) Equal(other Policy) bool {
	return slices.Equal(p.thresholds(), other.thresholds()) && p.resetInterval() == other.resetInterval() && p.ResetMode == other.ResetMode &&
		slices.Equal(p.loads(), other.loads()) && p.turns() == other.turns() && p.InOrder == other.InOrder
}

// GoString returns the policy as a Go expression. Loads and Turns that follow from the
// thresholds are left out.
func (p Policy) GoString() string {
	p = p.WithDefaults()
	text := fmt.Sprintf("priority.Policy{\n\tThresholds:    %#v,\n\tResetInterval: %s,\n\tResetMode:     priority.%s,\n",
		p.Thresholds, goDuration(p.ResetInterval), p.ResetMode)
	if usual := (Policy{Thresholds: p.Thresholds}).WithDefaults(); !slices.Equal(p.Loads, usual.Loads) || p.Turns != usual.Turns {
		text += fmt.Sprintf("\tLoads:         %#v,\n\tTurns:         %d,\n", p.Loads, p.Turns)
	}
	if p.InOrder {
		text += "\tInOrder:       true,\n"
	}
	return text + "}"
}

// goDuration returns a duration as a Go expression in its largest whole unit.
func goDuration(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}} {
		if d%unit.length == 0 {
			return fmt.Sprintf("%d * %s", d/unit.length, unit.name)
		}
	}
	return fmt.Sprintf("%d * time.Millisecond", d.Milliseconds())
}

func (p Policy) validateLoads() error {
	loads := p.loads()
	if p.Turns < 0 || p.Turns > maxLevels-1-len(loads) {
		return fmt.Errorf("%w policy: %d Loads and %d Turns are not 1 to %d levels", ErrInvalid, len(loads), p.Turns, maxLevels)
	}
	for i, load := range loads {
		if !(load >= 1e-6 && load <= fair.MaxLoad) {
			return fmt.Errorf("%w policy: Loads[%d] = %v is not from a millionth to a billion", ErrInvalid, i, load)
		}
		if i > 0 && fair.Millionths(load) <= fair.Millionths(loads[i-1]) {
			return fmt.Errorf("%w policy: Loads[%d] = %v is not above Loads[%d] = %v by a millionth", ErrInvalid, i, load, i-1, loads[i-1])
		}
	}
	return nil
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

func (p Policy) turns() int {
	if p.Turns == 0 && p.Loads == nil {
		return len(p.thresholds()) - len(p.loads())
	}
	return p.Turns
}

func (p Policy) resetInterval() time.Duration {
	if p.ResetInterval == 0 {
		return defaultResetInterval
	}
	return p.ResetInterval
}
