package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/customer"
)

// Busy is a customer with many documents, in the window or before.
type Busy struct {
	Customer  string
	Documents int64 // in the window

	// Rule decided the latest document's Level; Count or Load is the number behind it.
	Rule  priority.Rule
	Level priority.Level
	Count int64
	Load  float64

	// Ago is the decision's age in the report, and Pending how many documents were
	// pending at its time, by load.
	Ago     time.Duration
	Pending int64

	// Hour has the parts of the last hour in which the customer sent documents, latest
	// first.
	Hour []Part
}

// Part is five minutes of a customer's documents.
type Part struct {
	Ago       time.Duration  // time from the first of them to the report
	Documents int64          // at least one
	Level     priority.Level // of the latest of them
}

// PartLength is how long a [Part] is.
const PartLength = 5 * time.Minute

// busyJSON is a Busy in a report.
type busyJSON struct {
	customer.Name
	Documents int64          `json:"documents"`
	Rule      string         `json:"rule"`
	Level     priority.Level `json:"level"`
	Count     *int64         `json:"count,omitempty"`
	Load      *float64       `json:"load,omitempty"`
	AgoMS     int64          `json:"ago_ms"`
	Pending   int64          `json:"pending,omitempty"`
	Hour      string         `json:"hour,omitempty"` // three numbers a part: seconds ago, documents, level
}

const byCount, byLoad = "count", "load"

// json returns the customer in a report's format.
func (b Busy) json() busyJSON {
	f := busyJSON{Name: customer.NameOf(b.Customer), Documents: b.Documents, Level: b.Level, AgoMS: b.Ago.Milliseconds(), Pending: b.Pending}
	if b.Rule == priority.ByCount {
		f.Rule, f.Count = byCount, &b.Count
	} else {
		f.Rule, f.Load = byLoad, &b.Load
	}
	var hour []string
	for _, p := range b.Hour {
		hour = append(hour, fmt.Sprint(int64(p.Ago.Seconds()), p.Documents, p.Level))
	}
	f.Hour = strings.Join(hour, " ")
	return f
}

// busy reverses json. It returns an error for values that no process writes.
func (f busyJSON) busy() (b Busy, err error) {
	read := Busy{Customer: f.Exact(), Documents: f.Documents, Level: f.Level, Ago: time.Duration(f.AgoMS) * time.Millisecond, Pending: f.Pending}
	switch f.Rule {
	case byCount:
		read.Rule = priority.ByCount
	case byLoad:
		read.Rule = priority.ByLoad
	}
	if f.Count != nil {
		read.Count = *f.Count
	}
	if f.Load != nil {
		read.Load = *f.Load
	}
	if err := cmp.Or(f.Check(), check.Customer(read.Customer)); err != nil {
		return b, err
	}
	if !isNumber(f.Documents) || !isNumber(f.Pending) || !isLevel(f.Level) || f.AgoMS < 0 || f.AgoMS > maxMS {
		return b, fmt.Errorf("%.40q has %d documents, the latest %d ms ago of level %d, %d pending", read.Customer, f.Documents, f.AgoMS, f.Level, f.Pending)
	}
	var ok bool
	if read.Hour, ok = partsOf(f.Hour); !ok {
		return b, fmt.Errorf("%.40q has the hour %.80q", read.Customer, f.Hour)
	}
	return read, nil
}

// partsOf reads the parts of an hour. It is false for a text that no process writes.
func partsOf(text string) (parts []Part, ok bool) {
	words := strings.Fields(text)
	if len(words)%3 != 0 || len(words) > 3*steps {
		return nil, false
	}
	parts = slices.Grow(parts, len(words)/3)
	for ; len(words) > 0; words = words[3:] {
		var numbers [3]int64
		for i := range numbers {
			n, err := strconv.ParseInt(words[i], 10, 64)
			if err != nil || !isNumber(n) {
				return nil, false
			}
			numbers[i] = n
		}
		part := Part{time.Duration(numbers[0]) * time.Second, numbers[1], priority.Level(numbers[2])}
		if part.Ago > 2*time.Hour || !isLevel(part.Level) {
			return nil, false
		}
		parts = append(parts, part)
	}
	return parts, true
}
