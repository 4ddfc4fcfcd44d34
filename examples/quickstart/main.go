// Quickstart shows how long three customers wait, one of whom floods the queue: by first
// come, first served, and by each rule of the module. It needs no server:
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	store := new(memory.Store) // in this process; a fleet shares a RedisStore

	firstCome, err := process(arrivals(), rule{
		arrive: func(document) (priority.Level, error) { return priority.First, nil },
		done:   func(document) error { return nil },
	})
	if err != nil {
		return err
	}
	byCount, err := process(arrivals(), rule{
		arrive: func(d document) (priority.Level, error) {
			decision, err := store.Next(ctx, d.customer)
			return decision.Level, err
		},
		done: func(document) error { return nil },
	})
	if err != nil {
		return err
	}
	byLoad, err := process(arrivals(), rule{
		arrive: func(d document) (priority.Level, error) {
			decision, err := store.Submit(ctx, d.customer, priority.Document{ID: d.id}) // its cost is not known
			return decision.Level, err
		},
		done: func(d document) error {
			_, err := store.Done(ctx, d.customer, d.id, time.Second)
			return err
		},
	})
	if err != nil {
		return err
	}
	report(out, firstCome, byCount, byLoad)
	return nil
}

type document struct {
	customer, id string
	arrived      time.Duration // since the start
}

// arrivals returns everyone's documents as they come in: a flood, and two small
// customers after it has begun.
func arrivals() []document {
	documents := slices.Concat(
		documentsOf("archive", 60, 0, 200*time.Millisecond),
		documentsOf("bakery", 3, 3*time.Second, 2*time.Second),
		documentsOf("clinic", 6, 5*time.Second, time.Second),
	)
	slices.SortStableFunc(documents, func(a, b document) int { return int(a.arrived - b.arrived) })
	return documents
}

func documentsOf(customer string, n int, first, interval time.Duration) []document {
	documents := make([]document, n)
	for i := range documents {
		documents[i] = document{customer, fmt.Sprint(i + 1), first + time.Duration(i)*interval}
	}
	return documents
}

// rule gives a document its level when it arrives, and learns when it is processed.
type rule struct {
	arrive func(document) (priority.Level, error)
	done   func(document) error
}

// service is what became of one document.
type service struct {
	customer string
	level    priority.Level
	wait     time.Duration // from its arrival until it was taken
}

// process has one worker take the documents, a second for each, and returns them in the
// order in which they were taken: the first level first and, within a level, what arrived
// first. No real time passes.
func process(documents []document, r rule) (served []service, err error) {
	type entry struct {
		document
		level priority.Level
	}
	var waiting, working []entry // at most one is worked on
	for clock := time.Duration(0); len(documents)+len(waiting)+len(working) > 0; clock += time.Second {
		for len(documents) > 0 && documents[0].arrived <= clock {
			level, err := r.arrive(documents[0])
			if err != nil {
				return nil, err
			}
			waiting = append(waiting, entry{documents[0], level})
			documents = documents[1:]
		}
		for _, d := range working {
			if err := r.done(d.document); err != nil {
				return nil, err
			}
		}
		slices.SortStableFunc(waiting, func(a, b entry) int { return int(a.level - b.level) })
		taken := min(1, len(waiting))
		working, waiting = waiting[:taken:taken], waiting[taken:]
		for _, d := range working {
			served = append(served, service{d.customer, d.level, clock - d.arrived})
		}
	}
	return served, nil
}

func report(out io.Writer, firstCome, byCount, byLoad []service) {
	fmt.Fprintf(out, `%d documents of three customers, and one worker who takes 1 s for each: archive
sends 60 in 12 s, bakery 3 from second 3 on, clinic 6 from second 5 on.

mean wait   first come   by count (Next)   by load (Submit and Done)
`, len(firstCome))
	customers := []string{"archive", "bakery", "clinic"}
	for _, customer := range customers {
		fmt.Fprintf(out, "%-9s %10.1f s %15.1f s %25.1f s\n", customer,
			meanWait(firstCome, customer), meanWait(byCount, customer), meanWait(byLoad, customer))
	}
	fmt.Fprintln(out, "\nlevels    by count                               by load")
	for _, customer := range customers {
		fmt.Fprintf(out, "%-9s %-38s %s\n", customer, levels(byCount, customer), levels(byLoad, customer))
	}
	fmt.Fprintln(out, "\n8×6: six documents at level 8. The worker takes level 1 first, 9 last.")
}

func meanWait(served []service, customer string) (seconds float64) {
	n := 0
	for _, s := range served {
		if s.customer == customer {
			seconds += s.wait.Seconds()
			n++
		}
	}
	return seconds / float64(n)
}

// levels counts a customer's documents by level: "1×3 2×2" are three at level 1 and two at
// level 2.
func levels(served []service, customer string) string {
	documents := make(map[priority.Level]int)
	for _, s := range served {
		if s.customer == customer {
			documents[s.level]++
		}
	}
	var parts []string
	for level := priority.First; level <= (priority.Policy{}).Last(); level++ {
		if documents[level] > 0 {
			parts = append(parts, fmt.Sprintf("%d×%d", level, documents[level]))
		}
	}
	return strings.Join(parts, " ")
}
