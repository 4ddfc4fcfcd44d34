// Package priorityrabbitmq gives the documents in a queue of RabbitMQ their priorities, so
// that the flood of one customer does not make the others wait.
//
// # In a worker that you have
//
// [New] takes your connection and the name of your queue, which has an x-max-priority, or is a
// quorum queue. Publish with [Queue.Publish]: it
// takes your exchange, routing key and message, sets the priority, and returns when RabbitMQ
// has confirmed the message. Call [Queue.Handle] in your own loop: it runs your function,
// tells the store that the document is done, and then acknowledges.
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
// the last try it is a dead letter: it goes to the queue <name>.dead, with the reason in its
// headers, from which RabbitMQ's own tools take it. Messages of no customer pass through
// without a level.
//
// # In a new program
//
// [Open] declares the queue too, and connects again whenever the connection is lost.
// [Queue.Work] has the loop.
//
// The store is best one of fleet.Join, which answers also while Redis does not.
// docs/queues.md says what goes wrong, and what becomes of the document then.
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

// Options of a queue. The zero value works. Producers and consumers have the same: what
// a queue was declared with cannot be changed.
type Options struct {
	// Quorum: the queue is a quorum queue, of RabbitMQ 4.0 or later. Default: a classic queue.
	Quorum bool
	// MaxPriority is the x-max-priority of a classic queue. Default: queue.RabbitMQMaxPriority
	// of store.Last().
	MaxPriority uint8

	// Limit is how long a document may take before its context ends. It has to be less than
	// the server's consumer_timeout, which is 30 minutes. Default: 10 minutes.
	Limit time.Duration
	// Backoff is how long a document waits after its first failure, after its second, and so
	// on; then it is given up. Each delay has a queue. Default: 1 s, 10 s and 1 minute.
	Backoff []time.Duration
	// Losses: a document that was lost with its worker or connection as often is given up.
	// Default: 10.
	Losses int
	// Logger is told of failures and lost connections. Default: slog.Default().
	Logger *slog.Logger

	// Workers is how many documents Work has in hand at a time. Default: 4.
	Workers int
	// MaxLength of the queue that Open declares: with as many documents in it, Publish waits.
	// Default: no bound.
	MaxLength int
}

// Queue is a queue of RabbitMQ with a priority for each level. Beside it are a queue for
// each delay of Backoff, and one of dead letters. It is safe for concurrent use.
type Queue struct {
	name       string
	store      priority.Store
	options    Options
	publishing *link // of its own where Open connects: a server short of memory stops reading from those that publish
	consuming  *link
	own        bool // the queue is the caller's, who has declared it
	idle       chan *line
	send       func(ctx context.Context, exchange, key string, message amqp.Publishing) error
}

// New adds priorities, tries and dead letters to a queue that the caller has declared: a
// classic one with an x-max-priority, or a quorum queue. It declares the queues beside it.
//
// The connection stays the caller's, and is used for publishing. A server short of memory
// stops reading from such a connection, acknowledgements too: if that matters, consume on
// another one. New and what is called later close a connection whose server has not answered
// for 30 seconds. When the connection is lost, calls return amqp.ErrClosed: call New again.
// A connection that recovers by itself is refused, for it lets an old acknowledgement remove
// another document.
//
// The names of the other queues begin with the name. nil options are the defaults. An
// error may wrap [priority.ErrInvalid].
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
// queue and those beside it where they do not exist. It connects again whenever the
// connection is lost, until Close.
//
// The names of the other queues begin with the name. nil options are the defaults. An
// error may wrap [priority.ErrInvalid].
func Open(ctx context.Context, url, name string, store priority.Store, options *Options) (*Queue, error) {
	q, err := newQueue(name, store, options)
	if err != nil {
		return nil, err
	}
	q.publishing = &link{url: url, name: name + " publish", prepare: q.declare}
	q.consuming = &link{url: url, name: name + " work", prepare: q.declare}
	return q.begun(ctx)
}

// begun returns the queue when all is declared.
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

// Document is what the store has to know of a message.
type Document struct {
	// Customer is whose document it is; "": the message is published as it is.
	Customer string
	// ID is always the same for a document of the customer. If it is "", Publish makes one, by
	// rand.Text: published again, it is another document then. Never let a customer choose it.
	ID string
	// Cost is how much work it is, in any unit that all share, such as pages or bytes; 0: not
	// known.
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
// otherwise. It goes on until RabbitMQ has confirmed that a queue has it, or ctx ends; then
// the queue may have it all the same. What stays refused is an error at once, as a
// message that is too long or that no queue takes. The queue may have a document
// twice, for a confirmation can be lost.
//
// An error of the store is returned, and nothing is published.
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
	// Headers take any bytes. A message's own id takes 255 of them.
	message.Headers[HeaderCustomer], message.Headers[HeaderDocument] = document.Customer, document.ID
	message.Priority = q.priority(decision.Level)
	message.DeliveryMode = cmp.Or(message.DeliveryMode, amqp.Persistent)
	if err = q.send(ctx, exchange, key, message); errors.Is(err, errRefused) {
		_, done := q.store.Done(context.WithoutCancel(ctx), document.Customer, document.ID, 0)
		err = errors.Join(err, done)
	}
	return err
}

// Close closes what the queue has opened: a connection of New stays. Calls return
// amqp.ErrClosed then.
func (q *Queue) Close() error {
	err := errors.Join(q.publishing.close(), q.consuming.close())
	for {
		select {
		case l := <-q.idle:
			_ = l.Close() // of a connection that stays
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

// publish returns nil when RabbitMQ has written the message to a queue. It tries
// until then, or until the context ends.
func (q *Queue) publish(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	var err error
	for ctx.Err() == nil {
		tried := make(chan error, 1)
		go func() { tried <- q.tryToPublish(ctx, exchange, key, message) }() // a server that reads nothing holds it up
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
