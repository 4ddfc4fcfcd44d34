package priorityasynq_test

import (
	"context"
	"fmt"
	"log"

	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
	priorityasynq "github.com/docpriority/priority/queue/asynq"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var (
	redisOpt = asynq.RedisClientOpt{Addr: "localhost:6379"}
	store    = new(memory.Store) // in a fleet: fleet.Join(redisClient, nil)
	payload  = []byte(`{"customer": "acme", "file": "invoice.pdf"}`)
	ctx      = context.Background()
	customer = "acme"
)

func HandleConvert(_ context.Context, task *asynq.Task) error {
	fmt.Printf("converting %s\n", task.Payload())
	return nil
}

// Where you enqueue.
func ExampleClient() {
	asynqClient := asynq.NewClient(redisOpt)
	client, err := priorityasynq.NewClient(asynqClient, store, "documents")
	if err != nil {
		log.Fatal(err)
	}

	task := asynq.NewTask("convert", payload, asynq.MaxRetry(5))
	info, err := client.Enqueue(ctx, customer, task)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(info.Queue)
}

// Where you work.
func ExampleMiddleware() {
	server := asynq.NewServer(redisOpt, asynq.Config{
		Concurrency: 8,
		Queues:      queue.AsynqQueues("documents", queue.LinearWeights(store.Last())),
	})
	mux := asynq.NewServeMux()
	mux.Use(priorityasynq.Middleware(store))
	mux.HandleFunc("convert", HandleConvert)

	if err := server.Run(mux); err != nil {
		log.Fatal(err)
	}
}

// What asynq has archived is retried as new tasks are: at the level that its customer has
// now.
func ExampleLetters() {
	client, err := priorityasynq.NewClient(asynq.NewClient(redisOpt), store, "documents")
	if err != nil {
		log.Fatal(err)
	}

	redisClient := redis.NewClient(&redis.Options{Addr: "localhost:6379"}) // asynq's
	letters, err := priorityasynq.LettersOf(client, redisClient)
	if err != nil {
		log.Fatal(err)
	}
	go letters.Settle(ctx)

	dead, err := letters.Dead(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, letter := range dead {
		fmt.Println(letter.Customer, letter.Task.Type, letter.Reason)
		if err := letters.Retry(ctx, letter); err != nil {
			log.Print(err)
		}
	}
}
