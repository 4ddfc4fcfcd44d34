package fleet

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// logger logs what operators should know.
type logger struct {
	*slog.Logger
	degraded  func() bool // whether the member is
	away      atomic.Bool // whether the log says that Redis does not decide
	unwritten bool        // whether the last report failed; only the writer uses it
}

// circuit returns an OnChange of package fallback that logs, and then calls next.
func (l *logger) circuit(next func(open bool, cause error)) func(open bool, cause error) {
	return func(open bool, cause error) {
		if open {
			l.away.Store(true)
			l.Warn("priority: Redis cannot be reached; levels are decided without it", "error", cause)
		} else {
			l.back()
		}
		if next != nil {
			next(open, cause)
		}
	}
}

// back logs that Redis decides again, unless the log already says so.
func (l *logger) back() {
	if l.away.Swap(false) {
		l.Info("priority: Redis decides levels again")
	}
}

// logInterval is the shortest time between two logged failures.
const logInterval = time.Minute

// failed returns an OnError of package fallback that logs, and then calls next.
func (l *logger) failed(next func(err error)) func(err error) {
	var corrupt, away quiet
	return func(err error) {
		switch {
		case errors.Is(err, priority.ErrCorrupt):
			if corrupt.ended() {
				l.Error("priority: a key is corrupt", "error", corruptOf(err))
			}
		case away.ended():
			l.away.Store(true)
			l.Warn("priority: Redis did not decide; this process does", "error", err)
		}
		if next != nil {
			next(err)
		}
	}
}

// quiet is a period in which nothing more is logged.
type quiet struct{ until atomic.Int64 } // its end, in nanoseconds of Unix time

// ended reports whether the period has ended, and if so begins another.
func (q *quiet) ended() bool {
	now, until := time.Now(), q.until.Load()
	return now.UnixNano() >= until && q.until.CompareAndSwap(until, now.Add(logInterval).UnixNano())
}

// corruptOf returns the error that names a corrupt key, which in a batch may not be the
// first error.
func corruptOf(err error) error {
	if batch := (*priority.BatchError)(nil); errors.As(err, &batch) {
		return batch.Errs[slices.IndexFunc(batch.Errs, func(err error) bool { return errors.Is(err, priority.ErrCorrupt) })]
	}
	return err
}

// following logs which policies are followed, and why newer ones are not.
func (l *logger) following(status control.Status) {
	switch {
	case status.Code == control.Lost:
		l.Error("priority: Redis lost what operators set; the known policies stay in force", "error", status.Err, "version", status.Version)
	case status.Code != "":
		l.Warn("priority: the operators' policies cannot be read or used; the known ones stay in force", "error", status.Err, "version", status.Version)
	case status.Own:
		l.Info("priority: operators have set no policies; the process's own options apply", "version", status.Version)
	default:
		l.Info("priority: the operators' policies are followed", "version", status.Version)
	}
}

// reports logs once that reports cannot be written, until one is written again. A written
// report also shows that Redis is back after failures too few to open the circuit.
func (l *logger) reports(err error) {
	switch {
	case err == nil && !l.degraded():
		l.back()
	case err != nil && !l.unwritten:
		l.Warn("priority: reports cannot be written", "error", err)
	}
	l.unwritten = err != nil
}
