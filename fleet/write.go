package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

const (
	// writeTimeout is how long the writing of one report may take.
	writeTimeout = time.Second
	// followTimeout is how long a new member waits for the rules before it reports.
	followTimeout = 2 * time.Second
)

// reportEvery is how often a report is written, give or take a tenth, so that a fleet's
// processes do not write all at once. Tests that last for days change it.
var reportEvery = 5 * time.Second

var reportScript = script.New(lua.Report, 1, 0)

// writer writes a member's report to Redis, again and again. It has commands of its own
// under way, so that a caller's never wait for it.
type writer struct {
	runner  *script.Runner
	key     string
	members string
	id      string
	report  func() []byte
	onError func(err error) // of each report; nil: it was written

	changed chan struct{}   // of one: the next report does not wait
	live    context.Context // until close
	stop    context.CancelFunc
	ended   chan struct{}
}

func newWriter(client priority.RedisClient, prefix, id string, report func() []byte) *writer {
	w := &writer{
		runner: script.NewRunner(client), key: keyOf(prefix, id), members: keyOf(prefix, "members"), id: id, report: report,
		changed: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	w.live, w.stop = context.WithCancel(context.Background())
	return w
}

func keyOf(prefix, id string) string { return prefix + ":{fleet}:" + id }

// soon has the next report written at once.
func (w *writer) soon() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run writes reports until close. Before the first one it calls begin.
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

// write writes a report; an empty one removes it.
func (w *writer) write(ctx context.Context, report []byte) error {
	d := script.Begin(ctx, writeTimeout)
	defer d.End()
	call := script.Call{
		Script: reportScript, Key: w.key, Others: [3]string{w.members},
		IDs: []string{w.id, string(report)}, Repeatable: true,
	}
	if _, failure := w.runner.Run(&d, &call); failure != nil {
		return fmt.Errorf("fleet: cannot write %q: %w", w.key, failure.Err)
	}
	return nil
}

// close ends run, and removes the report, until ctx ends.
func (w *writer) close(ctx context.Context) error {
	w.stop()
	select {
	case <-w.ended:
	case <-ctx.Done():
		return fmt.Errorf("fleet: a report is being written: %w", ctx.Err())
	}
	if ctx.Err() == nil {
		_ = w.write(ctx, nil) // else it ends by itself
	}
	return nil
}
