package priorityriver

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority/internal/ending"
)

var errPanicked = errors.New("priorityriver: the worker has panicked")

// Work calls Done before River records the job's end. So a crash in between repeats the
// document, but leaves nothing pending.
func (m *Middleware) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) (err error) {
	d, ok := documentOf(job.Metadata)
	if !ok {
		return work(ctx)
	}
	began := time.Now()
	err = errPanicked // unless work returns; River recovers
	defer func() {
		if isOver(ctx, job, err) {
			_ = ending.Done(ctx, m.store, d.Customer, d.ID, time.Since(began))
		}
	}()
	err = work(ctx)
	return err
}

// isOver reports whether River will not retry the job, by River's own rules.
func isOver(ctx context.Context, job *rivertype.JobRow, err error) bool {
	cancelled, snoozed := (*rivertype.JobCancelError)(nil), (*rivertype.JobSnoozeError)(nil)
	switch {
	case err == nil:
		return true
	case err != errPanicked && errors.Is(context.Cause(ctx), rivertype.ErrJobCancelledRemotely):
		return true
	case errors.As(err, &snoozed):
		return false
	case errors.As(err, &cancelled):
		return true
	case isStopped(ctx, err):
		return false
	default:
		return job.Attempt >= job.MaxAttempts
	}
}

// isStopped reports whether the client is stopping without waiting for the job, which is
// then no attempt. The cause is an error that River does not export.
func isStopped(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	if cause == nil || cause == context.Canceled || cause == context.DeadlineExceeded {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, cause)
}
