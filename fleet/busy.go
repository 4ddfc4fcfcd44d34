package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
)

// Busy is a customer with many documents, in the window or before.
type Busy struct {
	Customer  string
	Documents int64 // in the window

	// Rule decided the last document's Level; Count or Load is the number behind it.
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
	Level     priority.Level // of the last of them
}

// PartLength is how long a [Part] is.
const PartLength = 5 * time.Minute

// busy is a Busy in JSON.
type busy struct {
	Customer  *string        `json:"customer,omitempty"`
	Base64    []byte         `json:"customer_base64,omitempty"` // set instead, if the customer is not UTF-8
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

// jsonOf returns the customer in a report's format.
func jsonOf(b Busy) busy {
	f := busy{Documents: b.Documents, Level: b.Level, AgoMS: b.Ago.Milliseconds(), Pending: b.Pending}
	if utf8.ValidString(b.Customer) {
		f.Customer = &b.Customer
	} else {
		f.Base64 = []byte(b.Customer)
	}
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

// read reverses jsonOf. It returns an error for values that no process writes.
func (f busy) read() (Busy, error) {
	b := Busy{Customer: string(f.Base64), Documents: f.Documents, Level: f.Level, Ago: time.Duration(f.AgoMS) * time.Millisecond, Pending: f.Pending}
	if f.Customer != nil {
		b.Customer = *f.Customer
	}
	switch f.Rule {
	case byCount:
		b.Rule = priority.ByCount
	case byLoad:
		b.Rule = priority.ByLoad
	}
	if f.Count != nil {
		b.Count = *f.Count
	}
	if f.Load != nil {
		b.Load = *f.Load
	}
	if err := check.Customer(b.Customer); err != nil {
		return b, err
	}
	if !isNumber(f.Documents) || !isNumber(f.Pending) || !isLevel(f.Level) || f.AgoMS < 0 || f.AgoMS > maxMS {
		return b, fmt.Errorf("%.40q has %d documents, the last %d ms ago of level %d, %d pending", b.Customer, f.Documents, f.AgoMS, f.Level, f.Pending)
	}
	numbers := make([]int64, 0, 3*steps)
	for text := range strings.FieldsSeq(f.Hour) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !isNumber(n) || len(numbers) >= 3*steps {
			return b, fmt.Errorf("%.40q has the hour %.80q", b.Customer, f.Hour)
		}
		numbers = append(numbers, n)
	}
	if len(numbers)%3 != 0 {
		return b, fmt.Errorf("%.40q has the hour %.80q", b.Customer, f.Hour)
	}
	b.Hour = slices.Grow(b.Hour, len(numbers)/3)
	for ; len(numbers) > 0; numbers = numbers[3:] {
		part := Part{time.Duration(numbers[0]) * time.Second, numbers[1], priority.Level(numbers[2])}
		if part.Ago > 2*time.Hour || !isLevel(part.Level) {
			return b, fmt.Errorf("%.40q has the hour %.80q", b.Customer, f.Hour)
		}
		b.Hour = append(b.Hour, part)
	}
	return b, nil
}
