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

// Rules are a fleet's policies: Policy and Tiers, as in [priority.RedisOptions].
//
// In JSON a policy is {"thresholds": [-2, …], "reset_interval_ms": 1500000, "reset_mode":
// "last-update" or "last-reset", "loads": [8, …], "turns": 3}. A missing field takes the
// default policy's value; missing loads and turns follow from the number of thresholds, but
// with loads, missing turns are 0. Tiers are in one more field, "tiers": {"gold": {…}}.
// Unknown fields are refused.
type Rules struct {
	Policy priority.Policy
	Tiers  map[string]priority.Policy
}

// Validate returns an error that wraps [priority.ErrInvalid] if the rules do not fit a
// queue with that many levels.
func (r Rules) Validate(levels priority.Level) error {
	if err := r.Policy.ValidateTiers(r.Tiers); err != nil {
		return err
	}
	if last := r.Policy.Last(); last > levels {
		return fmt.Errorf("%w policy: its queue has %d levels, the rules %d", priority.ErrInvalid, levels, last)
	}
	for name := range r.Tiers {
		if !utf8.ValidString(name) {
			return fmt.Errorf("%w policy: the name of tier %.80q is not UTF-8", priority.ErrInvalid, name)
		}
	}
	return nil
}

// MarshalJSON implements [json.Marshaler]. Every field is filled in. An error wraps
// [priority.ErrInvalid].
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
// [priority.ErrInvalid] and names the field.
func (r *Rules) UnmarshalJSON(text []byte) error {
	if string(bytes.TrimSpace(text)) == "null" {
		return fmt.Errorf("%w policy: null", priority.ErrInvalid)
	}
	var file rulesJSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err == io.EOF {
		return fmt.Errorf("%w policy: it is empty", priority.ErrInvalid)
	} else if err != nil {
		return fmt.Errorf("%w policy: %w", priority.ErrInvalid, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w policy: data after its object", priority.ErrInvalid)
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
		return policy, fmt.Errorf("%w policy: reset_interval_ms %d is not from 1 to %d", priority.ErrInvalid, p.ResetIntervalMS, most)
	}
	policy.ResetInterval = time.Duration(p.ResetIntervalMS) * time.Millisecond
	switch p.ResetMode {
	case "", lastUpdate:
	case lastReset:
		policy.ResetMode = priority.SinceLastReset
	default:
		return policy, fmt.Errorf("%w policy: reset_mode %.40q is not %s or %s", priority.ErrInvalid, p.ResetMode, lastUpdate, lastReset)
	}
	return filled(policy)
}

// filled returns a policy with every field filled in.
func filled(policy priority.Policy) (priority.Policy, error) {
	return policy.WithDefaults(), policy.Validate()
}
