package insight

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/backlog"
	"github.com/docpriority/priority/internal/customer"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/keys"
)

// Brief is what a list says of a customer.
type Brief struct {
	customer.Name
	State   *priority.State `json:"state,omitempty"`   // nil if a key is corrupt, or could not be read
	Corrupt string          `json:"corrupt,omitempty"` // the corrupt key

	// OfAccount reports whether it is a user whose numbers are in those of its account.
	OfAccount bool `json:"-"`
}

// pageKeys is how many keys one SCAN looks at, about, and pause how long it takes at least: so the
// fleet is spared.
const (
	pageKeys = 500
	pause    = time.Second / 40
)

// Customers goes through all customers by SCAN, on one server or on all masters of a cluster. It has every customer who
// exists during the whole walk, some twice if Redis's table of keys shrinks or a cluster moves
// slots meanwhile. A corrupt override has its own entry. After an error the next master follows.
func (s *Snapshot) Customers(ctx context.Context) iter.Seq2[Brief, error] {
	return func(yield func(Brief, error) bool) {
		for _, master := range s.Masters {
			cursor := uint64(0)
			for more := true; more; more = cursor > 0 {
				due := time.After(pause)
				page, next, err := s.page(ctx, master, cursor)
				for _, brief := range page {
					if !yield(brief, nil) {
						return
					}
				}
				if _, away := errors.AsType[Away](err); err != nil && !away { // so that it says where
					err = fmt.Errorf("%s: %w", master.Name, err)
				}
				if err != nil && (!yield(Brief{}, err) || ctx.Err() != nil) {
					return
				}
				cursor = next // 0 after an error
				select {
				case <-due:
				case <-ctx.Done(): // which the next page reports
				}
			}
		}
	}
}

// page looks up the customers of one SCAN's keys. A customer with several keys has one entry,
// on the page that has the key of its rule.
func (s *Snapshot) page(ctx context.Context, master Master, cursor uint64) (page []Brief, next uint64, err error) {
	prefix := keys.Prefix(s.Prefix)
	if master.Away != nil {
		return nil, 0, master.Away
	}
	found, next, err := master.client.Scan(ctx, cursor, prefix.Pattern(), pageKeys).Result()
	if err != nil {
		return nil, 0, err
	}
	isSplit := func(key string) bool {
		name, kind, ok := prefix.Parse(key)
		return ok && key != prefix.Of(name, kind)
	}
	if !s.settled && slices.ContainsFunc(found, isSplit) {
		if s, err = s.settle(true); err != nil {
			return nil, 0, err
		}
	}
	var names []string
	kinds := make(map[string][]string) // which keys of each customer were found
	for _, key := range found {
		name, kind, ok := prefix.Parse(key)
		if _, _, isUser := keys.Account(name); !ok || isUser && isSplit(key) != s.Accounts { // or of a time when the fleet did otherwise
			continue
		}
		if kinds[name] == nil {
			names = append(names, name)
		}
		kinds[name] = append(kinds[name], kind)
	}
	states, err := s.Store.PeekEach(ctx, names)
	for i, err := range itemerrors.Of(err, len(names)) {
		if err != nil && !errors.Is(err, priority.ErrCorrupt) {
			return nil, 0, cause(err)
		}
		name := names[i]
		brief, kind := s.brief(name, &states[i], err)
		if slices.Contains(kinds[name], kind) {
			page = append(page, brief)
		}
		if !slices.Contains(kinds[name], keys.Override) || states[i].Bounds != (priority.Bounds{}) {
			continue
		}
		switch _, err := s.Admin.Override(ctx, name); {
		case errors.Is(err, control.ErrCorrupt):
			page = append(page, Brief{Name: customer.NameOf(name), Corrupt: s.Store.Keys(name).Override})
		case err != nil:
			return nil, 0, err
		}
	}
	return page, next, nil
}

// brief returns the entry of a customer, and the kind of the key that has its numbers, or is
// corrupt.
func (s *Snapshot) brief(name string, state *priority.State, corrupt error) (brief Brief, kind string) {
	brief.Name = customer.NameOf(name)
	if corrupt != nil {
		brief.Corrupt, kind = s.corruptKey(name, corrupt)
		return brief, kind
	}
	if brief.State = state; state.Rule == priority.ByLoad {
		_, brief.OfAccount = s.isUser(name)
		return brief, keys.Pending
	}
	return brief, keys.Count
}

// WaitsAt reports whether documents of a customer are pending at one of the levels, of those that
// are read.
func (s *Snapshot) WaitsAt(ctx context.Context, b Brief, levels []int) (bool, error) {
	if b.State == nil || b.State.Pending == 0 {
		return false, nil
	}
	s, err := s.Of(ctx, b.Exact())
	if err != nil {
		return false, err
	}
	documents, err := s.backlogs().Documents(ctx, []backlog.Customer{{Name: b.Exact(), State: *b.State}})
	return err == nil && slices.ContainsFunc(documents[0], func(d backlog.Document) bool { return slices.Contains(levels, int(d.Level)) }), err
}
