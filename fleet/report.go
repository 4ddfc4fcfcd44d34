package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
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

	// Accounts reports whether the process splits names into accounts and users.
	Accounts bool `json:"accounts,omitempty"`

	// Degraded reports whether the process's last call to Redis failed, so that a
	// fallback answers.
	Degraded bool `json:"degraded"`

	// Following says which of the operators' policies the process follows.
	Following control.Following `json:"following"`

	// Digest is the process's RedisStore.Digest, whoever set its policies: two processes with
	// the same digest decide alike.
	Digest string `json:"digest,omitempty"`

	// Changed is when operators last changed something, by Redis's clock, as far as the process
	// has read. If the log has nothing that late, Redis lost it, and perhaps overrides. Zero:
	// nothing is known.
	Changed time.Time `json:"-"`

	// Written is when the process wrote the report, by the clock of its own machine. The zero
	// time: an older version wrote it, which knows neither this nor Digest, Submitted and Ended.
	Written time.Time `json:"-"`

	// ByCount and ByLoad count the documents by level, for the rule that decided. These are
	// the levels that callers got, with overrides and fallbacks applied.
	ByCount map[priority.Level]int64 `json:"by_count,omitempty"`
	ByLoad  map[priority.Level]int64 `json:"by_load,omitempty"`

	// Overridden counts the documents whose level an override changed, and Fallback the
	// documents that a fallback decided. ByCount and ByLoad include both.
	Overridden int64 `json:"overridden"`
	Fallback   int64 `json:"fallback"`

	// Errors counts the documents that failed, by the error's class: "invalid",
	// "not_counted", "outcome_unknown", "corrupt" or "error".
	Errors map[string]int64 `json:"errors,omitempty"`

	// Waits is how long documents took until Done, by level, and FirstHour how
	// long documents of level 1 took in the last hour.
	Waits     map[priority.Level]Histogram `json:"waits,omitempty"`
	FirstHour Histogram                    `json:"first_hour,omitempty"`

	// Submitted counts the documents that the process submitted in the last hour and Redis
	// decided, and Ended those that it was told of by a Done that ended them. A document that is
	// submitted again before its Done counts again. After an outage, Dones that reach Redis late
	// may not count.
	Submitted int64 `json:"submitted_hour,omitempty"`
	Ended     int64 `json:"ended_hour,omitempty"`

	// Busiest are the customers with the most documents in the window, at most 20, then at
	// most 10 others with the most pending at their last decision, within a day, then at
	// most 10 others with the most documents in the last hour.
	Busiest []Busy `json:"busiest,omitempty"`

	// Age is how long ago the report was written, by Redis's clock. Only Read sets it.
	Age time.Duration `json:"-"`

	// Err says why Read knows only the report's ID and Age, else nil.
	Err error `json:"-"`
}

// goneAfter is the Age of a report after which its process is gone or hangs. The report
// remains for an hour.
const goneAfter = 30 * time.Second

// Here reports whether the process has reported within half a minute.
func (r Report) Here() bool { return r.Age <= goneAfter }

// Follows reports whether the process follows the policies of a version, or newer ones.
func (r Report) Follows(version int64) bool {
	return r.Err == nil && r.Following.Version >= version && r.Following.Code == ""
}

// Documents returns how many documents got a level.
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
	maxReportBytes = 12 << 10
	maxWaitsBytes  = 4 << 10
	maxNameBytes   = 100
	maxTextBytes   = 200
	mostBusiest    = 20
	mostOthers     = 10

	// The limits of a report that is read, whichever process wrote it.
	maxReadBytes = 64 << 10
	maxLevel     = 255
	maxNumber    = 1e9  // so that no sum of reports overflows
	maxMS        = 1e12 // 31 years
	maxUnixMS    = 1e13 // the year 2286
	maxClasses   = 20
)

// fields are a report's fields in JSON.
type fields struct {
	Format int `json:"format"`
	report
	Busiest   []busyJSON `json:"busiest,omitempty"` // in place of the report's
	UpMS      int64      `json:"up_ms"`
	WindowMS  int64      `json:"window_ms"`
	WrittenMS int64      `json:"written_ms,omitempty"`
	ChangedMS int64      `json:"changed_ms,omitempty"`
}

type report Report // without its methods

// MarshalJSON returns the report as Redis holds it.
func (r Report) MarshalJSON() ([]byte, error) {
	f := fields{Format: format, report: report(r), UpMS: r.Up.Milliseconds(), WindowMS: r.Window.Milliseconds()}
	if !r.Changed.IsZero() {
		f.ChangedMS = r.Changed.UnixMilli()
	}
	if !r.Written.IsZero() {
		f.WrittenMS = r.Written.UnixMilli()
	}
	for _, b := range r.Busiest {
		f.Busiest = append(f.Busiest, b.json())
	}
	return encode(f)
}

// UnmarshalJSON reads what MarshalJSON or another language's client writes. It ignores
// unknown fields.
func (r *Report) UnmarshalJSON(text []byte) error {
	var f fields
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("fleet: bad report: %w", err)
	}
	if f.Format != format {
		return fmt.Errorf("fleet: a report of format %d, which this version cannot read", f.Format)
	}
	if f.UpMS < 0 || f.WindowMS < 0 || f.WrittenMS < 0 || f.UpMS > maxMS || f.WindowMS > maxMS || f.WrittenMS > maxUnixMS || f.ChangedMS < 0 || f.ChangedMS > maxUnixMS {
		return fmt.Errorf("fleet: bad report: up_ms %d, window_ms %d, written_ms %d, changed_ms %d", f.UpMS, f.WindowMS, f.WrittenMS, f.ChangedMS)
	}
	read := Report(f.report)
	read.Up, read.Window = time.Duration(f.UpMS)*time.Millisecond, time.Duration(f.WindowMS)*time.Millisecond
	if f.ChangedMS > 0 {
		read.Changed = time.UnixMilli(f.ChangedMS)
	}
	if f.WrittenMS > 0 {
		read.Written = time.UnixMilli(f.WrittenMS)
	}
	err := read.check()
	if len(f.Busiest) > mostBusiest+2*mostOthers {
		err = fmt.Errorf("%d customers", len(f.Busiest))
	}
	for _, customer := range f.Busiest {
		b, wrong := customer.busy()
		read.Busiest, err = append(read.Busiest, b), cmp.Or(err, wrong)
	}
	if err != nil {
		return fmt.Errorf("fleet: bad report: %w", err)
	}
	*r = read
	return nil
}

// check returns why a report is not credible.
func (r Report) check() error {
	for name, counts := range map[string]map[priority.Level]int64{"by_count": r.ByCount, "by_load": r.ByLoad} {
		for level, n := range counts {
			if !isLevel(level) || !isNumber(n) {
				return fmt.Errorf("%s has %d documents of level %d", name, n, level)
			}
		}
	}
	for level, h := range r.Waits {
		if !isLevel(level) || !h.isCredible() {
			return fmt.Errorf("waits of level %d: %v", level, h)
		}
	}
	for class, n := range r.Errors {
		if !isNumber(n) {
			return fmt.Errorf("errors has %d of %.40q", n, class)
		}
	}
	for _, text := range []string{r.Name, r.Language, r.Version, r.Host, string(r.Following.Code), r.Following.Detail, r.Digest} {
		if len(text) > maxTextBytes {
			return fmt.Errorf("a text of %d bytes", len(text))
		}
	}
	switch {
	case !r.FirstHour.isCredible():
		return fmt.Errorf("first_hour: %v", r.FirstHour)
	case len(r.Errors) > maxClasses:
		return fmt.Errorf("%d classes of errors", len(r.Errors))
	case !isNumber(r.Overridden) || !isNumber(r.Fallback) || !isNumber(r.Submitted) || !isNumber(r.Ended) || !isLevel(r.Levels):
		return fmt.Errorf("overridden %d, fallback %d, submitted_hour %d, ended_hour %d, levels %d", r.Overridden, r.Fallback, r.Submitted, r.Ended, r.Levels)
	case r.Following.Version < 0 || r.Following.Version > 1e13:
		return fmt.Errorf("policies of version %d", r.Following.Version)
	}
	return nil
}

func isNumber(n int64) bool { return n >= 0 && n <= maxNumber }

func isLevel(level priority.Level) bool { return level >= priority.First && level <= maxLevel }

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
		least := len(r.Busiest) - 1
		over -= len(must(encode(r.Busiest[least].json())))
		r.Busiest = r.Busiest[:least]
	}
	if over > 0 { // hundreds of levels
		r.Waits = nil
	}
	return must(encode(r))
}

// encode returns JSON without HTML escapes.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// must panics on errors that cannot happen.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
