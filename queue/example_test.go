package queue_test

import (
	"fmt"
	"log"

	"github.com/docpriority/priority/queue"
)

// The queues of a consumer with StrictPriority, and a producer's queue.
func ExampleAsynqQueues() {
	fmt.Println(queue.AsynqQueues("documents", 3))
	fmt.Println(queue.Name("documents", 2, 3))
	// Output:
	// map[documents-1:3 documents-2:2 documents-3:1]
	// documents-2
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
