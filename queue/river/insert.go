package priorityriver

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ending"
	"github.com/docpriority/priority/queue"
)

// submission is the document of a job that is being inserted.
type submission struct {
	document
	job   int // its index
	delay time.Duration
}

// InsertMany submits the documents of all jobs, in one call a customer, and inserts them. One
// whose job has a ScheduledAt counts from then on.
// If the store fails, or a name or the metadata is invalid, no job is inserted. If the
// insert fails, the documents are no longer pending. If its transaction is rolled back
// later, they stay pending until their leases expire.
func (m *Middleware) InsertMany(
	ctx context.Context, jobs []*rivertype.JobInsertParams, insert func(context.Context) ([]*rivertype.JobInsertResult, error),
) (results []*rivertype.JobInsertResult, err error) {
	submissions := m.submissionsOf(jobs)
	if len(submissions) == 0 {
		return insert(ctx)
	}
	for _, s := range submissions {
		if jobs[s.job].Metadata, err = s.addTo(jobs[s.job].Metadata); err != nil {
			return nil, err
		}
	}
	levels, orphans, err := m.submit(ctx, submissions)
	defer func() { m.doneAll(ctx, orphans) }()
	if err != nil {
		return nil, err
	}
	for i, s := range submissions {
		jobs[s.job].Priority = queue.River(levels[i], m.store.Last())
	}
	orphans = slices.Clone(submissions) // also if insert panics
	results, err = insert(ctx)
	if err == nil {
		orphans = slices.DeleteFunc(orphans, func(s submission) bool {
			return s.job >= len(results) || isWaiting(results[s.job], s.document)
		})
	}
	return results, err
}

func (m *Middleware) submissionsOf(jobs []*rivertype.JobInsertParams) (submissions []submission) {
	now := time.Now() // one for all: those of the same time are due at the same time
	for i, job := range jobs {
		customer, id, cost := m.customerOf(job)
		if customer == "" {
			job.Metadata = plainMetadata(job.Metadata)
			continue
		}
		if id == "" {
			id = rand.Text()
		}
		var delay time.Duration
		if job.ScheduledAt != nil {
			delay = min(max(job.ScheduledAt.Sub(now), 0), priority.MaxDelay)
		}
		submissions = append(submissions, submission{document{Customer: customer, ID: id, Cost: cost}, i, delay})
	}
	return submissions
}

// submit returns the level of each document. With an error it returns the documents that may
// be pending although their jobs will not be inserted.
func (m *Middleware) submit(ctx context.Context, submissions []submission) (levels []priority.Level, orphans []submission, err error) {
	levels = make([]priority.Level, len(submissions))
	for customer, indexes := range byCustomer(submissions) {
		documents := make([]priority.Document, len(indexes))
		for i, index := range indexes {
			s := submissions[index]
			documents[i] = priority.Document{ID: s.ID, Cost: s.Cost, Delay: s.delay}
		}
		decisions := make([]priority.Decision, 1)
		if len(documents) == 1 {
			decisions[0], err = m.store.Submit(ctx, customer, documents[0])
		} else {
			decisions, err = m.store.SubmitN(ctx, customer, documents)
		}
		for i, index := range indexes {
			if err == nil {
				levels[index] = decisions[i].Level
			}
			if len(documents) > 1 || !errors.Is(err, priority.ErrNotCounted) {
				orphans = append(orphans, submissions[index])
			}
		}
		if err != nil {
			return nil, orphans, err
		}
	}
	return levels, nil, nil
}

// doneAll calls Done for documents that no worker will see.
func (m *Middleware) doneAll(ctx context.Context, orphans []submission) {
	for customer, indexes := range byCustomer(orphans) {
		ids := make([]string, len(indexes))
		for i, index := range indexes {
			ids[i] = orphans[index].ID
		}
		bounded, cancel := ending.Context(ctx)
		_, err := m.store.DoneN(bounded, customer, ids, 0)
		cancel()
		if err != nil {
			slog.WarnContext(ctx, "priorityriver: documents count as pending until their leases end", "customer", customer, "error", err)
			return // the store is away: the others would only wait for it
		}
	}
}

// byCustomer yields each customer, ordered by first document, with the indexes of all their
// documents.
func byCustomer(submissions []submission) iter.Seq2[string, []int] {
	return func(yield func(string, []int) bool) {
		var customers []string
		indexes := make(map[string][]int)
		for i, s := range submissions {
			if indexes[s.Customer] == nil {
				customers = append(customers, s.Customer)
			}
			indexes[s.Customer] = append(indexes[s.Customer], i)
		}
		for _, customer := range customers {
			if !yield(customer, indexes[customer]) {
				return
			}
		}
	}
}

// isWaiting reports whether a worker will call Done for the document: its job was inserted,
// or an earlier job of the same document has not ended. InsertManyFast does not report
// this, and leaves nil.
func isWaiting(result *rivertype.JobInsertResult, d document) bool {
	if result == nil || !result.UniqueSkippedAsDuplicate {
		return true
	}
	existing, ok := documentOf(result.Job.Metadata)
	return ok && existing.Customer == d.Customer && existing.ID == d.ID && result.Job.FinalizedAt == nil
}
