package page

import (
	"context"
	"sync"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const (
	patience    = 8 * time.Second // how long a look may take; a browser waits 10
	mostChanges = 200             // of operators, the last ones
)

// look is what Redis said at one time. It does not change.
type look struct {
	*insight.Snapshot
	Top       *insight.Top // nil: it could not be read
	Checks    []insight.Check
	Overrides []*insight.Override
	Changes   []insight.Logged // the newest first
	unread    []error          // why something is missing
}

// looks keeps the last look for all visitors. One visitor at a time asks Redis, once in an
// interval.
type looks struct {
	mu    sync.Mutex // guards all, and is held while Redis is asked
	last  *look      // nil: Redis was never reached
	asked time.Time
	away  error // why the last look is no newer
}

// look returns the last look, and why it is older than an interval; else nil.
func (p *Page) look(ctx context.Context) (*look, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asked) >= p.interval {
		// A reader who leaves does not take the answer from the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		found, err := p.read(ctx)
		if p.asked, p.away = time.Now(), err; err == nil {
			p.last = found
		}
	}
	return p.last, p.away
}

// read looks at everything. An error means that Redis cannot be reached.
func (p *Page) read(ctx context.Context) (*look, error) {
	s, err := p.inspector.Look(ctx)
	if err != nil {
		return nil, err
	}
	l := &look{Snapshot: s}
	var failed [2]error
	l.Top, failed[0] = s.Top(ctx)
	l.Overrides, failed[1] = s.Overrides(ctx)
	if l.Top != nil {
		l.Checks = s.Status(ctx, l.Top, l.Overrides)
	}
	entries, unlogged := p.inspector.Admin.Log(ctx, "", mostChanges)
	for _, entry := range entries {
		l.Changes = append(l.Changes, insight.LoggedOf(entry))
	}
	for _, err := range append(failed[:], unlogged, s.Unread, s.Unreported) {
		if insight.Unreachable(err) {
			return nil, err
		}
		if err != nil {
			l.unread = append(l.unread, err)
		}
	}
	return l, nil
}
