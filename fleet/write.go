package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

const (
	// lasts is how long a report lasts, as in lua/report.lua.
	lasts = time.Hour
	// listEvery is how often report.lua lists the member again, for an hour and two minutes, and
	// adds to the history: before the window forgets a step.
	listEvery = 45 * time.Second
	// writeTimeout is how long it may take to write one report.
	writeTimeout = time.Second
	// followTimeout is how long a new member waits for the policies before it reports.
	followTimeout = 2 * time.Second
)

// reportEvery is how often a report is written, give or take a tenth, so that the processes
// of a fleet do not all write at once.
const reportEvery = 5 * time.Second

var reportScript = script.New(lua.Report)

// writer writes a member's reports to Redis. It sends separate commands, so that callers
// never wait for it.
type writer struct {
	client  priority.RedisClient
	runner  *script.Runner
	keys    keys.Prefix
	id      string
	report  func() []byte
	history func(ending bool) (fields []any, added func())
	onError func(err error) // after each report; nil: written

	listed  time.Time     // when report.lua last ran
	replied int64         // report.lua's latest time; 0: none
	writing chan struct{} // has room for one: whoever sends a SET holds it

	changed chan struct{}   // has room for one, which makes the next report come at once
	live    context.Context // ends with close
	stop    context.CancelFunc
	ended   chan struct{}
}

func newWriter(client priority.RedisClient, prefix keys.Prefix, id string, report func() []byte, history func(ending bool) ([]any, func())) *writer {
	w := &writer{
		client: client, runner: script.NewRunner(client), keys: prefix, id: id, report: report, history: history,
		writing: make(chan struct{}, 1), changed: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	w.live, w.stop = context.WithCancel(context.Background())
	return w
}

// soon makes run write the next report at once.
func (w *writer) soon() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run calls begin, and then writes reports until close.
func (w *writer) run(begin func(ctx context.Context)) {
	defer close(w.ended)
	ctx, cancel := context.WithTimeout(w.live, followTimeout)
	begin(ctx)
	cancel()
	for w.live.Err() == nil {
		if err := w.write(w.live, w.report()); w.live.Err() == nil {
			w.onError(err)
		}
		select {
		case <-time.After(reportEvery*9/10 + rand.N(reportEvery/5+1)):
		case <-w.changed:
		case <-w.live.Done():
		}
	}
}

// write writes a report, usually by a SET, which costs Redis a tenth of report.lua.
func (w *writer) write(ctx context.Context, report []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if time.Since(w.listed) < listEvery {
		if renewed, err := w.renew(ctx, report); renewed || err != nil {
			return err
		}
	}
	began := time.Now()
	err := w.list(ctx, report)
	if err == nil {
		w.listed = began
	}
	return err
}

// renew replaces the report. It returns false if there is no report to replace.
func (w *writer) renew(ctx context.Context, report []byte) (renewed bool, err error) {
	done := make(chan error, 1)
	select {
	case w.writing <- struct{}{}:
	case <-ctx.Done():
		return false, w.failed(ctx.Err())
	}
	go func() { // a client that ignores ctx ends later
		pipe := w.client.Pipeline()
		cmd := pipe.SetArgs(ctx, w.keys.Report(w.id), report, redis.SetArgs{Mode: "XX", TTL: lasts})
		_, _ = pipe.Exec(ctx)
		err := cmd.Err()
		<-w.writing
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, w.failed(err)
}

// list writes a report, lists the member and adds to the history; an empty report ends all of it.
func (w *writer) list(ctx context.Context, report []byte) error {
	d := script.Begin(ctx, writeTimeout)
	defer d.End()
	fields, added := w.history(len(report) == 0)
	reply, failure := w.runner.Run(&d, &script.Call{
		Script: reportScript, Key: w.keys.Report(w.id), OtherKeys: []string{w.keys.Members(), w.keys.Emptied(), w.keys.Histories()},
		Args: append([]any{w.id, report, w.replied}, fields...), Integers: 1, Repeatable: true,
	})
	if failure != nil {
		return w.failed(failure.Err)
	}
	w.replied = reply.Integers[0]
	added()
	return nil
}

func (w *writer) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fleet: cannot write %q: %w", w.keys.Report(w.id), err)
}

// close ends run and removes the report, unless ctx ends.
func (w *writer) close(ctx context.Context) error {
	w.stop()
	select {
	case <-w.ended:
	case <-ctx.Done():
		return fmt.Errorf("fleet: a report is being written: %w", ctx.Err())
	}
	if ctx.Err() == nil {
		_ = w.list(ctx, nil) // else it expires
	}
	return nil
}
