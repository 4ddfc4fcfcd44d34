package coalesce_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
)

// A customer who is at the last level is answered from memory, and the documents are
// written once a second. Close writes the rest when the process ends.
func Example() {
	server, err := miniredis.Run() // stands in for your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	redisStore, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	store, err := coalesce.New(redisStore, &coalesce.Options{Interval: time.Minute})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	if _, err := store.NextN(ctx, "acme", 100); err != nil {
		log.Fatal(err)
	}
	decision, err := store.Next(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("level", decision.Level, "count", decision.Count, "estimated", decision.Estimated)

	closing, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := store.Close(closing); err != nil {
		log.Print(err) // says how many documents were lost
	}
	decision, err = redisStore.Peek(ctx, "acme")
	fmt.Println("Redis has count", decision.Count, err)
	// Output:
	// level 9 count -100 estimated true
	// Redis has count -100 <nil>
}
