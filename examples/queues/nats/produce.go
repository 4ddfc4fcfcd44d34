package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/queue"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of a message. Customers and ids of documents are any bytes, which
// headers are not: they are escaped as in a URL.
const (
	system         = "nats" // in spans
	customerHeader = "Customer"
	documentHeader = "Document"
)

// Produce gives a customer's document its level and publishes it. It returns nil when
// JetStream has stored it, and goes on until then or until the context ends. After
// an error the queue may have the document: call Produce with the same id again.
func (d *Documents) Produce(ctx context.Context, customer, document string, body []byte) error {
	return d.publish(ctx, customer, document, body, url.PathEscape(customer)+"/"+url.PathEscape(document))
}

// publish publishes a document under an id, by which JetStream recognizes it.
func (d *Documents) publish(ctx context.Context, customer, document string, body []byte, id string) (err error) {
	ctx, headers, end := priorityotel.StartSend(ctx, system, d.options.Name)
	defer func() { end(err) }()
	message := &nats.Msg{Data: body, Header: nats.Header{
		customerHeader: {url.PathEscape(customer)}, documentHeader: {url.PathEscape(document)},
		jetstream.MsgIDHeader: {id},
	}}
	for name, value := range headers {
		message.Header.Set(name, value)
	}
	if size, most := message.Size(), int(d.connection.MaxPayload())-reserve; size > most {
		return fmt.Errorf("produce %q: the message has %d bytes, %d are allowed", document, size, most)
	}
	decision, err := d.store.Submit(ctx, customer, document, float64(len(body)))
	if err != nil {
		return fmt.Errorf("produce %q: %w", document, err)
	}
	message.Subject = queue.NATSSubject(d.options.Name, decision.Level, d.store.Last())
	var stored *jetstream.PubAck
	err = d.insist(ctx, "publish a document", func(ctx context.Context) (err error) {
		stored, err = d.jetStream.PublishMsg(ctx, message)
		return err
	})
	if err != nil {
		return fmt.Errorf("produce %q: %w", document, err)
	}
	if stored.Duplicate {
		d.settle(ctx, customer, document, stored.Sequence)
		return nil
	}
	// Idle workers look at once. Where this is lost, they look within a second.
	_ = d.connection.Publish(queue.NATSSubject(arrivedName(d.options.Name), decision.Level, d.store.Last()), nil)
	return nil
}

// settle is for a document that the queue has had already. If it is gone, its Done
// came before this Submit, and no other will come.
func (d *Documents) settle(ctx context.Context, customer, document string, sequence uint64) {
	if _, err := d.waiting.GetMsg(ctx, sequence); errors.Is(err, jetstream.ErrMsgNotFound) {
		d.options.Logger.Warn("a document is not taken: it was served or given up before", "document", document)
		d.done(ctx, customer, document, 0)
	}
}

// done has the document no longer count as pending.
func (d *Documents) done(ctx context.Context, customer, document string, took time.Duration) {
	if err := d.store.Done(ctx, customer, document, took); err != nil {
		d.options.Logger.Warn("a document counts as pending until its lease ends", "document", document, "error", err)
	}
}
