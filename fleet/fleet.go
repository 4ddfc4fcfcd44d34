// Package fleet gives each document of each customer a level from 1 (processed first) to 9
// (processed last) when it arrives, based on how much that customer has sent recently. One
// customer's flood no longer makes the others wait.
//
//	store, err := fleet.Join(client, nil)                          // once, in each process
//	decision, err := store.Submit(ctx, "acme", "invoice-4711", 12) // a document has arrived: 12 pages; 0 if unknown
//	publish(document, decision.Level)                              // into your queue; 1 is first
//	_, err = store.Done(ctx, "acme", "invoice-4711", took)         // when it is processed
//
// The store follows operators' settings, answers while Redis cannot be reached, and reports
// what the process did. The package also reads the reports of all processes.
//
// [Join] wraps a RedisStore with package control, package fallback and package observe,
// in this order. Each of them works without this package too.
//
// Every five seconds a member writes a [Report] to Redis: who it is, which levels its
// documents got in the last minute, how long they waited, which customers were busiest,
// and whether it follows the operators' rules. A process whose report is older than half a
// minute is gone; the report expires after an hour. [Read] returns all reports, and [Add]
// adds them up. Members in Python and Node.js write the same reports.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/observe"
)

// Options configures a [Member]. The zero value works.
type Options struct {
	// Store configures the RedisStore: its Policy and Tiers apply until operators
	// set others. Overrides are always read.
	Store priority.RedisOptions

	// Interval is how often to check for changed rules: at least 10 ms, at most a minute.
	// Default: 500 ms.
	Interval time.Duration

	// Fallback configures the fallback that answers while Redis cannot be reached.
	Fallback fallback.Options

	// Observers see every call of the member, in this order. Default: none.
	Observers []observe.Func

	// Logger logs what operators should know: that Redis cannot be reached, or can be
	// again; which rules are followed, and why newer rules are not; corrupt keys; and that
	// reports cannot be written. Default: slog.Default().
	Logger *slog.Logger

	// Name is what operators call this process, at most 100 bytes. Default: the host's
	// name and the process's id.
	Name string
}

// Member is a [priority.Store], and a process's place in the fleet. From Join to Close it
// follows the operators' rules and writes reports in the background; no call waits for
// that. Its memory for reports is bounded: numbers, and entries of at most 25,000
// customers.
//
// It is safe for concurrent use. Close it before the store's client.
type Member struct {
	stack

	who      Report // the fields that never change
	control  *control.Store
	fallback *fallback.Store
	seen     *collector
	writer   *writer
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
	m := &Member{who: whoIs(opts.Name), seen: newCollector(time.Now())}
	m.writer = newWriter(client, cmp.Or(opts.Store.Prefix, defaultPrefix), m.who.ID, m.json)
	log := &logger{Logger: cmp.Or(opts.Logger, slog.Default()), degraded: func() bool { return m.fallback.Degraded() }}
	m.writer.onError = log.reports

	var err error
	m.control, err = control.New(client, &control.Options{Store: opts.Store, Interval: opts.Interval, OnChange: func(status control.Status) {
		m.writer.soon()
		log.rules(status)
	}})
	if err != nil {
		return nil, err
	}
	m.who.Levels = m.control.Last()
	back := opts.Fallback
	back.OnChange, back.OnError = log.circuit(back.OnChange), log.failed(back.OnError)
	if m.fallback, err = fallback.New(m.control, &back); err != nil {
		return nil, err
	}
	if m.stack, err = observe.New(m.fallback, append([]observe.Func{m.seen.observe}, opts.Observers...)...); err != nil {
		return nil, err
	}
	go m.writer.run(func(ctx context.Context) { _ = m.control.Refresh(ctx) })
	return m, nil
}

const defaultPrefix = "priority"

// Report returns what the member reports: what it did in the last minute.
func (m *Member) Report() Report {
	now := time.Now()
	r := m.who
	m.seen.fill(&r, now)
	r.Degraded = m.fallback.Degraded()
	r.Rules = rulesOf(m.control.Status())
	return r
}

func (m *Member) json() []byte {
	return m.Report().fit()
}

// Unwrap returns the stores that the member consists of; see [priority.As].
func (m *Member) Unwrap() priority.Store { return m.stack }

// Close ends the member: it sends the Dones that Redis has not received, removes the
// report, and stops following the operators' rules. It gives up when ctx ends.
// Calls still work afterwards. An error says what was not finished; Close may then be
// called again. A report that cannot be removed is not an error: the process counts as gone
// until the report expires, within an hour.
func (m *Member) Close(ctx context.Context) error {
	owed := m.fallback.Close(ctx)
	ended := m.writer.close(ctx)
	return errors.Join(owed, ended, m.control.Close(ctx))
}
