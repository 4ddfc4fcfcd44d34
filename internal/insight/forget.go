package insight

import (
	"context"
	"fmt"
	"strings"

	"github.com/docpriority/priority/control"
)

// Forgotten is a customer of whom Redis holds nothing any more.
type Forgotten struct {
	Name
	Forgotten bool   `json:"forgotten"`
	Held      string `json:"held"`    // until then
	Keys      int    `json:"keys"`    // that were removed
	Entries   int    `json:"entries"` // of the log, that were removed
	Version   int64  `json:"version"` // of the log's entry, which does not say who it was
}

// Forget removes a customer from Redis: see [control.Admin.Forget]. It refuses a
// customer whom a later version of the module counts: there may be keys that this one does
// not know.
func (i *Inspector) Forget(ctx context.Context, customer, by, why string) (Forgotten, error) {
	if err := i.ofLaterVersion(ctx, customer); err != nil {
		return Forgotten{}, err
	}
	held := i.HeldWithOverride(ctx, customer)
	done, err := i.Admin.Forget(ctx, customer, control.Change{By: by, Why: why})
	if err != nil {
		return Forgotten{}, i.Explained(ctx, err, "forget", customer)
	}
	return Forgotten{Name: NameOf(customer), Forgotten: true, Held: held, Keys: done.Keys, Entries: done.Entries, Version: done.Version}, nil
}

// HeldWithOverride is Held with the customer's override.
func (i *Inspector) HeldWithOverride(ctx context.Context, customer string) string {
	held := i.Held(ctx, customer)
	override, err := i.OverrideOf(ctx, customer)
	switch {
	case err != nil:
		held += ", an override that cannot be read: " + OneLine(i.Hidden(err))
	case override != nil:
		held += ", " + override.Says
	}
	return strings.TrimPrefix(held, "nothing, ")
}

// String is what a person reads, in one line.
func (f Forgotten) String() string {
	if f.Held == "nothing" && f.Keys+f.Entries == 0 {
		return fmt.Sprintf("%s: nothing was known of it: is it spelt right?", Shown(f.Exact()))
	}
	return fmt.Sprintf("%s: forgotten (%s; %s in the log)", Shown(f.Exact()), f.Held, Plural(int64(f.Entries), "change"))
}
