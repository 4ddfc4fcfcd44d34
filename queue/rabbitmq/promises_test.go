package priorityrabbitmq

import (
	"context"
	"log/slog"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/brokertest"
)

func TestMain(m *testing.M) { brokertest.Main(m, subject) }

func TestPromises(t *testing.T) {
	t.Parallel()
	server := brokertest.StartRabbitMQ(t)
	t.Run("ClassicQueue", func(t *testing.T) { testClassicQueue(t, server.URL) })
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
	Open: func(ctx context.Context, url string, store priority.Store) (brokertest.Queue, error) {
		q, err := Open(ctx, url, "documents", store, &Options{Workers: 2, Backoff: []time.Duration{time.Millisecond * 10, time.Millisecond * 20}, Logger: slog.New(slog.DiscardHandler)})
		return &program{q}, err
	},
	Tries: 3,
}

type program struct{ *Queue }

func (p *program) Publish(ctx context.Context, customer, document string) error {
	return p.Queue.Publish(ctx, "", "documents", amqp.Publishing{Body: []byte(document)}, Document{Customer: customer, ID: document})
}

func (p *program) Work(ctx context.Context, handle func(context.Context, string) error) error {
	return p.Queue.Work(ctx, func(ctx context.Context, d amqp.Delivery) error { return handle(ctx, string(d.Body)) })
}

func (p *program) Close() { _ = p.Queue.Close() }
