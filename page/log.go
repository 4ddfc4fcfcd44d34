package page

import (
	"strconv"

	"github.com/docpriority/priority/internal/insight"
)

// logView is a page of the log.
type logView struct {
	Entries []changed
	UpTo    int64 // 0: the last entries
	Older   int64 // the version with which the next page begins; 0: there is no next page
}

// log shows who changed what, the newest first.
func (v *visit) log() {
	upTo, err := strconv.ParseInt(v.r.URL.Query().Get("upto"), 10, 64)
	if err != nil || upTo < 0 {
		upTo = 0
	}
	v.inspector() // which notes what Redis lost
	found := v.cache.logPages.get(v.reading, upTo)
	if found.at.IsZero() {
		v.failed(found.err)
		return
	}
	noteStale(v, found)
	view := logView{UpTo: upTo}
	for i, entry := range found.value {
		if i == logPage {
			view.Older = entry.Version
			break
		}
		view.Entries = append(view.Entries, changed{entry, linkOf(entry), false})
	}
	v.show(200, "log", "Log", view)
}

// changed is a line of the log.
type changed struct {
	insight.Logged
	Link    string // to the page of what was changed
	JustNow bool   // the reader made the change
}

// Brief says what was done, with a long name clamped.
func (c changed) Brief() string {
	if c.Name == nil {
		return c.Says
	}
	return briefly(c.Says, c.Exact())
}

func linkOf(entry insight.Logged) string {
	switch {
	case entry.Name != nil:
		return customerURL("customer", entry.Exact())
	case entry.Kind == "forget":
		return ""
	}
	return "policy"
}
