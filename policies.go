package priority

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode/utf8"
)

// Policies are a policy for every customer without a tier, and the policies of tiers by their
// names.
//
// In JSON a policy is {"thresholds": [-2, …], "reset_interval_ms": 1500000, "reset_mode":
// "last-update" or "last-reset", "loads": [8, …], "turns": 3, "in_order": true}. A field that is missing,
// null, 0 or "" takes the default policy's value; missing loads and turns follow from the number
// of thresholds, but with loads, missing turns are 0. Tiers are in one more field,
// "tiers": {"gold": {…}}. Unknown fields are refused.
type Policies struct {
	Policy Policy
	Tiers  map[string]Policy
}

// Validate returns an error that wraps [ErrInvalid] and names the field or the tier, or nil.
// There are at most 1,000 tiers. No tier may have more levels than Policy, as one queue
// compares all customers' documents, and Policy no more than the queue; 0: as many as it has.
func (p Policies) Validate(queueLevels Level) error {
	if err := p.Policy.Validate(); err != nil {
		return err
	}
	if n := len(p.Tiers); n > maxTiers {
		return fmt.Errorf("%w policy: %d tiers, more than %d", ErrInvalid, n, maxTiers)
	}
	for name, tier := range p.Tiers {
		if err := tier.Validate(); err != nil {
			return fmt.Errorf("%w (tier %.80q)", err, name)
		}
		if tier.Last() > p.Policy.Last() {
			return fmt.Errorf("%w policy: tier %.80q has %d levels, more than the %d of Policy", ErrInvalid, name, tier.Last(), p.Policy.Last())
		}
	}
	if last := p.Policy.Last(); queueLevels > 0 && last > queueLevels {
		return fmt.Errorf("%w policy: its queue has %d levels, the policies %d", ErrInvalid, queueLevels, last)
	}
	return nil
}

// WithDefaults returns a copy with every field of each policy filled in.
func (p Policies) WithDefaults() Policies {
	filled := Policies{Policy: p.Policy.WithDefaults(), Tiers: make(map[string]Policy, len(p.Tiers))}
	for name, tier := range p.Tiers {
		filled.Tiers[name] = tier.WithDefaults()
	}
	return filled
}

// MarshalJSON fills in every field. An error wraps [ErrInvalid].
func (p Policies) MarshalJSON() ([]byte, error) {
	policy, err := jsonOf(p.Policy)
	if err != nil {
		return nil, err
	}
	all := policiesJSON{policyJSON: policy}
	for name, tier := range p.Tiers {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("%w policy: the name of tier %.80q is not UTF-8", ErrInvalid, name)
		}
		if all.Tiers == nil {
			all.Tiers = make(map[string]policyJSON, len(p.Tiers))
		}
		if all.Tiers[name], err = jsonOf(tier); err != nil {
			return nil, fmt.Errorf("%w (tier %.80q)", err, name)
		}
	}
	return json.Marshal(all)
}

// UnmarshalJSON returns an error that wraps [ErrInvalid] and names the field or the tier.
func (p *Policies) UnmarshalJSON(text []byte) error {
	if string(bytes.TrimSpace(text)) == "null" {
		return fmt.Errorf("%w policy: null", ErrInvalid)
	}
	var all policiesJSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err == io.EOF {
		return fmt.Errorf("%w policy: it is empty", ErrInvalid)
	} else if err != nil {
		return fmt.Errorf("%w policy: %w", ErrInvalid, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w policy: data after its object", ErrInvalid)
	}
	policy, err := all.policy()
	if err != nil {
		return err
	}
	read := Policies{Policy: policy}
	for name, tier := range all.Tiers {
		if read.Tiers == nil {
			read.Tiers = make(map[string]Policy, len(all.Tiers))
		}
		if read.Tiers[name], err = tier.policy(); err != nil {
			return fmt.Errorf("%w (tier %.80q)", err, name)
		}
	}
	*p = read
	return nil
}

type policiesJSON struct {
	policyJSON
	Tiers map[string]policyJSON `json:"tiers,omitempty"`
}

type policyJSON struct {
	Thresholds      []int64   `json:"thresholds"`
	ResetIntervalMS int64     `json:"reset_interval_ms"`
	ResetMode       string    `json:"reset_mode"`
	Loads           []float64 `json:"loads"`
	Turns           int       `json:"turns"`
	InOrder         bool      `json:"in_order,omitempty"`
}

const (
	lastUpdate = "last-update"
	lastReset  = "last-reset"
)

func jsonOf(policy Policy) (policyJSON, error) {
	filled, mode := policy.WithDefaults(), lastUpdate
	if policy.ResetMode == SinceLastReset {
		mode = lastReset
	}
	return policyJSON{filled.Thresholds, filled.ResetInterval.Milliseconds(), mode, filled.Loads, filled.Turns, filled.InOrder}, policy.Validate()
}

// policy returns the policy with every field filled in.
func (j policyJSON) policy() (Policy, error) {
	policy := Policy{Thresholds: j.Thresholds, Loads: j.Loads, Turns: j.Turns, InOrder: j.InOrder}
	const most = math.MaxInt64 / int64(time.Millisecond)
	if j.ResetIntervalMS < 0 || j.ResetIntervalMS > most {
		return policy, fmt.Errorf("%w policy: reset_interval_ms %d is not from 1 to %d", ErrInvalid, j.ResetIntervalMS, most)
	}
	policy.ResetInterval = time.Duration(j.ResetIntervalMS) * time.Millisecond
	switch j.ResetMode {
	case "", lastUpdate:
	case lastReset:
		policy.ResetMode = SinceLastReset
	default:
		return policy, fmt.Errorf("%w policy: reset_mode %.40q is not %s or %s", ErrInvalid, j.ResetMode, lastUpdate, lastReset)
	}
	return policy.WithDefaults(), policy.Validate()
}
