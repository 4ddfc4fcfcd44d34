package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/docpriority/priority"
)

// Report is what one process of the fleet reports about itself.
type Report struct {
	// ID is random. Name is what operators call the process.
	ID   string `json:"id"`
	Name string `json:"name"`

	// Language is "go", "python" or "nodejs", and Version the version of the library.
	Language string `json:"language"`
	Version  string `json:"version"`

	Host string `json:"host"`
	PID  int    `json:"pid"`

	// Up is how long ago the process joined.
	Up time.Duration `json:"-"`

	// Window is what the numbers below cover: the last minute, or less.
	Window time.Duration `json:"-"`

	// Levels is how many levels the process's queue has.
	Levels priority.Level `json:"levels"`

	// Overrides reports whether the process applies operators' overrides.
	Overrides bool `json:"overrides"`

	// Degraded reports whether the process's last call to Redis failed, so that a
	// fallback answers.
	Degraded bool `json:"degraded"`

	// Rules says which of the operators' rules the process follows.
	Rules Rules `json:"rules"`

	// ByCount and ByLoad count the documents by level, for the rule that decided. They
	// are the levels that the callers got, overrides and fallbacks included.
	ByCount map[priority.Level]int64 `json:"by_count,omitempty"`
	ByLoad  map[priority.Level]int64 `json:"by_load,omitempty"`

	// Overridden counts the documents whose level is another one than the rule's, by an
	// override, and Fallback the documents that a fallback decided about. ByCount and ByLoad
	// include both.
	Overridden int64 `json:"overridden"`
	Fallback   int64 `json:"fallback"`

	// Errors counts the documents that failed, by the error's class: "invalid",
	// "not_counted", "outcome_unknown", "corrupt" or "error".
	Errors map[string]int64 `json:"errors,omitempty"`

	// Waits is how long documents took from Submit to Done, by their level.
	Waits map[priority.Level]Histogram `json:"waits,omitempty"`

	// Busiest are the customers with the most documents, at most 20, the busiest first.
	Busiest []Busy `json:"busiest,omitempty"`

	// Age is how long ago the report was written, by Redis's clock. Only Read sets it.
	Age time.Duration `json:"-"`

	// Err says why Read knows only the report's ID and Age, else nil.
	Err error `json:"-"`
}

// Rules says which of the operators' rules a process follows.
type Rules struct {
	// Version is the version of the rules; 0: the process follows its own options.
	Version int64 `json:"version"`

	// Error says, in words for operators, why the process does not follow the newest
	// rules; empty: it does.
	Error string `json:"error"`
}

// Follows reports whether the process follows the rules of a version, or newer ones.
func (r Report) Follows(version int64) bool {
	return r.Err == nil && r.Rules.Version >= version && r.Rules.Error == ""
}

// Documents returns how many documents were given a level.
func (r Report) Documents() int64 { return sum(r.ByCount) + sum(r.ByLoad) }

func sum[K comparable](counts map[K]int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}

const (
	format = 1

	// The largest report that a process writes.
	maxReportBytes = 8 << 10
	maxWaitsBytes  = 4 << 10
	maxNameBytes   = 100
	maxErrorBytes  = 200
	mostBusiest    = 20

	// The limits of a report that is read, whatever process wrote it.
	maxReadBytes = 64 << 10
	maxLevel     = 999
	maxNumber    = 1e15
)

// fields are a report's fields in JSON.
type fields struct {
	Format int `json:"format"`
	plain
	UpMS     int64 `json:"up_ms"`
	WindowMS int64 `json:"window_ms"`
}

type plain Report

// MarshalJSON returns the report as Redis holds it.
func (r Report) MarshalJSON() ([]byte, error) {
	return encode(fields{format, plain(r), r.Up.Milliseconds(), r.Window.Milliseconds()})
}

// UnmarshalJSON reads what MarshalJSON returns, in whatever language it was written.
// Fields that it does not know are ignored.
func (r *Report) UnmarshalJSON(text []byte) error {
	var f fields
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("fleet: no report: %w", err)
	}
	if f.Format != format {
		return fmt.Errorf("fleet: a report of format %d, which this version cannot read", f.Format)
	}
	read := Report(f.plain)
	if f.UpMS < 0 || f.WindowMS < 0 || f.UpMS > maxNumber/1e3 || f.WindowMS > maxNumber/1e3 {
		return fmt.Errorf("fleet: no report: up_ms %d, window_ms %d", f.UpMS, f.WindowMS)
	}
	read.Up, read.Window = time.Duration(f.UpMS)*time.Millisecond, time.Duration(f.WindowMS)*time.Millisecond
	if err := read.check(); err != nil {
		return err
	}
	*r = read
	return nil
}

// check returns why a report cannot be believed.
func (r Report) check() error {
	levels := func(name string, counts map[priority.Level]int64) error {
		for level, n := range counts {
			if level < 1 || level > maxLevel || !isNumber(n) {
				return fmt.Errorf("fleet: no report: %s has %d documents of level %d", name, n, level)
			}
		}
		return nil
	}
	if err := levels("by_count", r.ByCount); err != nil {
		return err
	}
	if err := levels("by_load", r.ByLoad); err != nil {
		return err
	}
	for level, h := range r.Waits {
		for i, n := range h {
			if level < 1 || level > maxLevel || i < 0 || i > lastBucket || !isNumber(n) {
				return fmt.Errorf("fleet: no report: waits has %d documents in bucket %d of level %d", n, i, level)
			}
		}
	}
	for class, n := range r.Errors {
		if !isNumber(n) {
			return fmt.Errorf("fleet: no report: errors has %d of %.40q", n, class)
		}
	}
	for _, b := range r.Busiest {
		if !isNumber(b.Documents) {
			return fmt.Errorf("fleet: no report: busiest has %d documents of %.40q", b.Documents, b.Customer)
		}
	}
	if !isNumber(r.Overridden) || !isNumber(r.Fallback) || r.Levels < 1 || r.Levels > maxLevel {
		return fmt.Errorf("fleet: no report: overridden %d, fallback %d, levels %d", r.Overridden, r.Fallback, r.Levels)
	}
	return nil
}

func isNumber(n int64) bool { return n >= 0 && n <= maxNumber }

// fit returns the report as JSON of at most maxReportBytes: it makes waits coarser
// and leaves out the least busy customers until the report fits.
func (r Report) fit() []byte {
	waits := r.Waits
	for n := 2; len(must(encode(r.Waits))) > maxWaitsBytes && n <= lastBucket; n *= 2 {
		r.Waits = make(map[priority.Level]Histogram, len(waits))
		for level, h := range waits {
			r.Waits[level] = h.coarser(n)
		}
	}
	over := len(must(encode(r))) - maxReportBytes
	for over > 0 && len(r.Busiest) > 0 {
		last := len(r.Busiest) - 1
		over -= len(must(encode(r.Busiest[last])))
		r.Busiest = r.Busiest[:last]
	}
	if over > 0 { // hundreds of levels
		r.Waits = nil
	}
	return must(encode(r))
}

// encode returns JSON without the escapes that only HTML needs.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// must is for what is always valid.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
