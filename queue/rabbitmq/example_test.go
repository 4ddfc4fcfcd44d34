package priorityrabbitmq_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/queue"
	priorityrabbitmq "github.com/docpriority/priority/queue/rabbitmq"
)

// A producer and a worker that a team has, with its own exchange, queue and loop.
func Example() {
	ctx := context.Background()
	store, err := fleet.Join(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), nil)
	if err != nil {
		log.Fatal(err)
	}
	connection, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	if err := work(ctx, connection, store); err != nil {
		log.Fatal(err)
	}
}

func upload(ctx context.Context, documents *priorityrabbitmq.Queue, customer string, body []byte) error {
	message := amqp.Publishing{ContentType: "application/pdf", Body: body}
	document := priorityrabbitmq.Document{Customer: customer, Cost: float64(len(body))}
	return documents.Publish(ctx, "uploads", "pdf", message, document)
}

func work(ctx context.Context, connection *amqp.Connection, store priority.Store) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	arguments := amqp.Table{"x-max-priority": queue.RabbitMQMaxPriority(store.Last())}
	if _, err := channel.QueueDeclare("documents", true, false, false, false, arguments); err != nil {
		return err
	}
	if err := channel.Qos(1, 0, false); err != nil {
		return err
	}
	documents, err := priorityrabbitmq.New(ctx, connection, "documents", store, nil)
	if err != nil {
		return err
	}
	deliveries, err := channel.Consume("documents", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for delivery := range deliveries {
		if err := documents.Handle(ctx, delivery, process); err != nil {
			return err // connect again
		}
	}
	return amqp.ErrClosed
}

func process(ctx context.Context, delivery amqp.Delivery) error {
	fmt.Println(priorityrabbitmq.Of(delivery).Customer, len(delivery.Body))
	return nil
}

// A whole program: it declares its queue, and connects again by itself.
func ExampleOpen() {
	ctx := context.Background()
	store, err := fleet.Join(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), nil)
	if err != nil {
		log.Fatal(err)
	}
	documents, err := priorityrabbitmq.Open(ctx, "amqp://guest:guest@localhost:5672/", "documents", store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer documents.Close()

	http.HandleFunc("POST /documents", func(_ http.ResponseWriter, r *http.Request) {
		_ = upload(r.Context(), documents, r.Header.Get("X-Customer"), nil)
	})
	if err := documents.Work(ctx, process); err != nil {
		log.Fatal(err)
	}
}
