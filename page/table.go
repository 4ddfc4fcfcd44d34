package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// table is the busiest customers, sorted and filtered by the URL.
type table struct {
	Rows    []busyRow
	Of      int // rows without the filter
	Rates   bool
	Columns []column
	Search  string
	Level   int
	Sort    string
	Reverse bool
	Most    int
	Levels  []int
	Sizes   []int
	Shown   int
	Again   string // the URL of the same
}

type busyRow struct {
	insight.Busy
	PerSecond float64
	Share     float64 // of all documents
	ResetIn   time.Duration
	History   []float64
}

// column is one by which the table can be sorted.
type column struct {
	Title, URL, Sorted string // Sorted is ascending, descending or empty
	Left               bool
}

const (
	defaultRows = 25
	mostRows    = busiest
)

var sizes = []int{defaultRows, 50, 100, mostRows}

func tableOf(found pass, query url.Values, last priority.Level) table {
	t := table{Of: len(found.Busiest), Rates: found.Since > 0, Search: query.Get("q"), Sort: query.Get("sort"), Reverse: query.Has("reverse")}
	t.Level, _ = strconv.Atoi(query.Get("level"))
	if n, err := strconv.Atoi(query.Get("rows")); err == nil && n > 0 {
		t.Most = min(n, mostRows)
	} else {
		t.Most = defaultRows
	}
	for level := 1; level <= int(last); level++ {
		t.Levels = append(t.Levels, level)
	}
	var all float64
	for _, level := range found.Levels {
		all += float64(level.Documents)
	}
	search := strings.ToLower(t.Search)
	for _, busy := range found.Busiest {
		customer := busy.Exact()
		matches := strings.Contains(strings.ToLower(customer), search) || strings.Contains(strings.ToLower(insight.Shown(customer)), search)
		if !matches || t.Level != 0 && int(busy.Level) != t.Level {
			continue
		}
		row := busyRow{Busy: busy, ResetIn: time.Duration(busy.ResetInMS) * time.Millisecond, History: found.customers[customer]}
		row.Share = float64(busy.Documents) / max(all, 1)
		row.PerSecond = float64(busy.Documents)
		if t.Rates {
			row.PerSecond /= found.Since.Seconds()
		}
		t.Rows = append(t.Rows, row)
	}
	t.sort()
	t.Rows = t.Rows[:min(len(t.Rows), t.Most)]
	t.Shown, t.Again = len(t.Rows), t.url(t.Sort, t.Reverse)
	if t.Sizes = sizes; !slices.Contains(sizes, t.Most) {
		t.Sizes = append(slices.Clone(sizes), t.Most)
	}
	return t
}

// orders are those of the columns, the first one that of the snapshot.
var orders = []struct {
	name, title string
	left        bool
	less        func(a, b busyRow) int
}{
	{"customer", "customer", true, func(a, b busyRow) int { return strings.Compare(a.Exact(), b.Exact()) }},
	{"level", "level", false, func(a, b busyRow) int { return int(b.Level - a.Level) }},
	{"count", "count", false, func(a, b busyRow) int { return int(min(max(a.Count-b.Count, -1), 1)) }},
	{"documents", "documents", false, func(a, b busyRow) int { return int(min(max(b.Documents-a.Documents, -1), 1)) }},
	{"share", "share", false, func(a, b busyRow) int { return int(min(max(b.Documents-a.Documents, -1), 1)) }},
	{"reset", "afresh in", false, func(a, b busyRow) int { return int(min(max(a.ResetInMS-b.ResetInMS, -1), 1)) }},
}

func (t *table) sort() {
	known := false
	for _, order := range orders {
		known = known || order.name == t.Sort
	}
	if !known {
		t.Sort = "documents"
	}
	for _, order := range orders {
		c := column{Title: order.title, Left: order.left, URL: t.url(order.name, false)}
		if order.name == "documents" && t.Rates {
			c.Title = "documents a second"
		}
		if order.name == t.Sort {
			slices.SortStableFunc(t.Rows, order.less)
			// A name goes up from a, and a number down from the greatest.
			c.Sorted = "descending"
			if up := order.name == "customer" || order.name == "count" || order.name == "reset"; up != t.Reverse {
				c.Sorted = "ascending"
			}
			if t.Reverse {
				slices.Reverse(t.Rows)
			}
			c.URL = t.url(order.name, !t.Reverse)
		}
		t.Columns = append(t.Columns, c)
	}
}

// url is that of the same table with another order.
func (t *table) url(sort string, reverse bool) string {
	values := url.Values{"sort": {sort}}
	if t.Search != "" {
		values.Set("q", t.Search)
	}
	if t.Level != 0 {
		values.Set("level", strconv.Itoa(t.Level))
	}
	if t.Most != defaultRows {
		values.Set("rows", strconv.Itoa(t.Most))
	}
	if reverse {
		values.Set("reverse", "")
	}
	return "./?" + values.Encode()
}
