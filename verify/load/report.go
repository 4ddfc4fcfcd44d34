package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority/internal/ledger"
)

// report is what the load found.
type report struct {
	Server         string                `json:"server"`
	Callers        int                   `json:"callers"`
	Customers      int                   `json:"customers"`
	Seconds        float64               `json:"seconds"`
	Operations     []operationReport     `json:"operations"`
	Pause          float64               `json:"longest_pause_ms"`
	Errors         []errorReport         `json:"errors"`
	Samples        []sample              `json:"samples"`
	Peak           sample                `json:"peak"`
	Documents      ledger.Totals         `json:"documents"`
	Reconciliation ledger.Reconciliation `json:"reconciliation"`
	Leaks          []string              `json:"leaks"`
	OK             bool                  `json:"ok"`
}

func newReport(cfg config, server string, took time.Duration) *report {
	return &report{
		Server: server, Callers: cfg.concurrency, Customers: cfg.customers, Seconds: took.Seconds(),
		Leaks: []string{}, // a list in JSON, though it is empty
	}
}

// operationReport has the times of an operation's calls in milliseconds, whether
// they were answered or failed.
type operationReport struct {
	Operation string  `json:"operation"`
	Calls     int64   `json:"calls"`
	Rate      float64 `json:"calls_per_second"`
	P50       float64 `json:"p50_ms"`
	P90       float64 `json:"p90_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p99.9_ms"`
	Max       float64 `json:"max_ms"`
}

type errorReport struct {
	Class  string `json:"class"`
	Errors int    `json:"errors"`
	First  string `json:"first"`
}

// columns is how wide the report may be.
const columns = 80

// write writes the report as tables.
func (r *report) write(w io.Writer) error {
	var b bytes.Buffer
	took := time.Duration(r.Seconds * float64(time.Second)).Round(time.Millisecond)
	fmt.Fprintf(&b, "%s\n%d callers, %d customers, %v\n",
		cut(r.Server, columns), r.Callers, r.Customers, took)

	fmt.Fprintf(&b, "\n%-8s %11s %9s %9s %9s %9s %9s %9s\n",
		"", "calls", "calls/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms")
	for _, o := range r.Operations {
		fmt.Fprintf(&b, "%-8s %11d %9.0f %9.2f %9.2f %9.2f %9.2f %9.2f\n",
			o.Operation, o.Calls, o.Rate, o.P50, o.P90, o.P99, o.P999, o.Max)
	}

	fmt.Fprintf(&b, "The process itself was not run for up to %.2f ms.\n", r.Pause)

	fmt.Fprintf(&b, "\nerrors\n")
	for _, e := range r.Errors {
		fmt.Fprintf(&b, "%-15s %9d\n", e.Class, e.Errors)
		for _, line := range wrap(e.First, columns-4, 3) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	if len(r.Errors) == 0 {
		fmt.Fprintf(&b, "none\n")
	}

	fmt.Fprintf(&b, "\n%-12s %9s %9s %11s %12s %6s\n", "process", "heap MB", "RSS MB", "goroutines", "connections", "idle")
	for _, s := range append(r.Samples, r.Peak) {
		fmt.Fprintf(&b, "%-12s %9.1f %9.1f %11d %12d %6d\n",
			s.At, megabytes(s.Heap), megabytes(s.Resident), s.Goroutines, s.Connections, s.Idle)
	}

	fmt.Fprintln(&b)
	for _, line := range []struct {
		name string
		n    int
	}{
		{"documents", r.Documents.Documents},
		{"  answered", r.Documents.Answered},
		{"  degraded", r.Documents.Degraded},
		{"  not counted", r.Documents.NotCounted},
		{"  unknown", r.Documents.OutcomeUnknown},
		{"  other", r.Documents.Other},
		{"in the counts", r.Reconciliation.Counted},
		{"  missing", r.Reconciliation.Missing},
		{"  extra", r.Reconciliation.Extra},
		{"  told twice", r.Reconciliation.Twice},
	} {
		fmt.Fprintf(&b, "%-15s %9d\n", line.name, line.n)
	}

	fmt.Fprintln(&b)
	for _, leak := range r.Leaks {
		fmt.Fprintf(&b, "LEAK: %s\n", leak)
	}
	switch {
	case r.OK:
		fmt.Fprintln(&b, "ok: the counts are exact, and nothing was left")
	case !r.Reconciliation.Exact():
		fmt.Fprintln(&b, "FAILED: the counts are not what the callers were told")
	default:
		fmt.Fprintln(&b, "FAILED")
	}
	_, err := w.Write(b.Bytes())
	return err
}

func megabytes(n uint64) float64 { return float64(n) / (1 << 20) }

// cut shortens a text to some characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// wrap breaks a text into lines of some characters, and cuts it after some lines.
func wrap(s string, width, lines int) []string {
	var wrapped []string
	for part := range slices.Chunk([]rune(cut(s, width*lines)), width) {
		wrapped = append(wrapped, string(part))
	}
	return wrapped
}
