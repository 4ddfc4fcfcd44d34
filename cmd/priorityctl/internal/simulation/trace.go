package simulation

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/docpriority/priority"
)

// Trace is recorded traffic.
type Trace struct {
	customers []string
	documents []Document // Service is unknown if it is negative
}

// What to do about documents whose service time is not known.
const (
	MissingMedian = "median" // they take the median of the known ones
	MissingDrawn  = "draw"   // a service time is drawn for each
	MissingLeft   = "drop"   // they are left out
)

// TraceOptions says how a trace becomes a workload.
type TraceOptions struct {
	// Missing is MissingMedian, MissingDrawn or MissingLeft. Where no service time
	// of the trace is known, all are drawn.
	Missing string
	// Cap is the longest service time; longer ones are shortened to it. 0: none.
	Cap time.Duration
	// LightDocuments is how many documents a light customer has in the trace at
	// most.
	LightDocuments int
	Service        ServiceTime // to draw from
}

// Validate returns an error that says what is wrong, or nil.
func (o TraceOptions) Validate() error {
	switch {
	case o.Missing != MissingMedian && o.Missing != MissingDrawn && o.Missing != MissingLeft:
		return fmt.Errorf("missing service times are handled by %s, %s or %s, not %q", MissingMedian, MissingDrawn, MissingLeft, o.Missing)
	case o.Cap < 0:
		return fmt.Errorf("the cap of service times, %v, is negative", o.Cap)
	}
	return o.Service.Validate()
}

// latest is the last time that a trace may have, in milliseconds: some 139
// years, which a time.Duration can hold.
const latest = 1 << 42

// ReadTrace reads CSV, plain or gzipped, sorted by time, with or without the
// header submitted_ms,customer,service_ms; the third field may be missing or
// empty. Errors begin with the name and the line.
func ReadTrace(name string, from io.Reader) (*Trace, error) {
	plain, err := unzip(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	rows := csv.NewReader(plain)
	rows.FieldsPerRecord = -1 // two or three; parse checks it
	rows.ReuseRecord = true

	trace := new(Trace)
	ids := make(map[string]int32)
	line := 0
	for first := true; ; first = false {
		row, err := rows.Read()
		if err == io.EOF {
			return trace, nil
		}
		if bad := (*csv.ParseError)(nil); errors.As(err, &bad) {
			return nil, fmt.Errorf("%s:%d: %w", name, bad.StartLine, bad.Err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: after line %d: %w", name, line, err)
		}
		line, _ = rows.FieldPos(0)
		if first && row[0] == "submitted_ms" {
			continue
		}
		d, customer, err := parse(row)
		if n := len(trace.documents); err == nil && n > 0 && d.Submitted < trace.documents[n-1].Submitted {
			err = fmt.Errorf("submitted_ms goes back from %d to %d",
				trace.documents[n-1].Submitted.Milliseconds(), d.Submitted.Milliseconds())
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		id, known := ids[customer]
		if !known {
			id = int32(len(trace.customers))
			ids[customer] = id
			trace.customers = append(trace.customers, customer)
		}
		d.Customer = id
		trace.documents = append(trace.documents, d)
	}
}

// unzip looks at the content, as a pipe has no name that ends in .gz.
func unzip(from io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(from)
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}

func parse(row []string) (d Document, customer string, err error) {
	if len(row) != 2 && len(row) != 3 {
		return Document{}, "", fmt.Errorf("%d fields, not submitted_ms,customer[,service_ms]", len(row))
	}
	d.Submitted, err = milliseconds("submitted_ms", row[0])
	if err != nil {
		return Document{}, "", err
	}
	if n := len(row[1]); n == 0 || n > priority.MaxCustomerBytes {
		return Document{}, "", fmt.Errorf("the customer has %d bytes, not 1 to %d", n, priority.MaxCustomerBytes)
	}
	d.Service = -1
	if len(row) == 3 && row[2] != "" {
		if d.Service, err = milliseconds("service_ms", row[2]); err != nil {
			return Document{}, "", err
		}
	}
	return d, row[1], nil
}

func milliseconds(field, text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is %.40q, not a whole number", field, text)
	case n < 0:
		return 0, fmt.Errorf("%s is %d, a negative number", field, n)
	case n > latest:
		return 0, fmt.Errorf("%s is %d, more than %d", field, n, int64(latest))
	}
	return time.Duration(n) * time.Millisecond, nil
}

// Random reports whether workloads of the trace differ from seed to seed.
func (t *Trace) Random(o TraceOptions) bool {
	known := slices.ContainsFunc(t.documents, func(d Document) bool { return d.Service >= 0 })
	unknown := slices.ContainsFunc(t.documents, func(d Document) bool { return d.Service < 0 })
	return unknown && (o.Missing == MissingDrawn || o.Missing == MissingMedian && !known)
}

// Workload returns the trace's documents, its light and its heavy customers
// apart.
func (t *Trace) Workload(o TraceOptions, seed uint64) *Workload {
	w := &Workload{
		Customers: t.customers,
		Groups:    []string{Light, Heavy},
		GroupOf:   make([]uint8, len(t.customers)),
		Apart:     []bool{false, false},
	}
	draw := o.Service.drawer(rand.NewPCG(seed, streamOfServices))
	median := t.medianService()
	sent := make([]int, len(t.customers))
	for _, d := range t.documents {
		sent[d.Customer]++
		if d.Service < 0 {
			switch {
			case o.Missing == MissingLeft:
				continue
			case o.Missing == MissingDrawn || median < 0:
				d.Service = draw()
			default:
				d.Service = median
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

// medianService returns that of the known service times; negative: none is.
func (t *Trace) medianService() time.Duration {
	var known []time.Duration
	for _, d := range t.documents {
		if d.Service >= 0 {
			known = append(known, d.Service)
		}
	}
	if len(known) == 0 {
		return -1
	}
	slices.Sort(known)
	return known[len(known)/2]
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
