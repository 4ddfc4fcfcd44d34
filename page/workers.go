package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/docpriority/priority/internal/insight"
)

// workersView shows the workers.
type workersView struct {
	Pager    pager
	Rows     []insight.Worker
	All      int
	Obeying  int
	Degraded int
}

// workers shows the processes of the fleet, the ones with problems first.
func (v *visit) workers() {
	v.inspector()
	found := v.cache.workers.get(v.reading)
	noteStale(v, found)
	if found.at.IsZero() {
		v.failed(found.err)
		return
	}
	query := v.r.URL.Query()
	search := strings.ToLower(query.Get("q"))
	view := workersView{All: len(found.value)}
	var matching []insight.Worker
	for _, w := range found.value {
		if w.Obeys {
			view.Obeying++
		}
		if w.Degraded {
			view.Degraded++
		}
		if strings.Contains(strings.ToLower(w.Name+"\x00"+w.Host+"\x00"+w.ID+"\x00"+w.Language), search) {
			matching = append(matching, w)
		}
	}
	slices.SortStableFunc(matching, func(a, b insight.Worker) int { return cmp.Compare(rankOf(b), rankOf(a)) })
	view.Rows, view.Pager = paged(matching, "workers", query)
	v.showLive("workers", "Workers", view)
}

// rankOf is greater for a process that an operator should look at first.
func rankOf(w insight.Worker) int {
	switch {
	case !w.Obeys:
		return 2
	case w.Degraded:
		return 1
	}
	return 0
}
