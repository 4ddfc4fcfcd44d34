package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

var (
	// ErrNotChanged: the change was definitely not made.
	ErrNotChanged = errors.New("control: not changed")

	// ErrConflict: the item was changed after the version that the change should
	// replace. Read it again and decide again. It wraps ErrNotChanged.
	ErrConflict = fmt.Errorf("%w: changed meanwhile", ErrNotChanged)

	// ErrNotFound: the item or the version does not exist. It wraps ErrNotChanged.
	ErrNotFound = fmt.Errorf("%w: not found", ErrNotChanged)

	// ErrTooMany: there are already MaxOverrides. It wraps ErrNotChanged.
	ErrTooMany = fmt.Errorf("%w: too many", ErrNotChanged)

	// ErrNotInForce: the change of an override was recorded, but Redis did not write the
	// customer's own key. Make the same change again.
	ErrNotInForce = errors.New("control: recorded, but not in force")

	// ErrForgottenInPart: a Forget is recorded and has begun, but something of the customer
	// may be left. Forget the customer again.
	ErrForgottenInPart = errors.New("control: forgotten in part")
)

// The limits of what operators may set.
const (
	MaxOverrides = 10_000
	MaxByBytes   = 200
	MaxWhyBytes  = 1000

	maxLevels    = 255       // of any queue
	maxRules     = 1_000_000 // bytes
	logEntries   = 10_000    // about
	betweenTries = 50 * time.Millisecond
)

// AdminOptions configures an [Admin]. The zero value works.
type AdminOptions struct {
	// Prefix begins the keys. Default: "priority".
	Prefix string

	// Levels is how many levels the queue was declared with: rules may not have more.
	// Default: 9, as in the default policy.
	Levels priority.Level

	// Timeout bounds every call, and each 1,000 overrides of an Import. Default: 2 s.
	// Negative: only the call's context does.
	Timeout time.Duration
}

// Admin changes what operators may change, and reads what they have changed. It reads
// from the master. It is safe for concurrent use, and several Admins may work at the
// same time: if two change the same item, one gets [ErrConflict]. Methods that make a
// change return its version.
//
// The error of a change wraps [priority.ErrInvalid] if the call was wrong,
// [ErrNotChanged] if the change was not made, [ErrNotInForce], [ErrForgottenInPart], or
// [priority.ErrOutcomeUnknown] if it may have been made. In the last three cases the same
// change may be made again: if it was made the first time, it is not a conflict.
type Admin struct {
	client  priority.RedisClient
	runner  *script.Runner
	store   *priority.RedisStore // names the keys of overrides
	keys    keys
	levels  priority.Level
	timeout time.Duration

	underWay chan struct{} // of capacity mostUnderWay
}

// Change says who makes a change, why, and what it replaces. The log keeps it.
type Change struct {
	By  string // who, in UTF-8: 1 to MaxByBytes bytes
	Why string // why, in UTF-8: 1 to MaxWhyBytes bytes

	// Replaces is the Version of the item that the change replaces or ends, 0 if
	// there is no such item.
	Replaces int64
}

// NewAdmin returns an Admin. It sends nothing. Nil opts are the defaults. An error
// wraps [priority.ErrInvalid].
func NewAdmin(client priority.RedisClient, opts *AdminOptions) (*Admin, error) {
	if opts == nil {
		opts = &AdminOptions{}
	}
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: opts.Prefix})
	if err != nil {
		return nil, err
	}
	levels := cmp.Or(opts.Levels, priority.DefaultPolicy().Last())
	if levels < 1 || levels > maxLevels {
		return nil, fmt.Errorf("%w option: Levels %d is not from 1 to %d", priority.ErrInvalid, opts.Levels, maxLevels)
	}
	return &Admin{
		client: client, runner: script.NewRunner(client), store: store, keys: keysOf(cmp.Or(opts.Prefix, defaultPrefix)),
		levels: levels, timeout: cmp.Or(opts.Timeout, 2*time.Second), underWay: make(chan struct{}, mostUnderWay),
	}, nil
}

// Levels returns how many levels rules may have.
func (a *Admin) Levels() priority.Level { return a.levels }

// Settings are the settings of the whole fleet.
type Settings struct {
	Version int64        // of the last change; 0: nothing was ever changed
	Now     time.Time    // Redis's time
	Rules   *Item[Rules] // nil: the workers' own options apply

	withdrawn time.Time // when rules were withdrawn last, if none were set since
}

// Settings returns the fleet's rules. An error wraps [ErrCorrupt] or [ErrNewer] if they
// cannot be read; the version and the time may still be set.
func (a *Admin) Settings(ctx context.Context) (Settings, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	reply, err := a.read(ctx, followScript, []string{a.keys.version, a.keys.rules}, "")
	if err != nil {
		return Settings{}, err
	}
	var texts [2]string
	var now int64
	if len(reply) == 3 {
		texts[0], _ = reply[0].(string)
		texts[1], _ = reply[1].(string)
		now, _ = reply[2].(int64)
	}
	h, err := headOf(a.keys.version, texts[0])
	settings := Settings{Version: h.version, Now: time.UnixMilli(now)}
	if texts[1] != "" {
		item, failure := rulesOf(a.keys.rules, texts[1])
		settings.Rules, err = given(item), errors.Join(err, failure)
		if item != nil && item.Value == nil {
			settings.withdrawn = item.At
		}
	}
	return settings, err
}

// Apply sets the fleet's rules. An error wraps [priority.ErrInvalid] if they
// are not valid.
func (a *Admin) Apply(ctx context.Context, rules Rules, change Change) (int64, error) {
	if err := rules.Validate(a.levels); err != nil {
		return 0, err
	}
	call, err := a.policyCall(&rules, change)
	if err != nil {
		return 0, err
	}
	return a.changed(ctx, call)
}

// Withdraw removes the fleet's rules: workers follow their own options again. If Redis
// lost the rules, call it with Replaces 0, so that workers stop following the lost rules.
func (a *Admin) Withdraw(ctx context.Context, change Change) (int64, error) {
	call, err := a.policyCall(nil, change)
	if err != nil {
		return 0, err
	}
	return a.changed(ctx, call)
}

// Rollback applies the rules of an earlier version again.
func (a *Admin) Rollback(ctx context.Context, version int64, change Change) (int64, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	history, err := a.History(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotChanged, err)
	}
	for _, earlier := range history {
		if earlier.Version == version {
			return a.Apply(ctx, earlier.Value, change)
		}
	}
	return 0, fmt.Errorf("%w: version %d is not one of the last %d policies", ErrNotFound, version, len(history))
}

// History returns the fleet's present and earlier rules, the newest first. The last
// 100 versions are kept. Entries that cannot be read are left out.
func (a *Admin) History(ctx context.Context) ([]Item[Rules], error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	_, reply, err := a.ask(ctx, "LRANGE", a.keys.history, 0, -1)
	if err != nil {
		return nil, err
	}
	var history []Item[Rules]
	for _, text := range textsOf(reply) {
		if item, err := rulesOf(a.keys.history, text); err == nil && item.Value != nil {
			history = append(history, *given(item))
		}
	}
	return history, nil
}

// NoteReset records in the log that a customer's numbers are about to be reset. The
// caller resets them afterwards.
func (a *Admin) NoteReset(ctx context.Context, customer string, change Change) (int64, error) {
	if err := check.Customer(customer); err != nil {
		return 0, err
	}
	change.Replaces = 0
	call, err := a.call("reset:"+customer, "", [3]string{a.keys.log}, change)
	if err != nil {
		return 0, err
	}
	return a.changed(ctx, call)
}

func (a *Admin) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, a.timeout)
}

var changeScript = script.New(lua.Change, 3, 0)

// The indexes of the numbers in a call of lua/change.lua.
const (
	replacesAt, lastsAt, tokenAt, mostAt, entriesAt, aboveAt, alwaysAt = 0, 1, 2, 3, 4, 5, 6

	numbersOfChange = 7
)

// call returns a call of lua/change.lua. An error wraps [priority.ErrInvalid].
func (a *Admin) call(item, value string, keys [3]string, change Change) (script.Call, error) {
	if err := change.validate(); err != nil {
		return script.Call{}, err
	}
	numbers := make([]int64, numbersOfChange)
	numbers[replacesAt], numbers[tokenAt] = change.Replaces, 1+rand.Int64N(999_999_999_999_999)
	numbers[mostAt], numbers[entriesAt] = MaxOverrides, logEntries
	return script.Call{
		Script: changeScript, Key: a.keys.version, Others: keys, Numbers: numbers,
		IDs: []string{item, value, change.By, change.Why}, Repeatable: true,
	}, nil
}

func (c Change) validate() error {
	for _, text := range []struct {
		name, text string
		most       int
	}{{"By", c.By, MaxByBytes}, {"Why", c.Why, MaxWhyBytes}} {
		if n := len(text.text); n < 1 || n > text.most || !utf8.ValidString(text.text) {
			return fmt.Errorf("%w option: %s %.80q is not UTF-8 of 1 to %d bytes", priority.ErrInvalid, text.name, text.text, text.most)
		}
	}
	return nil
}

// policyCall returns the call that applies rules, or withdraws them if rules is
// nil.
func (a *Admin) policyCall(rules *Rules, change Change) (script.Call, error) {
	text, err := encode(struct {
		By    string `json:"by"`
		Why   string `json:"why"`
		Rules *Rules `json:"rules"`
	}{change.By, change.Why, rules})
	if err != nil {
		return script.Call{}, err
	}
	if len(text) > maxRules {
		return script.Call{}, fmt.Errorf("%w policy: rules of %d bytes, more than %d", priority.ErrInvalid, len(text), maxRules)
	}
	return a.call("policy", text, [3]string{a.keys.log, a.keys.rules, a.keys.history}, change)
}

// changed makes a change and returns its version.
func (a *Admin) changed(ctx context.Context, call script.Call) (int64, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	version, _, err := a.change(ctx, call)
	return version, err
}

// change runs the script until Redis replies or ctx ends; by its token, a change is
// made once. It also returns how long an override has left.
func (a *Admin) change(ctx context.Context, call script.Call) (version int64, left time.Duration, err error) {
	d := script.Begin(ctx, -1)
	defer d.End()
	reply, failure := a.runner.Run(&d, &call)
	if failure == nil && reply[0] == 0 && reply[1] > 0 && call.Numbers[replacesAt] == 0 && a.unreadable(ctx, call.IDs[0]) {
		call.Numbers[replacesAt] = reply[1] // nobody can have seen its version
		reply, failure = a.runner.Run(&d, &call)
	}
	return answer(&call, reply, failure)
}

// unreadable reports whether an item with a version is corrupt.
func (a *Admin) unreadable(ctx context.Context, item string) bool {
	if customer, ok := strings.CutPrefix(item, "override:"); ok {
		held, _, _ := a.writtenOf(ctx, customer)
		return errors.Is(held.Err, ErrCorrupt)
	}
	_, err := a.Settings(ctx)
	return errors.Is(err, ErrCorrupt)
}

// answer reads the outcome of a call of the script.
func answer(call *script.Call, reply []int64, failure *script.Failure) (version int64, left time.Duration, err error) {
	switch {
	case failure != nil && failure.Outcome == script.Unknown:
		return 0, 0, fmt.Errorf("%w: %.200s in %q: %w", priority.ErrOutcomeUnknown, call.IDs[0], call.Key, failure.Err)
	case failure != nil:
		return 0, 0, notChanged(call.Key, failure.Err)
	case reply[0] != 1:
		return 0, 0, conflict(call, reply[1])
	}
	return reply[1], time.Duration(reply[2]) * time.Millisecond, nil
}

// conflict returns the error of a change that should replace another version than the
// present one.
func conflict(call *script.Call, there int64) error {
	item, replaces := call.IDs[0], call.Numbers[replacesAt]
	switch {
	case there > 0:
		return fmt.Errorf("%w: %.200q has version %d, not %d", ErrConflict, item, there, replaces)
	case replaces > 0:
		return fmt.Errorf("%w: %.200q had version %d, and is over", ErrConflict, item, replaces)
	}
	return fmt.Errorf("%w: %.200q", ErrNotFound, item)
}

// notChanged returns the error of a refused change.
func notChanged(key string, err error) error {
	if strings.Contains(err.Error(), "TOOMANY ") {
		return fmt.Errorf("%w: there are %d overrides already", ErrTooMany, MaxOverrides)
	}
	for code, kind := range map[string]error{"CORRUPT ": ErrCorrupt, "NEWER ": ErrNewer} {
		if strings.Contains(err.Error(), code) {
			err = fmt.Errorf("%w: %w", kind, err)
		}
	}
	return fmt.Errorf("%w: %q: %w", ErrNotChanged, key, err)
}
