package expiring

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

const length = 10 * time.Second

// TestASetKeepsWhatAMapWould does the same at random to a Set and to a map of ends.
func TestASetKeepsWhatAMapWould(t *testing.T) {
	type document struct{ customer, id string }
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var set Set[int]
		ends, values, now := make(map[document]time.Time), make(map[document]int), time.Now()
		most := func(of map[string]int) (most int) {
			for _, n := range of {
				most = max(most, n)
			}
			return most
		}
		for step := range 200 {
			d := document{strconv.Itoa(random.IntN(3)), strconv.Itoa(random.IntN(9))}
			_, had := ends[d]
			switch random.IntN(9) {
			default:
				if got := set.Hold(d.customer, d.id, step, now.Add(length)); got != had {
					t.Fatalf("seed %d, step %d: Hold = %t, want %t", seed, step, got, had)
				}
				ends[d], values[d] = now.Add(length), step
			case 0, 1, 2:
				if got := set.Release(d.customer, d.id); got != had {
					t.Fatalf("seed %d, step %d: Release = %t, want %t", seed, step, got, had)
				}
				delete(ends, d)
			case 3:
				set.Forget(d.customer)
				for other := range ends {
					if other.customer == d.customer {
						delete(ends, other)
					}
				}
			case 4:
				of := make(map[string]int)
				for d := range ends {
					of[d.customer]++
				}
				want := most(of) > of[d.customer]+1
				if got := set.Thin(d.customer); got != want {
					t.Fatalf("seed %d, step %d: Thin = %t of %v", seed, step, got, of)
				}
				for other := range ends {
					if set.Get(other.customer, other.id) == nil {
						if of[other.customer] != most(of) {
							t.Fatalf("seed %d, step %d: Thin took one of %s, of %v", seed, step, other.customer, of)
						}
						delete(ends, other)
						delete(values, other)
					}
				}
			case 5:
				now = now.Add(time.Duration(random.Int64N(int64(length))))
				set.Expire(now)
				for other, end := range ends {
					if now.After(end) {
						delete(ends, other)
					}
				}
			}
			of := make(map[string]int)
			for d := range ends {
				of[d.customer]++
			}
			for _, customer := range []string{"0", "1", "2"} {
				if got := set.LenOf(customer); got != of[customer] {
					t.Fatalf("seed %d, step %d: %d documents of %s, want %d", seed, step, got, customer, of[customer])
				}
			}
			if (set.Get(d.customer, d.id) != nil) != has(ends, d) {
				t.Fatalf("seed %d, step %d: Get finds it: %t", seed, step, !has(ends, d))
			}
			if set.Len() != len(ends) || len(set.Customers()) != len(of) {
				t.Fatalf("seed %d, step %d: %d documents of %q, want %d of %v", seed, step, set.Len(), set.Customers(), len(ends), of)
			}
			for customer := range of {
				for _, id := range set.Documents(customer) {
					if d := (document{customer, id}); !has(ends, d) || *set.Get(customer, id) != values[d] {
						t.Fatalf("seed %d, step %d: %v has the value %d, want %d", seed, step, d, *set.Get(customer, id), values[d])
					}
				}
			}
		}
	}
}

func has[K comparable, V any](m map[K]V, key K) bool {
	_, ok := m[key]
	return ok
}

func TestALeaseEndsAfterItsEnd(t *testing.T) {
	var set Set[int]
	now := time.Now()
	set.Hold("acme", "a", 0, now)
	if set.Expire(now); set.Len() != 1 {
		t.Error("the lease has ended at its end")
	}
	if set.Expire(now.Add(1)); set.Len() != 0 {
		t.Error("the lease has not ended after its end")
	}
}

// However many documents others have, what is done to one customer looks at none of
// them: here they are such that a look would panic.
func TestOtherCustomersDocumentsAreNotLookedAt(t *testing.T) {
	var set Set[int]
	now := time.Now()
	for _, id := range []string{"a", "b", "c", "d"} {
		set.byEnd.PushBack("another customer's")
		set.Hold("acme", id, 0, now.Add(length))
	}
	set.byEnd.PushBack("another customer's")
	set.Hold("acme", "a", 0, now.Add(length))
	set.Release("acme", "b")
	set.Forget("acme")
	if set.LenOf("acme") != 0 || set.Len() != 5 {
		t.Errorf("%d of acme's documents are left, %d of all", set.LenOf("acme"), set.Len())
	}
}
