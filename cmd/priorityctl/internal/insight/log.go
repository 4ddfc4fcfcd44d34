package insight

import (
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/customer"
)

// Logged is an entry of the log, and what it says: a sentence without a full stop. In JSON, the
// customer's Name takes the place of the Entry's Customer, as JSON cannot hold every customer.
type Logged struct {
	entry
	customer.Name
	Says string `json:"says"`
}

// entry is one struct deeper than Name, which therefore wins.
type entry struct{ control.Entry }

// LoggedOf returns an entry of the log for display.
func LoggedOf(e control.Entry) Logged {
	e.At, e.Until = e.At.UTC(), e.Until.UTC()
	who, says := Shown(e.Customer), Shown(e.Kind)
	switch e.Kind {
	case "reset":
		says = who + " reset"
	case "forget":
		says = "a customer forgotten"
	case "import":
		says = "an export imported"
	case "policies":
		says = fmt.Sprintf("policies withdrawn (version %d): the workers' own options decide", e.Applied.Version)
		if e.Applied.Policies != nil {
			says = fmt.Sprintf("policies applied (version %d): %s", e.Applied.Version, Summary(*e.Applied.Policies))
		}
	case "override":
		says = who + ": override ended"
		if e.Bounds != (priority.Bounds{}) {
			says = fmt.Sprintf("%s %s, for %s", who, Says(e.Bounds), Span(max(e.Until.Sub(e.At).Round(time.Second), 0)))
		}
	}
	return Logged{entry{e}, customer.NameOf(e.Customer), says}
}
