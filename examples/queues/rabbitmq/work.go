package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/priorityotel"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Process works on a document. With an error it is tried again, some time later.
type Process = func(ctx context.Context, customer, document string, body []byte) error

const (
	headerFailed = "failed" // how often
	headerLost   = "lost"   // how often
	headerReason = "reason" // why it was given up

	maxLosses = 10
	moveTime  = 30 * time.Second
	deafTime  = 10 * time.Second
)

// Work has process work on documents until the context ends, and on those that it
// has in hand to their end. It goes on through every trouble of the queue.
func (d *Documents) Work(ctx context.Context, process Process) error {
	var workers sync.WaitGroup
	ends := make([]error, d.options.Workers)
	for n := range ends {
		workers.Go(func() {
			for ctx.Err() == nil {
				err := d.consume(ctx, process)
				if errors.Is(err, errClosed) {
					ends[n] = err
					return
				}
				if err != nil {
					d.options.Logger.Warn("a worker connects again", "error", err)
					_ = sleep(ctx, pause)
				}
			}
		})
	}
	workers.Wait()
	return cmp.Or(ends...)
}

// consume works on one document at a time, until the context ends or the channel is
// lost. Each worker has a channel: when the server closes one, as it does after its
// consumer_timeout, the others go on.
func (d *Documents) consume(ctx context.Context, process Process) error {
	l, err := d.consuming.open(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	deliveries, end, err := d.subscribe(ctx, l)
	if err != nil {
		return err
	}
	defer end()
	for delivery := range deliveries {
		if err := d.serve(l, &delivery, process); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	<-l.lost.Done()
	return context.Cause(l.lost)
}

// subscribe has the server send documents, one at a time, until the context ends.
// After end, nothing but the caller asks the server on this line.
func (d *Documents) subscribe(ctx context.Context, l *line) (deliveries <-chan amqp.Delivery, end func(), err error) {
	defer hurry(l.connection)()
	if err := l.Qos(1, 0, false); err != nil { // what a worker was sent is out of the queue's order
		return nil, nil, err
	}
	var arguments amqp.Table
	if d.options.Quorum { // a classic queue may refuse it
		arguments = amqp.Table{"x-consumer-timeout": (d.options.Limit + time.Minute).Milliseconds()} // RabbitMQ 4.3 heeds it
	}
	const consumer, autoAck, exclusive, noLocal, noWait = "worker", false, false, false, false
	if deliveries, err = l.Consume(d.options.Name, consumer, autoAck, exclusive, noLocal, noWait, arguments); err != nil {
		return nil, nil, err
	}
	// Not by ConsumeWithContext: its cancellation may take the answer to Close.
	cancelled := make(chan struct{})
	keep := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		defer hurry(l.connection)()
		_ = l.Cancel(consumer, noWait)
	})
	return deliveries, func() {
		if !keep() {
			<-cancelled
		}
	}, nil
}

// serve works on a document and acknowledges it. An error is one of the channel:
// the server delivers the document again.
func (d *Documents) serve(l *line, delivery *amqp.Delivery, process Process) error {
	customer, document := text(delivery, headerCustomer), text(delivery, headerDocument)
	log := d.options.Logger.With("customer", customer, "document", document)
	failed, lost := count(delivery, headerFailed), count(delivery, headerLost)
	if err := priority.CheckDone(customer, []string{document}, 0); err != nil {
		return d.putAside(l.lost, delivery, failed, lost, 1, 0, fmt.Sprintf("not of Produce: %v", err))
	}
	if delivery.Redelivered {
		// Its worker was lost, perhaps because of it. At once it might take the next one.
		// After a crash of the server it waits, too: it has the new mark from then on.
		if d.options.Quorum || l.mark != "" && l.mark == text(delivery, headerMark) {
			lost++
		}
		reason := fmt.Sprintf("lost %d times", lost)
		log.Warn("a document comes back", "lost", lost)
		return d.putAside(l.lost, delivery, failed, lost, lost, cmp.Or(d.options.Losses, maxLosses)-1, reason)
	}

	began := time.Now()
	// When the channel is lost, another worker gets the document: stop.
	traced, end := priorityotel.StartProcess(l.lost, system, d.options.Name, traceOf(delivery))
	working, cancel := context.WithTimeout(traced, d.options.Limit)
	deaf := time.AfterFunc(d.options.Limit+deafTime, func() {
		log.Error("process is still at work after its context has ended")
	})
	err := run(working, process, customer, document, delivery.Body)
	defer func() { end(err) }()
	deaf.Stop()
	cancel()
	if l.lost.Err() != nil {
		return context.Cause(l.lost)
	}
	if err != nil {
		failed++
		log.Warn("a document failed", "times", failed, "error", err)
		return d.putAside(traced, delivery, failed, lost, failed, len(d.options.Backoff), fmt.Sprintf("failed %d times: %v", failed, err))
	}
	d.done(traced, customer, document, time.Since(began)) // before the acknowledgement: a crash between the two leaves nothing pending
	return delivery.Ack(false)
}

// putAside moves a document to the queue where it waits, or to the dead ones when
// it was in trouble more often than it may be.
func (d *Documents) putAside(ctx context.Context, delivery *amqp.Delivery, failed, lost, times, most int, reason string) error {
	message := amqp.Publishing{Priority: delivery.Priority, DeliveryMode: amqp.Persistent, Body: delivery.Body}
	customer, document := text(delivery, headerCustomer), text(delivery, headerDocument)
	message.Headers = amqp.Table{headerCustomer: customer, headerDocument: document}
	for name, value := range traceOf(delivery) {
		message.Headers[name] = value
	}
	backoff := d.options.Backoff
	to := d.retry(backoff[min(max(times, 1), len(backoff))-1])
	if times > most {
		to = d.dead()
		message.Headers[headerReason] = reason[:min(len(reason), 1000)] // headers have to fit a frame; no counts: put back, it starts afresh
	} else {
		message.Headers[headerFailed], message.Headers[headerLost] = int64(failed), int64(lost)
	}
	// First there, then no longer here: a crash between the two leaves two of it.
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	if err := d.publish(ctx, to, message); err != nil {
		return err
	}
	if times > most {
		d.options.Logger.Error("a document is given up", "customer", customer, "document", document, "reason", reason)
		d.done(ctx, customer, document, 0)
	}
	return delivery.Ack(false)
}

func (d *Documents) done(ctx context.Context, customer, document string, took time.Duration) {
	if err := d.store.Done(context.WithoutCancel(ctx), customer, document, took); err != nil {
		d.options.Logger.Warn("a document counts as pending until its lease ends", "customer", customer, "document", document, "error", err)
	}
}

// run calls process. A panic is an error.
func run(ctx context.Context, process Process, customer, document string, body []byte) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return process(ctx, customer, document, body)
}

func count(delivery *amqp.Delivery, header string) int {
	value, _ := delivery.Headers[header].(int64)
	return int(min(max(value, 0), math.MaxInt32)) // whatever somebody else has put there
}
