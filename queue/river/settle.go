package priorityriver

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
		documents := documentsOf(page.Jobs)
		waiting, err := thoseWaiting(ctx, client, documents)
		if err != nil {
			return err
		}
		for d := range documents {
			if waiting[d] {
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

// documentsOf returns the documents of jobs, without costs.
func documentsOf(jobs []*rivertype.JobRow) map[document]bool {
	documents := make(map[document]bool)
	for _, job := range jobs {
		if d, ok := documentOf(job.Metadata); ok {
			documents[document{Customer: d.Customer, ID: d.ID}] = true
		}
	}
	return documents
}

// thoseWaiting returns the documents of jobs that wait or run, among them all those of up to 100
// documents that do. It reads all such jobs once, as no index has a job's metadata.
func thoseWaiting[TTx any](ctx context.Context, client *river.Client[TTx], documents map[document]bool) (map[document]bool, error) {
	if len(documents) == 0 {
		return nil, nil
	}
	var names []string
	ids := make(river.NamedArgs)
	for d := range documents {
		name := fmt.Sprintf("document%02d", len(names)) // none is the beginning of another
		names, ids[name] = append(names, "@"+name), d.ID
	}
	where := "metadata->'docpriority'->>'document' IN (" + strings.Join(names, ", ") + ")" // SQLite knows it, too
	page, err := client.JobList(ctx, river.NewJobListParams().First(10_000).Where(where, ids).States(rivertype.JobStateAvailable,
		rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled))
	if err != nil {
		return nil, err
	}
	return documentsOf(page.Jobs), nil
}
