package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// model is what Redis should hold, and what a worker should follow.
type model struct {
	*world
	*rand.Rand
	rules     control.Applied
	overrides map[string]control.Override
	log       []string // the newest first
	backup    *control.Backup

	change, read int // the number of the last change of the policies, and of the last that the worker has read
	followed     control.Applied
}

var customers = []string{"acme", "a}%7D", "acme/a}/", "\xff"}

// lasting returns an override with its length, in whole hours, in place of its times.
func lasting(o control.Override) control.Override {
	o.Until, o.At = time.Time{}.Add(o.Until.Sub(o.At).Round(time.Hour)), time.Time{}
	return o
}

func jsonOf(v any) string { text, _ := json.Marshal(v); return string(text) }

func (m *model) note(change control.Change, e control.Entry) {
	e.By, e.Why = change.By, change.Why
	m.log = append([]string{jsonOf(e)}, m.log...)
}

// set sets rules of a version after above.
func (m *model) set(rules control.Applied, above int64, change control.Change) {
	rules.Version, rules.At = max(m.rules.Version, above)+1, time.Time{}
	m.rules = rules
	m.change++
	m.note(change, control.Entry{Kind: "policies", Applied: &rules})
}

// step does something random to both. It returns what, its error, and the one that it should have.
func (m *model) step() (what string, err, want error) {
	ctx, customer, change := m.t.Context(), customers[m.IntN(len(customers))], control.Change{By: fmt.Sprint("by ", m.IntN(3)), Why: "x"}
	held, there := m.overrides[customer]
	forget := func() { delete(m.overrides, customer) }
	switch m.IntN(12) {
	case 0, 1, 2:
		bounds, hours := []priority.Bounds{pinned(5), {Earliest: 7}, {Latest: 2}}[m.IntN(3)], time.Duration(1+m.IntN(700))*time.Hour
		m.tick() // of the same millisecond and text it would be the same call, repeated
		replaced, err := m.admin.SetOverride(ctx, customer, bounds, hours, change)
		if (replaced != nil) != there || there && lasting(*replaced).By != held.By {
			m.t.Errorf("it replaced %+v, not %+v", replaced, held)
		}
		m.overrides[customer] = control.Override{Customer: customer, Bounds: bounds, By: change.By, Why: change.Why, Until: time.Time{}.Add(hours)}
		m.note(change, control.Entry{Kind: "override", Customer: customer, Bounds: bounds})
		return "set " + customer, err, nil
	case 3:
		ended, err := m.admin.EndOverride(ctx, customer, change)
		if !there {
			return "end none", err, control.ErrNotFound
		}
		if ended == nil || lasting(*ended) != held {
			m.t.Errorf("%+v was ended, not %+v", ended, held)
		}
		forget()
		m.note(change, control.Entry{Kind: "override", Customer: customer})
		return "end " + customer, err, nil
	case 4:
		forget()
		return "its end: " + customer, m.client.Del(ctx, m.store.Keys(customer).Override).Err(), nil
	case 5, 6:
		applied, replaces := control.Applied{By: change.By, Why: change.Why}, []int64{m.rules.Version, control.AnyVersion, m.rules.Version + 1}[m.IntN(3)]
		if m.IntN(3) > 0 {
			rules := levels(1 + m.IntN(9))
			rules.Tiers = map[string]priority.Policy{"gold": levels(1).Policy}
			applied.Policies = &rules
			err = errOf(m.admin.Apply(ctx, replaces, rules, change))
		} else {
			_, err = m.admin.Withdraw(ctx, replaces, change)
		}
		if replaces > m.rules.Version {
			return "conflict", err, control.ErrConflict
		}
		m.set(applied, 0, change)
		return "rules", err, nil
	case 7:
		m.backup, err = m.admin.Export(ctx)
		return "export", err, nil
	case 8:
		if force := m.IntN(2) == 0; m.backup != nil {
			_, err = m.admin.Import(ctx, m.backup, force, change)
			if !force && (m.rules.Version > 0 || len(m.overrides) > 0) {
				return "import", err, control.ErrConflict
			}
			if m.backup.Applied.Version > 0 {
				m.set(m.backup.Applied, m.backup.Applied.Version, change)
			}
			for _, o := range m.backup.Overrides {
				m.overrides[o.Customer] = lasting(o)
			}
			m.note(change, control.Entry{Kind: "import"})
		}
		return "import", err, nil
	case 9:
		_, err = m.admin.Forget(ctx, customer, change)
		forget()
		m.note(change, control.Entry{Kind: "forget"})
		return "forget " + customer, err, nil
	case 10:
		m.note(change, control.Entry{Kind: "reset", Customer: customer})
		return "reset " + customer, m.admin.Reset(ctx, customer, change), nil
	}
	m.tick()
	m.rules, m.overrides, m.log = control.Applied{}, make(map[string]control.Override), nil
	return "lose all", m.client.FlushAll(ctx).Err(), nil
}

// compare compares what Redis holds, and what the worker follows.
func (m *model) compare() {
	ctx := m.t.Context()
	rules, all, log := must(m.admin.Policies(ctx))(m.t), make(map[string]control.Override), []string(nil)
	for _, o := range must(m.admin.Overrides(ctx))(m.t) {
		all[o.Customer] = lasting(o)
	}
	for _, e := range must(m.admin.Log(ctx, "", 1000))(m.t) {
		if e.ID, e.At, e.Until = "", (time.Time{}), (time.Time{}); e.Applied != nil {
			e.Applied.At = time.Time{}
		}
		log = append(log, jsonOf(e))
	}
	if rules.At = (time.Time{}); jsonOf(rules) != jsonOf(m.rules) || !maps.Equal(all, m.overrides) || !slices.Equal(log, m.log) {
		m.t.Errorf("Redis has\n%s\n%+v\n%s, not\n%s\n%+v\n%s", jsonOf(rules), all, log, jsonOf(m.rules), m.overrides, m.log)
	}
	for _, customer := range customers {
		override, own := m.overrides[customer]
		if account, _, isUser := strings.Cut(customer, "/"); isUser && !own && m.store.Accounts() {
			override = m.overrides[account]
		}
		got, want := must(m.store.Peek(ctx, customer))(m.t).Bounds, override.Bounds
		if got.Level(1, 9) != want.Level(1, 9) || got.Level(9, 9) != want.Level(9, 9) {
			m.t.Errorf("Peek(%q) has %+v, not %+v", customer, got, want)
		}
	}
	if m.IntN(3) > 0 { // the worker misses a change
		return
	}
	var lost error
	if m.rules.Version > 0 && m.change >= m.read {
		m.read, m.followed = m.change, m.rules
	} else if m.read > 0 {
		lost = control.ErrLost
	}
	err, status := m.store.Refresh(ctx), m.store.Status()
	if !errors.Is(err, lost) || status.Version != m.followed.Version || jsonOf(status.Policies) != jsonOf(m.followed.Policies) {
		m.t.Errorf("Refresh = %v, not %v, and %+v is followed, not %s", err, lost, status, jsonOf(m.followed))
	}
}

// Random commands do what they do to a model, with accounts and without.
func TestAdmin_Model(t *testing.T) {
	t.Parallel()
	w := start(t)
	for seed := range uint64(20) {
		check(t, w.client.FlushAll(t.Context()).Err())
		accounts := seed%2 > 0
		w.admin = must(control.NewAdmin(w.client, &control.AdminOptions{Timeout: time.Minute, Accounts: accounts}))(t)
		w.store = newWorker(t, w.client, &priority.RedisOptions{Accounts: accounts}, control.Options{})
		check(t, w.store.Refresh(t.Context()))
		m := &model{world: w, Rand: rand.New(rand.NewPCG(seed, 1)), overrides: make(map[string]control.Override)}
		var steps []string
		for range 20 {
			what, err, want := m.step()
			if steps = append(steps, what); !errors.Is(err, want) {
				t.Errorf("%s: %v, not %v", what, err, want)
			}
			if m.compare(); t.Failed() {
				t.Fatalf("seed %d: %q", seed, steps)
			}
		}
		check(t, w.store.Close(t.Context()))
	}
}
