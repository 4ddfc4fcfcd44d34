package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	"github.com/nats-io/nats.go/jetstream"
)

const pause = 100 * time.Millisecond // between looks at a stream that has nothing

// documents is a stream of JetStream with a subject for each level, and a consumer
// for each subject.
type documents struct {
	jetStream jetstream.JetStream
	stream    jetstream.Stream
	consumers []jetstream.Consumer // of level 1 first
	subjects  []string
	prefix    string
	last      priority.Level // of all customers: store.Last()
}

// open creates the stream and its consumers where they do not exist.
func open(ctx context.Context, js jetstream.JetStream, name string, last priority.Level) (*documents, error) {
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:      name,
		Subjects:  []string{name + ".*"},
		Retention: jetstream.WorkQueuePolicy, // a document that was acknowledged is gone
	})
	if err != nil {
		return nil, fmt.Errorf("create the stream %s: %w", name, err)
	}
	d := &documents{jetStream: js, stream: stream, subjects: queue.NATSSubjects(name, last), prefix: name, last: last}
	for i, subject := range d.subjects {
		consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable:       fmt.Sprint("level-", i+1),
			FilterSubject: subject,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       time.Minute, // longer than a document takes
			MaxAckPending: 1000,        // no fewer than the fleet has workers
		})
		if err != nil {
			return nil, fmt.Errorf("create the consumer of %s: %w", subject, err)
		}
		d.consumers = append(d.consumers, consumer)
	}
	return d, nil
}

// produce counts a customer's document and publishes it with its level.
func (d *documents) produce(ctx context.Context, store priority.Store, customer, document string) error {
	decision, err := store.Next(ctx, customer)
	if err != nil {
		return err
	}
	return d.publish(ctx, decision.Level, document)
}

// publish returns when JetStream has the document.
func (d *documents) publish(ctx context.Context, level priority.Level, document string) error {
	_, err := d.jetStream.Publish(ctx, queue.NATSSubject(d.prefix, level, d.last), []byte(document))
	if err != nil {
		return fmt.Errorf("publish %s: %w", document, err)
	}
	return nil
}

// consume has process work on one document at a time, until the context ends. The
// picker chooses the level of each. If process fails, the document is redelivered
// at its level, before those that are new.
func (d *documents) consume(ctx context.Context, picker *queue.Picker, process func(document string) error) error {
	for ctx.Err() == nil {
		message, err := d.next(ctx, picker)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if message == nil {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		if process(string(message.Data())) == nil {
			err = message.Ack()
		} else {
			err = message.Nak()
		}
		if err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
	return nil
}

// next fetches a document of the level that is to be served, or none.
func (d *documents) next(ctx context.Context, picker *queue.Picker) (jetstream.Msg, error) {
	info, err := d.stream.Info(ctx, jetstream.WithSubjectFilter(d.prefix+".*"))
	if err != nil {
		return nil, fmt.Errorf("look at the stream: %w", err)
	}
	hasWork := make([]bool, len(d.subjects))
	for i, subject := range d.subjects {
		hasWork[i] = info.State.Subjects[subject] > 0
	}
	for {
		level, ok := picker.Pick(hasWork)
		if !ok {
			return nil, nil
		}
		batch, err := d.consumers[level-1].FetchNoWait(1)
		if err != nil {
			return nil, fmt.Errorf("fetch a document of level %d: %w", level, err)
		}
		for message := range batch.Messages() {
			return message, nil
		}
		if err := batch.Error(); err != nil {
			return nil, fmt.Errorf("fetch a document of level %d: %w", level, err)
		}
		hasWork[level-1] = false // other workers have it all in hand
	}
}

// remove deletes the stream, and its consumers with it.
func (d *documents) remove(ctx context.Context) error {
	err := d.jetStream.DeleteStream(ctx, d.stream.CachedInfo().Config.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}
