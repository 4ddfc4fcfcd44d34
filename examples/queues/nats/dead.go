package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func deadName(name string) string { return name + "-dead" }

// reserve is the room in a message for what it gets when it is given up.
const reserve = 1 << 10

// bury puts a document where those that were given up are. A second copy, after a
// crash in between, is recognized by the sequence number, which is of this queue.
func (d *Documents) bury(ctx context.Context, message jetstream.Msg, sequence uint64, reason error) error {
	dead := &nats.Msg{Subject: deadName(d.options.Name), Data: message.Data(), Header: nats.Header{
		customerHeader: message.Headers()[customerHeader], documentHeader: message.Headers()[documentHeader],
		"Reason": {reason.Error()[:min(len(reason.Error()), reserve/2)]},
	}}
	return d.insist(ctx, "give a document up", func(ctx context.Context) error {
		_, err := d.jetStream.PublishMsg(ctx, dead, jetstream.WithMsgID(strconv.FormatUint(sequence, 10)))
		return err
	})
}

// Dead returns the documents that were given up.
func (d *Documents) Dead(ctx context.Context) ([]string, error) {
	var documents []string
	err := d.eachDead(ctx, true, func(message jetstream.Msg, sequence uint64) error {
		_, document, err := identity(message.Headers())
		if err != nil {
			document = fmt.Sprint("message ", sequence) // not of Produce
		}
		documents = append(documents, document)
		return nil
	})
	return documents, err
}

// PutBack puts all documents that were given up back into the queue, with new tries.
func (d *Documents) PutBack(ctx context.Context) error {
	var strange error
	err := d.eachDead(ctx, false, func(message jetstream.Msg, sequence uint64) error {
		customer, document, err := identity(message.Headers())
		if err != nil {
			strange = errors.Join(strange, fmt.Errorf("message %d stays: %w", sequence, err))
			return nil
		}
		// With an id of its own: under the old one it may be taken for a duplicate.
		id := fmt.Sprint(deadName(d.options.Name), " ", sequence)
		if err := d.publish(ctx, customer, document, message.Data(), id); err != nil {
			return err
		}
		return d.dead.DeleteMsg(ctx, sequence)
	})
	return errors.Join(err, strange)
}

func (d *Documents) eachDead(ctx context.Context, headersOnly bool, do func(message jetstream.Msg, sequence uint64) error) error {
	consumer, err := d.dead.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{HeadersOnly: headersOnly})
	if err != nil {
		return err
	}
	if info := consumer.CachedInfo(); info.NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		message, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		metadata, err := message.Metadata()
		if err != nil {
			return err
		}
		if err := do(message, metadata.Sequence.Stream); err != nil || metadata.NumPending == 0 {
			return err
		}
	}
}

// identity returns whose and which document a message is.
func identity(headers nats.Header) (customer, document string, err error) {
	for _, field := range []struct {
		name  string
		value *string
	}{{customerHeader, &customer}, {documentHeader, &document}} {
		if *field.value, err = url.PathUnescape(headers.Get(field.name)); err != nil || *field.value == "" {
			return "", "", fmt.Errorf("the message has no header %s that Produce has made", field.name)
		}
	}
	return customer, document, nil
}
