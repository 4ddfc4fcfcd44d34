package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// table is the busiest customers, sorted and filtered by the URL.
type table struct {
	Rows    []busyRow
	Of      int // rows without the filter
	Counts  bool
	Loads   bool
	Rates   bool
	Width   int // columns, with the one of the pictures
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
	Share     float64 // as that of a level
	History   []float64
}

// Unit is what History is.
func (b busyRow) Unit() string {
	if b.ByLoad() {
		return "pending documents"
	}
	return "documents a second"
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
	t := table{Of: len(found.Busiest), Counts: found.counts(), Loads: found.loads(), Rates: found.Since > 0, Search: query.Get("q"), Sort: query.Get("sort"), Reverse: query.Has("reverse")}
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
		if t.Loads {
			all += float64(level.Pending)
		} else {
			all += float64(level.Documents)
		}
	}
	search := strings.ToLower(t.Search)
	for _, busy := range found.Busiest {
		customer := busy.Exact()
		matches := strings.Contains(strings.ToLower(customer), search) || strings.Contains(strings.ToLower(insight.Shown(customer)), search)
		if !matches || t.Level != 0 && int(busy.NextLevel) != t.Level {
			continue
		}
		row := busyRow{Busy: busy, History: found.customers[customer]}
		row.Share = float64(busy.Documents) / max(all, 1)
		if t.Loads {
			row.Share = float64(busy.Pending) / max(all, 1)
		}
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

// order is how rows are sorted by a column.
type order struct {
	name, title string
	up          bool // the first click sorts from the least on
	shown       func(t *table) bool
	compare     func(a, b busyRow) int
}

var (
	always   = func(*table) bool { return true }
	byCount  = func(t *table) bool { return t.Counts }
	byLoad   = func(t *table) bool { return t.Loads }
	byEither = func(t *table) bool { return t.Counts && t.Loads }
)

// orders are those of the columns. Rows come in the order of the level.
var orders = []order{
	{"customer", "customer", true, always, func(a, b busyRow) int { return strings.Compare(a.Exact(), b.Exact()) }},
	{"level", "next level", false, always, func(a, b busyRow) int { return cmp.Compare(b.NextLevel, a.NextLevel) }},
	{"rule", "rule", true, byEither, func(a, b busyRow) int { return strings.Compare(a.Rule, b.Rule) }},
	{"load", "load", false, byLoad, func(a, b busyRow) int { return cmp.Compare(b.Load, a.Load) }},
	{"count", "count", true, byCount, func(a, b busyRow) int { return cmp.Compare(a.Count, b.Count) }},
	{"documents", "documents", false, byCount, func(a, b busyRow) int { return cmp.Compare(b.Documents, a.Documents) }},
	{"pending", "pending", false, byLoad, func(a, b busyRow) int { return cmp.Compare(b.Pending, a.Pending) }},
	{"oldest", "oldest", false, byLoad, func(a, b busyRow) int { return cmp.Compare(b.OldestMS, a.OldestMS) }},
	{"share", "share", false, always, func(a, b busyRow) int { return cmp.Compare(b.Share, a.Share) }},
	{"reset", "resets in", true, byCount, func(a, b busyRow) int { return cmp.Compare(a.ResetInMS, b.ResetInMS) }},
}

func (t *table) sort() {
	shown := slices.DeleteFunc(slices.Clone(orders), func(o order) bool { return !o.shown(t) })
	if !slices.ContainsFunc(shown, func(o order) bool { return o.name == t.Sort }) {
		t.Sort = "level"
	}
	for _, order := range shown {
		c := column{Title: order.title, Left: order.name == "customer" || order.name == "rule", URL: t.url(order.name, false)}
		if order.name == "documents" && t.Rates {
			c.Title = "documents a second"
		}
		if order.name == t.Sort {
			slices.SortStableFunc(t.Rows, order.compare)
			c.Sorted = "descending"
			if order.up != t.Reverse {
				c.Sorted = "ascending"
			}
			if t.Reverse {
				slices.Reverse(t.Rows)
			}
			c.URL = t.url(order.name, !t.Reverse)
		}
		t.Columns = append(t.Columns, c)
	}
	t.Width = len(t.Columns) + 1
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
