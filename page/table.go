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

// table has the customers that a search has found, sorted as the URL says.
type table struct {
	Pager         pager
	Rows          []insight.Listed
	Counts, Loads bool // some are counted by count; some by load
	Columns       []column
	Sort          string
	Reverse       bool
}

// column is a column by which the table can be sorted.
type column struct {
	Title, URL, Sorted string // Sorted is ascending, descending or empty
	Left               bool
}

func tableOf(found finding, query url.Values) table {
	t := table{Rows: slices.Clone(found.customers), Sort: query.Get("sort"), Reverse: query.Has("reverse")}
	for _, row := range t.Rows {
		if row.Corrupt == "" {
			t.Counts, t.Loads = t.Counts || row.ByCount(), t.Loads || row.ByLoad()
		}
	}
	t.sort(query)
	t.Rows, t.Pager = paged(t.Rows, "customers", query)
	return t
}

// order says how rows are sorted by a column.
type order struct {
	name, title string
	up          bool // the first click sorts ascending
	shown       func(t *table) bool
	compare     func(a, b insight.Listed) int
}

var (
	always   = func(*table) bool { return true }
	byCount  = func(t *table) bool { return t.Counts }
	byLoad   = func(t *table) bool { return t.Loads }
	byEither = func(t *table) bool { return t.Counts && t.Loads }
)

// orders has the order of each column. By default rows are sorted by level.
var orders = []order{
	{"customer", "customer", true, always, func(a, b insight.Listed) int { return strings.Compare(a.Exact(), b.Exact()) }},
	{"level", "next level", false, always, descending(func(s *insight.State) priority.Level { return s.NextLevel })},
	{"rule", "rule", true, byEither, descending(func(s *insight.State) string { return s.Rule })},
	{"load", "load", false, byLoad, descending(func(s *insight.State) float64 { return s.Load })},
	{"pending", "pending", false, byLoad, descending(func(s *insight.State) int64 { return s.Pending })},
	{"oldest", "oldest", false, byLoad, descending(func(s *insight.State) int64 { return s.OldestMS })},
	{"count", "count", true, byCount, descending(func(s *insight.State) int64 { return -s.Count })},
	{"reset", "resets in", false, byCount, descending(func(s *insight.State) int64 { return s.ResetInMS })},
}

// descending compares by a value, the greatest first. Corrupt customers come before all
// others.
func descending[T cmp.Ordered](value func(*insight.State) T) func(a, b insight.Listed) int {
	return func(a, b insight.Listed) int {
		switch {
		case a.Corrupt != "" && b.Corrupt != "":
			return 0
		case a.Corrupt != "":
			return -1
		case b.Corrupt != "":
			return 1
		}
		return cmp.Compare(value(b.State), value(a.State))
	}
}

func (t *table) sort(query url.Values) {
	shown := slices.DeleteFunc(slices.Clone(orders), func(o order) bool { return !o.shown(t) })
	if !slices.ContainsFunc(shown, func(o order) bool { return o.name == t.Sort }) {
		t.Sort = ""
	}
	for _, order := range shown {
		c := column{Title: order.title, Left: order.name == "customer" || order.name == "rule"}
		reverse := false
		if order.name == cmp.Or(t.Sort, "level") {
			if t.Sort != "" { // else they keep the search's order, which is by level
				slices.SortStableFunc(t.Rows, order.compare)
			}
			c.Sorted = "descending"
			if order.up != t.Reverse {
				c.Sorted = "ascending"
			}
			if t.Reverse {
				slices.Reverse(t.Rows)
			}
			reverse = !t.Reverse
		}
		c.URL = sortedURL(query, order.name, reverse)
		t.Columns = append(t.Columns, c)
	}
}

// sortedURL returns the URL of the same search in another order, at its first page.
func sortedURL(query url.Values, sort string, reverse bool) string {
	values := url.Values{"sort": {sort}}
	for _, name := range []string{"q", "level", "corrupt"} {
		if query.Has(name) {
			values.Set(name, query.Get(name))
		}
	}
	if reverse {
		values.Set("reverse", "")
	}
	return "customers?" + values.Encode()
}

// pager is the position in a long list.
type pager struct {
	Search       string
	From, To, Of int64
	Before, Next string // URLs; empty: there is no such page
	Again        string
}

const perPage = 50

// paged returns the rows that a URL asks for.
func paged[T any](all []T, path string, query url.Values) ([]T, pager) {
	last := max(len(all)-1, 0) / perPage
	at, err := strconv.Atoi(query.Get("p"))
	if err != nil {
		at = 0
	}
	at = min(max(at, 0), last)
	link := func(at int) string {
		values := url.Values{}
		for name, value := range query {
			if name != "done" {
				values[name] = value
			}
		}
		values.Del("p")
		if at > 0 {
			values.Set("p", strconv.Itoa(at))
		}
		return strings.TrimSuffix(path+"?"+values.Encode(), "?")
	}
	from, to := at*perPage, min((at+1)*perPage, len(all))
	p := pager{Search: query.Get("q"), From: int64(from + 1), To: int64(to), Of: int64(len(all)), Again: link(at)}
	if at > 0 {
		p.Before = link(at - 1)
	}
	if at < last {
		p.Next = link(at + 1)
	}
	return all[from:to], p
}
