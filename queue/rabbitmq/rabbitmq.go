// Package priorityrabbitmq gives the documents in a queue of RabbitMQ their priorities, so
// that the flood of one customer does not make the others wait.
//
// You keep your connection, exchange, message, consumer and loop, and declare your queue with
// an x-max-priority, or as a quorum queue. [New] takes the connection and the queue's name.
// Publish with [Queue.Publish]: it takes your exchange, routing key and message, sets the
// priority, and returns when RabbitMQ has confirmed the message. Call [Queue.Handle] in your
// loop: it runs your function, calls the store's Done, and then acknowledges.
//
//	documents, err := priorityrabbitmq.New(connection, "documents", store, nil)
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
// Use a store from fleet.Join, which answers even while Redis does not. docs/queues.md says
// what can go wrong, and what then happens to the document; examples/queues/rabbitmq is a
// whole program, which connects again when the connection is lost.
package priorityrabbitmq

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/ending"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/queue"
)

// Options configures a [Queue]. The zero value works. Producers and consumers need the same
// options: the arguments of a declared queue cannot change.
type Options struct {
	// Quorum says that the queue is a quorum queue, of RabbitMQ 4.0 or later. Default: a
	// classic queue.
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
}

// Queue is a queue of RabbitMQ with a priority for each level. It comes with a queue for
// each delay of Backoff, and one for dead letters. It is safe for concurrent use.
type Queue struct {
	connection *amqp.Connection
	name       string
	store      priority.Store
	options    Options
	publishers chan *publisher // those that are idle
	publish    func(ctx context.Context, exchange, key string, message amqp.Publishing, submit submit) error
}

// New adds priorities, retries and dead letters to a queue that the caller has declared: a
// classic one with an x-max-priority, or a quorum queue. It declares the other queues, whose
// names begin with the queue's.
//
// The caller owns the connection, which is also used for publishing. A server short of
// memory stops reading from such a connection, acknowledgements too: if that matters,
// consume on another one. When the connection is lost, calls fail: connect, and call New
// again. A connection that recovers by itself is refused, because it would let an old
// acknowledgement remove another document.
//
// Nil options are the defaults. An error may wrap [priority.ErrInvalid].
func New(connection *amqp.Connection, name string, store priority.Store, options *Options) (*Queue, error) {
	q, err := newQueue(name, store, options)
	switch {
	case err != nil:
		return nil, err
	case connection == nil:
		return nil, invalid("option: the connection is nil")
	case connection.IsRecoveryEnabled():
		return nil, invalid("option: the connection recovers by itself: make it without Recovery, and call New again when it is lost")
	}
	q.connection = connection
	if err := q.declare(); err != nil {
		return nil, fmt.Errorf("priorityrabbitmq: %w", err)
	}
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
		return nil, invalid("option: the name of the queue is empty")
	case typednil.Is(store):
		return nil, invalid("option: the store is nil")
	case o.Limit < 0:
		return nil, invalid(fmt.Sprintf("option: Limit is %v, less than 0", o.Limit))
	case len(o.Backoff) == 0:
		return nil, invalid("option: Backoff is empty: a document whose worker was lost has to wait somewhere")
	}
	o.MaxPriority = cmp.Or(o.MaxPriority, queue.RabbitMQMaxPriority(store.Last()))
	o.Limit = cmp.Or(o.Limit, 10*time.Minute)
	q := &Queue{name: name, store: store, options: o, publishers: make(chan *publisher, 16)}
	q.publish = q.publishConfirmed
	return q, nil
}

func invalid(what string) error {
	return fmt.Errorf("priorityrabbitmq: %w %s", priority.ErrInvalid, what)
}

// Document is what the store needs to know about a message.
type Document struct {
	// Customer owns the document; if it is "", the message is published without a level.
	Customer string
	// ID never changes for a document of the customer. If it is "", Publish creates one with
	// rand.Text, and the message published again is another document. Never let a customer
	// choose it.
	ID string
	// Cost is how much work the document is, in any unit that all documents share, such as
	// pages or bytes; 0 if unknown.
	Cost float64
}

// The headers by which a document's customer and id travel with a message. A message id
// would not do: it takes at most 255 bytes, and a header takes any.
const (
	headerCustomer = "priority-customer"
	headerDocument = "priority-document"
)

// DocumentOf returns the customer and the id of a delivered document, and a zero Document
// for a message that Publish gave no level.
func DocumentOf(delivery amqp.Delivery) Document {
	document := Document{Customer: text(&delivery, headerCustomer), ID: text(&delivery, headerDocument)}
	if check.Done(document.Customer, document.ID, 0) != nil {
		return Document{}
	}
	return document
}

func text(delivery *amqp.Delivery, header string) string {
	value, _ := delivery.Headers[header].(string)
	return value
}

// Publish gives a document its level and publishes it, persistent unless the message says
// otherwise. Without an error, RabbitMQ has confirmed that a queue has the document.
//
// Nothing is published and nothing is pending if no channel can be opened, as while RabbitMQ is
// away or its connection has as many as it may (2,047), if the store fails, or if the message
// can never be sent, which wraps [priority.ErrInvalid].
//
// Otherwise a queue may be full, or the connection lost, so that RabbitMQ may have the
// document nevertheless: publish it again with the same ID, and it counts once. A document
// that would be refused again, such as one that is too long or that no queue takes, is no
// longer pending.
//
// Headers that were copied from another document's message are replaced.
func (q *Queue) Publish(ctx context.Context, exchange, key string, message amqp.Publishing, document Document) error {
	message.Headers = maps.Clone(message.Headers)
	for _, name := range append([]string{headerCustomer, headerDocument}, historyHeaders...) {
		delete(message.Headers, name)
	}
	createsID := document.ID == ""
	if document.Customer != "" {
		document.ID = cmp.Or(document.ID, rand.Text())
		if message.Headers == nil {
			message.Headers = make(amqp.Table)
		}
		message.Headers[headerCustomer], message.Headers[headerDocument] = document.Customer, document.ID
		message.DeliveryMode = cmp.Or(message.DeliveryMode, amqp.Persistent)
	}
	if err := checkMessage(exchange, key, message); err != nil {
		return err
	}
	if document.Customer == "" {
		return q.publish(ctx, exchange, key, message, nil)
	}
	err := q.publish(ctx, exchange, key, message, func() (uint8, error) {
		decision, err := q.store.Submit(ctx, document.Customer, priority.Document{ID: document.ID, Cost: document.Cost})
		if createsID && errors.Is(err, priority.ErrOutcomeUnknown) { // nobody can submit it again
			err = errors.Join(err, ending.Done(ctx, q.store, document.Customer, document.ID, 0))
		}
		return q.priority(decision.Level), err
	})
	if errors.Is(err, errRefused) {
		err = errors.Join(err, ending.Done(ctx, q.store, document.Customer, document.ID, 0))
	}
	return err
}

func (q *Queue) priority(level priority.Level) uint8 {
	if q.options.Quorum {
		return queue.RabbitMQQuorum(level, q.store.Last())
	}
	return queue.RabbitMQ(level, q.store.Last(), q.options.MaxPriority)
}
