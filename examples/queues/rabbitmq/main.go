// Rabbitmq publishes customers' documents with a priority, and works on them: a customer who
// sends a hundred documents at once does not make another one wait.
//
//	go run ./examples/queues/rabbitmq -url amqp://localhost/ -redis localhost:6379
//
// It prints the documents in the order in which they are served, and works on until it is
// interrupted. A service runs produce and work in separate processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/docpriority/priority/fleet"
	priorityrabbitmq "github.com/docpriority/priority/queue/rabbitmq"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
)

func main() {
	address := flag.String("redis", "localhost:6379", "the `address` of Redis, for the customers' counts")
	url := flag.String("url", "amqp://guest:guest@localhost:5672/", "the `URL` of RabbitMQ")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *url); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, url string) (err error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	store, err := fleet.Join(client, nil)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, store.Close(ctx))
	}()
	// It declares the queue, with an x-max-priority, and sends each worker one document at a
	// time: no other document can overtake what a worker was sent.
	documents, err := priorityrabbitmq.Open(ctx, url, "documents", store, nil)
	if err != nil {
		return err
	}
	defer documents.Close()
	if err := produce(ctx, documents); err != nil {
		return err
	}
	return documents.Work(ctx, work)
}

func produce(ctx context.Context, documents *priorityrabbitmq.Queue) error {
	send := func(customer, document string) error {
		message := amqp.Publishing{ContentType: "text/plain", Body: []byte(document)}
		return documents.Publish(ctx, "", documents.Name(), message, priorityrabbitmq.Document{Customer: customer, ID: document})
	}
	for number := range 100 {
		if err := send("archive", fmt.Sprint("archive-", number)); err != nil {
			return err
		}
	}
	return send("clinic", "clinic-0")
}

// work works on one document. The queue calls Done when it returns; after an error, the
// document is retried later.
func work(_ context.Context, delivery amqp.Delivery) error {
	time.Sleep(20 * time.Millisecond)
	fmt.Println(string(delivery.Body))
	return nil
}
