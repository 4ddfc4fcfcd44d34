package linearizability

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// TestHistories checks rounds of several stores, each on a client
// of its own, while connections break, scripts are flushed and callers give up.
func TestHistories(t *testing.T) {
	wanted := 100_000
	if testing.Short() {
		wanted = 10_000
	}
	server := redistest.Start(t)
	cutter := &cutter{oneIn: 400}
	saboteur := &saboteur{server: server.Client(), oneIn: 200}
	w := &workload{callers: 8, calls: 32, customers: 3, saboteur: saboteur, abandonOneIn: 100}
	for range 4 {
		w.stores = append(w.stores, newStore(t, cutter.client(server.Addr)))
	}

	var checked, unknown, notCounted int
	for round := 0; checked < wanted; round++ {
		h := run(t, w, round)
		if !linearizable(t, h) {
			t.FailNow()
		}
		checked += len(h.operations())
		unknown += h.unknown
		notCounted += h.notCounted
	}
	t.Logf("%d operations checked, %d of them of unknown outcome; %d not counted", checked, unknown, notCounted)
	t.Logf("%d requests, %d half requests and %d answers cut; %d kills, %d flushes",
		cutter.requests.Load(), cutter.halfRequests.Load(), cutter.answers.Load(), saboteur.kills, saboteur.flushes)
	for what, n := range map[string]int64{
		"unknown outcomes":  int64(unknown),
		"calls not counted": int64(notCounted),
		"requests cut":      cutter.requests.Load(),
		"half requests cut": cutter.halfRequests.Load(),
		"answers cut":       cutter.answers.Load(),
		"kills":             int64(saboteur.kills),
		"flushes":           int64(saboteur.flushes),
	} {
		if n == 0 {
			t.Errorf("the history had no %s", what)
		}
	}
}

// TestHistories_RepeatingStore shows that the check can fail: on a store that calls again when an
// answer is lost.
func TestHistories_RepeatingStore(t *testing.T) {
	server := redistest.Start(t)
	cutter := &cutter{oneIn: 100}
	w := &workload{callers: 8, calls: 32, customers: 4, saboteur: &saboteur{}}
	for range 4 {
		w.stores = append(w.stores, &repeatingStore{newStore(t, cutter.client(server.Addr))})
	}
	for round := range 100 {
		h := run(t, w, round)
		if !porcupine.CheckOperations(model(), h.operations()) {
			t.Logf("caught in round %d", round)
			return
		}
	}
	t.Fatal("all histories were found linearizable")
}

// repeatingStore calls again when it may have been counted.
type repeatingStore struct {
	*priority.RedisStore
}

func (s *repeatingStore) Next(ctx context.Context, customer string) (priority.Decision, error) {
	for {
		decision, err := s.RedisStore.Next(ctx, customer)
		if !errors.Is(err, priority.ErrOutcomeUnknown) {
			return decision, err
		}
	}
}

// newStore has a timeout that only a call that hangs can reach.
func newStore(t *testing.T, client *redis.Client) *priority.RedisStore {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func run(t *testing.T, w *workload, round int) *history {
	t.Helper()
	h, err := w.round(t.Context(), fmt.Sprint("round-", round))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.failures) > 0 {
		t.Fatalf("%d calls failed in a way they may not, the first: %v", len(h.failures), h.failures[0])
	}
	return h
}

// linearizable checks a history, and has it drawn if it is not linearizable.
func linearizable(t *testing.T, h *history) bool {
	t.Helper()
	model := model()
	found, info := porcupine.CheckOperationsVerbose(model, h.operations(), time.Minute)
	if found == porcupine.Ok {
		return true
	}
	if found == porcupine.Unknown {
		t.Error("the check took longer than a minute")
	}
	page, err := os.CreateTemp("", "history-*.html")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	if err := porcupine.Visualize(model, info, page); err != nil {
		t.Fatalf("draw the history: %v", err)
	}
	t.Errorf("the history is not linearizable: see %s", page.Name())
	return false
}
