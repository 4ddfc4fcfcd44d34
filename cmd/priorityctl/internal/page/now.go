package page

import (
	"time"

	"github.com/docpriority/priority/internal/insight"
)

const mostBusiest = 20 // with documents, and as many that only wait

// nowView shows what happens now.
type nowView struct {
	Pending int64
	Oldest  time.Duration
	Busiest []insight.Busy
	Day     *dayView
}

func (v *visit) now() (string, any) {
	view := nowView{Day: v.Look.dayView()}
	if v.Look.Top == nil {
		return "Now", view
	}
	for _, level := range v.Look.Top.Levels {
		view.Pending += level.Pending
		view.Oldest = max(view.Oldest, level.Oldest())
	}
	shown := map[bool]int{}
	for _, b := range v.Look.Top.Busiest {
		if shown[b.Documents > 0]++; shown[b.Documents > 0] <= mostBusiest {
			view.Busiest = append(view.Busiest, b)
		}
	}
	return "Now", view
}
