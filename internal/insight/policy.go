package insight

import (
	"fmt"

	"github.com/docpriority/priority"
)

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

// Resets says in a sentence when a count is reset by a policy with every field filled in.
func Resets(policy priority.Policy) string {
	since := "the customer's last document"
	if policy.ResetMode == priority.SinceLastReset {
		since = "its last reset"
	}
	return fmt.Sprintf("A count is reset more than %s after %s.", Span(policy.ResetInterval), since)
}

// Turns says what the turns of a policy are.
const Turns = "Beyond the last load, the level follows from how many of the customer's documents are pending there, the new one included. So floods take turns."
