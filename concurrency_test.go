package priority_test

import (
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
	const workers, rounds, perRound = 4 * processes, 25, 1 + 4 + 2 + 1 + 2
	onProcesses(t, func(t *testing.T, stores []priority.Store) {
		var working sync.WaitGroup
		counts := make([][]int64, workers)
		for i := range workers {
			store, other := stores[i%processes], fmt.Sprint("other ", i%3)
			working.Go(func() {
				w, ids := &world{Store: store}, documentIDs(fmt.Sprint("worker ", i), 3*rounds)
				for round := range rounds {
					next, err := w.Next(t.Context(), "acme")
					nexts, errN := w.NextN(t.Context(), "acme", 4)
					each, errEach := w.NextEach(t.Context(), []string{"acme", other, "acme"})
					submit, errSubmit := w.Submit(t.Context(), "acme", ids[3*round], 0)
					submits, errSubmits := w.SubmitN(t.Context(), "acme", ids[3*round+1:3*round+3], nil)
					for _, err := range []error{err, errN, errEach, errSubmit, errSubmits} {
						if err != nil {
							t.Error(err)
							return
						}
					}
					got := append(slices.Concat(nexts, submits), next, submit, each[0], each[2])
					for _, d := range got {
						counts[i] = append(counts[i], d.Count)
					}
					if each[2].Count >= each[0].Count || submits[1].Count != submits[0].Count-1 {
						t.Errorf("out of order: %+v, %+v", each, submits)
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
	const workers, n = 3 * processes, 300
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
		counts := make(map[int64]int64) // pending documents by count
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
					counts[d.Count] = d.Pending
				}
				mu.Unlock()
				if _, err := w.Submit(t.Context(), fmt.Sprint("other ", i%7), mine[i], 0); err != nil {
					return err
				}
			}
			return nil
		})
		// Nothing was done, so all that had been counted were pending; and as each
		// worker saw every document, each count was seen.
		for i := range int64(n) {
			if pending, ok := counts[-i]; !ok || pending != i+1 {
				t.Errorf("count %d: seen %t, with %d documents pending, want %d", -i, ok, pending, i+1)
			}
		}
		w.peek(t, "acme", held(1-n, n))

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
		w.peek(t, "acme", held(1-n, n/2))
		all(func(w *world, _ int) error {
			for _, id := range ids {
				if _, err := w.Submit(t.Context(), "acme", id, 0); err != nil {
					return err
				}
			}
			return nil
		})
		w.peek(t, "acme", held(1-n-n/2, n))

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
		w.peek(t, "globex", held(1-100*workers, 25*workers))
	})
}
