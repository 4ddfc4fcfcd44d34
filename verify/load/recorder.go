package main

import (
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/docpriority/priority"
)

// recorder notes how long calls took and how they failed.
type recorder struct {
	mu         *sync.Mutex
	operations []*recorded
	failures   []*failures
}

// recorded are the calls of one operation.
type recorded struct {
	name  string
	times *hdrhistogram.Histogram // µs
}

// failures are the errors of one class.
type failures struct {
	class error
	name  string
	n     int
	first error
}

func newRecorder() recorder {
	r := recorder{mu: new(sync.Mutex)}
	for _, name := range []string{"Next", "NextN", "NextEach", "Submit", "Done", "Peek"} {
		r.operations = append(r.operations, &recorded{name: name, times: newHistogram()})
	}
	for _, class := range []struct {
		name string
		err  error
	}{
		{"not counted", priority.ErrNotCounted},
		{"outcome unknown", priority.ErrOutcomeUnknown},
		{"corrupt count", priority.ErrCorruptCount},
		{"invalid", priority.ErrInvalid},
		{"other", nil},
	} {
		r.failures = append(r.failures, &failures{class: class.err, name: class.name})
	}
	return r
}

const longestCall = time.Minute

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longestCall.Microseconds(), 3)
}

// note notes a call. Of a NextEach each entry that failed is an error.
func (r *recorder) note(operation string, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.operations {
		if o.name == operation {
			_ = o.times.RecordValue(min(took, longestCall).Microseconds())
		}
	}
	if err == nil {
		return
	}
	errs := []error{err}
	if batch, ok := errors.AsType[*priority.BatchError](err); ok {
		errs = batch.Unwrap()
	}
	for _, err := range errs {
		r.fail(err)
	}
}

func (r *recorder) fail(err error) {
	for _, f := range r.failures {
		if f.class == nil || errors.Is(err, f.class) {
			if f.n++; f.n == 1 {
				f.first = err
			}
			return
		}
	}
}

// totals returns how many calls and errors there were so far.
func (r *recorder) totals() (calls int64, errs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.operations {
		calls += o.times.TotalCount()
	}
	for _, f := range r.failures {
		errs += f.n
	}
	return calls, errs
}

// summarize returns the operations, all of them together last, and the classes
// of errors that there were.
func (r *recorder) summarize(seconds float64) ([]operationReport, []errorReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var operations []operationReport
	all := newHistogram()
	for _, o := range r.operations {
		operations = append(operations, summary(o.name, o.times, seconds))
		all.Merge(o.times)
	}
	operations = append(operations, summary("all", all, seconds))
	errs := []errorReport{}
	for _, f := range r.failures {
		if f.n > 0 {
			errs = append(errs, errorReport{Class: f.name, Errors: f.n, First: f.first.Error()})
		}
	}
	return operations, errs
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func summary(name string, times *hdrhistogram.Histogram, seconds float64) operationReport {
	ms := func(us int64) float64 { return milliseconds(time.Duration(us) * time.Microsecond) }
	return operationReport{
		Operation: name,
		Calls:     times.TotalCount(),
		Rate:      float64(times.TotalCount()) / seconds,
		P50:       ms(times.ValueAtQuantile(50)),
		P90:       ms(times.ValueAtQuantile(90)),
		P99:       ms(times.ValueAtQuantile(99)),
		P999:      ms(times.ValueAtQuantile(99.9)),
		Max:       ms(times.Max()),
	}
}
