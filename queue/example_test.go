package queue_test

import (
	"fmt"
	"log"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
)

// A document of level 3 goes into a RabbitMQ queue that was declared with
// x-max-priority 8. The largest number is served first.
func ExampleRabbitMQ() {
	last := new(memory.Store).Last()
	maxPriority := queue.RabbitMQMaxPriority(last)
	fmt.Println(maxPriority, queue.RabbitMQ(3, last, maxPriority))
	// Output: 8 6
}

// River has four priorities and serves 1 first.
func ExampleRiver() {
	last := new(memory.Store).Last()
	fmt.Println(queue.River(1, last), queue.River(5, last), queue.River(9, last))
	// Output: 1 3 4
}

// The queues of a consumer with StrictPriority, and a producer's queue.
func ExampleAsynqQueues() {
	fmt.Println(queue.AsynqQueues("documents", 3))
	fmt.Println(queue.Name("documents", 2, 3))
	// Output:
	// map[documents-1:3 documents-2:2 documents-3:1]
	// documents-2
}

// Nine levels on three queues.
func ExampleClass() {
	for level := priority.First; level <= 9; level++ {
		fmt.Print(queue.Name("documents", queue.Class(level, 9, 3), 3), " ")
	}
	// Output: documents-1 documents-1 documents-1 documents-1 documents-2 documents-3 documents-3 documents-3 documents-3
}

// A consumer that polls a queue for each level: level 1 most often, the last one too.
func ExamplePicker() {
	picker, err := queue.NewPicker(3, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	hasWork := []bool{true, true, true}
	for range 6 {
		level, _ := picker.Pick(hasWork)
		fmt.Print(level, " ")
	}
	hasWork[0] = false // the queue of level 1 is empty
	level, ok := picker.Pick(hasWork)
	fmt.Println(level, ok)
	// Output: 1 2 1 3 2 1 2 true
}
