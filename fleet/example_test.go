package fleet_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
)

// A worker joins, decides about a document, and leaves.
func Example() {
	server, err := miniredis.Run() // stands in for your Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	logging.Disable() // go-redis would log each failed connection too
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	store, err := fleet.Join(client, &fleet.Options{
		Store:  priority.RedisOptions{Timeout: 5 * time.Second},
		Logger: slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			log.Print(err)
		}
	}()

	ctx := context.Background()
	decision, err := store.Submit(ctx, "acme", priority.Document{ID: "invoice-1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("invoice-1 has level", decision.Level)
	// … the queue, and a worker that processes the document …
	if _, err := store.Done(ctx, "acme", "invoice-1", 20*time.Millisecond); err != nil {
		log.Fatal(err)
	}

	// What the process reports to operators.
	report := store.Report()
	fmt.Println(report.Documents(), "document, waits of level 1:", report.Waits[1].Count())
	// Output:
	// invoice-1 has level 1
	// 1 document, waits of level 1: 1
}
