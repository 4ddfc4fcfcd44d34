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
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
)

// MaxOverride is the longest time that an override may last.
const MaxOverride = 30 * 24 * time.Hour

// Override is a customer's override, as the customer's key holds it.
type Override struct {
	Customer string
	Bounds   priority.Override
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
func (a *Admin) SetOverride(ctx context.Context, customer string, bounds priority.Override, lasts time.Duration, change Change) (replaced *Override, err error) {
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
	pipe := a.client.Pipeline()
	_ = pipe.Process(ctx, redis.NewIntCmd(ctx, "zremrangebyscore", a.keys.overrides, "-inf", now.UnixMilli()))
	list := func() *redis.IntCmd { // of two concurrent ones, it keeps the later end
		return redis.NewIntCmd(ctx, "zadd", a.keys.overrides, "gt", o.Until.UnixMilli(), o.Customer)
	}
	added, listed := list(), redis.NewIntCmd(ctx, "zcard", a.keys.overrides)
	_, _ = pipe.Process(ctx, added), pipe.Process(ctx, listed)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("control: the override of %.80q is not set: cannot list it in %q: %w", o.Customer, a.keys.overrides, err)
	}
	if added.Val() == 1 && listed.Val() > MaxOverrides {
		left, err := a.prune(ctx)
		if err != nil || left > MaxOverrides {
			return nil, errors.Join(ErrTooMany, err, a.unlist(ctx, o.Customer))
		}
	}
	text, err := o.text()
	if err != nil {
		return nil, err
	}
	key := a.store.Keys(o.Customer).Override
	left := max(o.Until.Sub(now), time.Millisecond)
	command := func(more ...any) *redis.StringCmd {
		cmd := redis.NewStringCmd(ctx, append([]any{"set", key, text, "px", left.Milliseconds()}, more...)...)
		_ = a.client.Process(ctx, cmd)
		return cmd
	}
	cmd := command("get")
	if redis.HasErrorPrefix(cmd.Err(), "WRONGTYPE") { // another type is there; plain SET replaces it
		cmd = command()
	}
	before, err := cmd.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("control: the override is listed, but writing %.200q failed: %w", key, err)
	}
	if was := overrideOf(o.Customer, before); was.Bounds != (priority.Override{}) && before != text { // else the command was resent
		replaced = &was
	}
	again := list() // another operator may have ended the previous one meanwhile
	_ = a.client.Process(ctx, again)
	if err := again.Err(); err != nil {
		return nil, fmt.Errorf("control: the override of %.80q is in force, but listing it in %q failed: %w", o.Customer, a.keys.overrides, err)
	}
	return replaced, nil
}

// prune removes names without a key from the list, and returns how many are left.
func (a *Admin) prune(ctx context.Context) (left int, err error) {
	cmd := redis.NewStringSliceCmd(ctx, "zrangebyscore", a.keys.overrides, "-inf", "+inf")
	_ = a.client.Process(ctx, cmd)
	customers, err := cmd.Result()
	for some := range slices.Chunk(customers, 1000) {
		pipe := a.client.Pipeline()
		texts := make([]*redis.StringCmd, len(some))
		for i, customer := range some {
			texts[i] = redis.NewStringCmd(ctx, "get", a.store.Keys(customer).Override)
			_ = pipe.Process(ctx, texts[i])
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		for i, customer := range some {
			if left++; errors.Is(texts[i].Err(), redis.Nil) {
				left--
				err = errors.Join(err, a.unlist(ctx, customer))
			}
		}
	}
	return left + 1, err // the override being set has no key yet
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

// timeOf returns a time in milliseconds; zero: JSON cannot represent it.
func timeOf(ms int64) time.Time {
	const year9999 = 253402300799000
	if ms <= 0 || ms > year9999 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
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
	cmd := redis.NewIntCmd(ctx, "zrem", a.keys.overrides, customer)
	_ = a.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil {
		return fmt.Errorf("control: removing %.80q from %q failed: %w", customer, a.keys.overrides, err)
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
	cmd := redis.NewStringSliceCmd(limited, "zrangebyscore", a.keys.overrides, now.UnixMilli(), "+inf")
	_ = a.client.Process(limited, cmd)
	customers, err := cmd.Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("control: cannot read %q: %w", a.keys.overrides, err)
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

var errNotSent = errors.New("control: the command was not sent")

// read reads the customers' keys, in one round trip to each node. It omits customers
// without a key; corrupt are the customers whose key holds something else.
func (a *Admin) read(ctx context.Context, customers []string, now time.Time) (found []Override, corrupt []string, err error) {
	pipe := a.client.Pipeline()
	texts, left := make([]*redis.StringCmd, len(customers)), make([]*redis.IntCmd, len(customers))
	for i, customer := range customers {
		key := a.store.Keys(customer).Override
		texts[i], left[i] = redis.NewStringCmd(ctx, "get", key), redis.NewIntCmd(ctx, "pttl", key)
		texts[i].SetErr(errNotSent)
		_, _ = pipe.Process(ctx, texts[i]), pipe.Process(ctx, left[i])
	}
	_, failed := pipe.Exec(ctx) // each command has its own error, unless it was not sent
	for i, customer := range customers {
		text, err := texts[i].Result()
		o := overrideOf(customer, text)
		switch {
		case errors.Is(err, redis.Nil):
			continue
		case err == errNotSent:
			return nil, nil, fmt.Errorf("control: cannot read overrides: %w", cmp.Or(failed, err))
		case err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE"):
			return nil, nil, fmt.Errorf("control: cannot read %.200q: %w", a.store.Keys(customer).Override, err)
		case err != nil || o.Bounds == (priority.Override{}):
			corrupt = append(corrupt, customer)
			continue
		}
		switch ms, err := left[i].Result(); {
		case err != nil:
			return nil, nil, fmt.Errorf("control: cannot read %.200q: %w", a.store.Keys(customer).Override, err)
		case ms >= 0:
			o.Until = now.Add(time.Duration(min(ms, 100*365*24*time.Hour.Milliseconds())) * time.Millisecond)
		case ms == -2: // it has just ended
			continue
		}
		found = append(found, o)
	}
	return found, corrupt, nil
}

func stamp(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// overrideJSON is an override in JSON.
type overrideJSON struct {
	Customer       string            `json:"customer,omitempty"`
	CustomerBase64 []byte            `json:"customer_base64,omitempty"` // set instead, if the customer is not UTF-8
	Bounds         priority.Override `json:"override"`
	By             string            `json:"by"`
	Why            string            `json:"why"`
	At             time.Time         `json:"at,omitzero"`
	Until          time.Time         `json:"until,omitzero"`
}

// MarshalJSON implements [json.Marshaler].
func (o Override) MarshalJSON() ([]byte, error) {
	file := overrideJSON{Bounds: o.Bounds, By: o.By, Why: o.Why, At: utc(o.At), Until: utc(o.Until)}
	if utf8.ValidString(o.Customer) {
		file.Customer = o.Customer
	} else {
		file.CustomerBase64 = []byte(o.Customer)
	}
	return json.Marshal(file)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *Override) UnmarshalJSON(text []byte) error {
	var file overrideJSON
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	*o = Override{cmp.Or(file.Customer, string(file.CustomerBase64)), file.Bounds, file.By, file.Why, file.At, file.Until}
	return nil
}

func utc(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.UTC()
}
