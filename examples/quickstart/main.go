// Quickstart shows what priorities do for small customers while a large one
// floods the queue. It needs no server:
//
//	go run ./examples/quickstart
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

type document struct {
	customer string
	arrived  time.Duration // since the start
	level    priority.Level
}

func run(ctx context.Context, out io.Writer) error {
	server, err := miniredis.Run() // in this process, in place of a real Redis
	if err != nil {
		return fmt.Errorf("start miniredis: %w", err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{
		Timeout: 10 * time.Second, // so that a busy machine shows the same as an idle one
	})
	if err != nil {
		return err
	}

	documents := arrivals()
	for i := range documents {
		decision, err := store.Next(ctx, documents[i].customer)
		if err != nil {
			return err
		}
		documents[i].level = decision.Level
	}

	byLevel := func(a, b document) int { return cmp.Compare(a.level, b.level) }
	byArrival := func(a, b document) int { return cmp.Compare(a.arrived, b.arrived) }
	report(out, documents, process(documents, byLevel), process(documents, byArrival))
	return nil
}

// arrivals returns everyone's documents as they come in: a flood, and two small
// customers after it has begun.
func arrivals() []document {
	documents := slices.Concat(
		documentsOf("archive", 60, 0, 200*time.Millisecond),
		documentsOf("bakery", 3, 3*time.Second, 2*time.Second),
		documentsOf("clinic", 6, 5*time.Second, time.Second),
	)
	slices.SortStableFunc(documents, func(a, b document) int { return cmp.Compare(a.arrived, b.arrived) })
	return documents
}

func documentsOf(customer string, n int, first, every time.Duration) []document {
	documents := make([]document, n)
	for i := range documents {
		documents[i] = document{customer: customer, arrived: first + time.Duration(i)*every}
	}
	return documents
}

// service is what became of one document.
type service struct {
	customer string
	wait     time.Duration // from its arrival until it was taken
}

// process has one worker take the documents, a second for each, and returns
// them in the order in which they were taken. Each second the worker takes what
// order puts first of all that has arrived. No real time passes.
func process(documents []document, order func(a, b document) int) []service {
	var served []service
	var waiting []document
	for clock := time.Duration(0); len(documents)+len(waiting) > 0; clock += time.Second {
		for len(documents) > 0 && documents[0].arrived <= clock {
			waiting = append(waiting, documents[0])
			documents = documents[1:]
		}
		if len(waiting) == 0 {
			continue
		}
		slices.SortStableFunc(waiting, order) // stable: what is equal stays in the order of arrival
		served = append(served, service{waiting[0].customer, clock - waiting[0].arrived})
		waiting = waiting[1:]
	}
	return served
}

func report(out io.Writer, documents []document, with, without []service) {
	fmt.Fprintf(out, "Three customers send %d documents to one worker, who takes 1 s for each.\n", len(documents))

	fmt.Fprintln(out, "\ncustomer  documents  from second  level×documents")
	for _, customer := range customersOf(documents) {
		var first time.Duration
		var levels []priority.Level
		for _, d := range documents {
			if d.customer != customer {
				continue
			}
			if len(levels) == 0 {
				first = d.arrived
			}
			levels = append(levels, d.level)
		}
		fmt.Fprintf(out, "%-8s  %9d  %11.0f  %s\n", customer, len(levels), first.Seconds(), spread(levels))
	}

	fmt.Fprintln(out, "\n          with the module: by level     without it: by arrival")
	fmt.Fprintln(out, "customer  served as no.   mean wait     served as no.   mean wait")
	for _, customer := range customersOf(documents) {
		fmt.Fprintf(out, "%-8s  %s     %s\n", customer, summary(with, customer), summary(without, customer))
	}

	fmt.Fprint(out, `
8×6 stands for six documents at level 8. With the module a document of level 1 is
served before one of level 2 and, within a level, what arrived first. "4 to 9": of all
documents, the customer's first was the 4th to be served, and the last the 9th.
`)
}

// customersOf returns the customers in the order of their first documents.
func customersOf(documents []document) []string {
	var customers []string
	for _, d := range documents {
		if !slices.Contains(customers, d.customer) {
			customers = append(customers, d.customer)
		}
	}
	return customers
}

// spread counts the levels: "1×3 2×2" are three of level 1 and two of level 2.
func spread(levels []priority.Level) string {
	documents := make(map[priority.Level]int)
	for _, level := range levels {
		documents[level]++
	}
	var parts []string
	for level := priority.First; level <= (priority.Policy{}).Last(); level++ {
		if documents[level] > 0 {
			parts = append(parts, fmt.Sprintf("%d×%d", level, documents[level]))
		}
	}
	return strings.Join(parts, " ")
}

// summary says when a customer was served: the positions and the mean wait.
func summary(served []service, customer string) string {
	var positions []int
	var waited time.Duration
	for i, s := range served {
		if s.customer == customer {
			positions = append(positions, i+1)
			waited += s.wait
		}
	}
	mean := waited / time.Duration(len(positions))
	return fmt.Sprintf("%7d to %2d   %7.1f s", positions[0], positions[len(positions)-1], mean.Seconds())
}
