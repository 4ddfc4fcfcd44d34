package page

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
)

const (
	patience    = 8 * time.Second // how long a look may take; a browser waits 10
	mostChanges = 200             // that operators made, the latest ones
)

// look is what Redis said at one time. It does not change.
type look struct {
	*insight.Snapshot
	Top       *insight.Top // nil if it could not be read
	Checks    []insight.Check
	Overrides []insight.Override
	Changes   []insight.Logged // the newest first
	history   []fleet.Slot     // what workers keep of the last day
	missing   []error          // why parts of it could not be read
}

// looks keeps the latest look for all visitors. One visitor at a time asks Redis, once in an
// interval.
type looks struct {
	mu     sync.Mutex // guards all, and is held while Redis is asked
	latest *look      // nil if Redis was never reached
	asked  time.Time
	away   error // why there is no newer look, or nil

	minute     time.Time // of the history
	history    []fleet.Slot
	historyErr error
}

// look returns the latest look, and why it is older than an interval; else nil.
func (p *Page) look(ctx context.Context) (*look, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asked) >= p.interval {
		// A reader who leaves does not take the answer from the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		newer, err := p.read(ctx)
		if p.asked, p.away = time.Now(), err; err == nil {
			p.remember(ctx, newer)
			p.latest = newer
		}
	}
	return p.latest, p.away
}

// read looks at everything. An error means that Redis cannot be reached.
func (p *Page) read(ctx context.Context) (*look, error) {
	s, err := p.inspector.Look(ctx)
	if err != nil {
		return nil, err
	}
	l := &look{Snapshot: s}
	var errs [3]error
	var entries []control.Entry
	l.Top, errs[0] = s.Top(ctx)
	l.Overrides, errs[1] = s.Overrides(ctx)
	entries, errs[2] = s.Admin.Log(ctx, "", mostChanges)
	if l.Top != nil {
		errs[0] = cmp.Or(errs[0], l.Top.Missing.Err())
		l.Checks = s.Status(ctx, l.Top, l.Overrides)
	}
	for _, entry := range entries {
		l.Changes = append(l.Changes, insight.LoggedOf(entry))
	}
	for _, err := range append(errs[:], s.PoliciesErr, s.ReportsErr) {
		if s.NoneLeft(err) {
			return nil, err
		}
		if err != nil {
			l.missing = append(l.missing, err)
		}
	}
	return l, nil
}
