package memory_test

import (
	"strconv"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/named"
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
		loaded(t, 1, 1, 1)(store.Submit(ctx, name, priority.Document{ID: "one"}))
	}
	holds(t, store, most, most)
	if state, err := store.Peek(ctx, names[len(names)-most]); err != nil || state.Pending != 1 {
		t.Errorf("the newest %d: %+v, %v", most, state, err)
	}
	decisions, err := store.SubmitN(ctx, "acme", named.Documents(names...))
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
	if _, err := store.SubmitN(ctx, "acme", named.Documents(names...)); err != nil {
		t.Fatal(err)
	}
	holds(t, store, 1, 1)
}
