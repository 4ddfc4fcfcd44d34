package priority_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// Count each document when it arrives, and put it into the queue with the level.
func Example() {
	server, err := miniredis.Run() // stands in for your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	// One store for the whole process.
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	for _, customer := range []string{"acme", "acme", "acme", "acme", "acme", "acme", "globex"} {
		decision, err := store.Next(ctx, customer)
		if err != nil {
			log.Print(err) // the document goes on with a level of your choice
		}
		fmt.Printf("%s: level %d (count %d)\n", customer, decision.Level, decision.Count)
	}
	// Output:
	// acme: level 1 (count 0)
	// acme: level 1 (count -1)
	// acme: level 1 (count -2)
	// acme: level 2 (count -3)
	// acme: level 2 (count -4)
	// acme: level 3 (count -5)
	// globex: level 1 (count 0)
}

// exampleStore is a store on a server that stands in for your Redis.
func exampleStore(opts *priority.RedisOptions) (store *priority.RedisStore, client *redis.Client, end func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	opts.Timeout = time.Minute
	if store, err = priority.NewRedisStore(client, opts); err != nil {
		log.Fatal(err)
	}
	return store, client, func() { _ = client.Close(); server.Close() }
}

// A batch of several customers' documents can fail in part.
func ExampleBatchError() {
	store, client, end := exampleStore(&priority.RedisOptions{})
	defer end()

	ctx := context.Background()
	client.Set(ctx, store.Keys("globex").Count, "somebody's mistake", time.Hour)

	customers := []string{"acme", "globex", "acme"}
	decisions, err := store.NextEach(ctx, customers)
	var batch *priority.BatchError
	if err != nil && !errors.As(err, &batch) {
		log.Fatal(err) // the call was wrong: nothing was counted
	}
	for i := range customers {
		var err error
		if batch != nil {
			err = batch.Errs[i]
		}
		switch {
		case err == nil:
			fmt.Println(customers[i], "has level", decisions[i].Level, "at count", decisions[i].Count)
		case errors.Is(err, priority.ErrNotCounted):
			fmt.Println(customers[i], "may be tried again")
		default: // here the error names the key that holds something else
			fmt.Println(customers[i], "goes on with a level of your choice")
		}
	}
	// Output:
	// acme has level 1 at count 0
	// globex goes on with a level of your choice
	// acme has level 1 at count -1
}
