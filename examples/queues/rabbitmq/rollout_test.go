package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/redistest"
	amqp "github.com/rabbitmq/amqp091-go"
)

// What docs/how-to/roll-out.md says of RabbitMQ: a message without a level comes after all
// that have one but the last, a worker of before takes both, and may no longer declare the
// queue as it did.
func TestATeamRollsOutAndBack(t *testing.T) {
	if quorum {
		redistest.Skip(t, "the page is about classic queues: unset "+quorumEnvironment)
	}
	q := open(t, nil)
	q.onChannel(func(channel *amqp.Channel) error {
		for _, body := range []string{"without a level", "and another"} {
			if err := channel.PublishWithContext(t.Context(), "", q.Name(), false, false, amqp.Publishing{Body: []byte(body)}); err != nil {
				return err
			}
		}
		return nil
	})
	trial.Await(t, "both are there", func() bool { return q.waiting(q.Name()) == 2 })
	if err := q.Produce(t.Context(), "acme", "with a level", []byte("with a level")); err != nil {
		t.Fatal(err)
	}
	q.onChannel(func(channel *amqp.Channel) error {
		last := amqp.Publishing{Body: []byte("with the last level"), Priority: 0}
		return channel.PublishWithContext(t.Context(), "", q.Name(), false, false, last)
	})
	trial.Await(t, "all are there", func() bool { return q.waiting(q.Name()) == 4 })
	var got []string
	q.onChannel(func(channel *amqp.Channel) error { // a worker of before
		for len(got) < 4 {
			delivery, ok, err := channel.Get(q.Name(), false)
			if err != nil {
				return err
			}
			if ok {
				got = append(got, string(delivery.Body))
				if err := delivery.Ack(false); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if want := []string{"with a level", "without a level", "and another", "with the last level"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	q.onChannel(func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclare(q.Name(), true, false, false, false, nil)
		var refused *amqp.Error
		if !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed {
			t.Errorf("declared as before: %v", err)
		}
		return nil
	})
}
