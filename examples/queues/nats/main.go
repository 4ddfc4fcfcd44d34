// Nats sends a flood and two small customers' documents through NATS JetStream and
// shows the order in which a worker gets them. It starts a NATS server of its own,
// or uses yours:
//
//	go run ./examples/queues/nats [-weighted] [-url nats://localhost:4222]
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
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	url := flag.String("url", "", "the `address` of a NATS server with JetStream (default: one of its own)")
	weighted := flag.Bool("weighted", false, "serve all levels, each by its weight; strictly level 1 first otherwise")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *url, *weighted, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, weighted bool, out io.Writer) error {
	if url == "" {
		own, err := server.StartNATS(ctx)
		if err != nil {
			return err
		}
		defer own.Stop()
		url = own.URL
	}
	connection, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	js, err := jetstream.New(connection)
	if err != nil {
		return err
	}

	store := new(memory.Store) // a fleet shares a priority.RedisStore
	last := store.Last()
	picker := &queue.Picker{}
	if weighted {
		if picker, err = queue.NewPicker(queue.LinearWeights(last)...); err != nil {
			return err
		}
	}
	with, err := serve(ctx, js, store, last, picker)
	if err != nil {
		return err
	}
	without, err := serve(ctx, js, store, 1, picker) // one level for all, as if there were none
	if err != nil {
		return err
	}
	call := func(level priority.Level) string {
		return "subject " + queue.NATSSubject("documents", level, last)
	}
	flood.Report(out, "NATS", call, with, without)
	return nil
}

// serve sends all documents through a stream with as many subjects as there are
// levels, and returns them in the order in which the worker got them.
func serve(ctx context.Context, js jetstream.JetStream, store priority.Store, last priority.Level, picker *queue.Picker) (_ []string, err error) {
	waiting, err := open(ctx, js, "priority-example-"+rand.Text(), last)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, waiting.remove(context.Background())) }() // after an interrupt too

	arriving := flood.Documents()
	for _, d := range arriving {
		if err := waiting.produce(ctx, store, d.Customer, d.String()); err != nil {
			return nil, err
		}
	}
	return flood.Collect(ctx, len(arriving), func(ctx context.Context, process func(string) error) error {
		return waiting.consume(ctx, picker, process)
	})
}
