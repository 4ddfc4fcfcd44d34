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
// "reset_mode": "last-update" or "last-reset", "loads": [2, …], "turns": 0}. A missing
// field takes the default policy's value; missing loads follow the number of thresholds.
// Tiers stand beside these fields as "tiers": {"gold": {…}}. Unknown fields are refused.
type Rules struct {
	Policy priority.Policy
	Tiers  map[string]priority.Policy
}

// MaxPolicies is how many different policies rules may have: each needs three scripts
// in Redis, which keeps 500 scripts.
const MaxPolicies = 100

// Validate returns an error that wraps [priority.ErrInvalidPolicy] unless the rules
// can be used in a queue with that many levels.
func (r Rules) Validate(levels priority.Level) error {
	_, err := r.policies(levels, nil)
	return err
}

// policies returns the policies, for a queue with that many levels.
func (r Rules) policies(levels priority.Level, tierOf func(string) string) (*priority.Policies, error) {
	if tierOf == nil {
		tierOf = func(string) string { return "" }
	}
	policies, err := priority.NewPolicies(r.Policy, r.Tiers, tierOf)
	if err != nil {
		return nil, err
	}
	if policies.Last() > levels {
		return nil, fmt.Errorf("%w: its queue has %d levels, the rules %d", priority.ErrInvalidPolicy, levels, policies.Last())
	}
	different := map[string]bool{fmt.Sprint(policies.PolicyOf("")): true}
	for name, tier := range r.Tiers {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("%w: the name of tier %.80q is not UTF-8", priority.ErrInvalidPolicy, name)
		}
		tier, _ = filled(tier)
		different[fmt.Sprint(tier)] = true
	}
	if len(different) > MaxPolicies {
		return nil, fmt.Errorf("%w: %d different policies, more than %d", priority.ErrInvalidPolicy, len(different), MaxPolicies)
	}
	return policies, nil
}

// MarshalJSON implements [json.Marshaler]. Every field is filled in. An error wraps
// [priority.ErrInvalidPolicy].
func (r Rules) MarshalJSON() ([]byte, error) {
	policy, err := jsonOf(r.Policy)
	if err != nil {
		return nil, err
	}
	file := rulesJSON{policyJSON: policy}
	for name, tier := range r.Tiers {
		if file.Tiers == nil {
			file.Tiers = make(map[string]policyJSON, len(r.Tiers))
		}
		if file.Tiers[name], err = jsonOf(tier); err != nil {
			return nil, fmt.Errorf("%w (tier %.80q)", err, name)
		}
	}
	return json.Marshal(file)
}

// UnmarshalJSON implements [json.Unmarshaler]. An error wraps
// [priority.ErrInvalidPolicy] and names the field.
func (r *Rules) UnmarshalJSON(text []byte) error {
	if string(bytes.TrimSpace(text)) == "null" {
		return fmt.Errorf("%w: null", priority.ErrInvalidPolicy)
	}
	var file rulesJSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err == io.EOF {
		return fmt.Errorf("%w: it is empty", priority.ErrInvalidPolicy)
	} else if err != nil {
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
	Thresholds      []int64   `json:"thresholds"`
	ResetIntervalMS int64     `json:"reset_interval_ms"`
	ResetMode       string    `json:"reset_mode"`
	Loads           []float64 `json:"loads"`
	Turns           int       `json:"turns"`
}

const (
	lastUpdate = "last-update"
	lastReset  = "last-reset"
)

func jsonOf(policy priority.Policy) (policyJSON, error) {
	policy, err := filled(policy)
	mode := lastUpdate
	if policy.ResetMode == priority.SinceLastReset {
		mode = lastReset
	}
	return policyJSON{policy.Thresholds, policy.ResetInterval.Milliseconds(), mode, policy.Loads, policy.Turns}, err
}

// policy returns the policy with every field filled in.
func (p policyJSON) policy() (priority.Policy, error) {
	policy := priority.Policy{Thresholds: p.Thresholds, Loads: p.Loads, Turns: p.Turns}
	const most = math.MaxInt64 / int64(time.Millisecond)
	if p.ResetIntervalMS < 0 || p.ResetIntervalMS > most {
		return policy, fmt.Errorf("%w: reset_interval_ms %d is not from 1 to %d", priority.ErrInvalidPolicy, p.ResetIntervalMS, most)
	}
	policy.ResetInterval = time.Duration(p.ResetIntervalMS) * time.Millisecond
	switch p.ResetMode {
	case "", lastUpdate:
	case lastReset:
		policy.ResetMode = priority.SinceLastReset
	default:
		return policy, fmt.Errorf("%w: reset_mode %.40q is not %s or %s", priority.ErrInvalidPolicy, p.ResetMode, lastUpdate, lastReset)
	}
	return filled(policy)
}

// filled returns a policy with every field filled in.
func filled(policy priority.Policy) (priority.Policy, error) {
	policies, err := priority.NewPolicies(policy, nil, nil)
	if err != nil {
		return policy, err
	}
	return policies.PolicyOf(""), nil
}
