// Rabbitmq sends a flood and two small customers' documents through RabbitMQ and
// shows the order in which a worker gets them. It starts a RabbitMQ of its own, or
// uses yours:
//
//	go run ./examples/queues/rabbitmq [-url amqp://guest:guest@localhost:5672/]
//
// What to copy is in documents.go.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/flood"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	url := flag.String("url", "", "the `address` of a RabbitMQ (default: one of its own)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *url, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rabbitmq:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, out io.Writer) error {
	if url == "" {
		own, err := server.StartRabbitMQ(ctx)
		if err != nil {
			return err
		}
		defer own.Stop()
		url = own.URL
	}
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()

	store := new(memory.Store) // a fleet shares a priority.RedisStore
	last := store.Last()
	with, err := serve(ctx, connection, store, last)
	if err != nil {
		return err
	}
	without, err := serve(ctx, connection, store, 1) // one level for all, as if there were none
	if err != nil {
		return err
	}
	call := func(level priority.Level) string {
		return fmt.Sprint(queue.RabbitMQ(level, last, queue.RabbitMQMaxPriority(last)))
	}
	flood.Report(out, "RabbitMQ", call, with, without)
	return nil
}

// serve sends all documents through a queue with as many levels, and returns them
// in the order in which the worker got them.
func serve(ctx context.Context, connection *amqp.Connection, store priority.Store, last priority.Level) (_ []string, err error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	defer channel.Close()
	waiting, err := open(channel, "priority-example-"+rand.Text(), last)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, deleted := channel.QueueDelete(waiting.name, false, false, false)
		err = errors.Join(err, deleted)
	}()

	arriving := flood.Documents()
	for _, d := range arriving {
		if err := waiting.produce(ctx, store, d.Customer, d.String()); err != nil {
			return nil, err
		}
	}
	return flood.Collect(ctx, len(arriving), waiting.consume)
}
