package priorityrabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
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
	promises := func(t *testing.T, url string) {
		onServer := *subject
		onServer.Start = func(testing.TB) (brokertest.Broker, string) { return server, url }
		brokertest.Run(t, &onServer)
	}
	t.Run("classic", func(t *testing.T) { promises(t, server.URL) })
	if hasStrictQuorum(t, server.URL) {
		t.Run("quorum", func(t *testing.T) { promises(t, server.URL+quorum) })
		t.Run("quorum, returned", func(t *testing.T) { testReturned(t, server.URL) })
	}
}

// hasStrictQuorum reports whether quorum queues serve by priority: from RabbitMQ 4.3 on.
func hasStrictQuorum(tb testing.TB, url string) bool {
	connection, err := amqp.Dial(url)
	if err != nil {
		tb.Fatal(err)
	}
	defer connection.Close()
	var major, minor int
	if _, err := fmt.Sscanf(fmt.Sprint(connection.Properties["version"]), "%d.%d", &major, &minor); err != nil {
		tb.Fatal(err)
	}
	tb.Logf("RabbitMQ %d.%d", major, minor)
	return major > 4 || major == 4 && minor >= 3
}

func BenchmarkFlood(b *testing.B) {
	server := brokertest.StartRabbitMQ(b)
	kinds := map[string]string{"classic": ""}
	if hasStrictQuorum(b, server.URL) {
		kinds["quorum"] = quorum
	}
	for kind, suffix := range kinds {
		b.Run(kind, func(b *testing.B) {
			onServer := *subject
			onServer.Start = func(testing.TB) (brokertest.Broker, string) { return server, server.URL + suffix }
			onServer.Flood(b)
		})
	}
}

// quorum, behind a server's address, asks the subject for a quorum queue.
const quorum = "#quorum"

var subject = &brokertest.Subject{
	Start: func(tb testing.TB) (brokertest.Broker, string) {
		s := brokertest.StartRabbitMQ(tb)
		return s, s.URL
	},
	Open: func(_ context.Context, url string, store priority.Store) (brokertest.Queue, error) {
		url, isQuorum := strings.CutSuffix(url, quorum)
		name := "documents"
		arguments := amqp.Table{"x-max-priority": queue.RabbitMQMaxPriority(store.Last())}
		if isQuorum {
			name = "quorum"
			arguments = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": -1}
		}
		connection, channel, err := connect(url, name, arguments)
		if err != nil {
			return nil, err
		}
		q, err := New(connection, name, store, &Options{Quorum: isQuorum, Backoff: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}})
		return &program{q, connection, channel}, errors.Join(err, channel.Qos(2, 0, false))
	},
	Tries: 3,
}

// connect returns a connection to a server, and a channel on which a queue was declared.
func connect(url, name string, arguments amqp.Table) (*amqp.Connection, *amqp.Channel, error) {
	connection, err := amqp.Dial(url)
	if err != nil {
		return nil, nil, err
	}
	channel, err := connection.Channel()
	if err != nil {
		return nil, nil, err
	}
	_, err = channel.QueueDeclare(name, true, false, false, false, arguments)
	return connection, channel, err
}

// program is what a team writes around a Queue.
type program struct {
	queue      *Queue
	connection *amqp.Connection
	channel    *amqp.Channel
}

func (p *program) Publish(ctx context.Context, customer, document string) error {
	return p.queue.Publish(ctx, "", p.queue.name, amqp.Publishing{Body: []byte(document)}, Document{Customer: customer, ID: document})
}

func (p *program) Work(ctx context.Context, handle func(context.Context, string) error) error {
	deliveries, err := p.channel.ConsumeWithContext(ctx, p.queue.name, "", false, false, false, false, nil)
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

// What a quorum queue does with a document that a worker had and did not acknowledge, as
// docs/queues.md says.
func testReturned(t *testing.T, url string) {
	store := new(memory.Store)
	open := func(name string, further amqp.Table) (*amqp.Channel, *Queue) {
		arguments := amqp.Table{"x-queue-type": "quorum"}
		maps.Copy(arguments, further)
		connection, channel, err := connect(url, name, arguments)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		q, err := New(connection, name, store, &Options{Quorum: true})
		if err != nil {
			t.Fatal(err)
		}
		return channel, q
	}
	take := func(channel *amqp.Channel, q *Queue) string {
		delivery, _, err := channel.Get(q.name, false)
		if err != nil {
			t.Fatal(err)
		}
		return string(delivery.Body)
	}
	publish := func(q *Queue, priority uint8, document string) {
		if err := q.Publish(t.Context(), "", q.name, amqp.Publishing{Priority: priority, Body: []byte(document)}, Document{}); err != nil {
			t.Fatal(err)
		}
	}

	// It comes before all others, and is dropped when it has come back 20 times, if there is a limit.
	for name, c := range map[string]struct {
		arguments amqp.Table
		want      int
	}{"limited": {nil, 21}, "unlimited": {amqp.Table{"x-delivery-limit": -1}, 30}} {
		channel, q := open(name, c.arguments)
		publish(q, 4, "late")
		taken := 0
		for take(channel, q) == "late" && taken < c.want {
			if taken++; taken == 1 {
				publish(q, 12, "early")
			}
			_ = channel.Close()
			channel, q = open(name, c.arguments)
		}
		if taken != c.want {
			t.Errorf("%s: a document was taken %d times, not %d", name, taken, c.want)
		}
	}

	// After its timeout the consumer ends, and the next one gets it.
	timeout := amqp.Table{"x-consumer-timeout": 1000}
	consume := func() (<-chan amqp.Delivery, *Queue) {
		channel, q := open("slow", timeout)
		deliveries, err := channel.Consume(q.name, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return deliveries, q
	}
	deliveries, q := consume()
	publish(q, 12, "slow")
	if err := q.Handle(t.Context(), <-deliveries, func(context.Context, amqp.Delivery) error {
		<-deliveries
		return nil
	}); err != nil {
		t.Error(err)
	}
	deliveries, _ = consume()
	if delivery := <-deliveries; string(delivery.Body) != "slow" || !delivery.Redelivered {
		t.Errorf("%q is delivered after the timeout", delivery.Body)
	}
}

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
		if connection, channel, err = connect(url, "small", amqp.Table{"x-max-priority": 8, "x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
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
