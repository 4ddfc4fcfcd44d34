package simulation

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// Trace is recorded traffic: which customer submitted a document when, and how long it was
// worked on.
type Trace struct {
	customers []string
	documents []Document // Service may be unknown
}

// unknown is the Service of a document whose service time the trace does not have.
const unknown time.Duration = -1

// TraceOptions says how a trace becomes a workload.
type TraceOptions struct {
	Cap            time.Duration // the longest service time; longer ones are shortened to it. 0: none
	LightDocuments uint          // how many documents a light customer has in the trace at most
}

// ReadTrace reads the trace in the file of that name, or in stdin if the name is "-". A trace is
// plain or gzipped, and sorted by time: CSV with or without the header
// submitted_ms,customer,service_ms, of which the third field may be missing or empty; or a log of
// the Parallel Workloads Archive. An error begins with the name and the line.
func ReadTrace(name string, stdin io.Reader) (*Trace, error) {
	if name == "-" {
		return readTrace("standard input", stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readTrace(name, file)
}

func readTrace(name string, from io.Reader) (*Trace, error) {
	buffered := bufio.NewReader(from)
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" { // a pipe has no name that ends in .gz
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		buffered = bufio.NewReader(unzipped)
	}
	if first, _ := buffered.Peek(1); string(first) == ";" { // a comment, with which all logs of the archive begin
		return readLog(name, buffered)
	}
	rows := csv.NewReader(buffered)
	rows.FieldsPerRecord = -1 // two or three; add checks it
	rows.ReuseRecord = true
	t, ids, line := new(Trace), make(map[string]int32), 0
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return t, nil
		}
		if bad := (*csv.ParseError)(nil); errors.As(err, &bad) {
			return nil, fmt.Errorf("%s:%d: %w", name, bad.StartLine, bad.Err)
		} else if err != nil {
			return nil, fmt.Errorf("%s: after line %d: %w", name, line, err)
		}
		first := line == 0
		if line, _ = rows.FieldPos(0); first && row[0] == "submitted_ms" {
			continue
		}
		if err := t.add(row, ids); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
}

// readLog reads the Standard Workload Format: a line has the number of a job, when it was submitted,
// how long it waited and ran, in seconds, and behind others, as the 12th field, whose it was; -1 is
// unknown.
func readLog(name string, from io.Reader) (*Trace, error) {
	t, ids, lines := new(Trace), make(map[string]int32), bufio.NewScanner(from)
	for line := 1; lines.Scan(); line++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], ";") {
			continue
		}
		if len(fields) < 12 {
			return nil, fmt.Errorf("%s:%d: %d fields, not 18", name, line, len(fields))
		}
		row := []string{fields[1] + "000", fields[11]}
		if fields[3] != "-1" {
			row = append(row, fields[3]+"000")
		}
		if err := t.add(row, ids); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// add adds the document of a row.
func (t *Trace) add(row []string, ids map[string]int32) (err error) {
	if len(row) != 2 && len(row) != 3 {
		return fmt.Errorf("%d fields, not submitted_ms,customer[,service_ms]", len(row))
	}
	d := Document{Service: unknown}
	if d.Submitted, err = milliseconds("submitted_ms", row[0]); err != nil {
		return err
	}
	if n := len(t.documents); n > 0 && d.Submitted < t.documents[n-1].Submitted {
		return fmt.Errorf("submitted_ms goes back from %d to %d", t.documents[n-1].Submitted.Milliseconds(), d.Submitted.Milliseconds())
	}
	if n := len(row[1]); n == 0 || n > priority.MaxCustomerBytes {
		return fmt.Errorf("the customer has %d bytes, not 1 to %d", n, priority.MaxCustomerBytes)
	}
	if len(row) == 3 && row[2] != "" {
		if d.Service, err = milliseconds("service_ms", row[2]); err != nil {
			return err
		}
	}
	id, known := ids[row[1]]
	if !known {
		id = int32(len(t.customers))
		ids[row[1]] = id
		t.customers = append(t.customers, row[1])
	}
	d.Customer = id
	t.documents = append(t.documents, d)
	return nil
}

// milliseconds reads a time up to 139 years, which a time.Duration can hold.
func milliseconds(field, text string) (time.Duration, error) {
	n, err := strconv.ParseUint(text, 10, 42)
	if err != nil {
		return 0, fmt.Errorf("%s is %.40q, not a whole number from 0 to 2^42", field, text)
	}
	return time.Duration(n) * time.Millisecond, nil
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
		if d.Service == unknown {
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
		if uint(documents) > o.LightDocuments {
			w.GroupOf[customer] = 1
		}
	}
	return w
}

// medianService returns the median of the known service times, if there are any.
func (t *Trace) medianService() (median time.Duration, ok bool) {
	var known []time.Duration
	for _, d := range t.documents {
		if d.Service != unknown {
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
