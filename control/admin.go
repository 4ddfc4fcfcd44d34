package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/lua"
)

var (
	// ErrNotChanged: the change was definitely not made.
	ErrNotChanged = errors.New("control: not changed")

	// ErrConflict is the ErrNotChanged of an item that was changed since the version
	// that the change is to replace. Look again, and decide again.
	ErrConflict = fmt.Errorf("%w: changed meanwhile", ErrNotChanged)

	// ErrNotFound is that of an item, or a version, that is not there.
	ErrNotFound = fmt.Errorf("%w: not found", ErrNotChanged)

	// ErrTooMany: there are MaxOverrides already.
	ErrTooMany = fmt.Errorf("%w: too many", ErrNotChanged)
)

// The largest amounts that there may be.
const (
	MaxOverrides = 10_000
	MaxByBytes   = 200
	MaxWhyBytes  = 1000

	maxLevels      = 255    // of any queue
	logEntries     = 10_000 // about
	policyVersions = 100    // as in lua/change.lua
	betweenTries   = 50 * time.Millisecond
)

// AdminOptions configures an [Admin]. The zero value works.
type AdminOptions struct {
	// Prefix begins the keys. Default: "priority".
	Prefix string

	// Levels is how many levels the queue was declared with: rules may not have more.
	// Default: those of the default policy, 9.
	Levels priority.Level

	// Timeout bounds every call. Default: 2 s. Negative: only the call's context does.
	Timeout time.Duration
}

// Admin changes what operators may change, and tells what they have changed. It is
// safe for concurrent use, and so are several of them: of two that change the same
// item at a time, one gets [ErrConflict]. The methods that change something return the
// document's new version.
//
// The error of a change wraps [priority.ErrInvalid] where the call was wrong,
// [ErrNotChanged] where Redis did not make it, and [priority.ErrOutcomeUnknown] where
// nobody can tell.
type Admin struct {
	reader  reader
	levels  priority.Level
	timeout time.Duration
}

// Change is what every change is written down with.
type Change struct {
	By  string // who, in UTF-8: 1 to MaxByBytes bytes
	Why string // the same, of 1 to MaxWhyBytes bytes

	// Replaces is the Version of the item that is to be replaced or ended, 0 where
	// there is none.
	Replaces int64
}

var changeScript = script.New(lua.Change, 2, 0)

// NewAdmin returns an Admin. It sends nothing. Nil opts are the defaults. An error
// wraps [priority.ErrInvalidOption].
func NewAdmin(client priority.RedisClient, opts *AdminOptions) (*Admin, error) {
	if typednil.Is(client) {
		return nil, fmt.Errorf("%w: the client is nil", priority.ErrInvalidOption)
	}
	if opts == nil {
		opts = &AdminOptions{}
	}
	a := &Admin{levels: opts.Levels, timeout: opts.Timeout}
	prefix := opts.Prefix
	if prefix == "" {
		prefix = defaultPrefix
	}
	if strings.ContainsAny(prefix, "{}") {
		return nil, fmt.Errorf("%w: Prefix %.80q has a brace in it", priority.ErrInvalidOption, prefix)
	}
	if a.levels == 0 {
		a.levels = priority.DefaultPolicy().Last()
	}
	if a.levels < 0 || a.levels > maxLevels {
		return nil, fmt.Errorf("%w: Levels %d is not from 1 to %d", priority.ErrInvalidOption, opts.Levels, maxLevels)
	}
	if a.timeout == 0 {
		a.timeout = 2 * time.Second
	}
	a.reader = newReader(client, prefix)
	return a, nil
}

// Levels returns how many levels rules may have.
func (a *Admin) Levels() priority.Level { return a.levels }

// Document returns all that operators have set, without overrides that are over, and
// Redis's time.
func (a *Admin) Document(ctx context.Context) (*Document, time.Time, error) {
	return a.DocumentSince(ctx, nil)
}

// DocumentSince returns the same as Document. From what was read before it needs to
// read only what has changed since; nil: all.
func (a *Admin) DocumentSince(ctx context.Context, known *Document) (*Document, time.Time, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	h, err := a.reader.head(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	if known == nil {
		known = &Document{}
	}
	document, h, err := a.reader.catchUp(ctx, known, h)
	if err != nil {
		return nil, time.Time{}, err
	}
	document = document.clone()
	document.prune(h.now)
	return document, h.now, nil
}

// SetOverride gives a customer an override for a time, from now on, in place of one
// that they may have. The time is 1 ms to [MaxOverride].
func (a *Admin) SetOverride(ctx context.Context, customer string, override Override, lasts time.Duration, change Change) (int64, error) {
	if err := errors.Join(priority.CheckCustomer(customer), override.validate(a.levels)); err != nil {
		return 0, err
	}
	if lasts < time.Millisecond || lasts > MaxOverride {
		return 0, fmt.Errorf("%w: an override for %v, not for 1ms to %v", priority.ErrInvalidOption, lasts, MaxOverride)
	}
	return changeItem(ctx, a, "override:"+customer, &override, lasts, MaxOverrides, change)
}

// EndOverride ends a customer's override.
func (a *Admin) EndOverride(ctx context.Context, customer string, change Change) (int64, error) {
	if err := priority.CheckCustomer(customer); err != nil {
		return 0, err
	}
	return changeItem[Override](ctx, a, "override:"+customer, nil, 0, 0, change)
}

// Apply makes rules those of the fleet. An error wraps [priority.ErrInvalidPolicy]
// where they are not valid.
func (a *Admin) Apply(ctx context.Context, rules Rules, change Change) (int64, error) {
	if err := rules.Validate(a.levels); err != nil {
		return 0, err
	}
	return changeItem(ctx, a, "policy", &rules, 0, 0, change)
}

// Withdraw leaves the policies to the workers' own options again.
func (a *Admin) Withdraw(ctx context.Context, change Change) (int64, error) {
	return changeItem[Rules](ctx, a, "policy", nil, 0, 0, change)
}

// Rollback applies the rules of an earlier version again.
func (a *Admin) Rollback(ctx context.Context, version int64, change Change) (int64, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	earlier, err := a.rules(ctx, version)
	if err != nil && !errors.Is(err, ErrNotChanged) {
		err = fmt.Errorf("%w: %w", ErrNotChanged, err)
	}
	if err != nil {
		return 0, err
	}
	return a.Apply(ctx, earlier.Value, change)
}

// NoteReset writes down that a customer's count is about to be reset: the log has
// all that operators do. The caller resets it afterwards.
func (a *Admin) NoteReset(ctx context.Context, customer string, change Change) (int64, error) {
	if err := priority.CheckCustomer(customer); err != nil {
		return 0, err
	}
	change.Replaces = 0
	return changeItem[Override](ctx, a, "reset:"+customer, nil, 0, 0, change)
}

// Log returns the last changes, the newest first: at most so many, of those up to a
// version, 0: up to the last one. About 10,000 are kept.
func (a *Admin) Log(ctx context.Context, upTo int64, most int) ([]Entry, error) {
	if most < 1 || most > logEntries {
		return nil, fmt.Errorf("%w: %d entries, not 1 to %d", priority.ErrInvalidOption, most, logEntries)
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	return a.reader.newest(ctx, upTo, int64(most))
}

// History returns the fleet's rules and those before them, the newest first. The last
// 100 are kept.
func (a *Admin) History(ctx context.Context) ([]Item[Rules], error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	key := a.reader.key("document")
	cmd := redis.NewStringCmd(ctx, "HGET", key, "policies")
	_ = a.reader.client.Process(ctx, cmd)
	held, err := cmd.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, readFailed(key, err)
	}
	versions := strings.Fields(held)
	if len(versions) == 0 {
		return nil, nil
	}
	args := []any{"HMGET", key}
	for _, version := range slices.Backward(versions) {
		args = append(args, "policy:"+version)
	}
	values := redis.NewSliceCmd(ctx, args...)
	_ = a.reader.client.Process(ctx, values)
	all, err := values.Result()
	if err != nil {
		return nil, readFailed(key, err)
	}
	history := make([]Item[Rules], 0, len(all))
	for i, held := range all {
		stored, _ := held.(string) // empty: dropped meanwhile
		item, err := itemOf[Rules](stored)
		if err != nil {
			return nil, fmt.Errorf("%w: %q in %q: %w", ErrCorruptDocument, args[2+i], key, err)
		}
		if item != nil {
			history = append(history, *item)
		}
	}
	return history, nil
}

// rules returns the rules of a version.
func (a *Admin) rules(ctx context.Context, version int64) (*Item[Rules], error) {
	key := a.reader.key("document")
	cmd := redis.NewStringCmd(ctx, "HGET", key, "policy:"+strconv.FormatInt(version, 10))
	_ = a.reader.client.Process(ctx, cmd)
	stored, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("%w: version %d is not one of the last %d policies", ErrNotFound, version, policyVersions)
	}
	if err != nil {
		return nil, readFailed(key, err)
	}
	item, err := itemOf[Rules](stored)
	if err != nil || item == nil {
		return nil, fmt.Errorf("%w: version %d of the policy in %q: %w", ErrCorruptDocument, version, key, err)
	}
	return item, nil
}

func (a *Admin) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, a.timeout)
}

// changeItem changes one item; a nil value ends it.
func changeItem[T any](ctx context.Context, a *Admin, item string, to *T, lasts time.Duration, most int64, change Change) (int64, error) {
	for _, text := range []struct {
		name, text string
		most       int
	}{{"By", change.By, MaxByBytes}, {"Why", change.Why, MaxWhyBytes}} {
		if n := len(text.text); n < 1 || n > text.most || !utf8.ValidString(text.text) {
			return 0, fmt.Errorf("%w: %s %.80q is not UTF-8 of 1 to %d bytes", priority.ErrInvalidOption, text.name, text.text, text.most)
		}
	}
	stored := ""
	if to != nil {
		text, err := json.Marshal(value[T]{*to, change.By, change.Why})
		if err != nil {
			return 0, err
		}
		stored = string(text)
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	token := 1 + rand.Int64N(999_999_999_999_999)
	call := &script.Call{
		Script: changeScript, Key: a.reader.key("document"), Others: [3]string{a.reader.key("ends"), a.reader.key("log")},
		Numbers: []int64{change.Replaces, lasts.Milliseconds(), token, most, logEntries},
		IDs:     []string{item, stored, change.By, change.Why},
	}
	return a.change(ctx, call, token)
}

// change runs the script until it is known whether the change was made, or ctx ends.
// It is made once at most: the version that it replaces is gone then.
func (a *Admin) change(ctx context.Context, call *script.Call, token int64) (int64, error) {
	d := script.Begin(ctx, -1)
	defer d.End()
	var unknown error // why it cannot be told of one of the tries
	for {
		reply, failure := a.reader.runner.Run(&d, call)
		switch {
		case failure == nil && reply[0] == 1:
			return reply[1], nil
		case failure != nil && failure.Outcome == script.Unknown:
			unknown = failure.Err
			var stopped redis.Error
			if errors.As(unknown, &stopped) { // halfway, so what the log says may not be in force
				return 0, outcomeUnknown(call, unknown)
			}
		case unknown == nil && failure != nil:
			return 0, notChanged(call.Key, failure.Err)
		case unknown == nil:
			return 0, conflict(call, reply[1])
		}
		version, err := a.made(ctx, token)
		switch {
		case version > 0:
			return version, nil
		case err == nil && failure == nil:
			return 0, conflict(call, reply[1])
		}
		select {
		case <-ctx.Done():
			return 0, outcomeUnknown(call, unknown)
		case <-time.After(betweenTries):
		}
	}
}

// made returns the version of the change with a token, 0 if the log has none.
func (a *Admin) made(ctx context.Context, token int64) (int64, error) {
	entries, err := a.reader.newest(ctx, 0, maxChanges)
	for _, e := range entries {
		if e.token == token {
			return e.Version, nil
		}
	}
	return 0, err
}

// conflict is the error of a change that is to replace another version than there is.
func conflict(call *script.Call, there int64) error {
	item, replaces := call.IDs[0], call.Numbers[0]
	switch {
	case there > 0:
		return fmt.Errorf("%w: %.200q has version %d, not %d", ErrConflict, item, there, replaces)
	case replaces > 0:
		return fmt.Errorf("%w: %.200q had version %d, and is over", ErrConflict, item, replaces)
	}
	return fmt.Errorf("%w: %.200q", ErrNotFound, item)
}

func outcomeUnknown(call *script.Call, err error) error {
	return fmt.Errorf("%w: %s in %q: %w", priority.ErrOutcomeUnknown, call.IDs[0], call.Key, err)
}

// notChanged is the error of a change that was refused.
func notChanged(key string, err error) error {
	for code, kind := range map[string]error{"CORRUPTDOCUMENT": ErrCorruptDocument, "NEWERDOCUMENT": ErrNewerDocument, "TOOMANY": ErrTooMany} {
		if strings.Contains(err.Error(), code) {
			err = fmt.Errorf("%w: %w", kind, err)
		}
	}
	return fmt.Errorf("%w: %q: %w", ErrNotChanged, key, err)
}
