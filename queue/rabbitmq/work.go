package priorityrabbitmq

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Work runs process on documents until ctx ends, and finishes the ones in progress. It
// survives every failure of the server, except that with New it ends when the connection
// does, with amqp.ErrClosed.
func (q *Queue) Work(ctx context.Context, process Process) error {
	var workers sync.WaitGroup
	ends := make([]error, q.options.Workers)
	for n := range ends {
		workers.Go(func() {
			for ctx.Err() == nil {
				err := q.consume(ctx, process)
				if errors.Is(err, errClosed) {
					ends[n] = err
					return
				}
				if err != nil {
					q.options.Logger.Warn("a worker connects again", "error", err)
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
func (q *Queue) consume(ctx context.Context, process Process) error {
	l, err := q.consuming.open(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	deliveries, end, err := q.subscribe(ctx, l)
	if err != nil {
		return err
	}
	defer end()
	for delivery := range deliveries {
		// When the channel is lost, another worker gets the document: stop.
		if err := q.serve(l.lost, l.lost, delivery, process); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	<-l.lost.Done()
	return context.Cause(l.lost)
}

// subscribe has the server send documents, one at a time, until the context ends. After
// end, only the caller sends requests on this line.
func (q *Queue) subscribe(ctx context.Context, l *line) (deliveries <-chan amqp.Delivery, end func(), err error) {
	defer hurry(l.connection)()
	if err := l.Qos(1, 0, false); err != nil { // prefetched documents cannot be reordered
		return nil, nil, err
	}
	var arguments amqp.Table
	if q.options.Quorum { // a classic queue may refuse it
		arguments = amqp.Table{"x-consumer-timeout": (q.options.Limit + time.Minute).Milliseconds()} // for RabbitMQ 4.3
	}
	const consumer, autoAck, exclusive, noLocal, noWait = "worker", false, false, false, false
	if deliveries, err = l.Consume(q.name, consumer, autoAck, exclusive, noLocal, noWait, arguments); err != nil {
		return nil, nil, err
	}
	// Not ConsumeWithContext: its cancellation may consume the reply to Close.
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
