// Redis keeps customers' documents in a sorted set, by level, and works on the first one: a
// customer who sends a hundred documents at once does not make another one wait.
//
//	go run ./examples/queues/redis -redis localhost:6379
//
// It prints the documents in the order in which they are served, and works on until it is
// interrupted. A document whose worker dies is served again when its lease ends.
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

// send puts a document into the sorted set, by level and then by time.
func send(ctx context.Context, client *redis.Client, store *fleet.Member, customer, document string) error {
	decision, err := store.Submit(ctx, customer, priority.Document{ID: document})
	if err != nil {
		return err
	}
	score := float64(decision.Level)*1e13 + float64(time.Now().UnixMilli())
	err = client.ZAdd(ctx, "{documents}", redis.Z{Score: score, Member: fmt.Sprintf("%q %q", customer, document)}).Err()
	if err != nil { // it must not stay pending
		_, done := store.Done(context.WithoutCancel(ctx), customer, document, 0)
		err = errors.Join(err, done)
	}
	return err
}

// take moves the first document to those in work, with the time when its lease ends. One
// whose lease has ended comes before all others. Give a lease more time than a document takes.
var take = redis.NewScript(`
	local now = tonumber(redis.call('TIME')[1])
	local document = redis.call('ZRANGE', KEYS[2], '-inf', now, 'BYSCORE', 'LIMIT', 0, 1)[1] or redis.call('ZPOPMIN', KEYS[1])[1]
	if document then
		redis.call('ZADD', KEYS[2], now + ARGV[1], document)
	end
	return document`)

const lease = time.Minute

// work works on one document after another. A signal does not interrupt the one in work.
func work(ctx context.Context, client *redis.Client, store *fleet.Member) error {
	working := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		taken, err := take.Run(working, client, []string{"{documents}", "{documents}:work"}, lease.Seconds()).Text()
		if errors.Is(err, redis.Nil) {
			time.Sleep(100 * time.Millisecond) // there is none
			continue
		}
		if err != nil {
			return err
		}
		var customer, document string
		if _, err := fmt.Sscanf(taken, "%q %q", &customer, &document); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // the work
		fmt.Println(document)
		if _, err := store.Done(working, customer, document, 20*time.Millisecond); err != nil {
			log.Print(err) // it counts as pending until its lease ends
		}
		if err := client.ZRem(working, "{documents}:work", taken).Err(); err != nil {
			return err
		}
	}
	return nil
}
