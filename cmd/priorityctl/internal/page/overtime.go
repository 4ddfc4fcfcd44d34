package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/fleet"
)

// remembered is how long a page remembers what it saw, and what workers keep.
const remembered = 24 * time.Hour

// sample is what waited at a time, by Redis's clock.
type sample struct {
	at     time.Time
	levels []insight.Level // those where documents were pending
	unread int64           // further documents, of which only the number was read
}

// remember adds to a look what was before it: what this page saw once a minute, and what workers
// keep in Redis, which changes as often.
func (p *Page) remember(ctx context.Context, l *look) {
	minute := l.Now.Truncate(time.Minute)
	if l.Top != nil && !minute.Equal(p.minute) {
		p.minute = minute
		waiting := slices.DeleteFunc(slices.Clone(l.Top.Levels), func(level insight.Level) bool { return level.Pending == 0 })
		p.samples = append(p.samples, sample{l.Now, waiting, l.Top.Unread})
		for l.Now.Sub(p.samples[0].at) > remembered {
			p.samples = p.samples[1:]
		}
		p.history, p.historyErr = fleet.History(ctx, p.inspector.Client, p.inspector.Prefix)
	}
	l.history, l.samples = p.history, p.samples
	if p.historyErr != nil {
		l.missing = append(l.missing, fmt.Errorf("the last day: %w", p.historyErr))
	}
}

// Watch looks at the fleet until the context ends, so that charts have what nobody looked at.
func (p *Page) Watch(ctx context.Context) {
	for every := time.Tick(time.Minute / 2); ; {
		_, _ = p.look(ctx)
		select {
		case <-every:
		case <-ctx.Done():
			return
		}
	}
}

// overTime is charts of the last hour or day.
type overTime struct {
	Day    bool
	Charts []chart
}

func (l *look) overTime(day bool) overTime {
	last := l.Last
	for _, slot := range l.history {
		for level := range slot.Documents {
			last = max(last, level) // of an earlier policy
		}
	}
	steps, step, each := 12, fleet.PartLength, time.Minute
	if day {
		steps, step, each = 48, time.Hour/2, time.Hour/2
	}
	end := l.Now.UTC().Truncate(step).Add(step - 1)
	gridOf := func(each time.Duration) grid { return newGrid(end, steps*int(step/each), each, last) }
	reported, p95, seen, oldest := gridOf(step), gridOf(step), gridOf(each), gridOf(each)
	waits := make(map[*float64]fleet.Histogram) // of a cell of p95
	for _, slot := range l.history {
		for level, n := range slot.Documents {
			*reported.cell(slot.Began, level) += float64(n)
		}
		for level, h := range slot.Waits {
			cell := p95.cell(slot.Began, level)
			if waits[cell] == nil {
				waits[cell] = fleet.Histogram{}
			}
			for bucket, n := range h {
				waits[cell][bucket] += n
			}
		}
	}
	for cell, h := range waits {
		*cell = float64(h.P95().Milliseconds())
	}
	unread := false
	for _, s := range l.samples {
		pending := seen.cell(s.at, 0)
		*pending, unread = max(*pending, float64(s.unread)), unread || s.unread > 0
		for _, level := range s.levels {
			pending, age := seen.cell(s.at, level.Level), oldest.cell(s.at, level.Level)
			*pending, *age = max(*pending, float64(level.Pending)), max(*age, float64(level.OldestMS))
		}
	}
	note := ""
	if len(l.samples) > 0 && l.samples[0].at.After(seen.from.Add(seen.step)) {
		note = "seen here since " + l.samples[0].at.UTC().Format("15:04")
	}
	pendingNote := note
	if unread {
		pendingNote += "; gray: level not read"
	}
	return overTime{day, []chart{
		areas(reported).titled("documents", "Documents", "by the workers’ reports"), lines(p95).titled("waits", "Waits", "95 of 100 documents waited at most that"),
		areas(seen).titled("pending", "Pending, at least", strings.TrimPrefix(pendingNote, "; ")), lines(oldest).titled("oldest", "Oldest pending document", note),
	}}
}

// hourOf is the chart of one customer's last hour; a bar has the color of the latest document's level.
func hourOf(now time.Time, last priority.Level, parts []insight.Part) overTime {
	for _, part := range parts {
		last = max(last, part.Level)
	}
	g := newGrid(now, 16, fleet.PartLength, last) // so that the oldest has its place
	for _, part := range parts {
		*g.cell(part.Began, part.Level) += float64(part.Documents)
	}
	return overTime{false, []chart{areas(g).titled("", "Documents", "in the color of the latest one’s level")}}
}

func (c chart) titled(id, title, note string) chart {
	c.ID, c.Title, c.Note = id, title, note
	return c
}
