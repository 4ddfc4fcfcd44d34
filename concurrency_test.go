package priority_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

const processes = 4

// onProcesses runs a test with some stores of the same counts, as many processes
// would have them.
func onProcesses(t *testing.T, test func(t *testing.T, stores []priority.Store)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, slices.Repeat([]priority.Store{new(memory.Store)}, processes))
	})
	for name, start := range fleets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet, stores := start(t), make([]priority.Store, processes)
			for i := range stores {
				stores[i] = openStore(t, fleet.connect(), patient)
			}
			test(t, stores)
		})
	}
}

// Many processes mix all calls that count. The counts of the customer must be 0,
// -1, -2 and so on, each of them once, whoever got them.
func TestEachCountIsGivenOnce(t *testing.T) {
	t.Parallel()
	const workers, rounds, perRound = 4 * processes, 25, 1 + 4 + 2
	onProcesses(t, func(t *testing.T, stores []priority.Store) {
		var working sync.WaitGroup
		counts := make([][]int64, workers)
		for i := range workers {
			store, other := stores[i%processes], fmt.Sprint("other ", i%3)
			working.Go(func() {
				w := &world{Store: store}
				for range rounds {
					next, err := w.Next(t.Context(), "acme")
					nexts, errN := w.NextN(t.Context(), "acme", 4)
					each, errEach := w.NextEach(t.Context(), []string{"acme", other, "acme"})
					if err := errors.Join(err, errN, errEach); err != nil {
						t.Error(err)
						return
					}
					for _, d := range append(nexts, next, each[0], each[2]) {
						counts[i] = append(counts[i], d.Count)
					}
					if each[2].Count >= each[0].Count {
						t.Errorf("out of order: %+v", each)
					}
					for n, d := range nexts {
						if d.Count != nexts[0].Count-int64(n) {
							t.Errorf("another document came between those of a NextN: %+v", nexts)
						}
					}
				}
			})
		}
		working.Wait()
		all := slices.Concat(counts...)
		if len(all) != workers*rounds*perRound {
			t.Fatalf("%d documents were counted, want %d", len(all), workers*rounds*perRound)
		}
		slices.Sort(all)
		slices.Reverse(all)
		for i, count := range all {
			if count != -int64(i) {
				t.Fatalf("count %d is %d: one was given twice or skipped", -i, count)
			}
		}
	})
}

// Many processes submit the same documents, in an order of their own each, alone and
// several at once. Each document is counted once, whoever was first.
func TestEachDocumentIsCountedOnce(t *testing.T) {
	t.Parallel()
	const workers, n = 3 * processes, 120
	onProcesses(t, func(t *testing.T, stores []priority.Store) {
		ids := documentIDs("invoice", n)
		all := func(work func(w *world, worker int) error) {
			t.Helper()
			var working sync.WaitGroup
			for i := range workers {
				working.Go(func() {
					if err := work(&world{Store: stores[i%processes]}, i); err != nil {
						t.Error(err)
					}
				})
			}
			working.Wait()
		}
		w := &world{Store: stores[0], slack: handSlack}
		var mu sync.Mutex
		seen := make(map[int64]bool) // by how many were pending
		all(func(w *world, worker int) error {
			from := worker * n / workers
			mine := slices.Concat(ids[from:], ids[:from])
			if worker%2 == 0 {
				slices.Reverse(mine)
			}
			for i := 0; i < n; i += 3 {
				d, err := w.Submit(t.Context(), "acme", mine[i], 0)
				if err != nil {
					return err
				}
				ds, err := w.SubmitN(t.Context(), "acme", []string{mine[i+1], mine[i], mine[i+2]}, nil)
				if err != nil {
					return err
				}
				mu.Lock()
				for _, d := range append(ds, d) {
					seen[d.Pending] = true
				}
				mu.Unlock()
				if _, err := w.Submit(t.Context(), fmt.Sprint("other ", i%7), mine[i], 0); err != nil {
					return err
				}
			}
			return nil
		})
		// Nothing was done, so each document was the first to see one more pending.
		for i := range int64(n) {
			if !seen[i+1] {
				t.Errorf("nobody saw %d documents pending", i+1)
			}
		}
		known := func(lately float64, pending int64) {
			t.Helper()
			state := must(w.Peek(t.Context(), "acme"))(t)
			if state.Pending != pending || !w.alike(state.Lately, lately) {
				t.Errorf("Peek: %+v, want %d pending and %v lately", state, pending, lately)
			}
		}
		known(n, n)

		// All of them say that the same half is done, and submit all again.
		all(func(w *world, _ int) error {
			for i := 0; i < n/2; i += 2 {
				if err := w.Done(t.Context(), "acme", ids[i], 0); err != nil {
					return err
				}
				if err := w.DoneN(t.Context(), "acme", []string{ids[i+1], ids[i]}, 0); err != nil {
					return err
				}
			}
			return nil
		})
		known(n, n/2)
		all(func(w *world, _ int) error {
			for _, id := range ids {
				if _, err := w.Submit(t.Context(), "acme", id, 0); err != nil {
					return err
				}
			}
			return nil
		})
		known(n+n/2, n)

		// Documents that come and go: what is submitted and not done is pending.
		all(func(w *world, worker int) error {
			for i, id := range documentIDs(fmt.Sprint("worker ", worker), 100) {
				if _, err := w.Submit(t.Context(), "globex", id, 0); err != nil {
					return err
				}
				if i%4 != 0 {
					if err := w.Done(t.Context(), "globex", id, 0); err != nil {
						return err
					}
				}
			}
			return nil
		})
		w.pends(t, "globex", 25*workers)
	})
}
