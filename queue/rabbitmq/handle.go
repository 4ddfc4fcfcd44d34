package priorityrabbitmq

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Process works on a document. After an error it is retried later. A panic counts as an
// error. If ctx ends before it returns an error, the try does not count.
type Process = func(ctx context.Context, delivery amqp.Delivery) error

const (
	headerFailed   = "priority-failed" // how often
	headerLost     = "priority-lost"   // how often
	headerExchange = "priority-exchange"
	headerKey      = "priority-routing-key" // what it was published with, before it waited
	headerReason   = "priority-reason"      // why it was given up
	headerTries    = "priority-tries"
	headerAt       = "priority-dead-at"

	moveTime = 30 * time.Second
	deafTime = 10 * time.Second
	doneTime = 5 * time.Second // a store that hangs blocks no worker
)

// Handle runs process on a delivery and settles it: it calls Done, and then acknowledges. If
// process fails, the delivery is acknowledged once RabbitMQ has confirmed that the document waits
// in the queue of its delay or is a dead letter. Consume with autoAck false and Qos(1, 0, false):
// no urgent document can overtake what a consumer has prefetched.
//
// An error means that the delivery is not settled and the channel or connection is
// unusable: drop it, and RabbitMQ redelivers the document. Handle does not return errors of
// process.
func (q *Queue) Handle(ctx context.Context, delivery amqp.Delivery, process Process) error {
	return q.serve(ctx, context.Background(), delivery, process)
}

// serve is Handle on a channel whose loss ends the context lost.
func (q *Queue) serve(ctx, lost context.Context, delivery amqp.Delivery, process Process) error {
	t := &task{Queue: q, delivery: &delivery, document: Of(delivery), lost: lost}
	t.failures, t.losses = count(&delivery, headerFailed), count(&delivery, headerLost)
	log := q.options.Logger.With("customer", t.document.Customer, "document", t.document.ID)
	if delivery.Redelivered {
		// Its worker was lost, perhaps because of it: retried at once, it might take down
		// the next one. After a server crash, a classic queue marks all its documents so.
		t.losses++
		log.Warn("a redelivered document", "lost", t.losses)
		return t.putAside(ctx, t.losses, q.options.Losses-1, fmt.Sprintf("lost %d times", t.losses))
	}

	began := time.Now()
	working, cancel := context.WithTimeout(ctx, q.options.Limit)
	deaf := time.AfterFunc(q.options.Limit+deafTime, func() {
		log.Error("process is still at work after its context has ended")
	})
	err := run(working, process, original(delivery))
	deaf.Stop()
	cancel()
	if lost := t.isLost(); lost != nil {
		return lost
	}
	switch {
	case err != nil && ctx.Err() != nil:
		log.Info("a document was interrupted", "error", err)
		return t.putAside(ctx, 0, 0, "")
	case err != nil:
		t.failures++
		log.Warn("a document failed", "times", t.failures, "error", err)
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
	lost             context.Context
}

// isLost returns why the channel is lost, and nil if it is not.
func (t *task) isLost() error {
	channel, ok := t.delivery.Acknowledger.(interface{ IsClosed() bool })
	switch {
	case t.lost.Err() != nil:
		return context.Cause(t.lost)
	case ok && channel.IsClosed():
		return fmt.Errorf("priorityrabbitmq: the delivery's channel is lost: %w", amqp.ErrClosed)
	}
	return nil
}

// putAside moves a document to the queue of its delay, or to the dead letters if it has
// used up its tries.
func (t *task) putAside(ctx context.Context, times, most int, reason string) error {
	message := again(t.delivery)
	backoff := t.options.Backoff
	to := t.retryQueue(backoff[min(max(times, 1), len(backoff))-1])
	if times > most {
		to = t.deadQueue()
		message.Headers[headerReason] = reason[:min(len(reason), 1000)] // headers must fit in a frame
		message.Headers[headerTries], message.Headers[headerAt] = int64(t.failures+t.losses), time.Now()
	} else {
		// A dead letter has no counts, so it starts afresh if it is sent again.
		message.Headers[headerFailed], message.Headers[headerLost] = int64(t.failures), int64(t.losses)
	}
	// Publish before acknowledging: a crash between the two duplicates the document.
	moving, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveTime)
	defer cancel()
	defer context.AfterFunc(t.lost, cancel)()
	if err := t.send(moving, "", to, message); err != nil {
		return err
	}
	if times > most {
		t.options.Logger.Error("a document is given up", "customer", t.document.Customer, "document", t.document.ID, "reason", reason)
		t.done(ctx, 0)
	}
	return acknowledge(t.delivery)
}

func (t *task) done(ctx context.Context, took time.Duration) {
	if t.document.Customer == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), doneTime)
	defer cancel()
	if _, err := t.store.Done(ctx, t.document.Customer, t.document.ID, took); err != nil {
		t.options.Logger.Warn("a document counts as pending until its lease ends",
			"customer", t.document.Customer, "document", t.document.ID, "error", err)
	}
}

func acknowledge(delivery *amqp.Delivery) error {
	if err := delivery.Ack(false); err != nil {
		return fmt.Errorf("priorityrabbitmq: acknowledge: %w", err)
	}
	return nil
}

// run calls process. A panic is an error.
func run(ctx context.Context, process Process, delivery amqp.Delivery) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return process(ctx, delivery)
}

// original returns a delivery as it was first published.
func original(delivery amqp.Delivery) amqp.Delivery {
	if key, ok := delivery.Headers[headerKey].(string); ok {
		delivery.Exchange, delivery.RoutingKey = text(&delivery, headerExchange), key
	}
	return delivery
}

// again returns the message to republish, without what the server added, other recipients
// (CC), its expiration, and a user id for which it would be refused.
func again(delivery *amqp.Delivery) amqp.Publishing {
	headers := maps.Clone(delivery.Headers)
	if headers == nil {
		headers = make(amqp.Table)
	}
	maps.DeleteFunc(headers, func(name string, _ any) bool {
		return slices.Contains([]string{"CC", "x-delivery-count", "x-acquired-count", headerReason, headerTries, headerAt, headerFailed, headerLost}, name) ||
			strings.HasPrefix(name, "x-death") || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
	})
	before := original(*delivery)
	headers[headerExchange], headers[headerKey] = before.Exchange, before.RoutingKey
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
