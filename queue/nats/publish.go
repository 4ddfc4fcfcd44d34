package prioritynats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/queue"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of a message. Customers and ids are any bytes, which headers are not: they
// are escaped as in a URL.
const (
	system         = "nats" // in spans
	customerHeader = "Priority-Customer"
	documentHeader = "Priority-Document"
)

// Publish gives a customer's document its level, and publishes the message to the level's
// subject; the message's own subject is ignored. It returns when JetStream has stored the
// message, and goes on until then or until ctx ends. After an error JetStream may have it:
// publish it with the same id again.
//
// The document's id, any 1 to 512 bytes, is your own and always the same for a document:
// do not let customers choose it. If it is "", Publish makes one. JetStream recognizes a
// message that is published again by customer and id, or by its Nats-Msg-Id where it has
// one.
//
// If the customer is "", the message is published once, to its own subject, and not counted.
func (q *Queue) Publish(ctx context.Context, customer, document string, message *nats.Msg) (*jetstream.PubAck, error) {
	if message == nil {
		return nil, fmt.Errorf("prioritynats: publish %q: %w: the message is nil", document, priority.ErrInvalidOption)
	}
	if customer == "" {
		return q.jetStream.PublishMsg(ctx, message)
	}
	if document == "" {
		document = rand.Text()
	}
	own := &nats.Msg{Data: message.Data, Header: maps.Clone(message.Header)}
	if own.Header == nil {
		own.Header = make(nats.Header)
	}
	if own.Header.Get(jetstream.MsgIDHeader) == "" {
		own.Header.Set(jetstream.MsgIDHeader, url.PathEscape(customer)+"/"+url.PathEscape(document))
	}
	ack, err := q.publish(ctx, customer, document, own)
	if err != nil {
		return nil, fmt.Errorf("prioritynats: publish %q: %w", document, err)
	}
	return ack, nil
}

// publish adds to the headers of a message that is the caller's own.
func (q *Queue) publish(ctx context.Context, customer, document string, message *nats.Msg) (ack *jetstream.PubAck, err error) {
	ctx, headers, end := priorityotel.StartSend(ctx, system, q.options.Name)
	defer func() { end(err) }()
	message.Header.Set(customerHeader, url.PathEscape(customer))
	message.Header.Set(documentHeader, url.PathEscape(document))
	for name, value := range headers {
		message.Header.Set(name, value)
	}
	if size, most := message.Size(), int(q.connection().MaxPayload())-reserve; most > 0 && size > most {
		return nil, fmt.Errorf("the message has %d bytes, %d are allowed", size, most)
	}
	decision, err := q.store.Submit(ctx, customer, document, q.options.Cost(message))
	if err != nil {
		return nil, err
	}
	message.Subject = queue.NATSSubject(q.options.Name, decision.Level, q.store.Last())
	err = q.insist(ctx, "publish a document", func(ctx context.Context) (err error) {
		ack, err = q.jetStream.PublishMsg(ctx, message)
		return err
	})
	if err != nil {
		return nil, err
	}
	if ack.Duplicate {
		q.settle(ctx, customer, document, ack)
		return ack, nil
	}
	// Idle workers look at once. Where this is lost, they look within a second.
	_ = q.connection().Publish(queue.NATSSubject(arrivedName(q.options.Name), decision.Level, q.store.Last()), nil)
	return ack, nil
}

// settle is for a message that the stream has had already. If it is gone, its Done came
// before this Submit, and no other will come; nor if it is there under another id.
func (q *Queue) settle(ctx context.Context, customer, document string, ack *jetstream.PubAck) {
	stream, err := q.jetStream.Stream(ctx, ack.Stream)
	if err != nil {
		return
	}
	stored, err := stream.GetMsg(ctx, ack.Sequence)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		q.options.Logger.Warn("a document is not taken: it was served or given up before", "document", document)
	case err != nil || isFrom(stored.Header, customer, document):
		return
	}
	q.done(ctx, customer, document, 0)
}

// done has the document no longer count as pending.
func (q *Queue) done(ctx context.Context, customer, document string, took time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience) // a store that hangs holds no worker
	defer cancel()
	if err := q.store.Done(ctx, customer, document, took); err != nil {
		q.options.Logger.Warn("a document counts as pending until its lease ends", "document", document, "error", err)
	}
}

// Identity returns the customer and the document's id that Publish has put into the headers
// of a message, or "" and "" for a message of somebody else's.
func Identity(headers nats.Header) (customer, document string) {
	customer, errCustomer := url.PathUnescape(headers.Get(customerHeader))
	document, errDocument := url.PathUnescape(headers.Get(documentHeader))
	if errors.Join(errCustomer, errDocument, priority.CheckDone(customer, []string{document}, 0)) != nil {
		return "", ""
	}
	return customer, document
}

func isFrom(headers nats.Header, customer, document string) bool {
	storedCustomer, storedDocument := Identity(headers)
	return storedCustomer == customer && storedDocument == document
}
