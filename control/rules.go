package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
)

// Rules are a fleet's policies: what [priority.RedisOptions] calls Policy and Tiers.
//
// In JSON a policy is {"thresholds": [-2, …], "reset_interval_ms": 1500000,
// "reset_mode": "last-update" or "last-reset"}, and what is left out is the default
// policy's. Tiers stand beside these as "tiers": {"gold": {…}}. Unknown fields are
// refused.
type Rules struct {
	Policy priority.Policy
	Tiers  map[string]priority.Policy
}

// Validate returns an error that wraps [priority.ErrInvalidPolicy] where the rules
// cannot be used, or have more than so many levels.
func (r Rules) Validate(levels priority.Level) error {
	for name := range r.Tiers {
		if !utf8.ValidString(name) {
			return fmt.Errorf("%w: the name of tier %.80q is not UTF-8", priority.ErrInvalidPolicy, name)
		}
	}
	policies, err := priority.NewPolicies(r.Policy, r.Tiers, func(string) string { return "" })
	if err != nil {
		return err
	}
	return atMost(policies, levels)
}

// atMost returns an error if policies have more levels than a queue.
func atMost(policies *priority.Policies, levels priority.Level) error {
	if policies.Last() > levels {
		return fmt.Errorf("%w: %d levels, more than the %d that the queue was declared with", priority.ErrInvalidPolicy, policies.Last(), levels)
	}
	return nil
}

// MarshalJSON implements [json.Marshaler]. Every field is filled in.
func (r Rules) MarshalJSON() ([]byte, error) {
	file := rulesJSON{policyJSON: jsonOf(r.Policy)}
	for name, tier := range r.Tiers {
		if file.Tiers == nil {
			file.Tiers = make(map[string]policyJSON, len(r.Tiers))
		}
		file.Tiers[name] = jsonOf(tier)
	}
	return json.Marshal(file)
}

// UnmarshalJSON implements [json.Unmarshaler]. An error wraps
// [priority.ErrInvalidPolicy] and names the field.
func (r *Rules) UnmarshalJSON(text []byte) error {
	if string(bytes.TrimSpace(text)) == "null" {
		return fmt.Errorf("%w: null is none", priority.ErrInvalidPolicy)
	}
	var file rulesJSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("%w: %w", priority.ErrInvalidPolicy, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is something behind its object", priority.ErrInvalidPolicy)
	}
	policy, err := file.policy()
	if err != nil {
		return err
	}
	*r = Rules{Policy: policy}
	for name, tier := range file.Tiers {
		if r.Tiers == nil {
			r.Tiers = make(map[string]priority.Policy, len(file.Tiers))
		}
		if r.Tiers[name], err = tier.policy(); err != nil {
			return fmt.Errorf("%w (tier %.80q)", err, name)
		}
	}
	return nil
}

type rulesJSON struct {
	policyJSON
	Tiers map[string]policyJSON `json:"tiers,omitempty"`
}

type policyJSON struct {
	Thresholds      []int64 `json:"thresholds"`
	ResetIntervalMS int64   `json:"reset_interval_ms"`
	ResetMode       string  `json:"reset_mode"`
}

const (
	lastUpdate = "last-update"
	lastReset  = "last-reset"
)

func jsonOf(policy priority.Policy) policyJSON {
	filled := priority.DefaultPolicy()
	if policy.Thresholds != nil {
		filled.Thresholds = policy.Thresholds
	}
	if policy.ResetInterval != 0 {
		filled.ResetInterval = policy.ResetInterval
	}
	mode := lastUpdate
	if policy.ResetMode == priority.SinceLastReset {
		mode = lastReset
	}
	return policyJSON{filled.Thresholds, filled.ResetInterval.Milliseconds(), mode}
}

func (p policyJSON) policy() (priority.Policy, error) {
	policy := priority.DefaultPolicy()
	if p.Thresholds != nil {
		policy.Thresholds = p.Thresholds
	}
	const most = math.MaxInt64 / int64(time.Millisecond)
	if p.ResetIntervalMS < 0 || p.ResetIntervalMS > most {
		return policy, fmt.Errorf("%w: reset_interval_ms %d is not from 1 to %d", priority.ErrInvalidPolicy, p.ResetIntervalMS, most)
	}
	if p.ResetIntervalMS > 0 {
		policy.ResetInterval = time.Duration(p.ResetIntervalMS) * time.Millisecond
	}
	switch p.ResetMode {
	case "", lastUpdate:
	case lastReset:
		policy.ResetMode = priority.SinceLastReset
	default:
		return policy, fmt.Errorf("%w: reset_mode %.40q is not %s or %s", priority.ErrInvalidPolicy, p.ResetMode, lastUpdate, lastReset)
	}
	return policy, policy.Validate()
}
