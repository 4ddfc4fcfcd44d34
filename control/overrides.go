package control

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
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/script"
)

// MaxOverride is the longest time that an override may last.
const MaxOverride = 30 * 24 * time.Hour

// Held is a customer's override: as operators recorded it, and as the customer's key
// in Redis holds it. The key decides the levels.
type Held struct {
	Customer string `json:"customer"`

	// Item is the recorded override. Version 0: there is no readable record.
	Item[priority.Override]

	// InForce reports whether the customer's key holds the same.
	InForce bool `json:"in_force"`

	// Found is what the key holds instead; empty: the key does not exist.
	Found string `json:"found,omitempty"`

	// Err says why the record or the key cannot be read. It wraps [ErrCorrupt],
	// [ErrNewer], or what kept Redis from answering.
	Err error `json:"-"`
}

// Overrides returns the recorded overrides that have not ended, by customer, in two
// round trips.
func (a *Admin) Overrides(ctx context.Context) ([]Held, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	held, _, err := a.written(ctx)
	if err != nil {
		return nil, err
	}
	return held, a.find(ctx, held)
}

// OverrideOf returns a customer's override, or nil if there is neither a record nor the
// customer's key.
func (a *Admin) OverrideOf(ctx context.Context, customer string) (*Held, error) {
	if err := check.Customer(customer); err != nil {
		return nil, err
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	held, _, err := a.writtenOf(ctx, customer)
	if err != nil {
		return nil, err
	}
	each := []Held{held}
	if err := a.find(ctx, each); err != nil {
		return nil, err
	}
	if held.Version == 0 && each[0].Found == "" && each[0].Err == nil {
		return nil, nil
	}
	return &each[0], nil
}

// SetOverride sets a customer's override from now on, for 1 ms to [MaxOverride], in
// place of any earlier one. With [ErrNotInForce] it also returns the version.
func (a *Admin) SetOverride(ctx context.Context, customer string, override priority.Override, lasts time.Duration, change Change) (int64, error) {
	if err := check.Customer(customer); err != nil {
		return 0, err
	}
	if override.Earliest > a.levels || override.Latest > a.levels {
		return 0, fmt.Errorf("%w option: an override to level %d of 1 to %d", priority.ErrInvalid, max(override.Earliest, override.Latest), a.levels)
	}
	if lasts < time.Millisecond || lasts > MaxOverride {
		return 0, fmt.Errorf("%w option: an override for %v, not for 1ms to %v", priority.ErrInvalid, lasts, MaxOverride)
	}
	call, err := a.overrideCall(customer, override, lasts, change)
	if err != nil {
		return 0, err
	}
	return a.changeOverride(ctx, customer, override, call)
}

// EndOverride ends a customer's override, even if it is not on record. With
// [ErrNotInForce], which here means that the override is still in force, it also
// returns the version.
func (a *Admin) EndOverride(ctx context.Context, customer string, change Change) (int64, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	if err := check.Customer(customer); err != nil {
		return 0, err
	}
	call, err := a.call("override:"+customer, "", [3]string{a.keys.log, a.keys.overrides}, change)
	if err != nil {
		return 0, err
	}
	held, err := a.OverrideOf(ctx, customer)
	if err != nil || held != nil && (held.InForce || held.Found != "" || held.Err != nil) {
		call.Numbers[alwaysAt] = 1 // it is or may be in force, even if it is not on record
	}
	return a.changeOverride(ctx, customer, priority.Override{}, call)
}

// overrideCall returns the call that records an override.
func (a *Admin) overrideCall(customer string, override priority.Override, lasts time.Duration, change Change) (script.Call, error) {
	if _, err := override.MarshalText(); err != nil {
		return script.Call{}, err
	}
	text, err := encode(stored{By: change.By, Why: change.Why, Override: &override})
	if err != nil {
		return script.Call{}, err
	}
	call, err := a.call("override:"+customer, text, [3]string{a.keys.log, a.keys.overrides}, change)
	if err == nil {
		call.Numbers[lastsAt] = max(lasts.Milliseconds(), 1)
	}
	return call, err
}

// changeOverride records a change and then makes it.
func (a *Admin) changeOverride(ctx context.Context, customer string, override priority.Override, call script.Call) (int64, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	version, left, err := a.change(ctx, call)
	if err != nil {
		return 0, err
	}
	if err := a.enforce(ctx, customer, version, override, left); err != nil {
		return version, fmt.Errorf("%w: version %d, %q: %w", ErrNotInForce, version, a.store.Keys(customer).Override, err)
	}
	return version, nil
}

// enforce writes an override, whose change has a version, to the customer's key, until
// ctx ends. If another change was recorded meanwhile, it makes that change: the last
// recorded change wins.
func (a *Admin) enforce(ctx context.Context, customer string, version int64, override priority.Override, left time.Duration) error {
	var lost error
	for end := time.Now().Add(left); ; {
		err := a.inTime(ctx, func() error {
			cmd := a.enforcement(ctx, customer, override, time.Until(end))
			_ = a.client.Process(ctx, cmd)
			return cmd.Err() // a deferred AutoPipeliner waits only here
		})
		if err == nil {
			var there Held
			var now int64
			there, now, err = a.writtenOf(ctx, customer)
			if err == nil && (there.Version == version || there.Version == 0 && override == (priority.Override{})) {
				return lost
			}
			if err == nil {
				if there.Version < version && a.isLost(ctx, version) {
					lost = fmt.Errorf("version %d was lost, as in a failover", version)
				} // else it has ended
				version, override, end = there.Version, there.Value, time.Now().Add(there.leftAt(now))
				continue
			}
		}
		if redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "OOM") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(betweenTries):
		}
	}
}

// isLost reports whether Redis has lost a version that it assigned.
func (a *Admin) isLost(ctx context.Context, version int64) bool {
	settings, err := a.Settings(ctx)
	return err == nil && settings.Version < version
}

// leftAt returns how long an override has left at a time of Redis.
func (h *Held) leftAt(now int64) time.Duration {
	if h.Until.IsZero() {
		return MaxOverride
	}
	return h.Until.Sub(time.UnixMilli(now))
}

// enforcement returns the command that puts an override in force, or removes it if it
// is zero or has ended.
func (a *Admin) enforcement(ctx context.Context, customer string, override priority.Override, left time.Duration) redis.Cmder {
	key := a.store.Keys(customer).Override
	text, err := override.MarshalText()
	if err != nil || left < time.Millisecond {
		return redis.NewIntCmd(ctx, "UNLINK", key)
	}
	return redis.NewStatusCmd(ctx, "SET", key, text, "PX", left.Milliseconds())
}

// written reads the recorded overrides that have not ended, by customer, and
// Redis's time.
func (a *Admin) written(ctx context.Context) (held []Held, now int64, err error) {
	now, reply, err := a.ask(ctx, "HGETALL", a.keys.overrides)
	if err != nil {
		return nil, 0, err
	}
	texts := textsOf(reply)
	for i := 0; i+1 < len(texts); i += 2 {
		if each := a.held(texts[i], texts[i+1], now); each.Version > 0 || each.Err != nil {
			held = append(held, each)
		}
	}
	slices.SortFunc(held, func(x, y Held) int { return strings.Compare(x.Customer, y.Customer) })
	return held, now, nil
}

// writtenOf reads one customer's record; Version 0: there is no record, or it has ended.
func (a *Admin) writtenOf(ctx context.Context, customer string) (held Held, now int64, err error) {
	now, reply, err := a.ask(ctx, "HGET", a.keys.overrides, customer)
	if err != nil {
		return Held{}, 0, err
	}
	text, _ := reply.(string)
	return a.held(customer, text, now), now, nil
}

// held reads a recorded item.
func (a *Admin) held(customer, text string, now int64) Held {
	held := Held{Customer: customer}
	if text == "" {
		return held
	}
	item, err := overrideOf(a.keys.overrides, text)
	if err != nil {
		held.Err = fmt.Errorf("%w (of %.80q)", err, customer)
	} else if item.Until.IsZero() || item.Until.UnixMilli() > now {
		held.Item = item
	}
	return held
}

// find reads the customers' keys, in one round trip to each node.
func (a *Admin) find(ctx context.Context, held []Held) error {
	if len(held) == 0 {
		return nil
	}
	pipe, cmds := a.client.Pipeline(), make([]*redis.Cmd, len(held))
	for i, each := range held {
		cmds[i] = redis.NewCmd(ctx, "EVAL", "return redis.call('GET', KEYS[1])", 1, a.store.Keys(each.Customer).Override)
		_ = pipe.Process(ctx, cmds[i])
	}
	failed := a.inTime(ctx, func() error {
		_, err := pipe.Exec(ctx)
		if slices.ContainsFunc(cmds, func(cmd *redis.Cmd) bool { return cmd.Err() != nil }) {
			return nil // each command has its own error
		}
		return err
	})
	if failed != nil {
		return fmt.Errorf("control: cannot read overrides: %w", failed) // for instance, the login was refused
	}
	for i, cmd := range cmds {
		key := a.store.Keys(held[i].Customer).Override
		text, err := cmd.Text()
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil && strings.Contains(err.Error(), "wrong kind of value"):
			held[i].Found = "another kind of key"
		case err != nil:
			held[i].Err = errors.Join(held[i].Err, fmt.Errorf("control: cannot read %.200q: %w", key, err))
		default:
			want, _ := held[i].Value.MarshalText()
			first, _, _ := strings.Cut(text, " ")
			if held[i].InForce = held[i].Version > 0 && first == string(want); !held[i].InForce {
				held[i].Found = cmp.Or(text, "nothing") // the key holds an empty string
			}
		}
	}
	return nil
}
