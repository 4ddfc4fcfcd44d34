package soak

import (
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/docpriority/priority"
)

// Operation is how long the calls of one method took, in milliseconds.
type Operation struct {
	Name          string
	Calls         int64
	Rate          float64 // calls a second
	P50, P99, Max float64
}

// recorder notes how long calls took, and how they failed first.
type recorder struct {
	mu     sync.Mutex
	times  map[string]*hdrhistogram.Histogram // µs
	errors map[string]error                   // the first of each class
}

const all = "all"

var methods = []string{"Next", "NextN", "NextEach", "Submit", "Done", "Peek", all}

const longestCall = time.Minute

func newRecorder() *recorder {
	r := &recorder{times: make(map[string]*hdrhistogram.Histogram), errors: make(map[string]error)}
	for _, name := range methods {
		r.times[name] = hdrhistogram.New(1, longestCall.Microseconds(), 3)
	}
	return r
}

func (r *recorder) note(method string, began time.Time, err error) {
	took := min(time.Since(began), longestCall).Microseconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{method, all} {
		_ = r.times[name].RecordValue(took) // it is in the range
	}
	if err == nil {
		return
	}
	for _, class := range []struct {
		name string
		is   error
	}{
		{"not counted", priority.ErrNotCounted},
		{"of unknown outcome", priority.ErrOutcomeUnknown},
		{"of a corrupt count", priority.ErrCorruptCount},
		{"another", err},
	} {
		if errors.Is(err, class.is) {
			if r.errors[class.name] == nil {
				r.errors[class.name] = err
			}
			return
		}
	}
}

// summarize returns the methods, all of them together last, and the errors.
func (r *recorder) summarize(during time.Duration) (operations []Operation, first map[string]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	milliseconds := func(us int64) float64 { return float64(us) / 1000 }
	for _, name := range methods {
		t := r.times[name]
		operations = append(operations, Operation{
			name, t.TotalCount(), float64(t.TotalCount()) / during.Seconds(),
			milliseconds(t.ValueAtQuantile(50)), milliseconds(t.ValueAtQuantile(99)), milliseconds(t.Max()),
		})
	}
	return operations, r.errors
}
