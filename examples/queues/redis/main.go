// Redis keeps customers' documents in one list for each level, and works on the first that
// is not empty: a customer who sends a hundred documents at once does not make another one
// wait.
//
//	go run ./examples/queues/redis -redis localhost:6379
//
// It prints the documents in the order in which they are served, and works on until it is
// interrupted. A document whose worker dies is lost: a service moves it to another list
// first (BLMOVE), or uses a queue such as asynq.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
)

func main() {
	address := flag.String("redis", "localhost:6379", "the `address` of Redis")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address string) (err error) {
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
	for number := range 100 {
		if err := send(ctx, client, store, "archive", fmt.Sprint("archive-", number)); err != nil {
			return err
		}
	}
	if err := send(ctx, client, store, "clinic", "clinic-0"); err != nil {
		return err
	}
	return work(ctx, client, store)
}

// send puts a document into the list of its level.
func send(ctx context.Context, client *redis.Client, store *fleet.Member, customer, document string) error {
	decision, err := store.Submit(ctx, customer, priority.Document{ID: document})
	if err != nil {
		return err
	}
	return client.RPush(ctx, list(decision.Level), customer+" "+document).Err()
}

func list(level priority.Level) string { return fmt.Sprint("documents:", level) }

// work takes the oldest document of the first level that has one.
func work(ctx context.Context, client *redis.Client, store *fleet.Member) error {
	var lists []string
	for level := priority.First; level <= store.Last(); level++ {
		lists = append(lists, list(level))
	}
	for ctx.Err() == nil {
		_, taken, err := client.BLMPop(ctx, time.Second, "left", 1, lists...).Result()
		if errors.Is(err, redis.Nil) || ctx.Err() != nil {
			continue // there is none
		}
		if err != nil {
			return err
		}
		customer, document, _ := strings.Cut(taken[0], " ")
		time.Sleep(20 * time.Millisecond) // the work
		fmt.Println(document)
		if _, err := store.Done(context.WithoutCancel(ctx), customer, document, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
