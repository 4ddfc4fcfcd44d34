package priority_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// addPairs seeds a fuzz test with pairs of customers that are easily mixed up.
func addPairs(f *testing.F) {
	for i, customer := range oddCustomers {
		f.Add(customer, oddCustomers[(i+1)%len(oddCustomers)])
		f.Add(customer, customer+"}")
		f.Add(customer, strings.ReplaceAll(strings.ReplaceAll(customer, "%", "%25"), "}", "%7D"))
		f.Add(customer, strings.ToUpper(customer))
	}
	long := strings.Repeat("x", 511)
	f.Add(long+"}", long+"%7D")
	f.Add(long+"a", long+"b")
	f.Add(long+"ab", long+"a")
	f.Add("", "\x00")
	f.Add("acme}:count", "acme")
}

// FuzzKey shows that no two customers share a key, that the key's hash tag holds
// all of the customer and nothing else, and that it can be read back.
func FuzzKey(f *testing.F) {
	client := redis.NewClient(&redis.Options{}) // never connected
	f.Cleanup(func() { _ = client.Close() })
	store := openStore(f, client, &priority.RedisOptions{Prefix: "p%7D:"})
	addPairs(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		keyA, keyB := store.Key(a), store.Key(b)
		if (keyA == keyB) != (a == b) {
			t.Errorf("%q and %q have the keys %q and %q", a, b, keyA, keyB)
		}
		if a == "" {
			return // no customer: it has no tag to speak of
		}
		// As Redis finds the tag: from the first { to the first } after it.
		prefix, rest, _ := strings.Cut(keyA, "{")
		tag, suffix, found := strings.Cut(rest, "}")
		if !found || prefix != "p%7D::" || suffix != ":count" {
			t.Errorf("%q has the key %q, whose tag is %q", a, keyA, tag)
		}
		if got := strings.NewReplacer("%25", "%", "%7D", "}").Replace(tag); got != a {
			t.Errorf("%q comes back as %q from its key %q", a, got, keyA)
		}
	})
}

// FuzzStore shows that what is done to one customer has no influence on another.
func FuzzStore(f *testing.F) {
	server := miniredis.RunT(f)
	store := openStore(f, connect(f, server.Addr()), patient)
	addPairs(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		server.FlushAll()
		valid := true
		for _, customer := range []string{a, b} {
			if customer == "" || len(customer) > priority.MaxCustomerBytes {
				valid = false
				if _, err := store.Next(t.Context(), customer); !errors.Is(err, priority.ErrInvalidCustomer) {
					t.Errorf("Next(%q): %v", customer, err)
				}
			}
		}
		if !valid || a == b {
			if keys := server.Keys(); len(keys) != 0 {
				t.Errorf("there are the keys %q", keys)
			}
			return
		}
		w := &world{Store: store, slack: handSlack}
		w.nextN(t, a, 3, countdown(0, 3)...)
		w.peek(t, b, priority.Decision{Level: 1})
		w.next(t, b, counted(0))
		w.nextEach(t, []string{b, a, b}, counted(-1), counted(-3), counted(-2))
		w.reset(t, b)
		w.peek(t, a, counted(-3))
		w.next(t, b, counted(0))
		if held, _ := server.Get(store.Key(a)); held != "-3" {
			t.Errorf("the key %q of %q holds %q, want -3", store.Key(a), a, held)
		}
		if keys := server.Keys(); len(keys) != 2 {
			t.Errorf("two customers have the keys %q", keys)
		}
	})
}

// FuzzTracker shows that what is done to one document has no influence on another
// of the same customer.
func FuzzTracker(f *testing.F) {
	server := miniredis.RunT(f)
	tracker := openTracker(f, connect(f, server.Addr()), patient)
	addPairs(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		server.FlushAll()
		valid := true
		for _, id := range []string{a, b} {
			if id == "" || len(id) > priority.MaxDocumentBytes {
				valid = false
				for name, call := range trackerCalls(t, tracker, "acme", id) {
					if err := call(); !errors.Is(err, priority.ErrInvalidDocument) {
						t.Errorf("%s of %q: %v", name, id, err)
					}
				}
			}
		}
		if !valid || a == b {
			if keys := server.Keys(); len(keys) != 0 {
				t.Errorf("there are the keys %q", keys)
			}
			return
		}
		w := &tracking{Tracker: tracker, slack: handSlack}
		w.submit(t, "acme", a, pending(0, 1))
		w.submitN(t, "acme", []string{a, b, a, b}, pending(0, 1), pending(-1, 2), pending(-1, 2), pending(-1, 2))
		w.done(t, "acme", b)
		w.submit(t, "acme", a, pending(-1, 1))
		w.submit(t, "acme", b, pending(-2, 2))
		w.doneN(t, "acme", a, a)
		if held, _ := server.ZMembers(tracker.PendingKey("acme")); len(held) != 1 || held[0] != b {
			t.Errorf("pending are %q, want %q alone", held, b)
		}
		w.done(t, "acme", b)
		w.peek(t, "acme", pending(-2, 0))
	})
}
