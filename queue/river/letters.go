package priorityriver

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/queue"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Letter is a job that River has given up: one of its discarded jobs.
type Letter struct {
	Customer, Document string    // empty for a job without a customer
	Reason             string    // of the last failure
	Tries              int       // attempts
	At                 time.Time // when it was given up

	Job *rivertype.JobRow
}

// Letters are the jobs that have ended without success, for operators and for jobs that
// end without a worker.
type Letters[TTx any] struct {
	client *river.Client[TTx]
	store  priority.Store
}

// LettersOf returns what there is to do about the jobs of the client's schema. The
// client need not be started. It panics if the client or the store is nil.
func LettersOf[TTx any](client *river.Client[TTx], store priority.Store) *Letters[TTx] {
	if client == nil || typednil.Is(store) {
		panic("priorityriver: LettersOf needs a client and a store")
	}
	return &Letters[TTx]{client, store}
}

// Dead returns all discarded jobs, those that were given up first in front. River deletes
// them after a week; see river.Config.DiscardedJobRetentionPeriod.
func (l *Letters[TTx]) Dead(ctx context.Context) ([]Letter, error) {
	var dead []Letter
	err := l.list(ctx, river.NewJobListParams().States(rivertype.JobStateDiscarded), func(job *rivertype.JobRow) error {
		dead = append(dead, letter(job))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("priorityriver: list the discarded jobs: %w", err)
	}
	return dead, nil
}

func letter(job *rivertype.JobRow) Letter {
	of, _ := documentOf(job.Metadata)
	one := Letter{Customer: of.Customer, Document: of.ID, Tries: job.Attempt, Job: job}
	if n := len(job.Errors); n > 0 {
		one.Reason = job.Errors[n-1].Error
	}
	if job.FinalizedAt != nil {
		one.At = *job.FinalizedAt
	}
	return one
}

// Retry has River work on the job again, with all its attempts, and with the priority
// that its customer's documents get now. It is the same job, so there are never two. If
// the job is not given up any more, because another operator has retried it, the error
// is [rivertype.ErrNotFound].
//
// It takes the SQL of PostgreSQL.
func (l *Letters[TTx]) Retry(ctx context.Context, letter Letter) (err error) {
	if letter.Job == nil {
		return fmt.Errorf("priorityriver: retry: %w", rivertype.ErrNotFound)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("priorityriver: retry job %d: %w", letter.Job.ID, err)
		}
	}()
	tx, err := l.client.Driver().GetExecutor().Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	var metadata []byte
	again := tx.QueryRow(ctx, "UPDATE "+l.table()+` SET state = 'available', attempt = 0, errors = NULL, finalized_at = NULL,
		scheduled_at = now(), metadata = metadata - 'cancel_attempted_at'
		WHERE id = $1 AND state IN ('discarded', 'cancelled') RETURNING metadata`, letter.Job.ID)
	if err := again.Scan(&metadata); errors.Is(err, sql.ErrNoRows) {
		return rivertype.ErrNotFound
	} else if err != nil {
		return err
	}
	of, ok := documentOf(metadata)
	if !ok {
		return tx.Commit(ctx)
	}
	decision, err := l.store.Submit(ctx, of.Customer, of.ID, of.Cost)
	if err == nil {
		level := queue.River(decision.Level, l.store.Last())
		err = tx.Exec(ctx, "UPDATE "+l.table()+" SET priority = $2 WHERE id = $1", letter.Job.ID, level)
	} else {
		err = fmt.Errorf("%w: %w", ErrSubmit, err)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		_ = done(ctx, l.store, of, 0)
	}
	return err
}

// table is the full name of River's jobs. River allows a schema only letters, digits and
// underscores.
func (l *Letters[TTx]) table() string {
	if schema := l.client.Schema(); schema != "" {
		return `"` + strings.ReplaceAll(schema, `"`, `""`) + `".river_job`
	}
	return "river_job"
}

const (
	settleEvery = 10 * time.Second
	longest     = 24 * time.Hour // no lease is longer
)

// Settle says Done, until the context ends, for documents whose jobs end without a
// worker, of which River tells no middleware: operators cancel jobs, an ErrorHandler does,
// and River's rescuer discards a job whose worker was killed at the last attempt. Run it in
// a goroutine of one process or of several. Without it, such documents count as pending
// until their leases end.
func (l *Letters[TTx]) Settle(ctx context.Context) {
	since := time.Now().Add(-longest)
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for {
		now := time.Now()
		if err := l.settle(ctx, since); err == nil {
			since = now.Add(-time.Minute) // clocks differ; Done may be said twice
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

// settle says Done for the documents that ended without success since then, and have no
// job that waits.
func (l *Letters[TTx]) settle(ctx context.Context, since time.Time) error {
	idle := make(map[string]bool) // customers without anything pending
	ended := river.NewJobListParams().States(rivertype.JobStateDiscarded, rivertype.JobStateCancelled).
		Where("finalized_at > @since", river.NamedArgs{"since": since})
	return l.list(ctx, ended, func(job *rivertype.JobRow) error {
		of, ok := documentOf(job.Metadata)
		if !ok || idle[of.Customer] {
			return nil
		}
		if isIdle(ctx, l.store, of.Customer) {
			idle[of.Customer] = true
			return nil
		}
		again, err := l.isThereAgain(ctx, of)
		if err == nil && !again {
			err = settled(ctx, l.store, of)
		}
		return err
	})
}

// isIdle reports whether the customer has nothing pending. A fallback that answers in the
// place of Redis does not know.
func isIdle(ctx context.Context, store priority.Store, customer string) bool {
	state, err := store.Peek(ctx, customer)
	return err == nil && !state.Degraded && state.Pending == 0
}

// settled says Done. It returns an error that may be gone the next time; one that is the
// document's own or its customer's must not stop the others.
func settled(ctx context.Context, store priority.Store, of document) error {
	err := done(ctx, store, of, 0)
	if errors.Is(err, priority.ErrNotCounted) || errors.Is(err, priority.ErrOutcomeUnknown) {
		return err
	}
	return nil
}

func (l *Letters[TTx]) isThereAgain(ctx context.Context, of document) (bool, error) {
	same, err := json.Marshal(map[string]any{key: map[string]string{"customer": of.Customer, "document": of.ID}})
	if err != nil {
		return false, err
	}
	found, err := l.client.JobList(ctx, river.NewJobListParams().First(1).Metadata(string(same)).States(
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled))
	return err == nil && len(found.Jobs) > 0, err
}

// list calls each for all jobs that are selected.
func (l *Letters[TTx]) list(ctx context.Context, selected *river.JobListParams, each func(*rivertype.JobRow) error) error {
	for page := selected.First(100); ; {
		found, err := l.client.JobList(ctx, page)
		if err != nil {
			return err
		}
		for _, job := range found.Jobs {
			if err := each(job); err != nil {
				return err
			}
		}
		if found.LastCursor == nil {
			return nil
		}
		page = page.After(found.LastCursor)
	}
}
