package priorityotel_test

import (
	"log"

	"github.com/docpriority/priority/priorityotel"
	"github.com/redis/go-redis/v9"
)

func ExampleInstrumentation_ObserveFleet() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	instrumentation, err := priorityotel.New(nil)
	if err != nil {
		log.Fatal(err)
	}

	stop, err := instrumentation.ObserveFleet(client, "priority")
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
}
