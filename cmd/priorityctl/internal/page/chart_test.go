package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/fleet"
)

// Each chart has what was at each level at its time, and nothing of other times.
func TestOverTime(t *testing.T) {
	t.Parallel()
	at := func(hour, minute int) time.Time { return time.Date(2026, 11, 27, hour, minute, 0, 0, time.UTC) }
	l := &look{Snapshot: &insight.Snapshot{Now: at(16, 3), Last: 3}, history: []fleet.Slot{
		{Began: at(9, 40), Documents: map[priority.Level]int64{1: 900}, Waits: map[priority.Level]fleet.Histogram{1: {68: 7}}},
		{Began: at(15, 40), Documents: map[priority.Level]int64{1: 30, 2: 4}, Waits: map[priority.Level]fleet.Histogram{1: {20: 96, 40: 4}, 2: {40: 1, 52: 90}}},
	}}
	says := func(day bool) (all []string) {
		for _, c := range l.overTime(day).Charts {
			all = append(all, fmt.Sprintf("%s %s %s", c.Title, c.Note, strings.Join(strings.Fields(strings.Join(c.Steps, " ")), " ")))
		}
		return all
	}
	for day, want := range map[bool]string{
		false: `[Documents by the workers’ reports 15:40: level 1 30, level 2 4` +
			` Waits 95 of 100 documents waited at most that 15:40: level 1 32ms, level 2 8.2s]`,
		true: `[Documents by the workers’ reports 09:30: level 1 900 15:30: level 1 30, level 2 4` +
			` Waits 95 of 100 documents waited at most that 09:30: level 1 2m11s 15:30: level 1 32ms, level 2 8.2s]`,
	} {
		if got := fmt.Sprint(says(day)); got != want {
			t.Errorf("got\n%s, want\n%s", got, want)
		}
	}
	c := l.overTime(false).Charts[0]
	if d := c.Paths[0].D + c.Paths[1].D; d != "M7.06 250.0h.88v750.0h-.88zM7.06 150.0h.88v100.0h-.88z" || c.Ticks[2].Says != "40" || c.Times[4].Says != "16:05" {
		t.Errorf("the areas are %s, at %v and %v", d, c.Ticks, c.Times)
	}
	if d := l.overTime(true).Charts[1].Paths[2].D; strings.Count(d, "M") != 2 {
		t.Errorf("the line is not open where nothing is known: %s", d)
	}
}
