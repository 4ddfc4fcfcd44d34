// Package vectors has the format of the files in vectors/, which vectors/README.md
// describes, for this module's tests and for the conformance of ports.
package vectors

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docpriority/priority"
)

type (
	// Case begins without any keys.
	Case struct {
		Name     string `json:"name"`
		Policy   Policy `json:"policy"`
		Lease    int64  `json:"lease_ms,omitempty"`
		Accounts bool   `json:"accounts,omitempty"` // customers with a slash are users
		Steps    []Step `json:"steps"`
	}

	// Policy is a policy of a case. Absent loads are the default ones.
	Policy struct {
		Thresholds []int64   `json:"thresholds"`
		Interval   int64     `json:"reset_interval_ms"`
		Mode       string    `json:"reset_mode"`
		Loads      []float64 `json:"loads,omitzero"`
		Turns      int       `json:"turns,omitzero"`
		InOrder    bool      `json:"in_order,omitempty"`
	}

	// Step is one call, and what it came to.
	Step struct {
		At        int64    `json:"at_ms"`
		Do        string   `json:"do"`
		Customer  string   `json:"customer"`
		N         *int     `json:"n,omitempty"`         // of next
		Documents []string `json:"documents,omitempty"` // of submit and done
		Costs     []int64  `json:"costs,omitempty"`     // of submit, where they are known
		Delays    []int64  `json:"delays,omitempty"`    // of submit, where they are not all due now
		Cost      int64    `json:"cost,omitempty"`      // of done, where it is known
		Key       string   `json:"key,omitempty"`       // of set, where it is not the count's
		Value     *string  `json:"value,omitempty"`     // of set
		TTL       int64    `json:"ttl_ms,omitempty"`    // of set
		Lease     int64    `json:"lease_ms,omitempty"`  // of the process, where it is not the case's
		Want      []Result `json:"want,omitempty"`
		State     *State   `json:"state,omitempty"` // of peek
	}

	// Result is of one document. next has the third line, submit the fourth, done the last.
	Result struct {
		Level     int64  `json:"level"`
		RuleLevel int64  `json:"rule_level,omitempty"` // without an override, where it is another
		Count     *int64 `json:"count,omitempty"`
		ResetIn   *int64 `json:"reset_in_ms,omitempty"`
		Load      *int64 `json:"load,omitempty"` // in millionths
		Pending   *int64 `json:"pending,omitempty"`
		Latency   *int64 `json:"latency_ms,omitempty"`
	}

	// State is a peek's.
	State struct {
		Rule         string `json:"rule"`
		Level        int64  `json:"level"`
		NextLevel    int64  `json:"next_level"`
		Count        int64  `json:"count"`
		ResetIn      int64  `json:"reset_in_ms"`
		Load         int64  `json:"load"`   // in millionths
		Recent       int64  `json:"recent"` // in thousandths, as is the next
		Cost         int64  `json:"cost"`
		Pending      int64  `json:"pending"`
		PendingFlood int64  `json:"pending_flood"`
		Oldest       int64  `json:"oldest_ms"`
		Latency      int64  `json:"latency_ms"`
		Lease        int64  `json:"lease_ms"`
		RuleLevel    int64  `json:"rule_level,omitempty"` // where it is not NextLevel
		Earliest     int64  `json:"earliest,omitempty"`   // this and the next ones where there is an override
		Latest       int64  `json:"latest,omitempty"`
		EndsIn       int64  `json:"override_ends_in_ms,omitempty"`
		Scheduled    int64  `json:"scheduled,omitempty"`
		AccountLoad  int64  `json:"account_load,omitempty"` // in millionths
		AccountFlood int64  `json:"account_flood,omitempty"`
	}

	// Keys are a customer's.
	Keys struct {
		Shown    string `json:"shown"`
		Prefix   string `json:"prefix"`
		Customer string `json:"customer_hex"`
		Accounts bool   `json:"accounts,omitempty"`
		Count    string `json:"count_key_hex"`
		Pending  string `json:"pending_key_hex"`
		Override string `json:"override_key_hex"`
	}

	// Shape is a policy with its scripts.
	Shape struct {
		Name   string            `json:"name"`
		Policy Policy            `json:"policy"`
		Lease  int64             `json:"lease_ms"`
		Loads  []float64         `json:"loads"`
		Turns  int               `json:"turns"`
		Last   int64             `json:"last"`
		SHA    map[string]string `json:"sha1"`
	}

	// Refusal is a policy that is refused.
	Refusal struct {
		Why    string `json:"why"`
		Policy Policy `json:"policy"`
		Lease  int64  `json:"lease_ms"`
	}

	// Policies is what policies.json holds.
	Policies struct {
		Policies []Shape           `json:"policies"`
		Always   map[string]string `json:"always"`
		Refused  []Refusal         `json:"refused"`
	}

	// Answer is an error of Redis, its class, and what follows.
	Answer struct {
		Answer string `json:"answer"`
		Class  string `json:"class"`
		Then   string `json:"then,omitempty"`
	}

	// Reply is not a reply of next.lua.
	Reply struct {
		Why   string `json:"why"`
		Reply string `json:"reply"`
	}

	// Loss is a call whose tries end as they say.
	Loss struct {
		Name  string   `json:"name"`
		Do    string   `json:"do"`
		Tries []string `json:"tries"`
		Class string   `json:"class"`
		Sent  int      `json:"sent,omitempty"`
	}

	// CostCase is a process that compares costs.
	CostCase struct {
		Name  string     `json:"name"`
		Steps []CostStep `json:"steps"`
	}

	// CostStep is a submit of a customer's documents with costs, or a done of n documents.
	CostStep struct {
		Customer string    `json:"customer"`
		Costs    []float64 `json:"costs,omitempty"` // passed to submit, one for each document
		Took     int64     `json:"took_ms,omitempty"`
		N        int       `json:"n,omitempty"`
		Ended    int       `json:"ended,omitempty"` // of the n documents, as Redis answers
		Sent     []int64   `json:"sent"`            // to Redis: a cost for each document of a submit, one for a done
	}
)

// Option returns the option of a store that the case is about: "accounts", "overrides" or "".
func (c Case) Option() string {
	switch {
	case c.Accounts: // it implies the other
		return "accounts"
	case slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Key == "override" }):
		return "overrides"
	}
	return ""
}

// Priority returns the policy as the module takes it.
func (p Policy) Priority() priority.Policy {
	mode := priority.SinceLastUpdate
	if p.Mode == "since_last_reset" {
		mode = priority.SinceLastReset
	}
	return priority.Policy{
		Thresholds: p.Thresholds, ResetInterval: Milliseconds(p.Interval), ResetMode: mode, Loads: p.Loads, Turns: p.Turns, InOrder: p.InOrder,
	}
}

// Milliseconds returns a time of a file.
func Milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Read reads one of the files of the checkout that this runs in.
func Read(file string, into any) error {
	root, err := Root()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "vectors", file))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Root returns the root of the checkout that this runs in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "vectors", "keys.json")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in a checkout of this repository, which has the vectors", dir)
		}
	}
}
