package memory_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/docpriority/priority/memory"
)

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// Documents whose Done comes to another process, and customers who never come again,
// push out the oldest ones.
func TestMaxEntries(t *testing.T) {
	const most = 100
	ctx, names := t.Context(), numbered(10_000)
	store := open(t, &memory.Options{MaxEntries: most})
	for _, name := range names {
		loaded(t, 1, 1, 1)(store.Submit(ctx, name, "one", 0))
	}
	holds(t, store, most, most)
	if state, err := store.Peek(ctx, names[len(names)-most]); err != nil || state.Pending != 1 {
		t.Errorf("the newest %d: %+v, %v", most, state, err)
	}
	decisions, err := store.SubmitN(ctx, "acme", names, nil)
	if err != nil || decisions[len(names)-1].Pending > most || decisions[len(names)-1].Level < 5 {
		t.Errorf("the last of many: %+v, %v", decisions[len(names)-1], err)
	}
	holds(t, store, most, most)

	store = open(t, &memory.Options{MaxEntries: most})
	if _, err := store.NextEach(ctx, names); err != nil {
		t.Fatal(err)
	}
	if customers, _ := store.Len(); customers < most || customers > 2*most {
		t.Errorf("%d customers are counted", customers)
	}
	counted(t, 1, -1)(store.Next(ctx, names[len(names)-most]))

	// A bound below what one step takes.
	store = open(t, &memory.Options{MaxEntries: 1})
	if _, err := store.SubmitN(ctx, "acme", names, nil); err != nil {
		t.Fatal(err)
	}
	holds(t, store, 1, 1)
}

// While one customer's call of many items goes on, others get their turn.
func TestStore_LargeCall(t *testing.T) {
	const items = 100_000
	ctx, names := t.Context(), numbered(items)
	turns := 0 // in which the clock was asked
	store := open(t, &memory.Options{Now: func() time.Time { turns++; return time.Unix(1e9, 0) }})
	for name, call := range map[string]func() error{
		"NextEach": func() error { _, err := store.NextEach(ctx, names); return err },
		"SubmitN":  func() error { _, err := store.SubmitN(ctx, "acme", names, nil); return err },
		"DoneN":    func() error { _, err := store.DoneN(ctx, "acme", names, 0); return err },
	} {
		if turns = 0; call() != nil || turns < items/1000 {
			t.Errorf("%s of %d items in %d turns", name, items, turns)
		}
	}
	// A NextN stays atomic, and is one step.
	turns = 0
	decisions, err := store.NextN(ctx, "acme", items)
	if err != nil || turns != 1 || decisions[0].Count != 0 || decisions[items-1].Count != 1-items || decisions[3].Level != 2 {
		t.Errorf("NextN in %d turns: %v", turns, err)
	}
}
