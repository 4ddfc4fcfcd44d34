package insight

import (
	"strings"

	"github.com/docpriority/priority/internal/customer"
)

// Check is one check: what was found, as data and in words, and what to do about it.
type Check struct {
	Check  string  `json:"check"`
	Status Outcome `json:"status"`
	Found  string  `json:"found"`
	Remedy string  `json:"remedy,omitempty"`

	// Whom the finding is about, those first who matter most, and how many documents.
	Customers []customer.Name `json:"customers,omitempty"`
	Workers   []string        `json:"workers,omitempty"`
	Documents int64           `json:"documents,omitempty"`

	// List has a line for each of many.
	List []string `json:"-"`

	processes []Worker // the Workers
}

// Outcome is the outcome of a check.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Warning Outcome = "warning"
	Failed  Outcome = "failed"
)

// Worst returns the worst outcome.
func Worst(checks []Check) Outcome {
	worst := OK
	for _, c := range checks {
		if c.Status == Failed || worst == OK {
			worst = c.Status
		}
	}
	return worst
}

// finding is a check of a kind, in the words for the kind. The values are the names of places in
// these words and what belongs there, in turn.
func finding(kind string, values ...string) Check { return Check{}.as(kind, values...) }

// as completes a check that has its customers, processes and documents.
func (c Check) as(kind string, values ...string) Check {
	var names, customers []string
	for _, w := range c.processes {
		c.Workers, names = append(c.Workers, w.Name), append(names, w.Called())
	}
	for _, name := range c.Customers {
		customers = append(customers, Shown(name.Exact()))
	}
	w := words[kind]
	places := []string{"{workers}", Named(names), "{n workers}", Plural(int64(len(names)), "worker"), "{customers}", Named(customers),
		"{n customers}", Plural(int64(len(customers)), "customer"), "{documents}", Plural(c.Documents, "document")}
	for at := 0; at < len(values); at += 2 {
		places = append(places, "{"+values[at]+"}", values[at+1])
	}
	in := strings.NewReplacer(places...)
	c.Check, c.Status, c.Found, c.Remedy = w.check, w.status, in.Replace(w.found), in.Replace(w.remedy)
	return c
}
