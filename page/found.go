package page

import (
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// foundView is the customers of a search.
type foundView struct {
	Table    table
	Level    priority.Level
	Levels   []priority.Level
	Corrupt  bool
	All      int64 // how many match
	More     int64 // customers that are not listed
	Under    bool  // the search goes on
	Progress int
	Age      string
}

// search looks for customers among all.
func (v *visit) search() {
	query := v.r.URL.Query()
	what := sought{text: strings.ToLower(query.Get("q")), corrupt: query.Has("corrupt")}
	if level, err := strconv.ParseUint(query.Get("level"), 10, 8); err == nil && !what.corrupt {
		what.level = priority.Level(level)
	}
	v.inspector() // which notes what Redis lost
	found, under := v.cache.searches.of(v.reading, what)
	noteStale(v, found)
	if found.at.IsZero() && found.err != nil {
		v.failed(found.err)
		return
	}
	view := foundView{
		Table: tableOf(found.value, query), Level: what.level, Levels: v.levels(), Corrupt: what.corrupt,
		All: found.value.all, Under: under, Progress: found.value.progress,
	}
	view.More = view.All - int64(len(found.value.customers))
	if under {
		v.showLive("customers", "Customers", view)
		return
	}
	view.Age = insight.Span(time.Since(found.at).Round(time.Second))
	v.show(200, "customers", "Customers", view)
}

// levels returns all levels of the queue.
func (v *visit) levels() []priority.Level {
	var all []priority.Level
	for level := priority.First; level <= v.options.Levels; level++ {
		all = append(all, level)
	}
	return all
}
