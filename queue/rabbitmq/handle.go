package priorityrabbitmq

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/docpriority/priority/internal/ending"
)

// The headers of a document that has failed before, or that is a dead letter.
const (
	headerFailures   = "priority-failed"
	headerLosses     = "priority-lost"
	headerExchange   = "priority-exchange" // the first one, before it waited
	headerRoutingKey = "priority-routing-key"
	headerReason     = "priority-reason" // why it was given up
	headerTries      = "priority-tries"
	headerDeadAt     = "priority-dead-at"
)

// historyHeaders are those that a document gets on its way.
var historyHeaders = []string{headerFailures, headerLosses, headerExchange, headerRoutingKey, headerReason, headerTries, headerDeadAt}

const (
	maxLosses = 10               // a document that has lost so many workers or connections is given up
	moveTime  = 30 * time.Second // a server that hangs blocks no worker
)

// Handle runs process on a delivery and settles it: it calls Done, and then acknowledges. If
// process fails or panics, the delivery is acknowledged once RabbitMQ has confirmed that the
// document waits in the queue of its delay or is a dead letter. If ctx ends before process
// returns an error, the try does not count. Consume with autoAck false and Qos(n, 0, false) for
// n goroutines that call Handle: no urgent document can overtake what a consumer has prefetched.
//
// An error means that the delivery is not settled and the channel or connection is
// unusable: drop it, and RabbitMQ redelivers the document. Handle does not return errors of
// process.
func (q *Queue) Handle(ctx context.Context, delivery amqp.Delivery, process func(context.Context, amqp.Delivery) error) error {
	t := &task{Queue: q, delivery: &delivery, document: DocumentOf(delivery)}
	t.failures, t.losses = count(&delivery, headerFailures), count(&delivery, headerLosses)
	t.log = slog.With("customer", t.document.Customer, "document", t.document.ID)
	if delivery.Redelivered {
		// Its worker was lost, perhaps because of it: retried at once, it might take down
		// the next one. After a server crash, a classic queue marks all its documents so.
		t.losses++
		t.log.WarnContext(ctx, "priorityrabbitmq: a redelivered document", "lost", t.losses)
		return t.putAside(ctx, t.losses, maxLosses-1, fmt.Sprintf("lost %d times", t.losses))
	}

	began := time.Now()
	working, cancel := context.WithTimeout(ctx, q.options.Limit)
	err := run(working, process, original(delivery))
	cancel()
	if channel, ok := delivery.Acknowledger.(interface{ IsClosed() bool }); ok && channel.IsClosed() {
		return fmt.Errorf("priorityrabbitmq: the delivery's channel is lost: %w", amqp.ErrClosed) // another worker gets it
	}
	switch {
	case err != nil && ctx.Err() != nil:
		t.log.InfoContext(ctx, "priorityrabbitmq: a document was interrupted", "error", err)
		return t.putAside(ctx, 0, 0, "")
	case err != nil:
		t.failures++
		t.log.WarnContext(ctx, "priorityrabbitmq: a document failed", "times", t.failures, "error", err)
		return t.putAside(ctx, t.failures, len(q.options.Backoff), fmt.Sprintf("failed %d times: %v", t.failures, err))
	}
	t.done(ctx, time.Since(began)) // before the acknowledgement: a crash between the two leaves nothing pending
	return acknowledge(&delivery)
}

// task is a document in progress.
type task struct {
	*Queue
	delivery         *amqp.Delivery
	document         Document
	failures, losses int
	log              *slog.Logger
}

// putAside moves a document that has failed or was lost so many times to the queue of its
// delay, or to the dead letters if that is more than maxTimes.
func (t *task) putAside(ctx context.Context, times, maxTimes int, reason string) error {
	message := republished(t.delivery)
	backoff := t.options.Backoff
	to := t.retryQueue(backoff[min(max(times, 1), len(backoff))-1])
	if times > maxTimes {
		to = t.deadQueue()
		message.Headers[headerReason] = reason[:min(len(reason), 1000)] // headers must fit in a frame
		message.Headers[headerTries], message.Headers[headerDeadAt] = int64(t.failures+t.losses), time.Now()
	} else {
		// A dead letter has no counts, so it starts afresh if it is sent again.
		message.Headers[headerFailures], message.Headers[headerLosses] = int64(t.failures), int64(t.losses)
	}
	// Publish before acknowledging: a crash between the two duplicates the document.
	moving, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveTime)
	defer cancel()
	if err := t.publish(moving, "", to, message, nil); err != nil {
		return err
	}
	if times > maxTimes {
		t.log.ErrorContext(ctx, "priorityrabbitmq: a document is given up", "reason", reason)
		t.done(ctx, 0)
	}
	return acknowledge(t.delivery)
}

func (t *task) done(ctx context.Context, took time.Duration) {
	if t.document.Customer == "" {
		return
	}
	_ = ending.Done(ctx, t.store, t.document.Customer, t.document.ID, took)
}

func acknowledge(delivery *amqp.Delivery) error {
	if err := delivery.Ack(false); err != nil {
		return fmt.Errorf("priorityrabbitmq: acknowledge: %w", err)
	}
	return nil
}

// run calls process, and returns a panic as an error.
func run(ctx context.Context, process func(context.Context, amqp.Delivery) error, delivery amqp.Delivery) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return process(ctx, delivery)
}

// original returns a delivery as it was first published.
func original(delivery amqp.Delivery) amqp.Delivery {
	if key, ok := delivery.Headers[headerRoutingKey].(string); ok {
		delivery.Exchange, delivery.RoutingKey = text(&delivery, headerExchange), key
	}
	return delivery
}

// republished returns the message to publish again, without what the server added, other
// recipients (CC), its expiration, and a user id for which it would be refused.
func republished(delivery *amqp.Delivery) amqp.Publishing {
	headers := maps.Clone(delivery.Headers)
	if headers == nil {
		headers = make(amqp.Table)
	}
	maps.DeleteFunc(headers, func(name string, _ any) bool {
		return slices.Contains(historyHeaders, name) || slices.Contains([]string{"CC", "x-delivery-count", "x-acquired-count"}, name) ||
			strings.HasPrefix(name, "x-death") || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
	})
	first := original(*delivery)
	headers[headerExchange], headers[headerRoutingKey] = first.Exchange, first.RoutingKey
	return amqp.Publishing{
		Headers: headers, ContentType: delivery.ContentType, ContentEncoding: delivery.ContentEncoding,
		DeliveryMode: amqp.Persistent, Priority: delivery.Priority, CorrelationId: delivery.CorrelationId,
		ReplyTo: delivery.ReplyTo, MessageId: delivery.MessageId, Timestamp: delivery.Timestamp,
		Type: delivery.Type, AppId: delivery.AppId, Body: delivery.Body,
	}
}

func count(delivery *amqp.Delivery, header string) int {
	value, _ := delivery.Headers[header].(int64)
	return int(min(max(value, 0), math.MaxInt32)) // another program may have set it
}
