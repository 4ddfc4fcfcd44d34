package insight

import "github.com/docpriority/priority/internal/insight/census"

// Listed is a customer in a list.
type Listed struct {
	Name
	*State         // nil: corrupt
	Corrupt string `json:"corrupt,omitempty"` // the corrupt key
}

// Listed says what an entry of a walk means.
func (i *Inspector) Listed(entry census.Entry) Listed {
	l := Listed{Name: NameOf(entry.Customer), Corrupt: entry.Corrupt}
	if entry.Corrupt == "" {
		state := stateOf(entry.State)
		l.State = &state
	}
	return l
}
