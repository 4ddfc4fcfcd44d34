package fallback_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
)

// While Redis cannot be reached, each process goes on with counts of its own.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing listens there
	defer client.Close()
	redisStore, err := priority.NewRedisStore(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	store, err := fallback.New(redisStore, &fallback.Options{
		OnChange: func(open bool, cause error) {
			// Log it: all workers are degraded from now on, or not any more.
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	for range 4 {
		decision, err := store.Next(ctx, "acme")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("level", decision.Level, "degraded", decision.Degraded)
	}
	fmt.Println("ready:", !store.Degraded())

	closing, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := store.Close(closing); err != nil {
		log.Print(err) // says how many Dones Redis was not told
	}
	// Output:
	// level 1 degraded true
	// level 1 degraded true
	// level 1 degraded true
	// level 2 degraded true
	// ready: false
}
