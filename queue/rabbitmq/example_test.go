package priorityrabbitmq_test

import (
	"context"
	"fmt"
	"log"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/queue"
	priorityrabbitmq "github.com/docpriority/priority/queue/rabbitmq"
)

var (
	documents *priorityrabbitmq.Queue // from New
	customer  = "acme"
	body      = []byte("%PDF")
)

// A producer keeps its exchange, routing key and message, and says whose document it is.
func ExampleQueue_Publish() {
	message := amqp.Publishing{ContentType: "application/pdf", Body: body}
	document := priorityrabbitmq.Document{Customer: customer, Cost: float64(len(body))}
	if err := documents.Publish(context.Background(), "uploads", "pdf", message, document); err != nil {
		log.Fatal(err)
	}
}

// A worker keeps its queue and its loop.
func Example() {
	store, err := fleet.Join(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), nil)
	if err != nil {
		log.Fatal(err)
	}
	connection, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	if err := work(context.Background(), connection, store); err != nil {
		log.Fatal(err)
	}
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
	documents, err := priorityrabbitmq.New(connection, "documents", store, nil)
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
	fmt.Println(priorityrabbitmq.DocumentOf(delivery).Customer, len(delivery.Body))
	return nil
}
