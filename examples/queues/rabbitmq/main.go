// Rabbitmq publishes customers' documents with a priority, and works on them: a customer who
// sends a hundred documents at once does not make another one wait.
//
//	go run ./examples/queues/rabbitmq -url amqp://localhost/ -redis localhost:6379
//
// It prints the documents in the order in which they are served, and works on until it is
// interrupted, also after RabbitMQ was away. A service runs produce and work in separate
// processes, and as many of work as it has workers.
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

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/queue"
	priorityrabbitmq "github.com/docpriority/priority/queue/rabbitmq"
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
	if err := produce(ctx, url, store); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := work(ctx, url, store); err != nil {
			log.Print(err)
			time.Sleep(time.Second) // before it connects again
		}
	}
	return nil
}

func produce(ctx context.Context, url string, store *fleet.Member) error {
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	documents, err := declare(connection, store)
	if err != nil {
		return err
	}
	send := func(customer, document string) error {
		message := amqp.Publishing{ContentType: "text/plain", Body: []byte(document)}
		return documents.Publish(ctx, "", "documents", message, priorityrabbitmq.Document{Customer: customer, ID: document})
	}
	for number := range 100 {
		if err := send("archive", fmt.Sprint("archive-", number)); err != nil {
			return err
		}
	}
	return send("clinic", "clinic-0")
}

// declare creates the queue with a priority for each level, if it does not exist.
func declare(connection *amqp.Connection, store *fleet.Member) (*priorityrabbitmq.Queue, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	defer channel.Close()
	arguments := amqp.Table{"x-max-priority": queue.RabbitMQMaxPriority(store.Last())}
	if _, err := channel.QueueDeclare("documents", true, false, false, false, arguments); err != nil {
		return nil, err
	}
	return priorityrabbitmq.New(connection, "documents", store, nil)
}

// work connects, and works on documents until ctx ends or the connection is lost.
func work(ctx context.Context, url string, store *fleet.Member) error {
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	documents, err := declare(connection, store)
	if err != nil {
		return err
	}
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(1, 0, false); err != nil { // no other document can overtake what a worker was sent
		return err
	}
	deliveries, err := channel.ConsumeWithContext(ctx, "documents", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // a signal does not interrupt the document in work
	defer stop()
	lost := channel.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		if reason := <-lost; reason != nil {
			log.Print("RabbitMQ: ", reason)
		}
		stop() // another worker gets the document in hand
	}()
	for delivery := range deliveries { // they end with ctx and with the channel
		if err := documents.Handle(working, delivery, convert); err != nil {
			return err
		}
	}
	return nil
}

// convert works on one document. Handle calls Done when it returns; after an error, the
// document is retried later.
func convert(_ context.Context, delivery amqp.Delivery) error {
	time.Sleep(20 * time.Millisecond)
	fmt.Println(string(delivery.Body))
	return nil
}
