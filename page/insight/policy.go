package insight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docpriority/priority"
)

// PolicyJSON is a policy in a file and in all JSON of this package. What is left
// out of a file is the module's default.
type PolicyJSON struct {
	Thresholds      []int64 `json:"thresholds"`
	ResetIntervalMS int64   `json:"reset_interval_ms"`
	ResetMode       string  `json:"reset_mode"` // LastUpdate or LastReset
}

// PolicyJSONOf returns the JSON of a policy with every field filled in.
func PolicyJSONOf(policy priority.Policy) PolicyJSON {
	return PolicyJSON{policy.Thresholds, policy.ResetInterval.Milliseconds(), ResetModeText(policy.ResetMode)}
}

// MarshalJSON makes a policy's null thresholds an empty list: null would stand
// for the default.
func (p PolicyJSON) MarshalJSON() ([]byte, error) {
	type plain PolicyJSON
	if p.Thresholds == nil {
		p.Thresholds = []int64{}
	}
	return json.Marshal(plain(p))
}

// ParsePolicy reads one PolicyJSON, with every field of the policy filled in. As in
// priority.Policy, what is left out is the module's default. Unknown fields are an
// error, and so is a policy that the module does not take: that error wraps
// [priority.ErrInvalidPolicy].
func ParsePolicy(text []byte) (priority.Policy, error) {
	var file PolicyJSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return priority.Policy{}, fmt.Errorf("not a policy: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return priority.Policy{}, errors.New("not a policy: there is something behind its object")
	}
	policy := priority.DefaultPolicy()
	if file.Thresholds != nil {
		policy.Thresholds = file.Thresholds
	}
	const mostMilliseconds = int64(1<<63-1) / int64(time.Millisecond)
	if file.ResetIntervalMS > mostMilliseconds || file.ResetIntervalMS < 0 {
		return priority.Policy{}, fmt.Errorf("reset_interval_ms %d is no number of milliseconds from 1 to %d", file.ResetIntervalMS, mostMilliseconds)
	}
	if file.ResetIntervalMS > 0 {
		policy.ResetInterval = time.Duration(file.ResetIntervalMS) * time.Millisecond
	}
	if file.ResetMode != "" {
		var err error
		if policy.ResetMode, err = ParseResetMode(file.ResetMode); err != nil {
			return priority.Policy{}, fmt.Errorf("reset_mode %.40q: %w", file.ResetMode, err)
		}
	}
	return policy, policy.Validate()
}

// The reset modes in JSON and on a command line.
const (
	LastUpdate = "last-update"
	LastReset  = "last-reset"
)

// ResetModeText returns LastUpdate or LastReset.
func ResetModeText(mode priority.ResetMode) string {
	if mode == priority.SinceLastReset {
		return LastReset
	}
	return LastUpdate
}

// ParseResetMode reads LastUpdate or LastReset.
func ParseResetMode(text string) (priority.ResetMode, error) {
	switch text {
	case LastUpdate:
		return priority.SinceLastUpdate, nil
	case LastReset:
		return priority.SinceLastReset, nil
	}
	return 0, fmt.Errorf("it is %s or %s", LastUpdate, LastReset)
}

// Afresh says in a sentence when a count starts afresh by a policy with every field
// filled in.
func Afresh(policy priority.Policy) string {
	since := "the customer's last document"
	if policy.ResetMode == priority.SinceLastReset {
		since = "it did so last"
	}
	return fmt.Sprintf("A count starts afresh more than %s after %s.", Span(policy.ResetInterval), since)
}
