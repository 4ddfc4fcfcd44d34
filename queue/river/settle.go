package priorityriver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority"
)

const (
	settleEvery = 10 * time.Second
	maxLease    = 24 * time.Hour
)

// Settle calls Done, until the context ends, for documents whose jobs end without a worker,
// which River's middleware does not see: operators or an ErrorHandler cancel jobs, and
// River's rescuer discards a job whose worker was killed at the last attempt. Run it in a
// goroutine of one or more processes. Without it, such documents stay pending until their
// leases expire.
//
// It reads the jobs in the client's schema, on PostgreSQL only: River's SQLite cannot look for
// metadata. The client need not be started.
func Settle[TTx any](ctx context.Context, client *river.Client[TTx], store priority.Store) {
	since := time.Now().Add(-maxLease)
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for {
		now := time.Now()
		if err := settle(ctx, client, store, since); err == nil {
			since = now.Add(-time.Minute) // clocks differ; Done may be called twice
		} else if ctx.Err() == nil {
			slog.WarnContext(ctx, "priorityriver: given-up documents may count as pending", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// settle calls Done for the documents that ended without success since then and have no
// waiting job.
func settle[TTx any](ctx context.Context, client *river.Client[TTx], store priority.Store, since time.Time) error {
	ended := river.NewJobListParams().States(rivertype.JobStateDiscarded, rivertype.JobStateCancelled).
		Where("finalized_at > @since", river.NamedArgs{"since": since}).First(100)
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
			err := done(ctx, store, d, 0)
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
	fragment, err := json.Marshal(map[string]any{key: map[string]string{"customer": d.Customer, "document": d.ID}})
	if err != nil {
		return false, err
	}
	page, err := client.JobList(ctx, river.NewJobListParams().First(1).Metadata(string(fragment)).States(
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled))
	return err == nil && len(page.Jobs) > 0, err
}
