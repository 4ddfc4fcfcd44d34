// Package trace reads recorded traffic: which customer submitted a document when,
// and how long it was worked on.
package trace

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/docpriority/priority"
)

// Document is one row of a trace.
type Document struct {
	Submitted time.Duration // since the trace's time 0, in whole milliseconds
	Customer  string
	Service   time.Duration // how long it was worked on; Unknown where the trace does not tell
}

// Unknown is the Service of a document whose service time is not known.
const Unknown time.Duration = -1

// Open reads the file of that name, or stdin if the name is "" or "-". See [Read].
func Open(name string, stdin io.Reader) iter.Seq2[Document, error] {
	if name == "" || name == "-" {
		return Read("standard input", stdin)
	}
	return func(yield func(Document, error) bool) {
		file, err := os.Open(name)
		if err != nil {
			yield(Document{}, err)
			return
		}
		defer file.Close()
		Read(name, file)(yield)
	}
}

// Read yields the documents of a trace, in order. A trace is CSV, plain or
// gzipped, sorted by time, with or without the header
// submitted_ms,customer,service_ms; the third field may be missing or empty. An
// error is yielded last; it begins with the name and the line.
func Read(name string, from io.Reader) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		plain, err := unzip(from)
		if err != nil {
			yield(Document{}, fmt.Errorf("%s: %w", name, err))
			return
		}
		rows := csv.NewReader(plain)
		rows.FieldsPerRecord = -1 // two or three; parse checks it
		rows.ReuseRecord = true

		var last Document
		lastLine := 0
		for first := true; ; first = false {
			row, err := rows.Read()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Document{}, unreadable(name, lastLine, err))
				return
			}
			line, _ := rows.FieldPos(0)
			lastLine = line
			if first && row[0] == "submitted_ms" {
				continue
			}
			d, err := parse(row)
			if err == nil && d.Submitted < last.Submitted {
				err = fmt.Errorf("submitted_ms goes back from %d to %d", last.Submitted.Milliseconds(), d.Submitted.Milliseconds())
			}
			if err != nil {
				yield(Document{}, fmt.Errorf("%s:%d: %w", name, line, err))
				return
			}
			if !yield(d, nil) {
				return
			}
			last = d
		}
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

// unreadable is the error of a row that is no CSV, or that did not come.
func unreadable(name string, after int, err error) error {
	if bad := (*csv.ParseError)(nil); errors.As(err, &bad) {
		return fmt.Errorf("%s:%d: %w", name, bad.StartLine, bad.Err)
	}
	return fmt.Errorf("%s: after line %d: %w", name, after, err)
}

func parse(row []string) (d Document, err error) {
	if len(row) != 2 && len(row) != 3 {
		return d, fmt.Errorf("%d fields, not submitted_ms,customer[,service_ms]", len(row))
	}
	if d.Submitted, err = milliseconds("submitted_ms", row[0]); err != nil {
		return d, err
	}
	d.Customer = row[1]
	if n := len(d.Customer); n == 0 || n > priority.MaxCustomerBytes {
		return d, fmt.Errorf("the customer has %d bytes, not 1 to %d", n, priority.MaxCustomerBytes)
	}
	d.Service = Unknown
	if len(row) == 3 && row[2] != "" {
		d.Service, err = milliseconds("service_ms", row[2])
	}
	return d, err
}

// latest is the last time that a trace may have, in milliseconds: some 139
// years, which a time.Duration can hold.
const latest = 1 << 42

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
