package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

var (
	// ErrConflict: the policies do not have the version that the change should replace, or
	// an import would replace something. Nothing was changed.
	ErrConflict = errors.New("control: conflict")

	// ErrNotFound: the override or the version does not exist. Nothing was changed.
	ErrNotFound = errors.New("control: not found")

	// ErrNotLogged: the change is made, and only its entry in the log is missing.
	ErrNotLogged = errors.New("control: it is done, but not logged")

	// ErrTooMany: there are already MaxOverrides. Nothing was changed.
	ErrTooMany = fmt.Errorf("control: there are %d overrides already", MaxOverrides)
)

// Limits on what operators may set. The log keeps at most about 10,000 changes,
// or so many that policies as long as the newest take 16 MB.
const (
	MaxOverrides = 10_000
	LogAge       = 90 * 24 * time.Hour // how long the log keeps a change

	maxLevels   = 255       // the most that any queue has
	maxPolicies = 256 << 10 // bytes of JSON
	logEntries  = 10_000    // Redis keeps about as many
)

// AnyVersion, as the version to replace, matches any.
const AnyVersion = -1

// AdminOptions configures an [Admin]. The zero value works.
type AdminOptions struct {
	// Prefix begins the keys. Default: "priority".
	Prefix string

	// Accounts is as the workers' RedisOptions.Accounts: an Admin changes a user of an account
	// where the workers look for it. Default: names are not split.
	Accounts bool

	// Timeout bounds every call, and every 1,000 overrides that are read or imported, if
	// the client respects deadlines (ContextTimeoutEnabled). Default: 2 s. Negative: only
	// the call's context does.
	Timeout time.Duration
}

// Admin reads and changes what operators may set. Its client must read from masters. It is
// safe for concurrent use, and several Admins may work at the same time.
//
// The error of a change wraps [priority.ErrInvalid] if the call was wrong,
// [priority.ErrOutcomeUnknown] if policies may have been changed, or one of this package's
// errors. A change takes up to three steps, in this order: it is listed, made, and logged.
// An error names the step that failed; the change may then be repeated.
type Admin struct {
	client  redis.UniversalClient
	runner  *script.Runner
	store   *priority.RedisStore // names the keys of customers, and resets them
	keys    keys.Prefix
	timeout time.Duration
}

// NewAdmin returns an Admin. It sends nothing. Nil opts are the defaults. An error
// wraps [priority.ErrInvalid].
func NewAdmin(client redis.UniversalClient, opts *AdminOptions) (*Admin, error) {
	if opts == nil {
		opts = &AdminOptions{}
	}
	timeout := cmp.Or(opts.Timeout, 2*time.Second)
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: opts.Prefix, Accounts: opts.Accounts, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return &Admin{client: client, runner: script.NewRunner(client), store: store, keys: keys.Prefix(opts.Prefix), timeout: timeout}, nil
}

// Now returns Redis's time.
func (a *Admin) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	return a.now(ctx)
}

func (a *Admin) now(ctx context.Context) (time.Time, error) {
	now, err := a.client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("control: cannot read Redis's time: %w", err)
	}
	return now, nil
}

// Policies returns the fleet's policies, or the zero Applied if none were ever set. An error
// wraps [ErrCorrupt] or [ErrNewer] if they cannot be read, and [priority.ErrInvalid] if no
// worker can use them.
func (a *Admin) Policies(ctx context.Context) (Applied, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	key := a.keys.Policies()
	text, err := a.client.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return Applied{}, nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return Applied{}, fmt.Errorf("%w: %q: %w", ErrCorrupt, key, err)
	case err != nil:
		return Applied{}, fmt.Errorf("control: cannot read %q: %w", key, err)
	}
	read, err := parse(key, text)
	return read.Applied, errors.Join(err, read.invalid)
}

// Apply replaces a version of the fleet's policies and returns the new version. The version to
// replace is 0 if there are none yet, or [AnyVersion].
func (a *Admin) Apply(ctx context.Context, replaces int64, policies priority.Policies, change Change) (int64, error) {
	if err := policies.Validate(maxLevels); err != nil {
		return 0, err
	}
	return a.setPolicies(ctx, replaces, 0, Applied{By: change.By, Why: change.Why, Policies: &policies}, change)
}

// Withdraw removes the fleet's policies, even policies that Redis has lost: workers follow their
// own options again. The version is as in Apply.
func (a *Admin) Withdraw(ctx context.Context, replaces int64, change Change) (int64, error) {
	return a.setPolicies(ctx, replaces, 0, Applied{By: change.By, Why: change.Why}, change)
}

var policiesScript = script.New(lua.Policies)

// setPolicies sets policies with a version > above. A zero At means now.
func (a *Admin) setPolicies(ctx context.Context, replaces, above int64, set Applied, change Change) (int64, error) {
	if err := change.validate(); err != nil {
		return 0, err
	}
	text, err := encode(struct {
		By       string             `json:"by"`
		Why      string             `json:"why"`
		Policies *priority.Policies `json:"policies"`
	}{set.By, set.Why, set.Policies})
	if err != nil {
		return 0, err
	}
	if len(text) > maxPolicies {
		return 0, fmt.Errorf("%w policy: policies of %d bytes, more than %d", priority.ErrInvalid, len(text), maxPolicies)
	}
	at := int64(0)
	if !set.At.IsZero() {
		at = set.At.UnixMilli()
	}
	d := script.Begin(ctx, a.timeout)
	defer d.End()
	key := a.keys.Policies()
	reply, failure := a.runner.Run(&d, &script.Call{
		Script: policiesScript, Key: key, OtherKeys: []string{a.keys.Log()},
		Args:     []any{max(replaces, AnyVersion), above, at, LogAge.Milliseconds(), logEntries, change.By, change.Why, text},
		Integers: 2,
	})
	if failure != nil {
		return 0, notChanged(key, failure)
	}
	if reply.Integers[0] != 1 {
		return 0, fmt.Errorf("%w: the policies have version %d, not %d", ErrConflict, reply.Integers[1], replaces)
	}
	return reply.Integers[1], nil
}

// notChanged returns the error of a change of policies that failed.
func notChanged(key string, failure *script.Failure) error {
	switch failure.Outcome {
	case script.Unknown:
		return fmt.Errorf("%w: the policies in %q: %w", priority.ErrOutcomeUnknown, key, failure.Err)
	case script.Corrupt:
		return fmt.Errorf("%w: the policies in %q were not changed: %w", ErrCorrupt, key, failure.Err)
	case script.Newer:
		return fmt.Errorf("%w: the policies in %q were not changed: %w", ErrNewer, key, failure.Err)
	}
	return fmt.Errorf("control: the policies in %q were not changed: %w", key, failure.Err)
}

// Reset forgets a customer's count and pending documents, as priority.Store does, and logs it. A
// user's documents still count in the account until they are done or their lease ends; Reset of an
// account leaves its users as they are.
func (a *Admin) Reset(ctx context.Context, customer string, change Change) error {
	if err := errors.Join(check.Customer(customer), change.validate()); err != nil {
		return err
	}
	if err := a.store.Reset(ctx, customer); err != nil {
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
// as the customer's first. As with Reset, an account and its users are forgotten one by one, and
// the account's set names a user's documents until they are done. Forget does not reach data outside
// Redis, such as processes' memory, backups and the queue: docs/operate.md lists it.
func (a *Admin) Forget(ctx context.Context, customer string, change Change) (removed int, err error) {
	if err := errors.Join(check.Customer(customer), change.validate()); err != nil {
		return 0, err
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	if err := a.unlist(ctx, customer); err != nil {
		return 0, err
	}
	theirs := a.store.Keys(customer)
	n, err := a.client.Unlink(ctx, theirs.Count, theirs.Pending, theirs.Override).Result()
	if err != nil {
		return 0, fmt.Errorf("control: cannot remove %.200q and the keys beside it: %w", theirs.Count, err)
	}
	return int(n), a.note(ctx, time.Time{}, change, "forget")
}

func (a *Admin) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, a.timeout)
}
