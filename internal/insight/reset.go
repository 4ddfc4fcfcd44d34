package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/redis/go-redis/v9"
)

// Held says in a few words what Redis holds about a customer, or why that is
// unknown.
func (i *Inspector) Held(ctx context.Context, customer string) string {
	known, err := i.peek(ctx, customer)
	held := i.heldOf(customer, known)
	switch {
	case errors.Is(err, priority.ErrCorrupt) && !errors.Is(err, errLater):
		held = []string{"a corrupt key"}
	case err != nil:
		return "cannot be read: " + OneLine(i.Hidden(err))
	}
	if i.overrideIsCorrupt(ctx, customer) {
		held = append(held, "a corrupt override")
	}
	if held == nil {
		return "nothing"
	}
	return strings.Join(held, ", ")
}

// heldOf says what a state is, without the override.
func (i *Inspector) heldOf(customer string, known priority.State) (held []string) {
	if known.Rule == priority.ByCount || known.ResetIn > 0 {
		held = append(held, fmt.Sprintf("count %d, level %d", known.Count, i.policyOf(customer).Level(known.Count)))
	}
	if known.Rule == priority.ByLoad {
		held = append(held, Group(known.Pending)+" pending", number(known.Recent)+" submitted recently")
	}
	return held
}

// ofLaterVersion returns an error if a later version of the module wrote one of a
// customer's keys: a reset would take it from that version.
func (i *Inspector) ofLaterVersion(ctx context.Context, customer string) error {
	if _, err := i.peek(ctx, customer); errors.Is(err, errLater) {
		return err
	}
	return nil
}

// WasReset is a customer who was reset.
type WasReset struct {
	Name
	Reset bool   `json:"reset"`
	Held  string `json:"held"` // before the reset

	// Version is the log entry's version; 0: there is no entry, and NotLogged says
	// why.
	Version   int64  `json:"version,omitempty"`
	NotLogged string `json:"not_logged,omitempty"`
}

// Reset resets a customer, unless a later version of the module wrote one of the keys, with an
// entry in the log before it. It resets the customer even if the log cannot be written, or may
// not have been written, unless Redis is away. Without an Admin there is no entry. Other errors
// come from the store's Reset, or from Redis.
func (i *Inspector) Reset(ctx context.Context, customer, by, why string) (WasReset, error) {
	if err := i.ofLaterVersion(ctx, customer); err != nil {
		return WasReset{}, err // and nothing in the log
	}
	if i.Admin == nil {
		return i.resetNumbers(ctx, customer)
	}
	version, noted := i.Admin.NoteReset(ctx, customer, control.Change{By: by, Why: why})
	unknown := errors.Is(noted, priority.ErrOutcomeUnknown)
	if Unreachable(noted) && !unknown || errors.Is(noted, priority.ErrInvalid) || ctx.Err() != nil {
		return WasReset{}, cmp.Or(noted, ctx.Err())
	}
	reset, err := i.resetNumbers(ctx, customer)
	if noted != nil {
		reset.NotLogged = OneLine(i.Hidden(i.Explained(ctx, noted, "reset", customer)))
	}
	reset.Version = version
	return reset, err
}

// overrideIsCorrupt reports whether the key of the customer's override is corrupt, so
// that workers ignore it.
func (i *Inspector) overrideIsCorrupt(ctx context.Context, customer string) bool {
	var override priority.Override
	held, err := i.Client.Get(ctx, i.Store.Keys(customer).Override).Bytes()
	return err == nil && override.UnmarshalText(held) != nil || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// resetNumbers resets a customer, whatever the keys hold. An override stays, unless it is
// corrupt.
func (i *Inspector) resetNumbers(ctx context.Context, customer string) (WasReset, error) {
	held := i.Held(ctx, customer)
	if err := i.Store.Reset(ctx, customer); err != nil {
		return WasReset{}, err
	}
	if i.overrideIsCorrupt(ctx, customer) {
		if err := i.Client.Unlink(ctx, i.Store.Keys(customer).Override).Err(); err != nil {
			return WasReset{}, err
		}
	}
	return WasReset{Name: NameOf(customer), Reset: true, Held: held}, nil
}

// String is what a person reads, in one line.
func (r WasReset) String() string {
	return fmt.Sprintf("%s: reset (%s)", Shown(r.Exact()), r.Held)
}
