package control_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// A worker goes by what an operator sets.
func Example() {
	server, err := miniredis.Run() // stands in for your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: 5 * time.Second, Overrides: true})
	if err != nil {
		log.Fatal(err)
	}
	follower, err := control.Follow(client, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer follower.Close(ctx)

	admin, err := control.NewAdmin(client, nil) // as priorityctl does
	if err != nil {
		log.Fatal(err)
	}
	change := control.Change{By: "mary", Why: "a script that runs wild"}
	if _, err := admin.SetOverride(ctx, "acme", priority.Bounds{Earliest: 7}, 8*time.Hour, change); err != nil {
		log.Fatal(err)
	}
	for _, customer := range []string{"acme", "globex"} {
		decision, err := store.Next(ctx, customer)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(customer, "has level", decision.Level)
	}
	// Output:
	// acme has level 7
	// globex has level 1
}
