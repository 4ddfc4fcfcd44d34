package control

import (
	"fmt"
	"time"

	"github.com/docpriority/priority"
)

// MaxOverride is the longest that an override holds.
const MaxOverride = 30 * 24 * time.Hour

// Override bounds the levels of one customer's documents, whatever the customer has
// sent. Their documents are counted beneath all the same.
type Override struct {
	// Earliest is the level that documents have at the earliest, and Latest the one
	// that they have at the latest; 0: no such bound. One of them is set. Where they
	// are the same, the level is pinned. What is beyond a queue's last level is that.
	Earliest priority.Level `json:"earliest,omitempty"`
	Latest   priority.Level `json:"latest,omitempty"`
}

// Pin returns the override that gives every document a level.
func Pin(level priority.Level) Override { return Override{Earliest: level, Latest: level} }

// String says what the override does: "pinned to level 2", "level 5 at the latest".
func (o Override) String() string {
	switch {
	case o.Earliest == o.Latest:
		return fmt.Sprintf("pinned to level %d", o.Earliest)
	case o.Earliest == 0:
		return fmt.Sprintf("level %d at the latest", o.Latest)
	case o.Latest == 0:
		return fmt.Sprintf("level %d at the earliest", o.Earliest)
	}
	return fmt.Sprintf("level %d to %d", o.Earliest, o.Latest)
}

// Level returns what a level becomes, in a queue with a last level.
func (o Override) Level(level, last priority.Level) priority.Level {
	if o.Latest > 0 {
		level = min(level, o.Latest)
	}
	return min(max(level, o.Earliest, priority.First), last)
}

// validate returns an error that wraps [priority.ErrInvalidOption] unless the override
// is one of a queue with so many levels.
func (o Override) validate(levels priority.Level) error {
	for _, level := range []priority.Level{o.Earliest, o.Latest} {
		if level < 0 || level > levels {
			return fmt.Errorf("%w: an override to level %d of 1 to %d", priority.ErrInvalidOption, level, levels)
		}
	}
	switch {
	case o.Earliest == 0 && o.Latest == 0:
		return fmt.Errorf("%w: an override without a level", priority.ErrInvalidOption)
	case o.Latest > 0 && o.Earliest > o.Latest:
		return fmt.Errorf("%w: an override from level %d to %d", priority.ErrInvalidOption, o.Earliest, o.Latest)
	}
	return nil
}
