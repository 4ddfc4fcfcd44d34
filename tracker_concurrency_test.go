package priority_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// TestTrackerConcurrency has many trackers, as many processes would have them,
// submit the documents of one customer at the same time, each document several
// times over.
func TestTrackerConcurrency(t *testing.T) {
	t.Parallel()
	const trackers = 4
	each := func(t *testing.T, client func() priority.RedisClient) []priority.Tracker {
		all := make([]priority.Tracker, trackers)
		for i := range all {
			all[i] = openTracker(t, client(), patient)
		}
		return all
	}
	for name, open := range map[string]func(t *testing.T) []priority.Tracker{
		"MemoryTracker": func(*testing.T) []priority.Tracker {
			return slices.Repeat([]priority.Tracker{new(priority.MemoryTracker)}, trackers)
		},
		"miniredis": func(t *testing.T) []priority.Tracker {
			server := miniredis.RunT(t)
			return each(t, func() priority.RedisClient { return connect(t, server.Addr()) })
		},
		"Client": func(t *testing.T) []priority.Tracker {
			server := redistest.Start(t)
			return each(t, func() priority.RedisClient { return server.Client() })
		},
		"AutoPipeline": func(t *testing.T) []priority.Tracker {
			server := redistest.Start(t)
			return each(t, func() priority.RedisClient { return must(server.Client().AutoPipeline())(t) })
		},
		"ClusterClient": func(t *testing.T) []priority.Tracker {
			cluster := redistest.StartCluster(t, 3)
			return each(t, func() priority.RedisClient { return cluster.Client() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTrackerConcurrency(t, open(t))
		})
	}
}

// testTrackerConcurrency lets the workers submit the same documents, in an order
// of their own each, alone and several at once. Each document must be counted
// once, whoever was first.
func testTrackerConcurrency(t *testing.T, trackers []priority.Tracker) {
	const perTracker, n = 3, 300
	ids := documentIDs("invoice", n)
	var (
		working sync.WaitGroup
		mu      sync.Mutex
		counts  = make(map[int64]int64) // pending documents by count
	)
	note := func(decisions ...priority.Decision) {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range decisions {
			if before, known := counts[d.Count]; known && before != d.Pending {
				t.Errorf("count %d has %d documents pending, and %d", d.Count, before, d.Pending)
			}
			counts[d.Count] = d.Pending
		}
	}
	for i := range len(trackers) * perTracker {
		tracker, from := trackers[i%len(trackers)], i*n/len(trackers)/perTracker
		mine := slices.Concat(ids[from:], ids[:from])
		if i%2 == 0 {
			slices.Reverse(mine)
		}
		working.Go(func() {
			for i := 0; i < n; i += 3 {
				d, err := tracker.Submit(t.Context(), "acme", mine[i])
				if err != nil {
					t.Errorf("Submit: %v", err)
					return
				}
				note(d)
				ds, err := tracker.SubmitN(t.Context(), "acme", []string{mine[i+1], mine[i], mine[i+2]})
				if err != nil {
					t.Errorf("SubmitN: %v", err)
					return
				}
				note(ds...)
				if _, err := tracker.Submit(t.Context(), fmt.Sprint("other ", i%7), mine[i]); err != nil {
					t.Errorf("Submit: %v", err)
					return
				}
			}
		})
	}
	working.Wait()
	// Nothing was done, so that all were pending that had been counted; and as
	// each worker saw every document, each count was seen.
	for i := range int64(n) {
		if pending, ok := counts[-i]; !ok || pending != i+1 {
			t.Errorf("count %d: seen %t, with %d documents pending, want %d", -i, ok, pending, i+1)
		}
	}
	w := &tracking{Tracker: trackers[0], slack: handSlack}
	if len(counts) != n {
		t.Errorf("%d counts, want %d", len(counts), n)
	}
	w.peek(t, "acme", pending(1-n, n))

	// All of them say that the same half is done, and submit it again later.
	for i := range len(trackers) * perTracker {
		tracker := trackers[i%len(trackers)]
		working.Go(func() {
			for j := 0; j < n/2; j += 2 {
				err1 := tracker.Done(t.Context(), "acme", ids[j])
				err2 := tracker.DoneN(t.Context(), "acme", []string{ids[j+1], ids[j]})
				if err1 != nil || err2 != nil {
					t.Errorf("Done: %v, %v", err1, err2)
				}
			}
		})
	}
	working.Wait()
	w.peek(t, "acme", pending(1-n, n/2))
	for i := range len(trackers) * perTracker {
		tracker := trackers[i%len(trackers)]
		working.Go(func() {
			for _, id := range ids {
				if _, err := tracker.Submit(t.Context(), "acme", id); err != nil {
					t.Errorf("Submit: %v", err)
				}
			}
		})
	}
	working.Wait()
	w.peek(t, "acme", pending(1-n-n/2, n))
}

// Documents that come and go at once: whatever the order, what is submitted and
// not done is pending in the end, and each document is counted once.
func TestTrackerConcurrentSubmitAndDone(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	for name, tracker := range map[string]priority.Tracker{
		"MemoryTracker": new(priority.MemoryTracker),
		"RedisTracker":  openTracker(t, client, patient),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const workers, each = 8, 200
			var working sync.WaitGroup
			for worker := range workers {
				working.Go(func() {
					for i, id := range documentIDs(fmt.Sprint("worker ", worker), each) {
						if _, err := tracker.Submit(t.Context(), "acme", id); err != nil {
							t.Errorf("Submit: %v", err)
						}
						if i%4 != 0 {
							if err := tracker.Done(t.Context(), "acme", id); err != nil {
								t.Errorf("Done: %v", err)
							}
						}
					}
				})
			}
			working.Wait()
			w := &tracking{Tracker: tracker, slack: handSlack}
			w.peek(t, "acme", pending(1-workers*each, workers*each/4))
		})
	}
}
