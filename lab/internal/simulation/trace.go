package simulation

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/docpriority/priority/lab/internal/trace"
)

// Trace is recorded traffic.
type Trace struct {
	customers []string
	documents []Document // Service may be trace.Unknown
}

// TraceOptions says how a trace becomes a workload.
type TraceOptions struct {
	// Cap is the longest service time; longer ones are shortened to it. 0: none.
	Cap time.Duration
	// LightDocuments is how many documents a light customer has in the trace at
	// most.
	LightDocuments int
}

// Validate returns an error that says what is wrong, or nil.
func (o TraceOptions) Validate() error {
	switch {
	case o.LightDocuments < 0:
		return fmt.Errorf("a light customer has at most %d documents, fewer than none", o.LightDocuments)
	case o.Cap < 0:
		return fmt.Errorf("the cap of service times, %v, is negative", o.Cap)
	}
	return nil
}

// ReadTrace reads a trace of [trace.Open] or [trace.Read].
func ReadTrace(documents iter.Seq2[trace.Document, error]) (*Trace, error) {
	t := new(Trace)
	ids := make(map[string]int32)
	for d, err := range documents {
		if err != nil {
			return nil, err
		}
		id, known := ids[d.Customer]
		if !known {
			id = int32(len(t.customers))
			ids[d.Customer] = id
			t.customers = append(t.customers, d.Customer)
		}
		t.documents = append(t.documents, Document{Customer: id, Submitted: d.Submitted, Service: d.Service})
	}
	return t, nil
}

// Random reports whether workloads of the trace differ from seed to seed.
func (t *Trace) Random() bool {
	_, known := t.medianService()
	return !known
}

// Workload returns the trace's documents, its light and its heavy customers
// apart. A service time that is not known is the median of those that are.
func (t *Trace) Workload(o TraceOptions, seed uint64) *Workload {
	w := &Workload{
		Customers: t.customers,
		Groups:    []string{Light, Heavy},
		GroupOf:   make([]uint8, len(t.customers)),
		Apart:     []bool{false, false},
	}
	draw := serviceTimes(seed)
	median, known := t.medianService()
	sent := make([]int, len(t.customers))
	for _, d := range t.documents {
		sent[d.Customer]++
		if d.Service == trace.Unknown {
			d.Service = median
			if !known {
				d.Service = draw()
			}
		}
		if o.Cap > 0 {
			d.Service = min(d.Service, o.Cap)
		}
		w.Documents = append(w.Documents, d)
		w.To = d.Submitted + 1
	}
	for customer, documents := range sent {
		if documents > o.LightDocuments {
			w.GroupOf[customer] = 1
		}
	}
	return w
}

// medianService returns the median of the known service times, if there are any.
func (t *Trace) medianService() (median time.Duration, ok bool) {
	var known []time.Duration
	for _, d := range t.documents {
		if d.Service != trace.Unknown {
			known = append(known, d.Service)
		}
	}
	if len(known) == 0 {
		return 0, false
	}
	slices.Sort(known)
	return known[len(known)/2], true
}

// Load returns how many servers the trace would keep busy on average, and its
// documents and customers.
func (w *Workload) Load() (servers float64, documents, customers int) {
	if len(w.Documents) == 0 {
		return 0, 0, len(w.Customers)
	}
	var total time.Duration
	for _, d := range w.Documents {
		total += d.Service
	}
	first, last := w.Documents[0].Submitted, w.Documents[len(w.Documents)-1].Submitted
	return total.Seconds() / max((last-first).Seconds(), 1), len(w.Documents), len(w.Customers)
}
