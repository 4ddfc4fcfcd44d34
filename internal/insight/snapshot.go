package insight

import (
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Snapshot is what one pass through all counts has found. It does not change.
type Snapshot struct {
	At    time.Time     `json:"-"` // when the pass ended; zero: there was none yet
	Since time.Duration `json:"-"` // since the pass before; 0: Documents are those since the resets

	Levels  []LevelLoad   `json:"levels"` // from level 1
	Corrupt int64         `json:"corrupt"`
	Unknown int64         `json:"-"`       // customers whose Documents are not known: there are too many
	Busiest []Busy        `json:"busiest"` // the busiest first
	Policy  control.Rules `json:"policy"`  // those of the whole fleet
}

// LevelLoad is what happens at a level.
type LevelLoad struct {
	Level     priority.Level `json:"level"` // by Next, with overrides
	Customers int64          `json:"customers"`
	Documents int64          `json:"documents"`
}

// Busy is a customer with many documents.
type Busy struct {
	Name
	Level     priority.Level `json:"level"` // by Next, with the override
	Count     int64          `json:"count"`
	Documents int64          `json:"documents"`
	ResetInMS int64          `json:"reset_in_ms"` // 0: the key has no TTL

	// Overridden: there is an override in force, even if the level is the same.
	Overridden bool `json:"overridden,omitempty"`
}

// String says in a sentence without its end what the pass has found.
func (s Snapshot) String() string {
	since := "since their resets"
	if s.Since > 0 {
		since = "in the last " + Span(s.Since.Round(100*time.Millisecond))
	}
	var customers, documents int64
	for _, level := range s.Levels {
		customers += level.Customers
		documents += level.Documents
	}
	found := fmt.Sprintf("%s, %s %s", Plural(customers, "customer"), Plural(documents, "document"), since)
	if s.Corrupt > 0 {
		found += fmt.Sprintf(", %s corrupt", Plural(s.Corrupt, "key"))
	}
	if s.Unknown > 0 {
		found += fmt.Sprintf(", without those of %s", Plural(s.Unknown, "customer"))
	}
	return found
}
