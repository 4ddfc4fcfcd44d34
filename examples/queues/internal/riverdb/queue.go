package riverdb

import (
	"context"
	"errors"

	"github.com/docpriority/priority/examples/queues/internal/program"
	priorityriver "github.com/docpriority/priority/queue/river"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Queue is a program.Queue of a client, which has a worker that calls DB.Process.
type Queue struct {
	*DB
	Client *river.Client[pgx.Tx]
	Insert func(ctx context.Context, customer, document string, body []byte) error
}

// Letters are the jobs that were given up.
func (q *Queue) Letters() *priorityriver.Letters[pgx.Tx] {
	return priorityriver.LettersOf(q.Client, q.Store)
}

// Produce inserts a document, as often as that takes.
func (q *Queue) Produce(ctx context.Context, customer, document string, body []byte) error {
	return program.Insist(ctx, q.Logger, func(ctx context.Context) error {
		return q.Insert(ctx, customer, document, body)
	}, func(err error) bool { return errors.Is(err, priorityriver.ErrSubmit) })
}

// Work works until the context ends. The client is not to see that: to River it is to
// stop without waiting for the documents in hand.
func (q *Queue) Work(ctx context.Context, process program.Process) error {
	q.Process = process
	err := program.Insist(ctx, q.Logger, func(limited context.Context) error {
		if err := q.Pool.Ping(limited); err != nil {
			return err
		}
		return q.Client.Start(context.WithoutCancel(ctx))
	}, func(error) bool { return false })
	if err != nil {
		return nil // the context has ended
	}
	q.Letters().Settle(ctx)
	return q.Client.Stop(context.WithoutCancel(ctx))
}

// Dead returns the documents that were given up.
func (q *Queue) Dead(ctx context.Context) ([]string, error) {
	letters, err := q.Letters().Dead(ctx)
	var dead []string
	for _, letter := range letters {
		dead = append(dead, letter.Document)
	}
	return dead, err
}
