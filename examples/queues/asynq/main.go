// Asynq sends a flood and two small customers' documents through asynq and shows
// the order in which a worker gets them. It starts a Redis of its own, or uses
// yours:
//
//	go run ./examples/queues/asynq [-weighted] [-url redis://localhost:6379]
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
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/flood"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

func main() {
	url := flag.String("url", "", "the `address` of a Redis (default: one of its own)")
	weighted := flag.Bool("weighted", false, "serve all levels, each by its weight and at random; strictly level 1 first otherwise")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *url, !*weighted, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "asynq:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, strict bool, out io.Writer) (err error) {
	if url == "" {
		own, err := server.StartRedis(ctx)
		if err != nil {
			return err
		}
		defer own.Stop()
		url = own.URL
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	prefix := "priority-example-" + rand.Text()
	defer func() { err = errors.Join(err, removeKeys(client, prefix)) }()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{
		Prefix:  prefix,
		Timeout: 10 * time.Second, // so that a busy machine shows the same as an idle one
	})
	if err != nil {
		return err
	}

	last := store.Last()
	with, err := serve(ctx, url, store, prefix+"-with", last, strict)
	if err != nil {
		return err
	}
	without, err := serve(ctx, url, store, prefix+"-without", 1, strict) // one level for all, as if there were none
	if err != nil {
		return err
	}
	call := func(level priority.Level) string { return "queue " + queue.Name("documents", level, last) }
	flood.Report(out, "asynq", call, with, without)
	return nil
}

// serve sends all documents through as many queues as there are levels, and
// returns them in the order in which the worker got them.
func serve(ctx context.Context, url string, store priority.Store, prefix string, last priority.Level, strict bool) (_ []string, err error) {
	waiting, err := open(url, prefix, last, strict)
	if err != nil {
		return nil, err
	}
	defer waiting.client.Close()
	defer func() { err = errors.Join(err, removeQueues(waiting)) }()

	arriving := flood.Documents()
	for _, d := range arriving {
		if err := waiting.produce(ctx, store, d.Customer, d.String()); err != nil {
			return nil, err
		}
	}
	return flood.Collect(ctx, len(arriving), waiting.consume)
}

func open(url, prefix string, last priority.Level, strict bool) (*documents, error) {
	connection, err := asynq.ParseRedisURI(url)
	if err != nil {
		return nil, err
	}
	return &documents{connection, asynq.NewClient(connection), prefix, last, strict}, nil
}

// removeQueues deletes a queue's documents, and tells asynq that it is gone.
func removeQueues(waiting *documents) error {
	inspector := asynq.NewInspector(waiting.redis)
	defer inspector.Close()
	var errs []error
	for _, name := range queue.Names(waiting.prefix, waiting.last) {
		if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeKeys deletes what else the example has written, which all has its prefix.
func removeKeys(client *redis.Client, prefix string) error {
	var errs []error
	ctx := context.Background() // after an interrupt too
	keys := client.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		errs = append(errs, client.Unlink(ctx, keys.Val()).Err())
	}
	return errors.Join(append(errs, keys.Err())...)
}
