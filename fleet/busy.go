package fleet

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/docpriority/priority"
)

// Busy is a customer with many documents in the window.
type Busy struct {
	Customer  string
	Documents int64

	// Rule decided about the last document; Level is the level that it was given, and
	// Count or Load the number behind it.
	Rule  priority.Rule
	Level priority.Level
	Count int64
	Load  float64
}

// busy is a Busy in JSON.
type busy struct {
	Customer  *string        `json:"customer,omitempty"`
	Base64    string         `json:"customer_base64,omitempty"` // set instead, if the customer is not UTF-8
	Documents int64          `json:"documents"`
	Rule      string         `json:"rule"`
	Level     priority.Level `json:"level"`
	Count     *int64         `json:"count,omitempty"`
	Load      *float64       `json:"load,omitempty"`
}

const byCount, byLoad = "count", "load"

// MarshalJSON returns the customer as a report has it.
func (b Busy) MarshalJSON() ([]byte, error) {
	f := busy{Documents: b.Documents, Level: b.Level}
	if utf8.ValidString(b.Customer) {
		f.Customer = &b.Customer
	} else {
		f.Base64 = base64.StdEncoding.EncodeToString([]byte(b.Customer))
	}
	if b.Rule == priority.ByCount {
		f.Rule, f.Count = byCount, &b.Count
	} else {
		f.Rule, f.Load = byLoad, &b.Load
	}
	return encode(f)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (b *Busy) UnmarshalJSON(text []byte) error {
	var f busy
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	read := Busy{Documents: f.Documents, Level: f.Level}
	if f.Customer != nil {
		read.Customer = *f.Customer
	} else {
		customer, err := base64.StdEncoding.DecodeString(f.Base64)
		if err != nil {
			return fmt.Errorf("customer_base64: %w", err)
		}
		read.Customer = string(customer)
	}
	switch f.Rule {
	case byCount:
		read.Rule = priority.ByCount
	case byLoad:
		read.Rule = priority.ByLoad
	}
	if f.Count != nil {
		read.Count = *f.Count
	}
	if f.Load != nil {
		read.Load = *f.Load
	}
	*b = read
	return nil
}
