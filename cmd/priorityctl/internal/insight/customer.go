package insight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Customer is all that is known about a customer. It does not change.
type Customer struct {
	Name
	State
	Better

	// LevelDone is how many documents of NextLevel, of all customers, were done in the last
	// minute. LevelMedianMS and LevelP95MS are how long they took from Submit to Done. 0:
	// no document was done, or that is not known.
	LevelDone     int64 `json:"level_done"`
	LevelMedianMS int64 `json:"level_median_ms"`
	LevelP95MS    int64 `json:"level_p95_ms"`

	// Hour is what the documents got in the last hour, by the workers' reports.
	Hour []Part `json:"hour"`

	// FloodBegan is when a customer who floods now began to; zero: it does not, or has for
	// longer than an hour.
	FloodBegan time.Time `json:"flood_began,omitzero"`

	Key    string        `json:"key"`
	Policy control.Rules `json:"policy"`
	Rules  string        `json:"policy_name"`

	// Override is what operators have set for the customer. Nil: no override.
	Override *Override `json:"override,omitempty"`

	policy priority.Policy
	last   priority.Level // of the queue
}

// Part is what a customer's documents got in five minutes.
type Part struct {
	Began     time.Time      `json:"began"`
	Documents int64          `json:"documents"`
	Level     priority.Level `json:"level"` // the last
}

// Customer looks a customer up. It changes nothing. An error wraps
// [priority.ErrInvalid] or [priority.ErrCorrupt], or is the store's.
func (s *Snapshot) Customer(ctx context.Context, customer string) (*Customer, error) {
	known, err := s.peek(ctx, customer)
	if err != nil {
		return nil, err
	}
	override, err := s.Admin.Override(ctx, customer)
	if Unreachable(err) {
		return nil, fmt.Errorf("%s: %w", Shown(customer), err)
	} // else it is corrupt, and workers ignore it
	policy := s.Store.PolicyOf(customer)
	keys, waits := s.Store.Keys(customer), s.Totals.Waits[known.NextLevel]
	c := &Customer{
		Name: NameOf(customer), State: stateOf(known), Hour: s.hourOf(customer), Key: keys.Count,
		LevelDone: waits.Count(), LevelMedianMS: waits.Median().Milliseconds(), LevelP95MS: waits.P95().Milliseconds(),
		Policy: control.Rules{Policy: policy}, Rules: s.Name, policy: policy, last: s.Last,
	}
	if known.Rule == priority.ByLoad {
		c.Key = keys.Pending
	}
	if override != nil {
		c.Override = s.overrideOf(*override)
	}
	if c.floods(policy.Last()) {
		c.FloodBegan = s.floodBegan(c.Hour)
	}
	c.Better = betterOf(policy, c.State)
	return c, nil
}

// hourOf returns what a customer's documents got, the earliest part first.
func (s *Snapshot) hourOf(customer string) []Part {
	parts := []Part{}
	for _, b := range s.Totals.Busiest {
		if b.Customer != customer {
			continue
		}
		for _, p := range b.Hour {
			parts = append([]Part{{s.At.Add(-p.Ago).UTC().Truncate(time.Second), p.Documents, p.Level}}, parts...)
		}
	}
	return parts
}

// errLater: a later version of the module wrote the key, which is not corrupt for it.
var errLater = errors.New("use that version's priorityctl")

// peek returns what Redis holds of a customer. An error is for an operator: it says what a
// corrupt key holds, and how to remove it.
func (s *Snapshot) peek(ctx context.Context, customer string) (priority.State, error) {
	known, err := s.Store.Peek(ctx, customer)
	keys := s.Store.Keys(customer)
	corrupt := func(key, want string) error {
		held := "something other than" // if this user may not call TYPE
		if kind, err := s.Client.Type(ctx, key).Result(); err == nil {
			held = "a " + kind + ", not"
		}
		return fmt.Errorf("%s: %w: the key %s holds %s %s; runbook 5 says how to remove only this key",
			Shown(customer), priority.ErrCorrupt, Shown(key), held, want)
	}
	switch {
	case err == nil, errors.Is(err, priority.ErrInvalid):
		return known, err
	case !errors.Is(err, priority.ErrCorrupt):
		return known, fmt.Errorf("%s: %w", Shown(customer), cause(err))
	case strings.Contains(err.Error(), "a later version"):
		return known, fmt.Errorf("%s: %w: a later version wrote the key %s: %w", Shown(customer), priority.ErrCorrupt, Shown(keys.Pending), errLater)
	case strings.Contains(err.Error(), "CORRUPTCOUNT "):
		return known, corrupt(keys.Count, "a count")
	}
	return known, corrupt(keys.Pending, "pending documents")
}

// WasReset is a customer who was reset.
type WasReset struct {
	Name
	Reset bool   `json:"reset"`
	All   bool   `json:"all"`  // with the override
	Held  string `json:"held"` // before

	// NotLogged says why there is no entry in the log; empty: there is one.
	NotLogged string `json:"not_logged,omitempty"`
}

// Held says in a few words what Redis holds about a customer, with the override if all is set,
// or why that is unknown.
func (s *Snapshot) Held(ctx context.Context, customer string, all bool) string {
	known, err := s.peek(ctx, customer)
	var held []string
	switch {
	case errors.Is(err, priority.ErrCorrupt) && !errors.Is(err, errLater):
		held = []string{"a corrupt key"}
	case err != nil:
		return "cannot be read: " + OneLine(s.Hidden(err))
	}
	if known.Rule == priority.ByCount || known.ResetIn > 0 {
		held = append(held, fmt.Sprintf("count %d, level %d", known.Count, s.Store.PolicyOf(customer).Level(known.Count)))
	}
	if known.Rule == priority.ByLoad {
		held = append(held, Group(known.Pending)+" pending", number(known.Recent)+" submitted recently")
	}
	if all {
		override, err := s.Admin.Override(ctx, customer)
		switch {
		case errors.Is(err, control.ErrCorrupt):
			held = append(held, "a corrupt override")
		case override != nil:
			held = append(held, Says(override.Bounds))
		}
	}
	if held == nil {
		return "nothing"
	}
	return strings.Join(held, ", ")
}

// Reset forgets a customer's count and pending documents, or all that Redis holds of the
// customer. It refuses a customer whom a later version of the module counts. The numbers are
// reset even if the log cannot be written, unless Redis is away.
func (s *Snapshot) Reset(ctx context.Context, customer string, all bool, change control.Change) (WasReset, error) {
	if _, err := s.peek(ctx, customer); errors.Is(err, errLater) || errors.Is(err, priority.ErrInvalid) {
		return WasReset{}, err
	}
	done := WasReset{Name: NameOf(customer), Reset: true, All: all, Held: s.Held(ctx, customer, all)}
	if all {
		_, err := s.Admin.Forget(ctx, customer, change)
		return done, err
	}
	noted := s.Admin.NoteReset(ctx, customer, change)
	if Unreachable(noted) || errors.Is(noted, priority.ErrInvalid) || ctx.Err() != nil {
		return WasReset{}, errors.Join(noted, ctx.Err())
	}
	if noted != nil {
		done.NotLogged = OneLine(s.Hidden(noted))
	}
	return done, s.Store.Reset(ctx, customer)
}

// String is what a person reads, in one line.
func (r WasReset) String() string {
	if r.Held == "nothing" {
		return fmt.Sprintf("%s: nothing was known of it: is it spelled right?", Shown(r.Exact()))
	}
	return fmt.Sprintf("%s: reset (%s)", Shown(r.Exact()), r.Held)
}
