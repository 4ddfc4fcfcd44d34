package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/customer"
)

// MaxOverride is the longest time that an override may last.
const MaxOverride = 30 * 24 * time.Hour

// Override is a customer's override, as the customer's key holds it.
type Override struct {
	Customer string
	Bounds   priority.Bounds
	By, Why  string    // who set it, and why; empty: it is not known
	At       time.Time // when it was set, by Redis's clock; zero: it is not known
	Until    time.Time // when it ends; zero: it does not
}

// note is the JSON after the bounds in an override's key.
type note struct {
	By  string `json:"by"`
	Why string `json:"why"`
	At  int64  `json:"at"` // in milliseconds
}

// SetOverride sets a customer's override, starting now, for 1 ms to [MaxOverride]. It
// replaces and returns any earlier one; nil: there was none.
func (a *Admin) SetOverride(ctx context.Context, customer string, bounds priority.Bounds, lasts time.Duration, change Change) (replaced *Override, err error) {
	if lasts < time.Millisecond || lasts > MaxOverride {
		return nil, fmt.Errorf("%w option: an override for %v, not for 1ms to %v", priority.ErrInvalid, lasts, MaxOverride)
	}
	set := Override{Customer: customer, Bounds: bounds, By: change.By, Why: change.Why}
	if err := set.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	now, err := a.now(ctx)
	if err != nil {
		return nil, err
	}
	set.At, set.Until = now, now.Add(lasts)
	if replaced, err = a.set(ctx, set, now); err != nil {
		return nil, err
	}
	text, _ := bounds.MarshalText() // validate has checked it
	return replaced, a.note(ctx, now, change, "override", "customer", customer, "value", string(text), "until", stamp(set.Until))
}

func (o Override) validate() error {
	_, err := o.Bounds.MarshalText()
	if last := max(o.Bounds.Earliest, o.Bounds.Latest); err == nil && last > maxLevels {
		err = fmt.Errorf("%w option: an override to level %d of at most %d", priority.ErrInvalid, last, maxLevels)
	}
	return errors.Join(check.Customer(o.Customer), err, Change{o.By, o.Why}.validate())
}

// set lists an override and puts it in force. It returns the previous one.
func (a *Admin) set(ctx context.Context, o Override, now time.Time) (replaced *Override, err error) {
	list := a.keys.Overrides()
	end := redis.ZAddArgs{GT: true, Members: []redis.Z{{Score: float64(o.Until.UnixMilli()), Member: o.Customer}}} // of two concurrent ones, it keeps the later end
	var added, listed *redis.IntCmd
	_, err = a.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRemRangeByScore(ctx, list, "-inf", stamp(now))
		added, listed = pipe.ZAddArgs(ctx, list, end), pipe.ZCard(ctx, list)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("control: the override of %.80q is not set: cannot list it in %q: %w", o.Customer, list, err)
	}
	if added.Val() == 1 && listed.Val() > MaxOverrides {
		return nil, errors.Join(ErrTooMany, a.unlist(ctx, o.Customer))
	}
	text, err := o.text()
	if err != nil {
		return nil, err
	}
	key := a.store.Keys(o.Customer).Override
	args := redis.SetArgs{TTL: max(o.Until.Sub(now), time.Millisecond), Get: true}
	before, err := a.client.SetArgs(ctx, key, text, args).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") { // another type is there; plain SET replaces it
		before, err = "", a.client.Set(ctx, key, text, args.TTL).Err()
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("control: the override is listed, but writing %.200q failed: %w", key, err)
	}
	if was := overrideOf(o.Customer, before); was.Bounds != (priority.Bounds{}) && before != text { // else the command was resent
		replaced = &was
	}
	if err := a.client.ZAddArgs(ctx, list, end).Err(); err != nil { // another operator may have ended the previous one meanwhile
		return nil, fmt.Errorf("control: the override of %.80q is in force, but listing it in %q failed: %w", o.Customer, list, err)
	}
	return replaced, nil
}

// text returns the content of an override's key.
func (o Override) text() (string, error) {
	bounds, err := o.Bounds.MarshalText()
	if err != nil {
		return "", err
	}
	behind, err := encode(note{o.By, o.Why, o.At.UnixMilli()})
	return string(bounds) + " " + behind, err
}

// overrideOf reads the content of an override's key. If it is not an override, its Bounds
// are zero.
func overrideOf(customer, text string) Override {
	o := Override{Customer: customer}
	if o.Bounds.UnmarshalText([]byte(text)) != nil {
		return Override{Customer: customer}
	}
	var behind note
	if _, rest, ok := strings.Cut(text, " "); ok && json.Unmarshal([]byte(rest), &behind) == nil {
		if len(behind.By) <= MaxByBytes && len(behind.Why) <= MaxWhyBytes {
			o.By, o.Why = behind.By, behind.Why
		}
		o.At = timeOf(behind.At)
	}
	o.Bounds.Earliest, o.Bounds.Latest = min(o.Bounds.Earliest, maxLevels), min(o.Bounds.Latest, maxLevels)
	return o
}

// EndOverride ends a customer's override, and returns it. An error wraps [ErrNotFound] if
// there is none.
func (a *Admin) EndOverride(ctx context.Context, customer string, change Change) (*Override, error) {
	if err := errors.Join(check.Customer(customer), change.validate()); err != nil {
		return nil, err
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	ended, err := a.Override(ctx, customer)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return nil, err
	}
	if err := a.unlist(ctx, customer); err != nil { // first, so that an override set meanwhile stays listed
		return nil, err
	}
	key := a.store.Keys(customer).Override
	cmd := redis.NewIntCmd(ctx, "unlink", key)
	_ = a.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil {
		return nil, fmt.Errorf("control: the override is no longer listed, but removing %.200q failed: %w", key, err)
	}
	if cmd.Val() == 0 && ended == nil { // a client's retry does not find what it removed
		return nil, fmt.Errorf("%w: an override of %.80q", ErrNotFound, customer)
	}
	return ended, a.note(ctx, time.Time{}, change, "override", "customer", customer, "value", "")
}

// unlist removes a customer from the list of overrides.
func (a *Admin) unlist(ctx context.Context, customer string) error {
	if err := a.client.ZRem(ctx, a.keys.Overrides(), customer).Err(); err != nil {
		return fmt.Errorf("control: removing %.80q from %q failed: %w", customer, a.keys.Overrides(), err)
	}
	return nil
}

// Override returns a customer's override; nil: there is none. An error wraps [ErrCorrupt] if
// the customer's key holds something else, which workers ignore.
func (a *Admin) Override(ctx context.Context, customer string) (*Override, error) {
	if err := check.Customer(customer); err != nil {
		return nil, err
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	now, err := a.now(ctx)
	if err != nil {
		return nil, err
	}
	found, corrupt, err := a.read(ctx, []string{customer}, now)
	switch {
	case err != nil:
		return nil, err
	case len(corrupt) > 0:
		return nil, fmt.Errorf("%w: %q holds no override", ErrCorrupt, a.store.Keys(customer).Override)
	case len(found) == 0:
		return nil, nil
	}
	return &found[0], nil
}

// Overrides returns all overrides that are listed, the next to end first. It omits
// customers whose key holds something else.
func (a *Admin) Overrides(ctx context.Context) ([]Override, error) {
	limited, cancel := a.within(ctx)
	defer cancel()
	now, err := a.now(limited)
	if err != nil {
		return nil, err
	}
	customers, err := a.client.ZRangeByScore(limited, a.keys.Overrides(), &redis.ZRangeBy{Min: stamp(now), Max: "+inf"}).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("control: cannot read %q: %w", a.keys.Overrides(), err)
	}
	var all []Override
	for some := range slices.Chunk(customers, 1000) {
		limited, cancel := a.within(ctx)
		found, _, err := a.read(limited, some, now)
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(x, y Override) int {
		if x.Until.IsZero() != y.Until.IsZero() {
			return -x.Until.Compare(y.Until) // overrides without an end come last
		}
		return cmp.Or(x.Until.Compare(y.Until), strings.Compare(x.Customer, y.Customer))
	})
	return all, nil
}

// read reads the customers' keys, in one round trip to each node. It omits customers
// without a key; corrupt are the customers whose key holds something else.
func (a *Admin) read(ctx context.Context, customers []string, now time.Time) (found []Override, corrupt []string, err error) {
	texts, left := make([]*redis.StringCmd, len(customers)), make([]*redis.DurationCmd, len(customers))
	_, _ = a.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, customer := range customers {
			key := a.store.Keys(customer).Override
			texts[i], left[i] = pipe.Get(ctx, key), pipe.PTTL(ctx, key)
		}
		return nil
	}) // each command has its own error
	for i, customer := range customers {
		text, err := texts[i].Result()
		o := overrideOf(customer, text)
		switch {
		case errors.Is(err, redis.Nil):
			continue
		case err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE"):
			return nil, nil, fmt.Errorf("control: cannot read %.200q: %w", a.store.Keys(customer).Override, err)
		case err != nil || o.Bounds == (priority.Bounds{}):
			corrupt = append(corrupt, customer)
			continue
		}
		const noEnd, noKey, longest = -1, -2, 100 * 365 * 24 * time.Hour // as go-redis has a PTTL of -1 and -2
		switch ttl, err := left[i].Result(); {
		case err != nil:
			return nil, nil, fmt.Errorf("control: cannot read %.200q: %w", a.store.Keys(customer).Override, err)
		case ttl == noKey: // it has just ended
			continue
		case ttl != noEnd:
			o.Until = now.Add(min(ttl, longest))
		}
		found = append(found, o)
	}
	return found, corrupt, nil
}

func stamp(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// overrideJSON is an override in JSON.
type overrideJSON struct {
	customer.Name
	Bounds priority.Bounds `json:"override"`
	By     string          `json:"by"`
	Why    string          `json:"why"`
	At     time.Time       `json:"at,omitzero"`
	Until  time.Time       `json:"until,omitzero"`
}

// MarshalJSON implements [json.Marshaler].
func (o Override) MarshalJSON() ([]byte, error) {
	return json.Marshal(overrideJSON{customer.NameOf(o.Customer), o.Bounds, o.By, o.Why, utc(o.At), utc(o.Until)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *Override) UnmarshalJSON(text []byte) error {
	var file overrideJSON
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	*o = Override{file.Exact(), file.Bounds, file.By, file.Why, file.At, file.Until}
	return file.Check()
}

func utc(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.UTC()
}
