package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/queue"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/propagation"
)

// Options of a queue. Producers and consumers have the same: what a queue was
// declared with cannot be changed.
type Options struct {
	Name      string          // of the queue; the names of the others begin with it
	Workers   int             // documents at a time in this process
	Limit     time.Duration   // how long a document may take: less than the server's consumer_timeout, which is 30 minutes
	Backoff   []time.Duration // how long a document waits after its first failure, after its second, …; then it is given up
	Losses    int             // a document that was lost with its worker, or its connection, as often is given up; 0: 10
	MaxLength int             // with as many documents in the queue, Produce waits; 0: it takes all
	Quorum    bool            // a replicated queue; RabbitMQ 4.0 or later
	Logger    *slog.Logger
}

// Documents is a queue of RabbitMQ with a priority for each level. Beside it are a
// queue for each delay of Backoff, and one of the documents that were given up.
type Documents struct {
	store     priority.Store
	options   *Options
	producing *link // of its own: a server short of memory stops reading from those that publish
	consuming *link
	idle      chan *line // of producing
}

// Open connects, and declares the queues where they do not exist.
func Open(ctx context.Context, url string, store priority.Store, options *Options) (*Documents, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	d := &Documents{store: store, options: options, idle: make(chan *line, 16)}
	d.producing = &link{url: url, name: options.Name + " produce", prepare: d.declare}
	d.consuming = &link{url: url, name: options.Name + " work", prepare: d.declare}
	if !options.Quorum { // which calls redelivered what was delivered, and nothing else
		d.producing.boot, d.consuming.boot = d.boot(), d.boot()
	}
	first, err := d.producing.open(ctx)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.putBack(first)
	return d, nil
}

// check refuses what cannot work.
func (o *Options) check() error {
	var wrong string
	switch {
	case o.Name == "":
		wrong = "Name is empty"
	case o.Workers < 1:
		wrong = fmt.Sprintf("Workers is %d, not 1 or more", o.Workers)
	case o.Limit <= 0:
		wrong = fmt.Sprintf("Limit is %v, not more than 0", o.Limit)
	case len(o.Backoff) == 0:
		wrong = "Backoff is empty: a document whose worker was lost has to wait somewhere"
	case o.Logger == nil:
		wrong = "Logger is nil"
	default:
		return nil
	}
	return fmt.Errorf("rabbitmq: %w: %s", priority.ErrInvalidOption, wrong)
}

// Produce gives a customer's document its level and puts it into the queue. It goes
// on until RabbitMQ has confirmed it, or the context ends. The queue may have it
// twice then, for a confirmation can be lost.
func (d *Documents) Produce(ctx context.Context, customer, document string, body []byte) (err error) {
	ctx, headers, end := priorityotel.StartSend(ctx, system, d.options.Name)
	defer func() { end(err) }()
	decision, err := d.store.Submit(ctx, customer, document, float64(len(body)))
	if err != nil {
		return err
	}
	message := amqp.Publishing{
		// Headers take any bytes. A message's own id takes 255 of them.
		Headers:      amqp.Table{headerCustomer: customer, headerDocument: document},
		Priority:     d.priority(decision.Level),
		DeliveryMode: amqp.Persistent,
		Body:         body,
	}
	for name, value := range headers {
		message.Headers[name] = value
	}
	err = d.publish(ctx, d.options.Name, message)
	if isRefused(err) {
		err = errors.Join(err, d.store.Done(ctx, customer, document, 0))
	}
	return err
}

const (
	system = "rabbitmq" // in spans

	headerCustomer = "customer"
	headerDocument = "document"
	headerMark     = "boot" // of the server's run in which it was published
	pause          = time.Second / 2
)

func (d *Documents) priority(level priority.Level) uint8 {
	last := d.store.Last()
	if d.options.Quorum {
		return queue.RabbitMQQuorum(level, last)
	}
	return queue.RabbitMQ(level, last, queue.RabbitMQMaxPriority(last))
}

// publish returns nil when RabbitMQ has written the message to a queue. It tries
// until then, or until the context ends.
func (d *Documents) publish(ctx context.Context, to string, message amqp.Publishing) error {
	var err error
	for ctx.Err() == nil {
		tried := make(chan error, 1)
		go func() { tried <- d.tryToPublish(ctx, to, message) }() // a server that reads nothing holds it up
		select {
		case err = <-tried:
			if err == nil || isRefused(err) || errors.Is(err, errClosed) {
				return err
			}
			d.options.Logger.Warn("a document could not be published", "queue", to, "error", err)
			_ = sleep(ctx, pause)
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("rabbitmq: publish to %s: %w", to, errors.Join(context.Cause(ctx), err))
}

// isRefused tells what stays refused, as a body that is too long, and a queue that
// was declared otherwise.
func isRefused(err error) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && refused.Code == amqp.PreconditionFailed
}

func (d *Documents) tryToPublish(ctx context.Context, to string, message amqp.Publishing) error {
	var l *line
	select {
	case l = <-d.idle:
	default:
	}
	if l == nil || l.IsClosed() {
		var err error
		if l, err = d.producing.open(ctx); err != nil {
			return err
		}
	}
	message.Headers[headerMark] = l.mark
	err := l.publish(ctx, to, message)
	if err == nil || errors.Is(err, errFull) {
		d.putBack(l)
	} else {
		_ = l.Close() // the next one declares the queues anew
	}
	return err
}

func (d *Documents) putBack(l *line) {
	select {
	case d.idle <- l:
	default:
		_ = l.Close()
	}
}

// declare creates the queues where they do not exist.
func (d *Documents) declare(channel *amqp.Channel, major int) error {
	// Always a type: it is not the same without one on every virtual host.
	main := amqp.Table{"x-queue-type": "classic", "x-overflow": "reject-publish"} // else the first levels are dropped first
	dead := amqp.Table{"x-queue-type": "classic"}
	if d.options.Quorum {
		if major < 4 {
			return errors.New("a quorum queue has no priorities before RabbitMQ 4.0: take a classic one")
		}
		const deliveries = 100 // by default 20; and then the document is dropped
		main = amqp.Table{"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-delivery-limit": deliveries,
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": d.dead(), "x-dead-letter-strategy": "at-least-once"}
		dead = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": -1} // or looking at it 20 times empties it
	} else {
		main["x-max-priority"] = queue.RabbitMQMaxPriority(d.store.Last())
	}
	if d.options.MaxLength > 0 {
		main["x-max-length"] = d.options.MaxLength
	}
	tables := map[string]amqp.Table{d.options.Name: main, d.dead(): dead}
	for _, delay := range d.options.Backoff {
		// A quorum queue, for only that keeps a document until the next queue has it.
		tables[d.retry(delay)] = amqp.Table{
			"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-message-ttl": max(1, delay.Milliseconds()),
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": d.options.Name, "x-dead-letter-strategy": "at-least-once",
		}
	}
	for name, table := range tables {
		const durable, autoDelete, exclusive, noWait = true, false, false, false
		if _, err := channel.QueueDeclare(name, durable, autoDelete, exclusive, noWait, table); err != nil {
			return fmt.Errorf("declare %s: %w", name, err)
		}
	}
	return nil
}

func (d *Documents) retry(delay time.Duration) string {
	return fmt.Sprint(d.options.Name, ".retry.", delay)
}

func (d *Documents) dead() string { return d.options.Name + ".dead" }
func (d *Documents) boot() string { return d.options.Name + ".boot" }

// Dead returns the documents that were given up. They stay in their queue.
func (d *Documents) Dead(ctx context.Context) ([]string, error) {
	l, err := d.consuming.open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close() // what was not acknowledged is back then
	var dead []string
	for ctx.Err() == nil {
		stop := hurry(l.connection)
		delivery, ok, err := l.Get(d.dead(), false)
		stop()
		if err != nil || !ok {
			return dead, err
		}
		dead = append(dead, text(&delivery, headerDocument))
	}
	return dead, ctx.Err()
}

// Remove deletes the queues and all that is in them.
func (d *Documents) Remove(ctx context.Context) error {
	l, err := d.consuming.open(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	defer hurry(l.connection)()
	names := []string{d.options.Name, d.dead(), d.boot()}
	for _, delay := range d.options.Backoff {
		names = append(names, d.retry(delay))
	}
	for _, name := range slices.Compact(names) {
		_, deleted := l.QueueDelete(name, false, false, false)
		err = cmp.Or(err, deleted)
	}
	return err
}

// Close closes the connections. Work and Produce return amqp.ErrClosed then.
func (d *Documents) Close() error {
	return errors.Join(d.producing.close(), d.consuming.close())
}

// traceOf returns the headers that name a document's trace.
func traceOf(delivery *amqp.Delivery) map[string]string {
	headers := make(map[string]string)
	for _, name := range (propagation.TraceContext{}).Fields() {
		if value := text(delivery, name); value != "" {
			headers[name] = value
		}
	}
	return headers
}

func text(delivery *amqp.Delivery, header string) string {
	value, _ := delivery.Headers[header].(string)
	return value
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
