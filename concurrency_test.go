package priority_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// TestConcurrency has many stores, as many processes would have them, count the
// documents of one customer at the same time.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	const stores = 4
	// each makes the stores, with a client of their own each.
	each := func(client func() priority.RedisClient) []priority.Store {
		all := make([]priority.Store, stores)
		for i := range all {
			all[i] = openStore(t, client(), patient)
		}
		return all
	}
	for name, open := range map[string]func(t *testing.T) []priority.Store{
		"MemoryStore": func(*testing.T) []priority.Store {
			return slices.Repeat([]priority.Store{new(priority.MemoryStore)}, stores)
		},
		"miniredis": func(t *testing.T) []priority.Store {
			server := miniredis.RunT(t)
			return each(func() priority.RedisClient { return connect(t, server.Addr()) })
		},
		"Client": func(t *testing.T) []priority.Store {
			server := redistest.Start(t)
			return each(func() priority.RedisClient { return server.Client() })
		},
		"one Client": func(t *testing.T) []priority.Store {
			client := redistest.Start(t).Client()
			return each(func() priority.RedisClient { return client })
		},
		"AutoPipeline": func(t *testing.T) []priority.Store {
			server := redistest.Start(t)
			return each(func() priority.RedisClient { return must(server.Client().AutoPipeline())(t) })
		},
		"AsyncAutoPipeline": func(t *testing.T) []priority.Store {
			server := redistest.Start(t)
			return each(func() priority.RedisClient { return must(server.Client().AsyncAutoPipeline())(t) })
		},
		"Ring": func(t *testing.T) []priority.Store {
			addrs := map[string]string{"one": redistest.Start(t).Addr, "two": redistest.Start(t).Addr}
			return each(func() priority.RedisClient {
				ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
				t.Cleanup(func() { _ = ring.Close() })
				return ring
			})
		},
		"ClusterClient": func(t *testing.T) []priority.Store {
			cluster := redistest.StartCluster(t, 3)
			return each(func() priority.RedisClient { return cluster.Client() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testConcurrency(t, open(t))
		})
	}
}

// testConcurrency mixes all calls that count. The counts of the customer must be
// 0, -1, -2 and so on, each of them once, whoever got them.
func testConcurrency(t *testing.T, stores []priority.Store) {
	const perStore, rounds = 4, 25
	var (
		working sync.WaitGroup
		mu      sync.Mutex
		counts  []int64
	)
	for i := range len(stores) * perStore {
		store, other := stores[i%len(stores)], fmt.Sprint("other ", i%3)
		working.Go(func() {
			var got []int64
			for range rounds {
				d, err := store.Next(t.Context(), "acme")
				if err != nil {
					t.Errorf("Next: %v", err)
					return
				}
				got = append(got, d.Count)

				ds, err := store.NextN(t.Context(), "acme", 4)
				if err != nil {
					t.Errorf("NextN: %v", err)
					return
				}
				for i, d := range ds {
					got = append(got, d.Count)
					if d.Count != ds[0].Count-int64(i) {
						t.Errorf("another document came between those of a NextN: %+v", ds)
					}
				}

				ds, err = store.NextEach(t.Context(), []string{"acme", other, "acme"})
				if err != nil {
					t.Errorf("NextEach: %v", err)
					return
				}
				got = append(got, ds[0].Count, ds[2].Count)
				if ds[2].Count >= ds[0].Count {
					t.Errorf("a NextEach is out of order: %+v", ds)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			counts = append(counts, got...)
		})
	}
	working.Wait()

	const perRound = 1 + 4 + 2
	if want := len(stores) * perStore * rounds * perRound; len(counts) != want {
		t.Fatalf("%d documents were counted, want %d", len(counts), want)
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	for i, count := range counts {
		if count != -int64(i) {
			t.Fatalf("count %d is %d: one was given twice or skipped", -i, count)
		}
	}
}
