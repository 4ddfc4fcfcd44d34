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
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

var (
	// ErrNotChanged: the change was definitely not made.
	ErrNotChanged = errors.New("control: not changed")

	// ErrConflict is the ErrNotChanged of an item that was changed since the version
	// that the change is to replace. Look again, and decide again.
	ErrConflict = fmt.Errorf("%w: changed meanwhile", ErrNotChanged)

	// ErrNotFound is the ErrNotChanged of an item, or a version, that does not exist.
	ErrNotFound = fmt.Errorf("%w: not found", ErrNotChanged)

	// ErrTooMany: there are MaxOverrides already.
	ErrTooMany = fmt.Errorf("%w: too many", ErrNotChanged)

	// ErrNotInForce: the change of an override is written down, but Redis did not accept
	// it beside the customer's numbers. Make the same change again.
	ErrNotInForce = errors.New("control: written down, not in force")
)

// The largest amounts that there may be.
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
	// Default: those of the default policy, 9.
	Levels priority.Level

	// Timeout bounds every call, and each 1,000 overrides of an Import. Default: 2 s.
	// Negative: only the call's context does.
	Timeout time.Duration
}

// Admin changes what operators may change, and reads what they have changed. All of it
// goes to the master. It is safe for concurrent use, and so are several of them: of two
// that change the same item at a time, one gets [ErrConflict]. The methods that change
// something return its version.
//
// The error of a change wraps [priority.ErrInvalid] where the call was wrong,
// [ErrNotChanged] where Redis did not make it, [ErrNotInForce], and
// [priority.ErrOutcomeUnknown] where it may have been made. Then the same change may be
// made again: if it was made before, it is no conflict.
type Admin struct {
	client  priority.RedisClient
	runner  *script.Runner
	store   *priority.RedisStore // knows the keys of overrides
	keys    keys
	levels  priority.Level
	timeout time.Duration

	underWay chan struct{} // of mostUnderWay
}

// Change is what every change is written down with.
type Change struct {
	By  string // who, in UTF-8: 1 to MaxByBytes bytes
	Why string // the same, of 1 to MaxWhyBytes bytes

	// Replaces is the Version of the item that is to be replaced or ended, 0 where
	// there is none.
	Replaces int64
}

// NewAdmin returns an Admin. It sends nothing. Nil opts are the defaults. An error
// wraps [priority.ErrInvalidOption].
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
		return nil, fmt.Errorf("%w: Levels %d is not from 1 to %d", priority.ErrInvalidOption, opts.Levels, maxLevels)
	}
	return &Admin{
		client: client, runner: script.NewRunner(client), store: store, keys: keysOf(cmp.Or(opts.Prefix, defaultPrefix)),
		levels: levels, timeout: cmp.Or(opts.Timeout, 2*time.Second), underWay: make(chan struct{}, mostUnderWay),
	}, nil
}

// Levels returns how many levels rules may have.
func (a *Admin) Levels() priority.Level { return a.levels }

// Settings are what holds for the whole fleet.
type Settings struct {
	Version int64        // of the last change of anything; 0: nothing was ever changed
	Now     time.Time    // Redis's
	Rules   *Item[Rules] // nil: the workers' own options hold
}

// Settings returns the fleet's rules. An error wraps [ErrCorrupt] or [ErrNewer] if they
// cannot be read; the version and the time may be known all the same.
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
	}
	return settings, err
}

// Apply makes rules those of the fleet. An error wraps [priority.ErrInvalidPolicy]
// where they are not valid.
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

// Withdraw leaves the policies to the workers' own options again. It may be called without
// rules, with Replaces 0: workers whose rules Redis lost stop following them.
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

// History returns the fleet's rules and those before them, the newest first. The last
// 100 are kept. What cannot be read is left out.
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

// NoteReset writes down that a customer's numbers are about to be reset: the log has
// all that operators do. The caller resets them afterwards.
func (a *Admin) NoteReset(ctx context.Context, customer string, change Change) (int64, error) {
	if err := priority.CheckCustomer(customer); err != nil {
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

// Where the numbers of a call of lua/change.lua are.
const (
	replacesAt, lastsAt, tokenAt, mostAt, entriesAt, aboveAt, alwaysAt = 0, 1, 2, 3, 4, 5, 6

	numbersOfChange = 7
)

// call returns a call of lua/change.lua. An error wraps [priority.ErrInvalidOption].
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
			return fmt.Errorf("%w: %s %.80q is not UTF-8 of 1 to %d bytes", priority.ErrInvalidOption, text.name, text.text, text.most)
		}
	}
	return nil
}

// policyCall returns the call that applies rules, nil: withdraws them.
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
		return script.Call{}, fmt.Errorf("%w: rules of %d bytes, more than %d", priority.ErrInvalidPolicy, len(text), maxRules)
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

// change runs the script until it is answered, or ctx ends: a change that was made is
// known by its token. It also returns for how long an override holds.
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

// unreadable reports whether an item that has a version is corrupt.
func (a *Admin) unreadable(ctx context.Context, item string) bool {
	if customer, ok := strings.CutPrefix(item, "override:"); ok {
		held, _, _ := a.writtenOf(ctx, customer)
		return errors.Is(held.Err, ErrCorrupt)
	}
	_, err := a.Settings(ctx)
	return errors.Is(err, ErrCorrupt)
}

// answer reads what became of a call of the script.
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

// conflict is the error of a change that is to replace another version than there is.
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

// notChanged is the error of a change that was refused.
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
