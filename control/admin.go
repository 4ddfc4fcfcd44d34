package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

var (
	// ErrConflict: the rules do not have the version that the change should replace, or
	// an import would replace something. Nothing was changed.
	ErrConflict = errors.New("control: conflict")

	// ErrNotFound: the override or the version does not exist. Nothing was changed.
	ErrNotFound = errors.New("control: not found")

	// ErrTooMany: there are already MaxOverrides. Nothing was changed.
	ErrTooMany = fmt.Errorf("control: there are %d overrides already", MaxOverrides)
)

// Limits on what operators may set. The log keeps at most about 10,000 changes.
const (
	MaxOverrides = 10_000
	LogAge       = 90 * 24 * time.Hour // how long the log keeps a change

	maxLevels  = 255       // of any queue
	maxRules   = 256 << 10 // bytes
	logEntries = 10_000    // about
)

// AnyVersion, as the version to replace, matches any.
const AnyVersion = -1

// AdminOptions configures an [Admin]. The zero value works.
type AdminOptions struct {
	// Prefix begins the keys. Default: "priority".
	Prefix string

	// Timeout bounds every call, and every 1,000 overrides that are read or imported, if
	// the client respects deadlines (ContextTimeoutEnabled). Default: 2 s. Negative: only
	// the call's context does.
	Timeout time.Duration
}

// Admin reads and changes what operators may set. Its client must read from masters. It is
// safe for concurrent use, and several Admins may work at the same time.
//
// The error of a change wraps [priority.ErrInvalid] if the call was wrong,
// [priority.ErrOutcomeUnknown] if rules may have been changed, or one of this package's
// errors. A change takes up to three steps, in this order: it is listed, made, and logged.
// An error names the step that failed; the change may then be repeated.
type Admin struct {
	client  priority.RedisClient
	runner  *script.Runner
	store   *priority.RedisStore // names the keys of customers
	keys    keys
	timeout time.Duration
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
	return &Admin{
		client: client, runner: script.NewRunner(client), store: store, keys: keysOf(opts.Prefix),
		timeout: cmp.Or(opts.Timeout, 2*time.Second),
	}, nil
}

// Now returns Redis's time.
func (a *Admin) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	return a.now(ctx)
}

func (a *Admin) now(ctx context.Context) (time.Time, error) {
	cmd := redis.NewTimeCmd(ctx, "time")
	_ = a.client.Process(ctx, cmd)
	now, err := cmd.Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("control: cannot read Redis's time: %w", err)
	}
	return now, nil
}

// Rules returns the fleet's rules, or the zero Applied if none were ever set. An error wraps
// [ErrCorrupt] or [ErrNewer] if they cannot be read, and [priority.ErrInvalid] if no worker
// can use them.
func (a *Admin) Rules(ctx context.Context) (Applied, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	cmd := redis.NewStringCmd(ctx, "get", a.keys.rules)
	_ = a.client.Process(ctx, cmd)
	text, err := cmd.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return Applied{}, nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return Applied{}, fmt.Errorf("%w: %q: %w", ErrCorrupt, a.keys.rules, err)
	case err != nil:
		return Applied{}, fmt.Errorf("control: cannot read %q: %w", a.keys.rules, err)
	}
	read, err := parse(a.keys.rules, text)
	return read.Applied, errors.Join(err, read.invalid)
}

// Apply replaces a version of the fleet's rules and returns the new version. The version to
// replace is 0 if there are none yet, or [AnyVersion].
func (a *Admin) Apply(ctx context.Context, replaces int64, rules Rules, change Change) (int64, error) {
	if err := rules.Validate(maxLevels); err != nil {
		return 0, err
	}
	return a.setRules(ctx, replaces, 0, Applied{By: change.By, Why: change.Why, Rules: &rules}, change)
}

// Withdraw removes the fleet's rules, even rules that Redis has lost: workers follow their
// own options again. The version is as in Apply.
func (a *Admin) Withdraw(ctx context.Context, replaces int64, change Change) (int64, error) {
	return a.setRules(ctx, replaces, 0, Applied{By: change.By, Why: change.Why}, change)
}

var rulesScript = script.New(lua.Rules, 2, 0)

// setRules sets rules with a version > above. A zero At means now.
func (a *Admin) setRules(ctx context.Context, replaces, above int64, set Applied, change Change) (int64, error) {
	if err := change.validate(); err != nil {
		return 0, err
	}
	text, err := encode(struct {
		By    string `json:"by"`
		Why   string `json:"why"`
		Rules *Rules `json:"rules"`
	}{set.By, set.Why, set.Rules})
	if err != nil {
		return 0, err
	}
	if len(text) > maxRules {
		return 0, fmt.Errorf("%w policy: rules of %d bytes, more than %d", priority.ErrInvalid, len(text), maxRules)
	}
	at := int64(0)
	if !set.At.IsZero() {
		at = set.At.UnixMilli()
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	d := script.Begin(ctx, -1)
	defer d.End()
	reply, failure := a.runner.Run(&d, &script.Call{
		Script: rulesScript, Key: a.keys.rules, Others: [3]string{a.keys.log},
		Numbers: []int64{max(replaces, AnyVersion), above, at, LogAge.Milliseconds(), logEntries},
		IDs:     []string{change.By, change.Why, text},
	})
	switch {
	case failure != nil && strings.Contains(failure.Err.Error(), "WRONGTYPE"): // the log; the rules give CORRUPT
		return 0, fmt.Errorf("%w: the rules are not changed: %q: %w", ErrCorrupt, a.keys.log, failure.Err)
	case failure != nil && failure.Outcome == script.Unknown:
		return 0, fmt.Errorf("%w: the rules in %q: %w", priority.ErrOutcomeUnknown, a.keys.rules, failure.Err)
	case failure != nil:
		return 0, fmt.Errorf("control: the rules in %q were not changed: %w", a.keys.rules, coded(failure.Err))
	case reply[0] != 1:
		return 0, fmt.Errorf("%w: the rules have version %d, not %d", ErrConflict, reply[1], replaces)
	}
	return reply[1], nil
}

// coded wraps a script's coded error in its sentinel.
func coded(err error) error {
	for code, kind := range map[string]error{"CORRUPT ": ErrCorrupt, "NEWER ": ErrNewer} {
		if strings.Contains(err.Error(), code) {
			return fmt.Errorf("%w: %w", kind, err)
		}
	}
	return err
}

// NoteReset records in the log that a customer's numbers are about to be reset. The
// caller resets them afterwards.
func (a *Admin) NoteReset(ctx context.Context, customer string, change Change) error {
	if err := errors.Join(check.Customer(customer), change.validate()); err != nil {
		return err
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	return a.note(ctx, time.Time{}, change, "reset", "customer", customer)
}

// Forget removes a customer from Redis: the count, the pending documents, the override and
// its list entry. The log records who did it and why, without the customer; earlier entries
// about the customer expire by age. It returns how many keys it removed.
//
// A later Done of a pending document does nothing and is no error. The next document counts
// as the customer's first. Forget does not reach data outside Redis, such as processes'
// memory, backups and the queue: docs/operate.md lists it.
func (a *Admin) Forget(ctx context.Context, customer string, change Change) (keys int, err error) {
	if err := errors.Join(check.Customer(customer), change.validate()); err != nil {
		return 0, err
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	if err := a.unlist(ctx, customer); err != nil {
		return 0, err
	}
	of := a.store.Keys(customer)
	cmd := redis.NewIntCmd(ctx, "unlink", of.Count, of.Pending, of.Override)
	_ = a.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil {
		return 0, fmt.Errorf("control: cannot remove %.200q and the keys beside it: %w", of.Count, err)
	}
	keys = int(cmd.Val())
	return keys, a.note(ctx, time.Time{}, change, "forget")
}

func (a *Admin) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, a.timeout)
}
