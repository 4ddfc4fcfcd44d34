package priorityriver

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ending"
)

// Settle calls Done, until the context ends, for documents whose jobs end without a worker,
// which River's middleware does not see: operators or an ErrorHandler cancel jobs, and
// River's rescuer discards a job whose worker was killed at the last attempt. Run it in a
// goroutine of one or more processes. Without it, such documents stay pending until their
// leases expire.
//
// It reads the jobs in the client's schema. The client need not be started.
func Settle[TTx any](ctx context.Context, client *river.Client[TTx], store priority.Store) {
	const longestLease = 24 * time.Hour
	ending.Settle(ctx, longestLease, func(since time.Time) error { return settle(ctx, client, store, since) })
}

// settle calls Done for the documents that ended without success since then and have no
// waiting job.
func settle[TTx any](ctx context.Context, client *river.Client[TTx], store priority.Store, since time.Time) error {
	ended := river.NewJobListParams().States(rivertype.JobStateDiscarded, rivertype.JobStateCancelled).
		Where("finalized_at > @since", river.NamedArgs{"since": since.UTC()}).First(100)
	for {
		page, err := client.JobList(ctx, ended)
		if err != nil {
			return err
		}
		for _, job := range page.Jobs {
			d, ok := documentOf(job.Metadata)
			if !ok {
				continue
			}
			if isWaiting, err := hasJob(ctx, client, d); err != nil {
				return err
			} else if isWaiting {
				continue
			}
			err := ending.Done(ctx, store, d.Customer, d.ID, 0)
			if errors.Is(err, priority.ErrNotCounted) || errors.Is(err, priority.ErrOutcomeUnknown) {
				return err // retry later; other errors concern only this document
			}
		}
		if page.LastCursor == nil {
			return nil
		}
		ended = ended.After(page.LastCursor)
	}
}

// hasJob reports whether a job of the document is waiting or running.
func hasJob[TTx any](ctx context.Context, client *river.Client[TTx], d document) (bool, error) {
	page, err := client.JobList(ctx, river.NewJobListParams().First(1).Where( // as SQLite knows it, too
		"metadata->'docpriority'->>'customer' = @customer AND metadata->'docpriority'->>'document' = @document",
		river.NamedArgs{"customer": d.Customer, "document": d.ID},
	).States(rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled))
	return err == nil && len(page.Jobs) > 0, err
}
