package insight

import "github.com/docpriority/priority/internal/insight/census"

// Listed is a customer in a list.
type Listed struct {
	Name
	*State       // nil: corrupt
	Corrupt bool `json:"corrupt,omitempty"`
}

// Listed says what an entry of a walk means.
func (i *Inspector) Listed(entry census.Entry) Listed {
	l := Listed{Name: NameOf(entry.Customer), Corrupt: entry.Corrupt}
	if !entry.Corrupt {
		state := i.stateOf(entry.Customer, entry.State)
		l.State = &state
	}
	return l
}
