package page

import (
	"context"
	"fmt"
	"time"

	"github.com/docpriority/priority/fleet"
)

// remember adds to a look what workers keep in Redis of the last day, which changes once a minute.
func (p *Page) remember(ctx context.Context, l *look) {
	if minute := l.Now.Truncate(time.Minute); !minute.Equal(p.minute) {
		p.minute = minute
		p.history, p.historyErr = fleet.History(ctx, p.inspector.Client, p.inspector.Prefix)
	}
	l.history = p.history
	if p.historyErr != nil {
		l.missing = append(l.missing, fmt.Errorf("the last day: %w", p.historyErr))
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
	steps, step := 12, fleet.PartLength
	if day {
		steps, step = 48, time.Hour/2
	}
	reported, p95 := newGrid(l.Now, steps, step, last), newGrid(l.Now, steps, step, last)
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
	return overTime{day, []chart{
		areas(reported).titled("Documents", "by the workers’ reports"), lines(p95).titled("Waits", "95 of 100 documents waited at most that"),
	}}
}

func (c chart) titled(title, note string) chart {
	c.Title, c.Note = title, note
	return c
}
