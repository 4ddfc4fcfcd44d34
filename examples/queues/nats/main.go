// Nats keeps customers' documents in a stream with one subject for each level, and works on
// the first level that has any. It prints the documents in the order in which they are
// served, until it is interrupted. One whose worker dies comes back after AckWait.
//
//	go run ./examples/queues/nats -url nats://localhost:4222 -redis localhost:6379
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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
)

func main() {
	address := flag.String("redis", "localhost:6379", "the `address` of Redis, for the customers' counts")
	url := flag.String("url", nats.DefaultURL, "the `URL` of NATS")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *url); err != nil && ctx.Err() == nil {
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
	connection, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	js, err := jetstream.New(connection)
	if err != nil {
		return err
	}
	config := jetstream.StreamConfig{Name: "documents", Subjects: []string{"documents.*"}, Retention: jetstream.WorkQueuePolicy}
	stream, err := js.CreateOrUpdateStream(ctx, config)
	if err != nil {
		return err
	}
	for number := range 101 {
		customer, document := "archive", fmt.Sprint("archive-", number)
		if number == 100 {
			customer, document = "clinic", "clinic-0"
		}
		decision, err := store.Submit(ctx, customer, priority.Document{ID: document})
		if err != nil {
			return err
		}
		if _, err := js.Publish(ctx, fmt.Sprint("documents.", decision.Level), fmt.Appendf(nil, "%q %q", customer, document)); err != nil {
			_, done := store.Done(context.WithoutCancel(ctx), customer, document, 0) // it must not stay pending
			return errors.Join(err, done)
		}
	}
	var consumers []jetstream.Consumer
	for level := range int(store.Last()) {
		consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: fmt.Sprint("level-", level+1), FilterSubject: fmt.Sprint("documents.", level+1), AckPolicy: jetstream.AckExplicitPolicy,
		})
		if err != nil {
			return err
		}
		consumers = append(consumers, consumer)
	}
	for next := 0; ctx.Err() == nil; next++ {
		if next == len(consumers) { // no level has any
			next = 0
			time.Sleep(100 * time.Millisecond)
		}
		batch, err := consumers[next].FetchNoWait(1)
		if err != nil {
			return err
		}
		for message := range batch.Messages() {
			var customer, document string
			if _, err := fmt.Sscanf(string(message.Data()), "%q %q", &customer, &document); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond) // the work, which a signal does not interrupt
			fmt.Println(document)
			if _, err := store.Done(context.WithoutCancel(ctx), customer, document, 20*time.Millisecond); err != nil {
				log.Print(err) // it counts as pending until its lease ends
			}
			if err := message.Ack(); err != nil {
				return err
			}
			next = -1 // look at level 1 again
		}
	}
	return nil
}
