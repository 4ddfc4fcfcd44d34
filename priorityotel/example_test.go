package priorityotel_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/redis/go-redis/v9"
)

func ExampleInstrumentation_ObserveStore() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	instrumentation, err := priorityotel.New(nil)
	if err != nil {
		log.Fatal(err)
	}

	store, err := control.New(client, &control.Options{
		OnError: func(err error) { slog.Warn("what operators have set cannot be followed", "error", err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	observed := observe.New(store, instrumentation.Observe)
	stop, err := instrumentation.ObserveStore(observed)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	decision, err := observed.Next(context.Background(), "acme")
	fmt.Println(decision.Level, decision.Ruled, err)
}
