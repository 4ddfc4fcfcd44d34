// Package fleet puts the whole stack together in one call, and lets a process report what it
// does.
//
//	store, err := fleet.Join(client, nil)
//
// [Join] creates a RedisStore that follows operators' settings (package control), answers while
// Redis cannot be reached (package fallback), and is observed (package observe). Each of these
// works without this package too. The page of package priority shows the calls.
//
// Every five seconds a member writes a [Report] to Redis: who it is, which levels its
// documents got in the last minute, how long they waited, which customers were busiest, and
// whether it follows the operators' policies. A process whose report is older than half a
// minute is gone; the report expires after an hour. [Read] returns all reports, and [Add]
// adds them up. [History] returns what they counted in the last day. [Member.WaitOf] tells an
// application from them how long documents take. Members in Python and Node.js write the same
// reports.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/observe"
)

// Options configures a [Member]. The zero value works.
type Options struct {
	// Store configures the RedisStore: its Policy and Tiers apply until operators
	// set others. Overrides are always read.
	Store priority.RedisOptions

	// Interval is how often to check for changed policies: at least 10 ms, at most a minute.
	// Default: 500 ms.
	Interval time.Duration

	// Fallback configures the fallback that answers while Redis cannot be reached.
	Fallback fallback.Options

	// Observers see every call of the member, in this order. Default: none.
	Observers []observe.Func

	// Logger logs what operators should know: that Redis cannot be reached, or can be
	// again; which policies are followed, and why newer ones are not; corrupt keys; and that
	// reports cannot be written. Default: slog.Default().
	Logger *slog.Logger

	// Name is what operators call this process, at most 100 bytes. Default: the host's
	// name and the process's id.
	Name string
}

// Member is a [priority.Store], and a process's place in the fleet. From Join to Close it
// follows the operators' policies and writes reports in the background; no call waits for
// that. Its memory for reports is bounded: numbers, and entries of at most 25,000
// customers.
//
// It is safe for concurrent use. Close it before the store's client.
type Member struct {
	stack

	who      Report // the fields that never change
	store    *priority.RedisStore
	follower *control.Follower
	fallback *fallback.Store
	seen     *collector
	writer   *writer

	waiting sync.Mutex
	waits   *waits // nil: nobody has asked for them
}

type stack = priority.Store

// Join creates a Member on a client. Nil opts are the defaults. An error wraps
// [priority.ErrInvalid].
//
// It does not wait for Redis, and does not fail if Redis cannot be reached: then the Logger gets
// a warning with the address and the cause. go-redis itself also writes a line to stderr for each
// failed connection; logging.Disable() of github.com/redis/go-redis/v9/logging stops them.
func Join(client priority.RedisClient, opts *Options) (*Member, error) {
	if typednil.Is(client) {
		return nil, fmt.Errorf("%w option: the client is nil", priority.ErrInvalid)
	}
	if opts == nil {
		opts = &Options{}
	}
	if len(opts.Name) > maxNameBytes {
		return nil, fmt.Errorf("%w option: Name %.80q has more than %d bytes", priority.ErrInvalid, opts.Name, maxNameBytes)
	}
	options := opts.Store
	options.Overrides = true
	store, err := priority.NewRedisStore(client, &options)
	if err != nil {
		return nil, err
	}
	m := &Member{who: whoIs(opts.Name), store: store, seen: newCollector(time.Now())}
	m.who.Levels, m.who.Accounts = store.Last(), store.Accounts()
	m.writer = newWriter(client, keys.Prefix(store.Prefix()), m.who.ID, m.json, func(ending bool) ([]any, func()) {
		return m.seen.history(time.Now(), ending)
	})
	log := &logger{Logger: cmp.Or(opts.Logger, slog.Default()), degraded: m.Degraded}
	m.writer.onError = log.reports

	back := opts.Fallback
	back.OnChange, back.OnError = log.circuit(back.OnChange), log.failed(back.OnError)
	if m.fallback, err = fallback.New(store, &back); err != nil {
		return nil, err
	}
	if m.stack, err = observe.New(m.fallback, append([]observe.Func{m.seen.observe}, opts.Observers...)...); err != nil {
		return nil, err
	}
	m.follower, err = control.Follow(client, store, &control.Options{Interval: opts.Interval, OnChange: func(status control.Status) {
		m.writer.soon()
		log.following(status)
	}})
	if err != nil {
		return nil, err
	}
	go m.writer.run(func(ctx context.Context) { _ = m.follower.Refresh(ctx) })
	return m, nil
}

// Degraded reports whether Redis did not decide when it was asked last, so that the process
// answers by itself, as a readiness check may want to know.
func (m *Member) Degraded() bool { return m.fallback.Degraded() }

// Status returns what the member follows of the policies that operators have set.
func (m *Member) Status() control.Status { return m.follower.Status() }

// Report returns what the member reports: what it did in the last minute.
func (m *Member) Report() Report {
	now := time.Now()
	r := m.who
	r.Written, r.Digest = now, m.store.Digest()
	m.seen.fill(&r, now)
	r.Degraded = m.Degraded()
	status := m.Status()
	r.Following, r.Changed = status.Following, status.Changed
	r.Following.Detail = plainText(r.Following.Detail, maxTextBytes)
	return r
}

func (m *Member) json() []byte {
	return m.Report().fit()
}

// Unwrap returns the stores that the member consists of; see [priority.As].
func (m *Member) Unwrap() priority.Store { return m.stack }

// Close ends the member: it sends the Dones that Redis has not received, removes the
// report, and stops following the operators' policies. It gives up when ctx ends.
// Calls still work afterwards. An error says what was not finished; Close may then be
// called again. A report that cannot be removed is not an error: the process counts as gone
// until the report expires, within an hour.
func (m *Member) Close(ctx context.Context) error {
	owed := m.fallback.Close(ctx)
	ended := m.writer.close(ctx)
	return errors.Join(owed, ended, m.follower.Close(ctx))
}
