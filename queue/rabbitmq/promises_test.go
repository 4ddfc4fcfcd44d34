package priorityrabbitmq

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/brokertest"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
)

func TestMain(m *testing.M) { brokertest.Main(m, subject) }

func TestPromises(t *testing.T) {
	t.Parallel()
	server := brokertest.StartRabbitMQ(t)
	t.Run("Publish", func(t *testing.T) { testPublish(t, server.URL) })
	onServer := *subject
	onServer.Start = func(testing.TB) (brokertest.Broker, string) { return server, server.URL }
	brokertest.Run(t, &onServer)
}

func BenchmarkFlood(b *testing.B) { subject.Flood(b, 9) }

var subject = &brokertest.Subject{
	Start: func(tb testing.TB) (brokertest.Broker, string) {
		s := brokertest.StartRabbitMQ(tb)
		return s, s.URL
	},
	Open: func(_ context.Context, url string, store priority.Store) (brokertest.Queue, error) {
		connection, channel, err := connect(url, "documents", store, nil)
		if err != nil {
			return nil, err
		}
		q, err := New(connection, "documents", store, &Options{Backoff: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}})
		return &program{q, connection, channel}, errors.Join(err, channel.Qos(2, 0, false))
	},
	Tries: 3,
}

// connect returns a connection to a server, and a channel on which a queue was declared.
func connect(url, name string, store priority.Store, arguments amqp.Table) (*amqp.Connection, *amqp.Channel, error) {
	connection, err := amqp.Dial(url)
	if err != nil {
		return nil, nil, err
	}
	channel, err := connection.Channel()
	if err != nil {
		return nil, nil, err
	}
	table := amqp.Table{"x-max-priority": queue.RabbitMQMaxPriority(store.Last())}
	maps.Copy(table, arguments)
	_, err = channel.QueueDeclare(name, true, false, false, false, table)
	return connection, channel, err
}

// program is what a team writes around a Queue.
type program struct {
	queue      *Queue
	connection *amqp.Connection
	channel    *amqp.Channel
}

func (p *program) Publish(ctx context.Context, customer, document string) error {
	return p.queue.Publish(ctx, "", "documents", amqp.Publishing{Body: []byte(document)}, Document{Customer: customer, ID: document})
}

func (p *program) Work(ctx context.Context, handle func(context.Context, string) error) error {
	deliveries, err := p.channel.ConsumeWithContext(ctx, "documents", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for delivery := range deliveries {
				if p.queue.Handle(ctx, delivery, func(ctx context.Context, d amqp.Delivery) error { return handle(ctx, string(d.Body)) }) != nil {
					p.Close() // ends the deliveries, also of the other one
				}
			}
		})
	}
	workers.Wait()
	return nil
}

func (p *program) Close() { _ = p.connection.Close() }

// A document that Publish reports as published is in a queue. One that it does not is
// published again and counts once, unless RabbitMQ would refuse it again: then it is not
// pending any more.
func testPublish(t *testing.T, url string) {
	store := new(memory.Store)
	var connection *amqp.Connection
	var channel *amqp.Channel
	var q *Queue
	open := func() {
		var err error
		if connection, channel, err = connect(url, "small", store, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		if q, err = New(connection, "small", store, nil); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(exchange, key, document string) error {
		return q.Publish(t.Context(), exchange, key, amqp.Publishing{}, Document{Customer: "acme", ID: document})
	}
	expect := func(what string, pending int64, sent float64, ready int) {
		t.Helper()
		state, err := store.Peek(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		declared, err := channel.QueueDeclarePassive("small", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if state.Pending != pending || math.Round(state.Recent) != sent || declared.Messages != ready {
			t.Errorf("%s: %d pending, %v sent, %d in the queue; want %d, %v and %d",
				what, state.Pending, state.Recent, declared.Messages, pending, sent, ready)
		}
	}

	open()
	if err := publish("", "small", "first"); err != nil {
		t.Fatal(err)
	}
	expect("published", 1, 1, 1)
	if err := publish("", "small", "second"); !errors.Is(err, errFull) {
		t.Errorf("the queue is full: error %v", err)
	}
	expect("full", 2, 2, 1)
	if _, err := channel.QueuePurge("small", false); err != nil {
		t.Fatal(err)
	}
	_ = connection.Close()
	for _, document := range []string{"second", "never sent"} {
		if err := publish("", "small", document); !errors.Is(err, amqp.ErrClosed) {
			t.Errorf("the connection is closed: error %v", err)
		}
	}
	open()
	if err := publish("", "small", "second"); err != nil {
		t.Error(err)
	}
	expect("published again", 2, 2, 1)
	for _, refused := range []struct{ exchange, key string }{{"", "nowhere"}, {"none", "small"}} {
		if err := publish(refused.exchange, refused.key, "refused"); !errors.Is(err, errRefused) {
			t.Errorf("to %q with key %q: error %v", refused.exchange, refused.key, err)
		}
	}
	expect("refused", 2, 4, 1)
}
