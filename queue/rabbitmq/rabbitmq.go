// Package priorityrabbitmq gives the documents in a queue of RabbitMQ their priorities, so
// that the flood of one customer does not make the others wait.
//
// # In an existing worker
//
// [New] takes your connection and the name of your queue, which has an x-max-priority, or is a
// quorum queue. Publish with [Queue.Publish]: it takes your exchange, routing key and message,
// sets the priority, and returns when RabbitMQ has confirmed the message. Call [Queue.Handle]
// in your own loop: it runs your function, calls the store's Done, and then acknowledges.
//
//	documents, err := priorityrabbitmq.New(ctx, conn, "documents", store, nil)
//
//	document := priorityrabbitmq.Document{Customer: customer, Cost: pages}
//	err = documents.Publish(ctx, "uploads", "pdf", message, document)
//
//	for delivery := range deliveries {
//		if err := documents.Handle(ctx, delivery, process); err != nil {
//			return err // connect again
//		}
//	}
//
// A document that fails waits in a queue for its delay, and comes back at its level. After
// the last try it goes to the queue <name>.dead, with the reason in its headers, for
// RabbitMQ's own tools. Messages without a customer pass through without a level.
//
// # In a new program
//
// [Open] declares the queue too, and connects again whenever the connection is lost.
// [Queue.Work] has the loop.
//
// Use a store from fleet.Join, which answers even while Redis does not. docs/queues.md says
// what can go wrong, and what then happens to the document.
package priorityrabbitmq

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/queue"
)

// Options configures a [Queue]. The zero value works. Producers and consumers need the same
// options: the arguments of a declared queue cannot change.
type Options struct {
	// Quorum: the queue is a quorum queue, of RabbitMQ 4.0 or later. Default: a classic queue.
	Quorum bool
	// MaxPriority is the x-max-priority of a classic queue. Default: queue.RabbitMQMaxPriority
	// of store.Last().
	MaxPriority uint8

	// Limit is how long a document may take before its context ends. It must be less than
	// the server's consumer_timeout, 30 minutes by default. Default: 10 minutes.
	Limit time.Duration
	// Backoff is how long a document waits after its first failure, its second, and so on;
	// after one failure more it is given up. Each delay has a queue. Default: 1 s, 10 s and
	// 1 minute.
	Backoff []time.Duration
	// After Losses losses of its worker or connection, a document is given up.
	// Default: 10.
	Losses int
	// Logger logs failures and lost connections. Default: slog.Default().
	Logger *slog.Logger

	// Workers is how many documents Work processes at a time. Default: 4.
	Workers int
	// MaxLength bounds the queue that Open declares: while it is full, Publish waits.
	// Default: no bound.
	MaxLength int
}

// Queue is a queue of RabbitMQ with a priority for each level. It comes with a queue for
// each delay of Backoff, and one for dead letters. It is safe for concurrent use.
type Queue struct {
	name       string
	store      priority.Store
	options    Options
	publishing *link // a second one where Open connects: a server short of memory stops reading from publishers
	consuming  *link
	own        bool // the caller has declared the queue
	idle       chan *line
	send       func(ctx context.Context, exchange, key string, message amqp.Publishing) error
}

// New adds priorities, retries and dead letters to a queue that the caller has declared: a
// classic one with an x-max-priority, or a quorum queue. It declares the other queues.
//
// The caller owns the connection, which is also used for publishing. A server short of
// memory stops reading from such a connection, acknowledgements too: if that matters,
// consume on another one. New and later calls close a connection whose server has not
// answered for 30 seconds. When the connection is lost, calls return amqp.ErrClosed: call
// New again. A connection that recovers by itself is refused, because it would let an old
// acknowledgement remove another document.
//
// The other queues' names begin with name. Nil options are the defaults. An error may wrap
// [priority.ErrInvalid].
func New(ctx context.Context, connection *amqp.Connection, name string, store priority.Store, options *Options) (*Queue, error) {
	q, err := newQueue(name, store, options)
	switch {
	case err != nil:
		return nil, err
	case connection == nil:
		return nil, invalid("the connection is nil")
	case connection.IsRecoveryEnabled():
		return nil, invalid("the connection recovers by itself: make it without Recovery, and call New again when it is lost")
	}
	q.own = true
	l := &link{connection: connection, prepare: q.declare}
	q.publishing, q.consuming = l, l
	return q.begun(ctx)
}

// Open connects to a server, such as amqp://guest:guest@localhost:5672/, and declares the
// queue and the other queues, if they do not exist. It reconnects whenever the
// connection is lost, until Close.
//
// The other queues' names begin with name. Nil options are the defaults. An error may wrap
// [priority.ErrInvalid].
func Open(ctx context.Context, url, name string, store priority.Store, options *Options) (*Queue, error) {
	q, err := newQueue(name, store, options)
	if err != nil {
		return nil, err
	}
	q.publishing = &link{url: url, name: name + " publish", prepare: q.declare}
	q.consuming = &link{url: url, name: name + " work", prepare: q.declare}
	return q.begun(ctx)
}

// begun returns the queue once everything is declared.
func (q *Queue) begun(ctx context.Context) (*Queue, error) {
	first, err := q.publishing.open(ctx)
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	q.putBack(first)
	return q, nil
}

func newQueue(name string, store priority.Store, options *Options) (*Queue, error) {
	if options == nil {
		options = new(Options)
	}
	o := *options
	if o.Backoff == nil {
		o.Backoff = []time.Duration{time.Second, 10 * time.Second, time.Minute}
	}
	switch {
	case name == "":
		return nil, invalid("the name of the queue is empty")
	case typednil.Is(store):
		return nil, invalid("the store is nil")
	case o.Limit < 0:
		return nil, invalid(fmt.Sprintf("Limit is %v, less than 0", o.Limit))
	case len(o.Backoff) == 0:
		return nil, invalid("Backoff is empty: a document whose worker was lost has to wait somewhere")
	case o.Losses < 0:
		return nil, invalid(fmt.Sprintf("Losses is %d, less than 0", o.Losses))
	case o.Workers < 0:
		return nil, invalid(fmt.Sprintf("Workers is %d, less than 0", o.Workers))
	case o.MaxLength < 0:
		return nil, invalid(fmt.Sprintf("MaxLength is %d, less than 0", o.MaxLength))
	}
	o.MaxPriority = cmp.Or(o.MaxPriority, queue.RabbitMQMaxPriority(store.Last()))
	o.Limit = cmp.Or(o.Limit, 10*time.Minute)
	o.Losses = cmp.Or(o.Losses, 10)
	o.Workers = cmp.Or(o.Workers, 4)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	q := &Queue{name: name, store: store, options: o, idle: make(chan *line, 16)}
	q.send = q.publish
	return q, nil
}

func invalid(what string) error {
	return fmt.Errorf("priorityrabbitmq: %w option: %s", priority.ErrInvalid, what)
}

// Name returns the queue's name. It is the routing key of the default exchange, "".
func (q *Queue) Name() string { return q.name }

// Document is what the store needs to know about a message.
type Document struct {
	// Customer owns the document; if it is "", the message is published unchanged.
	Customer string
	// ID never changes for a document of the customer. If it is "", Publish creates one with
	// rand.Text, and the message published again is another document. Never let a customer
	// choose it.
	ID string
	// Cost is how much work the document is, in any unit that all documents share, such as
	// pages or bytes; 0 if unknown.
	Cost float64
}

// The headers by which a document's customer and id travel with a message.
const (
	HeaderCustomer = "priority-customer"
	HeaderDocument = "priority-document"
)

// Of returns the customer and the id of a delivered document, and a zero Document for a
// message that Publish gave no level.
func Of(delivery amqp.Delivery) Document {
	document := Document{Customer: text(&delivery, HeaderCustomer), ID: text(&delivery, HeaderDocument)}
	if check.Done(document.Customer, []string{document.ID}, 0) != nil {
		return Document{}
	}
	return document
}

// Publish gives a document its level and publishes it, persistent unless the message says
// otherwise. It retries until RabbitMQ has confirmed that a queue has the document, or
// until ctx ends; even then the queue may have it. A permanent refusal is returned at once,
// such as for a message that is too long or that no queue takes. The queue may have a
// document twice, because a confirmation can be lost.
//
// If the store fails, its error is returned and nothing is published.
func (q *Queue) Publish(ctx context.Context, exchange, key string, message amqp.Publishing, document Document) (err error) {
	if document.Customer == "" {
		return q.send(ctx, exchange, key, message)
	}
	document.ID = cmp.Or(document.ID, rand.Text())
	decision, err := q.store.Submit(ctx, document.Customer, document.ID, document.Cost)
	if err != nil {
		return err
	}
	message.Headers = maps.Clone(message.Headers)
	if message.Headers == nil {
		message.Headers = make(amqp.Table)
	}
	// Headers take any bytes; a message id takes at most 255.
	message.Headers[HeaderCustomer], message.Headers[HeaderDocument] = document.Customer, document.ID
	message.Priority = q.priority(decision.Level)
	message.DeliveryMode = cmp.Or(message.DeliveryMode, amqp.Persistent)
	if err = q.send(ctx, exchange, key, message); errors.Is(err, errRefused) {
		_, done := q.store.Done(context.WithoutCancel(ctx), document.Customer, document.ID, 0)
		err = errors.Join(err, done)
	}
	return err
}

// Close closes what the queue has opened, not a connection passed to New. Later calls
// return amqp.ErrClosed.
func (q *Queue) Close() error {
	err := errors.Join(q.publishing.close(), q.consuming.close())
	for {
		select {
		case l := <-q.idle:
			_ = l.Close() // the connection stays open
		default:
			return err
		}
	}
}

const pause = time.Second / 2

func (q *Queue) priority(level priority.Level) uint8 {
	last := q.store.Last()
	if q.options.Quorum {
		return queue.RabbitMQQuorum(level, last)
	}
	return queue.RabbitMQ(level, last, q.options.MaxPriority)
}

// publish retries until RabbitMQ has written the message to a queue, or the context ends.
func (q *Queue) publish(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	var err error
	for ctx.Err() == nil {
		tried := make(chan error, 1)
		go func() { tried <- q.tryToPublish(ctx, exchange, key, message) }() // a server that does not read blocks it
		select {
		case err = <-tried:
			if err == nil || errors.Is(err, errRefused) || errors.Is(err, errClosed) {
				return err
			}
			q.options.Logger.Warn("a message could not be published", "exchange", exchange, "key", key, "error", err)
			_ = sleep(ctx, pause)
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("priorityrabbitmq: publish to %q with key %q: %w", exchange, key, errors.Join(context.Cause(ctx), err))
}

func (q *Queue) tryToPublish(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	var l *line
	select {
	case l = <-q.idle:
	default:
	}
	if l == nil || l.IsClosed() {
		var err error
		if l, err = q.publishing.open(ctx); err != nil {
			return err
		}
	}
	err := l.publish(ctx, exchange, key, message)
	if err == nil || errors.Is(err, errFull) {
		q.putBack(l)
	} else {
		_ = l.Close() // the next one declares the queues anew
	}
	if errors.Is(err, errUnroutable) && !q.declares(exchange, key) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

func (q *Queue) putBack(l *line) {
	select {
	case q.idle <- l:
	default:
		_ = l.Close()
	}
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
