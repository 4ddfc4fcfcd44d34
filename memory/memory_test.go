package memory_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/memory"
)

// What a Store has in common with all others is tested in package laws, and the numbers by
// the vectors.

const quiet = 1500 * time.Second

func open(t *testing.T, opts *memory.Options) *memory.Store {
	t.Helper()
	store, err := memory.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// counted fails the test unless a call worked and has the level and the count.
func counted(t *testing.T, level priority.Level, count int64) func(priority.Decision, error) {
	return func(got priority.Decision, err error) {
		t.Helper()
		got.ResetIn = 0
		if want := (priority.Decision{Level: level, RuleLevel: level, Count: count}); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
}

// loaded fails the test unless a call worked and has the level, the load and the number
// of pending documents.
func loaded(t *testing.T, level priority.Level, load float64, pending int64) func(priority.Decision, error) {
	return func(got priority.Decision, err error) {
		t.Helper()
		if want := (priority.Decision{Level: level, RuleLevel: level, Load: load, Pending: pending}); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
}

func holds(t *testing.T, store *memory.Store, customers, pending int) {
	t.Helper()
	if c, p := store.Len(); c != customers || p != pending {
		t.Errorf("%d customers and %d pending documents are held, want %d and %d", c, p, customers, pending)
	}
}

// A Store forgets a million customers and their documents though nobody calls it:
// documents a day after their Submit, customers two intervals after their last
// document, or when what they submitted has faded.
func TestStore_Forgets(t *testing.T) {
	const customers, day, sweep = 10_000, 24 * time.Hour, time.Hour + quiet + time.Second
	bubble.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := open(t, nil)
		names := make([]string, customers)
		for i := range names {
			names[i] = strconv.Itoa(i)
		}
		if _, err := store.NextEach(ctx, names); err != nil {
			t.Fatal(err)
		}
		if _, err := store.SubmitN(ctx, "0", named.Documents(names[:1000]...)); err != nil {
			t.Fatal(err)
		}
		loaded(t, 1, 1, 1)(store.Submit(ctx, "1", priority.Document{ID: "1"}))
		holds(t, store, customers, 1001)
		time.Sleep(2*quiet + sweep)
		holds(t, store, 2, 1001)
		time.Sleep(day - 2*quiet)
		holds(t, store, 1, 0)
		time.Sleep(9 * day)
		holds(t, store, 0, 0)
	})
}

// Customers who are gone are forgotten while others stay, by the calls of those.
func TestStore_ForgetsMeanwhile(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	store := open(t, &memory.Options{Now: func() time.Time { return now }}) // no timer tells its time
	for day := range 20 {
		for i := range 100 {
			customer := fmt.Sprint(day, " ", i)
			loaded(t, 1, 1, 1)(store.Submit(ctx, customer, priority.Document{ID: "1"}))
			if _, err := store.Submit(ctx, "always", priority.Document{ID: customer}); err != nil {
				t.Fatal(err)
			}
		}
		if c, p := store.Len(); c > 1+2*100 || p > 200 {
			t.Errorf("after %d days %d customers and %d documents are held", day+1, c, p)
		}
		now = now.Add(24*time.Hour + time.Millisecond)
	}
}

// An account with however many users moves the usual cost as one customer.
func TestAccounts_Costs(t *testing.T) {
	ctx, store := t.Context(), open(t, &memory.Options{Accounts: true})
	for _, name := range numbered(4) {
		if _, err := store.Submit(ctx, name, priority.Document{ID: "1", Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range numbered(100) {
		if _, err := store.Submit(ctx, "acme/"+user, priority.Document{ID: "1", Cost: .01}); err != nil {
			t.Fatal(err)
		}
	}
	loaded(t, 1, 1, 1)(store.Submit(ctx, "new", priority.Document{ID: "1", Cost: 1}))
}

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
