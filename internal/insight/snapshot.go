package insight

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Snapshot is what one pass through all customers has found. It does not change.
type Snapshot struct {
	At    time.Time     `json:"-"` // when the pass ended; zero: there was none yet
	Since time.Duration `json:"-"` // since the pass before; 0: Documents are those since the resets

	ByCount int64         `json:"by_count"` // customers
	ByLoad  int64         `json:"by_load"`  // customers
	Levels  []LevelLoad   `json:"levels"`   // from level 1
	Corrupt int64         `json:"corrupt"`
	Unknown int64         `json:"-"`       // customers whose Documents are not known: there are too many
	Busiest []Busy        `json:"busiest"` // the busiest first
	Policy  control.Rules `json:"policy"`  // those of the whole fleet
}

// LevelLoad is what happens at a level.
type LevelLoad struct {
	Level     priority.Level `json:"level"`
	Customers int64          `json:"customers"` // whose next document gets the level, with overrides
	Documents int64          `json:"documents"` // that got it by count
	Pending   int64          `json:"pending"`   // of customers by load who would get it without an override
}

// Busy is a customer with a high load or a low count.
type Busy struct {
	Name
	State
	Documents int64 `json:"documents"` // by count
}

// busier orders by the level of the next document, without overrides: the last level
// first. Within a level, by load and then by count.
func busier(a, b Busy) int {
	return cmp.Or(
		cmp.Compare(b.Ruled(), a.Ruled()),
		cmp.Compare(b.rule, a.rule),
		cmp.Compare(b.Load, a.Load),
		cmp.Compare(a.Count, b.Count),
		strings.Compare(a.Exact(), b.Exact()),
	)
}

// String says in a sentence without its end what the pass has found.
func (s Snapshot) String() string {
	var documents, pending int64
	for _, level := range s.Levels {
		documents += level.Documents
		pending += level.Pending
	}
	found := Plural(s.ByCount+s.ByLoad, "customer")
	if s.ByCount > 0 || s.ByLoad == 0 {
		since := "since their resets"
		if s.Since > 0 {
			since = "in the last " + Span(s.Since.Round(100*time.Millisecond))
		}
		found += fmt.Sprintf(", %s %s", Plural(documents, "document"), since)
	}
	if s.ByLoad > 0 {
		found += fmt.Sprintf(", %s pending", Group(pending))
	}
	if s.Corrupt > 0 {
		found += fmt.Sprintf(", %s corrupt", Plural(s.Corrupt, "key"))
	}
	if s.Unknown > 0 {
		found += fmt.Sprintf(", without those of %s", Plural(s.Unknown, "customer"))
	}
	return found
}
