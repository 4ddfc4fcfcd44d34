package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/backlog"
	"github.com/docpriority/priority/internal/customer"
	"github.com/docpriority/priority/internal/keys"
)

// Customer is all that is known about a customer. It does not change. A field with a name in JSON is
// filled in by [Snapshot.Customer], and stands in the table of docs/versions.md.
type Customer struct {
	customer.Name
	State priority.State `json:"state"`

	// Waits are those of the level that the next document gets, over all customers.
	Waits Waits `json:"waits"`

	// Hour is what the documents got in the last hour, by the workers' reports, which have the
	// busiest customers: at least so many.
	Hour []Part `json:"hour"`

	// FloodBegan is when the first document of the backlog beyond the last load was due; zero:
	// there is none.
	FloodBegan time.Time `json:"flood_began,omitzero"`

	// Lost is how many documents got no Done within their lease, of the last day.
	Lost int64 `json:"lost,omitempty"`

	Key    string            `json:"key"` // what holds the count or the pending documents
	Policy priority.Policies `json:"policy"`
	Source string            `json:"policy_name"`

	// ByAccount reports whether the load of the user's account decides, and not the user's own.
	ByAccount bool `json:"by_account,omitempty"`

	// Users are those of an account, the ones who send most first.
	Users []User `json:"users,omitempty"`

	// Override is what operators have set for the customer, or else for its account. Nil: no override.
	Override *Override `json:"override,omitempty"`

	last      priority.Level     // the queue's last level
	account   string             // whose user the customer is; empty: of none
	inOrder   bool               // whether the newest pending document decides, as the policy keeps the order
	documents []backlog.Document // the pending ones that were read
	oldest    backlog.Document   // the oldest of them
	isLate    bool               // whether it does not wait for others
	full      bool               // whether Redis is full
	wentBack  bool               // whether only a clock that went back can have made documents due later
}

// Part is what a customer's documents got in five minutes.
type Part struct {
	Began     time.Time      `json:"began"`
	Documents int64          `json:"documents"`
	Level     priority.Level `json:"level"` // that the latest of them got
}

// Customer looks a customer up. It changes nothing. An error wraps
// [priority.ErrInvalid] or [priority.ErrCorrupt], or is the store's.
func (s *Snapshot) Customer(ctx context.Context, name string) (*Customer, error) {
	s, err := s.Of(ctx, name)
	if err != nil {
		return nil, err
	}
	state, err := s.Peek(ctx, name)
	if err != nil {
		return nil, err
	}
	account, isUser := s.isUser(name)
	override, err := s.Admin.Override(ctx, name)
	if override == nil && isUser && !Unreachable(err) {
		override, err = s.Admin.Override(ctx, account)
	}
	if Unreachable(err) {
		return nil, fmt.Errorf("%s: %w", Shown(name), err)
	} // any other error: it is corrupt, and workers ignore it
	policy := s.Policies.Policy
	c := &Customer{
		Name: customer.NameOf(name), State: state,
		Waits: waitsOf(s.Totals.Waits[state.NextLevel]), Hour: s.hourOf(name), Key: s.Store.Keys(name).Count,
		Policy: priority.Policies{Policy: policy}, Source: s.Source, last: s.Last, full: s.Full(),
	}
	if state.Rule == priority.ByLoad {
		c.Key = s.Store.Keys(name).Pending
		level, byAccount := levelOf(policy, state, state.Load)
		c.inOrder = level != state.RuleLevel
		c.ByAccount = byAccount && !c.inOrder
	}
	if override != nil {
		words := overrideAt(s.Now, *override)
		c.Override = &words
	}
	if err := s.addDocuments(ctx, c); err != nil {
		return nil, fmt.Errorf("%s: %w", Shown(name), err)
	}
	if isUser {
		c.account = account
		return c, nil
	}
	s.addUsers(c)
	return c, nil
}

// addDocuments reads what waits, and counts what is presumed lost.
func (s *Snapshot) addDocuments(ctx context.Context, c *Customer) error {
	one := []Busy{{Brief: Brief{Name: c.Name, State: &c.State}}}
	if err := s.addLost(ctx, one); err != nil {
		return err
	}
	c.wentBack = s.wentBack(ctx, one).Documents > 0
	if c.Lost = one[0].Lost; c.State.Pending == 0 {
		return nil
	}
	documents, err := s.backlogs().Documents(ctx, []backlog.Customer{{Name: c.Exact(), State: c.State}})
	if err != nil {
		return err
	}
	c.documents = documents[0]
	for _, d := range c.documents {
		if d.Flood && c.FloodBegan.IsZero() {
			c.FloodBegan = s.floodBegan(d)
		}
		if d.Age > c.oldest.Age {
			c.oldest = d
		}
	}
	late, _ := s.late(c.oldest.Level)
	c.isLate = c.oldest.Age > late
	return nil
}

// hourOf returns what a customer's documents got, the earliest part first.
func (s *Snapshot) hourOf(name string) []Part {
	parts, all := []Part{}, s.busiest
	if _, isUser := s.isUser(name); isUser {
		all = s.Totals.Busiest
	}
	for _, b := range all {
		if b.Customer == name {
			for _, p := range slices.Backward(b.Hour) {
				parts = append(parts, Part{s.At.Add(-p.Ago).UTC().Truncate(time.Second), p.Documents, p.Level})
			}
		}
	}
	return parts
}

// errLater: a later version of the module wrote the key, which is not corrupt for it.
var errLater = errors.New("use that version's priorityctl")

// Peek returns what Redis knows of a customer. An error is for an operator: it says what a
// corrupt key holds, and how to remove it.
func (s *Snapshot) Peek(ctx context.Context, name string) (priority.State, error) {
	s, err := s.Of(ctx, name)
	if err != nil {
		return priority.State{}, err
	}
	state, err := s.Store.Peek(ctx, name)
	if err == nil || errors.Is(err, priority.ErrInvalid) {
		return state, err
	}
	if !errors.Is(err, priority.ErrCorrupt) {
		return state, fmt.Errorf("%s: %w", Shown(name), cause(err))
	}
	key, kind := s.corruptKey(name, err)
	expected := "a count"
	if kind == keys.Pending {
		expected = "pending documents"
	}
	if redis.HasErrorPrefix(err, corruptPending+"a later version") {
		return state, fmt.Errorf("%s: %w: a later version wrote the key %s: %w", Shown(name), priority.ErrCorrupt, Shown(key), errLater)
	}
	contents := "something other than" // which is all to say if this user may not call TYPE
	if kind, err := s.Client.Type(ctx, key).Result(); err == nil {
		contents = "a " + kind + ", not"
	}
	return state, fmt.Errorf("%s: %w: the key %s holds %s %s; runbook 5 says how to remove only this key",
		Shown(name), priority.ErrCorrupt, Shown(key), contents, expected)
}

// corruptPending begins what the scripts answer if the key of the pending documents is corrupt.
// If the count's is, they have another code.
const corruptPending = "CORRUPTPENDING "

// corruptKey returns which of a customer's keys is corrupt, or of its account's, by the error that
// says so.
func (s *Snapshot) corruptKey(name string, err error) (key, kind string) {
	own := s.Store.Keys(name)
	if !redis.HasErrorPrefix(err, corruptPending) {
		return own.Count, keys.Count
	}
	if account, isUser := s.isUser(name); isUser {
		if key := s.Store.Keys(account).Pending; strings.Contains(err.Error(), " "+key) {
			return key, keys.Pending
		}
	}
	return own.Pending, keys.Pending
}

// Removal is what a reset has removed.
type Removal struct {
	customer.Name
	Reset    bool   `json:"reset"`
	All      bool   `json:"all"`      // whether the override is removed, too
	Contents string `json:"contents"` // what Redis had about the customer

	// NotLogged says why there is no entry in the log; empty: there is one.
	NotLogged string `json:"not_logged,omitempty"`
}

// Contents says in a few words what Redis has about a customer, with the override if all is
// set, or why that is unknown. An error means that it must not be reset.
func (s *Snapshot) Contents(ctx context.Context, name string, all bool) (string, error) {
	var parts []string
	s, err := s.Of(ctx, name)
	if err != nil {
		return "cannot be read: " + OneLine(s.Hidden(err)), err
	}
	state, err := s.Peek(ctx, name)
	if errors.Is(err, priority.ErrCorrupt) && !errors.Is(err, errLater) {
		parts = append(parts, "a corrupt key")
	} else if err != nil {
		return "cannot be read: " + OneLine(s.Hidden(err)), err
	}
	if state.Rule == priority.ByCount || state.ResetIn > 0 {
		parts = append(parts, fmt.Sprintf("count %d, level %d", state.Count, s.Policies.Policy.Level(state.Count)))
	}
	if state.Rule == priority.ByLoad {
		parts = append(parts, Group(state.Pending)+" pending", decimal(state.Recent)+" submitted recently")
		if state.Scheduled > 0 {
			parts = append(parts, Group(state.Scheduled)+" scheduled")
		}
	}
	if all {
		override, err := s.Admin.Override(ctx, name)
		switch {
		case errors.Is(err, control.ErrCorrupt):
			parts = append(parts, "a corrupt override")
		case override != nil:
			parts = append(parts, Says(override.Bounds))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), nothing), nil
}

const nothing = "nothing"

// Reset forgets a customer's count and pending documents, or all that Redis has of the
// customer. The numbers are reset even if the log cannot be written.
func (s *Snapshot) Reset(ctx context.Context, name string, all bool, change control.Change) (Removal, error) {
	s, err := s.Of(ctx, name)
	if err != nil {
		return Removal{}, err
	}
	contents, err := s.Contents(ctx, name, all)
	if err != nil {
		return Removal{}, err
	}
	removal := Removal{Name: customer.NameOf(name), Reset: true, All: all, Contents: contents}
	if all {
		_, err = s.Admin.Forget(ctx, name, change)
	} else {
		err = s.Admin.Reset(ctx, name, change)
	}
	if errors.Is(err, control.ErrNotLogged) {
		removal.NotLogged, err = OneLine(s.Hidden(err)), nil
	}
	return removal, err
}

// String is what a person reads, in one line.
func (r Removal) String() string {
	if r.Contents == nothing {
		return fmt.Sprintf("%s: nothing was known of it: is it spelled right?", Shown(r.Exact()))
	}
	return fmt.Sprintf("%s: reset (%s)", Shown(r.Exact()), r.Contents)
}
