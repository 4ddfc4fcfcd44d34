package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
)

const (
	system         = "asynq" // in spans
	taskType       = "document"
	customerHeader = "customer"
	documentHeader = "document"

	pause = 200 * time.Millisecond // before the next attempt to reach Redis
	grace = 10 * time.Second       // for a process to obey the end of its context
)

// Produce gives a customer's document its level and puts it into the level's queue.
// It goes on until the queue has it for certain, or the context ends: the queue may
// then have it or not, and the document is sent again under the same id.
func (d *Documents) Produce(ctx context.Context, customer, document string, body []byte) (err error) {
	if !utf8.ValidString(customer) || !utf8.ValidString(document) {
		return fmt.Errorf("produce document %q of %q: asynq carries both as text, which has to be UTF-8", document, customer)
	}
	ctx, headers, end := priorityotel.StartSend(ctx, system, d.options.Name)
	defer func() { end(err) }()
	headers[customerHeader], headers[documentHeader] = customer, document
	decision, err := d.store.Submit(ctx, customer, document, float64(len(body)))
	if err != nil {
		return fmt.Errorf("produce document %q of %q: %w", document, customer, err)
	}
	task := asynq.NewTaskWithHeaders(taskType, body, headers,
		asynq.Queue(queue.Name(d.options.Name, decision.Level, d.store.Last())),
		asynq.TaskID(rand.Text()),                        // of this sending: see below
		asynq.MaxRetry(math.MaxInt32),                    // serve counts the tries, and says Done after the last
		asynq.Timeout(d.options.Limit+grace+time.Second), // whole seconds; without one asynq has 30 minutes
	)
	for {
		_, err := d.client.EnqueueContext(ctx, task)
		// A conflict: an attempt whose reply was lost has put the document there. The id
		// is not the document's, which would conflict with one in the archive as well,
		// and would not with one of another level, as each queue has ids of its own.
		if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
			return nil
		}
		d.options.Logger.Warn("a document could not be sent, trying again", "document", document, "error", err)
		if sleep(ctx, pause) != nil {
			return fmt.Errorf("produce document %q of %q: %w (%w)", document, customer, ctx.Err(), err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
