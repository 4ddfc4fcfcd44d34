package insight

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// NamedRules are policies, and what people call them.
type NamedRules struct {
	control.Rules
	Name string
}

// RulesOf returns the rules of a fleet with one policy for all, as its JSON is written.
func RulesOf(policy priority.Policy) control.Rules { return control.Rules{Policy: policy} }

// ParseRules reads valid rules, from a policy's file or from any JSON of priorityctl
// that contains them, such as a line of policy history or the result of tune. The policy
// of one customer, as get prints it, is an error, as it may be a tier's, and so are
// unknown fields. An error wraps [priority.ErrInvalid].
func ParseRules(text []byte) (control.Rules, error) {
	var rules control.Rules
	var around struct {
		Name
		Policy json.RawMessage `json:"policy"`
		New    json.RawMessage `json:"new"` // in a line of the log
		Kind   string          `json:"kind"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&around); err == nil && !decoder.More() {
		switch {
		case around.Policy != nil && around.Name != (Name{}):
			return rules, fmt.Errorf("%w policy: it is that of one customer, %s, and not the fleet's", priority.ErrInvalid, Shown(around.Exact()))
		case around.Policy != nil:
			text = around.Policy
		case around.New != nil && around.Kind == "policy":
			text = around.New
		}
	}
	if string(bytes.TrimSpace(text)) == "null" {
		return rules, fmt.Errorf("not a policy: %w policy: null", priority.ErrInvalid)
	}
	if err := rules.UnmarshalJSON(text); err != nil {
		return control.Rules{}, fmt.Errorf("not a policy: %w", err)
	}
	const most = 255 // levels
	return rules, rules.Validate(most)
}
