package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/docpriority/priority"
)

// Report is what one process of the fleet says of itself.
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

	// Overrides reports whether the process goes by operators' overrides.
	Overrides bool `json:"overrides"`

	// Degraded reports whether Redis failed when the process last called it, so that
	// a fallback answers.
	Degraded bool `json:"degraded"`

	// Rules is what the process follows.
	Rules Rules `json:"rules"`

	// ByCount and ByLoad are how many documents were given which level, by the rule that
	// decided, as the callers were told: with overrides, and by a fallback too.
	ByCount map[priority.Level]int64 `json:"by_count,omitempty"`
	ByLoad  map[priority.Level]int64 `json:"by_load,omitempty"`

	// Overridden is how many of these documents are of customers with an override, and
	// Fallback how many of them a fallback decided about.
	Overridden int64 `json:"overridden"`
	Fallback   int64 `json:"fallback"`

	// Errors is how many documents the callers were given an error for, by its class:
	// "invalid", "not_counted", "outcome_unknown", "corrupt_count" or "error".
	Errors map[string]int64 `json:"errors,omitempty"`

	// Waits is how long documents took from Submit to Done, by their level.
	Waits map[priority.Level]Histogram `json:"waits,omitempty"`

	// Busiest are the customers with the most documents, at most 20, the busiest first.
	Busiest []Busy `json:"busiest,omitempty"`

	// Age is how long ago the report was written, by Redis's clock. Only Read sets it.
	Age time.Duration `json:"-"`

	// Err is why Read cannot say more than ID and Age of a report, else nil.
	Err error `json:"-"`
}

// Rules says which of the operators' rules a process follows.
type Rules struct {
	// Version is the version of the rules; 0: the process goes by its own options.
	Version int64 `json:"version"`

	// Error is why the process does not follow the newest ones, in words for operators;
	// empty: it does.
	Error string `json:"error"`
}

// Follows reports whether the process follows the rules of a version, or newer ones.
func (r Report) Follows(version int64) bool {
	return r.Err == nil && r.Rules.Version >= version && r.Rules.Error == ""
}

// Documents is how many documents were given a level.
func (r Report) Documents() int64 { return sum(r.ByCount) + sum(r.ByLoad) }

func sum[K comparable](counts map[K]int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}

const (
	format = 1

	// What a report is at most.
	maxReportBytes = 8 << 10
	maxWaitsBytes  = 4 << 10
	maxNameBytes   = 100
	maxErrorBytes  = 200
	mostBusiest    = 20

	// What a report may say, of whatever process.
	maxReadBytes = 64 << 10
	maxLevel     = 999
	maxNumber    = 1e15
)

// fields are a report's as they are in JSON.
type fields struct {
	Format int `json:"format"`
	plain
	UpMS     int64 `json:"up_ms"`
	WindowMS int64 `json:"window_ms"`
}

type plain Report

// MarshalJSON returns the report as it is in Redis.
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

// fit returns the report in JSON of at most maxReportBytes: waits get coarser, and
// customers are left out, the least busy first, until it fits.
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
