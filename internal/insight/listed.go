package insight

import (
	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight/census"
)

// Listed is a customer in a list.
type Listed struct {
	Name
	Level     *priority.Level `json:"level"` // by Next, with the override; null: corrupt
	Count     *int64          `json:"count"`
	ResetInMS int64           `json:"reset_in_ms"` // 0: the key has no TTL
	Corrupt   bool            `json:"corrupt,omitempty"`

	// Overridden: there is an override in force, even if the level is the same.
	Overridden bool `json:"overridden,omitempty"`
}

// Listed says what an entry of a walk means.
func (i *Inspector) Listed(entry census.Entry) Listed {
	l := Listed{Name: NameOf(entry.Customer), ResetInMS: entry.ResetIn.Milliseconds(), Corrupt: entry.Corrupt}
	if !entry.Corrupt {
		level, overridden := i.overridden(entry.Customer, i.Store.PolicyOf(entry.Customer).Level(entry.Count))
		l.Overridden = overridden
		l.Level, l.Count = &level, &entry.Count
	}
	return l
}
