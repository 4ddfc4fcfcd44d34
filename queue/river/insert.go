package priorityriver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	"github.com/riverqueue/river/rivertype"
)

// submitted is a customer's job that is being inserted.
type submitted struct {
	document
	index int // of its job
}

// InsertMany submits the documents of all jobs, in one call a customer, and inserts them.
// If the insert fails, the documents are no longer pending. If its transaction is rolled
// back later, they stay pending until their leases expire.
func (m *Middleware) InsertMany(
	ctx context.Context, jobs []*rivertype.JobInsertParams, insert func(context.Context) ([]*rivertype.JobInsertResult, error),
) (results []*rivertype.JobInsertResult, err error) {
	all := m.documentsOf(jobs)
	if len(all) == 0 {
		return insert(ctx)
	}
	for _, one := range all {
		job := jobs[one.index]
		if job.Metadata, err = one.into(job.Metadata); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSubmit, err)
		}
	}
	levels, over, err := m.submit(ctx, all)
	defer func() { m.end(ctx, over) }()
	if err != nil {
		return nil, err
	}
	over = slices.Clone(all) // unless the insert succeeds
	for i, one := range all {
		jobs[one.index].Priority = queue.River(levels[i], m.store.Last())
	}
	results, err = insert(ctx)
	if err == nil {
		over = slices.DeleteFunc(over, func(one submitted) bool {
			return one.index >= len(results) || isWaiting(results[one.index], one.document)
		})
	}
	return results, err
}

func (m *Middleware) documentsOf(jobs []*rivertype.JobInsertParams) (all []submitted) {
	for i, job := range jobs {
		customer, id, cost := m.customerOf(job)
		if customer == "" {
			job.Metadata = without(job.Metadata)
			continue
		}
		if id == "" {
			id = rand.Text()
		}
		all = append(all, submitted{document{Customer: customer, ID: id, Cost: cost}, i})
	}
	return all
}

// submit returns the level of each document. With an error it returns the documents that
// are pending nevertheless.
func (m *Middleware) submit(ctx context.Context, all []submitted) (levels []priority.Level, pending []submitted, err error) {
	levels = make([]priority.Level, len(all))
	for customer, places := range byCustomer(all) {
		ids, costs := make([]string, len(places)), make([]float64, len(places))
		for i, place := range places {
			ids[i], costs[i] = all[place].ID, all[place].Cost
		}
		decisions := make([]priority.Decision, 1)
		if len(ids) == 1 {
			decisions[0], err = m.store.Submit(ctx, customer, ids[0], costs[0])
		} else {
			decisions, err = m.store.SubmitN(ctx, customer, ids, costs)
		}
		for i, place := range places {
			if err == nil {
				levels[place] = decisions[i].Level
			}
			if len(ids) > 1 || !errors.Is(err, priority.ErrNotCounted) {
				pending = append(pending, all[place])
			}
		}
		if err != nil {
			return nil, pending, fmt.Errorf("%w: %w", ErrSubmit, err)
		}
	}
	return levels, nil, nil
}

// end calls Done for documents that no worker will see.
func (m *Middleware) end(ctx context.Context, over []submitted) {
	for customer, places := range byCustomer(over) {
		ids := make([]string, len(places))
		for i, place := range places {
			ids[i] = over[place].ID
		}
		saying, cancel := context.WithTimeout(context.WithoutCancel(ctx), doneTime)
		_, err := m.store.DoneN(saying, customer, ids, 0)
		cancel()
		if err != nil {
			slog.WarnContext(ctx, "priorityriver: documents count as pending until their leases end", "customer", customer, "error", err)
			return // the store is away: the others would only wait for it
		}
	}
}

// byCustomer yields each customer, ordered by first document, with the indexes of all their
// documents.
func byCustomer(all []submitted) iter.Seq2[string, []int] {
	return func(yield func(string, []int) bool) {
		var customers []string
		places := make(map[string][]int)
		for i, one := range all {
			if places[one.Customer] == nil {
				customers = append(customers, one.Customer)
			}
			places[one.Customer] = append(places[one.Customer], i)
		}
		for _, customer := range customers {
			if !yield(customer, places[customer]) {
				return
			}
		}
	}
}

// isWaiting reports whether a worker will call Done for the document: its job was inserted,
// or an earlier job of the same document has not ended. InsertManyFast does not report
// this, and leaves nil.
func isWaiting(result *rivertype.JobInsertResult, of document) bool {
	if result == nil || !result.UniqueSkippedAsDuplicate {
		return true
	}
	there, ok := documentOf(result.Job.Metadata)
	return ok && there.Customer == of.Customer && there.ID == of.ID && result.Job.FinalizedAt == nil
}
