package main

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/docpriority/priority"
)

// document is one row of a trace.
type document struct {
	line      int   // where it stands in the trace
	submitted int64 // milliseconds
	customer  string
}

// latest is the last time that a trace may have, in milliseconds: some 139
// years, which a time.Duration can hold.
const latest = 1 << 42

// openTrace reads a file, or the standard input if the name is "" or "-".
func openTrace(name string, stdin io.Reader) ([]document, error) {
	if name == "" || name == "-" {
		return readTrace("standard input", stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readTrace(name, file)
}

// readTrace reads all of a trace. Its errors begin with the name and the line.
func readTrace(name string, from io.Reader) ([]document, error) {
	plain, err := unzip(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	rows := csv.NewReader(plain)
	rows.FieldsPerRecord = -1 // two or three; checked below, with a message of ours
	rows.ReuseRecord = true

	var trace []document
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
		d, err := parse(row)
		if err == nil && len(trace) > 0 && d.submitted < trace[len(trace)-1].submitted {
			err = fmt.Errorf("submitted_ms goes back from %d to %d", trace[len(trace)-1].submitted, d.submitted)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		d.line = line
		trace = append(trace, d)
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

func parse(row []string) (document, error) {
	if len(row) != 2 && len(row) != 3 {
		return document{}, fmt.Errorf("%d fields, not submitted_ms,customer[,service_ms]", len(row))
	}
	submitted, err := milliseconds("submitted_ms", row[0])
	if err != nil {
		return document{}, err
	}
	customer := row[1]
	if customer == "" {
		return document{}, errors.New("the customer is empty")
	}
	if len(customer) > priority.MaxCustomerBytes {
		return document{}, fmt.Errorf("the customer has %d bytes, more than %d", len(customer), priority.MaxCustomerBytes)
	}
	// A replay does not use the service time, but a wrong one means a wrong file.
	if len(row) == 3 && row[2] != "" {
		if _, err := milliseconds("service_ms", row[2]); err != nil {
			return document{}, err
		}
	}
	return document{submitted: submitted, customer: customer}, nil
}

func milliseconds(field, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is %.40q, not a whole number", field, text)
	case n < 0:
		return 0, fmt.Errorf("%s is %d, a negative number", field, n)
	case n > latest:
		return 0, fmt.Errorf("%s is %d, more than %d", field, n, int64(latest))
	}
	return n, nil
}
