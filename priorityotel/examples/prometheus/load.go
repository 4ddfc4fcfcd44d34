package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docpriority/priority"
)

// load is what the workers of a process do.
type load struct {
	workers   int
	documents int
	pause     time.Duration
}

// totals is how many documents have each level.
type totals map[priority.Level]int

// String returns "counted n documents: 1×2 2×3", level×documents.
func (t totals) String() string {
	documents := 0
	var levels strings.Builder
	for _, level := range slices.Sorted(maps.Keys(t)) {
		documents += t[level]
		fmt.Fprintf(&levels, " %d×%d", level, t[level])
	}
	return fmt.Sprintf("counted %d documents, level×documents:%s", documents, levels.String())
}

// put counts the documents, or as many as there is time for, and returns the
// workers' own totals of them.
func (l load) put(ctx context.Context, store priority.Store) (totals, error) {
	all := make(totals)
	var mu sync.Mutex
	var failure error
	var running sync.WaitGroup
	for worker := range l.workers {
		share := l.documents / l.workers
		if worker < l.documents%l.workers {
			share++
		}
		running.Go(func() {
			own, err := l.work(ctx, store, share)
			mu.Lock()
			defer mu.Unlock()
			for level, n := range own {
				all[level] += n
			}
			if err != nil {
				failure = err
			}
		})
	}
	running.Wait()
	return all, failure
}

func (l load) work(ctx context.Context, store priority.Store, documents int) (totals, error) {
	counted := make(totals)
	for documents > 0 && ctx.Err() == nil {
		decisions, err := upload(store, documents)
		if err != nil {
			return counted, err
		}
		for _, decision := range decisions {
			counted[decision.Level]++
		}
		documents -= len(decisions)
		rest(ctx, l.pause)
	}
	return counted, nil
}

// upload counts some documents, at most so many: mostly one, sometimes several of
// one customer or of several, and some by load. A call once begun is not canceled, so
// that its documents are certainly counted.
func upload(store priority.Store, most int) ([]priority.Decision, error) {
	ctx := context.Background()
	switch kind := rand.N(10); {
	case kind >= 7:
		return handle(ctx, store, fmt.Sprintf("steady-%d", rand.N(20)), fmt.Sprint(rand.Uint64()))
	case kind == 0 && most >= 5:
		return store.NextN(ctx, customer(), 5)
	case kind == 1 && most >= 3:
		return store.NextEach(ctx, []string{customer(), customer(), customer()})
	}
	decision, err := store.Next(ctx, customer())
	return []priority.Decision{decision}, err
}

// handle submits a document, and works on it for a moment.
func handle(ctx context.Context, store priority.Store, customer, document string) ([]priority.Decision, error) {
	decision, err := store.Submit(ctx, customer, document, 0)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	rest(ctx, time.Millisecond)
	return []priority.Decision{decision}, store.Done(ctx, customer, document, time.Since(began))
}

// customer returns one that sends half of all documents, or one of many that send
// few.
func customer() string {
	if rand.N(2) == 0 {
		return "archive"
	}
	return fmt.Sprintf("customer-%d", rand.N(200))
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
