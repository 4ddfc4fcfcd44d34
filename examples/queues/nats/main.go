// Nats keeps customers' documents in a stream with one subject for each level, and works on
// the first level that has any: a customer who sends a hundred documents at once does not
// make another one wait.
//
//	go run ./examples/queues/nats -url nats://localhost:4222 -redis localhost:6379
//
// It prints the documents in the order in which they are served, and works on until it is
// interrupted. A document whose worker dies comes back after the consumer's AckWait.
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

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
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
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: "documents", Subjects: []string{"documents.*"}, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		return err
	}
	send := func(customer, document string) error {
		decision, err := store.Submit(ctx, customer, document, 0)
		if err != nil {
			return err
		}
		message := &nats.Msg{Subject: subject(decision.Level), Header: nats.Header{"customer": {customer}}, Data: []byte(document)}
		_, err = js.PublishMsg(ctx, message)
		return err
	}
	for number := range 100 {
		if err := send("archive", fmt.Sprint("archive-", number)); err != nil {
			return err
		}
	}
	if err := send("clinic", "clinic-0"); err != nil {
		return err
	}
	return work(ctx, stream, store)
}

func subject(level priority.Level) string { return fmt.Sprint("documents.", level) }

// work asks each level in turn, from the first on, after each document.
func work(ctx context.Context, stream jetstream.Stream, store *fleet.Member) error {
	consumers := make([]jetstream.Consumer, store.Last())
	for i := range consumers {
		level := priority.Level(i + 1)
		config := jetstream.ConsumerConfig{Durable: fmt.Sprint("level-", level), FilterSubject: subject(level), AckPolicy: jetstream.AckExplicitPolicy}
		var err error
		if consumers[i], err = stream.CreateOrUpdateConsumer(ctx, config); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		served := false
		for i := 0; i < len(consumers) && !served; i++ {
			batch, err := consumers[i].FetchNoWait(1)
			if err != nil {
				return err
			}
			for message := range batch.Messages() {
				served = true
				time.Sleep(20 * time.Millisecond) // the work
				fmt.Println(string(message.Data()))
				done := store.Done(context.WithoutCancel(ctx), message.Headers().Get("customer"), string(message.Data()), 20*time.Millisecond)
				if err := errors.Join(done, message.Ack()); err != nil {
					return err
				}
			}
		}
		if !served {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}
