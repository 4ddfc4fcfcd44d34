package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func deadName(name string) string { return name + "-dead" }

// reserve is the room in a message for what it gets when it is given up.
const reserve = 1 << 10

// bury puts a document where those that were given up are, and goes on until it is
// there or is refused. A second copy, after a crash in between, is recognized by the
// message's number and time: the numbers of a stream that is made again begin again.
func (d *Documents) bury(ctx context.Context, message jetstream.Msg, reason error) error {
	metadata, err := message.Metadata()
	if err != nil {
		return err
	}
	id := fmt.Sprint(metadata.Sequence.Stream, " ", metadata.Timestamp.UnixNano())
	dead := &nats.Msg{Subject: deadName(d.options.Name), Data: message.Data(), Header: nats.Header{
		customerHeader: message.Headers()[customerHeader], documentHeader: message.Headers()[documentHeader],
		"Reason": {reason.Error()[:min(len(reason.Error()), reserve/2)]},
	}}
	var refusal error
	err = d.insist(ctx, "give a document up", func(ctx context.Context) error {
		_, err := d.jetStream.PublishMsg(ctx, dead, jetstream.WithMsgID(id))
		if full := isAnswer(err) && !errors.Is(err, jetstream.ErrNoStreamResponse); full || errors.Is(err, nats.ErrMaxPayload) {
			refusal, err = err, nil
		}
		return err
	})
	return errors.Join(err, refusal)
}

// Dead returns the documents that were given up.
func (d *Documents) Dead(ctx context.Context) ([]string, error) {
	var documents []string
	err := d.eachDead(ctx, func(message *jetstream.RawStreamMsg) error {
		_, document, err := identity(message.Header)
		if err != nil {
			document = fmt.Sprint("message ", message.Sequence) // not of Produce
		}
		documents = append(documents, document)
		return nil
	})
	return documents, err
}

// PutBack puts all documents that were given up back into the queue, with new tries.
func (d *Documents) PutBack(ctx context.Context) error {
	var strange error
	err := d.eachDead(ctx, func(message *jetstream.RawStreamMsg) error {
		customer, document, err := identity(message.Header)
		if err != nil {
			strange = errors.Join(strange, fmt.Errorf("message %d stays: %w", message.Sequence, err))
			return nil
		}
		// With an id of its own: under the old one it may be taken for a duplicate.
		id := fmt.Sprint(deadName(d.options.Name), " ", message.Sequence, " ", message.Time.UnixNano())
		if err := d.publish(ctx, customer, document, message.Data, id); err != nil {
			return err
		}
		return d.dead.DeleteMsg(ctx, message.Sequence)
	})
	return errors.Join(err, strange)
}

// eachDead reads those that were given up until now. A consumer would wait for one
// that another process has put back meanwhile.
func (d *Documents) eachDead(ctx context.Context, do func(*jetstream.RawStreamMsg) error) error {
	now, err := d.dead.Info(ctx)
	if err != nil {
		return err
	}
	for sequence := now.State.FirstSeq; sequence <= now.State.LastSeq; sequence++ {
		message, err := d.dead.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(deadName(d.options.Name)))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound): // nor any after it
			return nil
		case err != nil:
			return err
		case message.Sequence > now.State.LastSeq:
			return nil
		}
		if err := do(message); err != nil {
			return err
		}
		sequence = message.Sequence
	}
	return nil
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
