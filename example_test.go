package priority_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
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

// An upload of many documents is one round trip.
func ExampleRedisStore_NextN() {
	server, err := miniredis.Run() // stands in for your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}

	decisions, err := store.NextN(context.Background(), "acme", 24)
	if err != nil {
		log.Fatal(err)
	}
	for _, decision := range decisions {
		fmt.Print(decision.Level, " ")
	}
	fmt.Println()
	// Output:
	// 1 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 8 8 8 8 9 9 9
}

// A batch of several customers' documents can fail in part.
func ExampleRedisStore_NextEach() {
	server, err := miniredis.Run() // stands in for your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	client.Set(ctx, store.Key("globex"), "somebody's mistake", time.Hour)

	customers := []string{"acme", "globex", "acme"}
	decisions, err := store.NextEach(ctx, customers)
	var batch *priority.BatchError
	if err != nil && !errors.As(err, &batch) {
		log.Fatal(err) // the call was wrong: nothing was counted
	}
	for i, customer := range customers {
		switch {
		case batch == nil || batch.Errs[i] == nil:
			fmt.Println(customer, "has level", decisions[i].Level, "at count", decisions[i].Count)
		case errors.Is(batch.Errs[i], priority.ErrNotCounted):
			fmt.Println(customer, "may be tried again")
		default: // here the error names the key that holds something else
			fmt.Println(customer, "goes on with a level of your choice")
		}
	}
	// Output:
	// acme has level 1 at count 0
	// globex goes on with a level of your choice
	// acme has level 1 at count -1
}

// Three levels instead of nine, and a fresh start every minute for those who
// never pause.
func ExamplePolicy() {
	policy := priority.Policy{
		Thresholds:    []int64{-9, -99},
		ResetInterval: time.Minute,
		ResetMode:     priority.SinceLastReset,
	}
	if err := policy.Validate(); err != nil {
		log.Fatal(err)
	}
	for _, document := range []int64{1, 10, 11, 100, 101} {
		fmt.Printf("document %d: level %d\n", document, policy.Level(1-document))
	}
	fmt.Println("last:", policy.Lowest())
	// Output:
	// document 1: level 1
	// document 10: level 1
	// document 11: level 2
	// document 100: level 2
	// document 101: level 3
	// last: 3
}

// A MemoryStore needs no server, and its clock can be moved: code that takes a
// Store is tested with it.
func ExampleMemoryStore() {
	now := time.Now()
	store, err := priority.NewMemoryStore(&priority.MemoryOptions{
		Now: func() time.Time { return now },
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	if _, err := store.NextN(ctx, "acme", 30); err != nil {
		log.Fatal(err)
	}
	for _, pause := range []time.Duration{time.Minute, 25 * time.Minute, 25*time.Minute + time.Millisecond} {
		now = now.Add(pause)
		decision, err := store.Next(ctx, "acme")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("after %v: level %d, count %d\n", pause, decision.Level, decision.Count)
	}
	// Output:
	// after 1m0s: level 9, count -30
	// after 25m0s: level 9, count -31
	// after 25m0.001s: level 1, count 0
}

// A customer at the lowest level costs one round trip a second, however much it
// sends.
func ExampleCoalescer() {
	server, err := miniredis.Run() // stands in for your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	coalescer, err := priority.NewCoalescer(store, nil)
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	if _, err := coalescer.NextN(ctx, "acme", 21); err != nil {
		log.Fatal(err)
	}
	for range 4 {
		decision, err := coalescer.Next(ctx, "acme")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("level %d, count %d, from memory: %v\n", decision.Level, decision.Count, decision.Estimated)
	}

	// When the process ends, what was answered from memory is counted.
	if err := coalescer.Close(ctx); err != nil {
		log.Print(err)
	}
	decision, err := store.Peek(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("count in Redis:", decision.Count)
	// Output:
	// level 9, count -21, from memory: false
	// level 9, count -22, from memory: true
	// level 9, count -23, from memory: true
	// level 9, count -24, from memory: true
	// count in Redis: -24
}

// Paying customers can send more before they wait.
func ExampleRedisOptions() {
	server, err := miniredis.Run() // stands in for your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	store, err := priority.NewRedisStore(client, &priority.RedisOptions{
		Tiers: map[string]priority.Policy{
			"paying": {Thresholds: []int64{-20, -40, -60, -80, -100, -120, -140, -200}},
		},
		TierOf: func(customer string) string {
			if strings.HasPrefix(customer, "paying/") { // or look it up
				return "paying"
			}
			return ""
		},
		Timeout: time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}

	for _, customer := range []string{"acme", "paying/globex"} {
		decisions, err := store.NextN(context.Background(), customer, 25)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("the 25th document of %s has level %d\n", customer, decisions[24].Level)
	}
	// Output:
	// the 25th document of acme has level 9
	// the 25th document of paying/globex has level 2
}
