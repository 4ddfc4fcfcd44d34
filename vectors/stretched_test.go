package vectors_test

import (
	_ "embed"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// stretch is how many milliseconds of Redis's time stand for one of a case's, of what
// concerns the count. Redis's clock cannot be moved, but what it is compared with can:
// TTLs, and the times of Submits. A count's interval is half a stretch longer, so that
// a case's "exactly then" is well before and "a millisecond later" well after the end,
// however slow the test is. What is pending and the usage cannot be stretched, as the
// scripts know how long a day is. There the cases keep away from the ends.
const stretch = 50_000

// stretched is a customer's keys on a Redis, with a prefix of their own.
type stretched struct {
	t         *testing.T
	client    *redis.Client
	prefix    string
	policy    priority.Policy
	customers []string
	stores    map[time.Duration]*priority.RedisStore // by lease
	lose      func()                                 // some time before each step
	began     time.Time
}

func openStretched(t *testing.T, client *redis.Client, vector vector) *stretched {
	t.Helper()
	policy := vector.Policy.policy()
	policy.ResetInterval = stretchedFor(policy.ResetInterval)
	return &stretched{
		t: t, client: client, prefix: fmt.Sprintf("%x", t.Name()+vector.Name), policy: policy,
		customers: vector.customers(), stores: make(map[time.Duration]*priority.RedisStore), lose: func() {},
		began: must(client.Time(t.Context()).Result())(t),
	}
}

func stretchedFor(d time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return stretch*d + stretch*time.Millisecond/2
}

func (w *stretched) store(lease time.Duration) priority.Store { return w.open(lease) }

func (w *stretched) milliseconds(d time.Duration) int64 { return d.Milliseconds() / stretch }

// open returns the store of a process with a lease; 0 is the default.
func (w *stretched) open(lease time.Duration) *priority.RedisStore {
	w.t.Helper()
	if w.stores[lease] == nil {
		store, err := priority.NewRedisStore(w.client, &priority.RedisOptions{
			Policy: w.policy, Lease: lease, Prefix: w.prefix, Timeout: time.Minute, Overrides: true,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.stores[lease] = store
	}
	return w.stores[lease]
}

// pass lets time pass for all customers of the case, as README.md says.
func (w *stretched) pass(d time.Duration) {
	w.t.Helper()
	w.lose()
	if d == 0 {
		return
	}
	for _, customer := range w.customers {
		w.check(passing.Run(w.t.Context(), w.client, w.keys(customer), d.Milliseconds(), stretch).Err())
	}
}

//go:embed pass.lua
var passText string

var passing = redis.NewScript(passText)

func (w *stretched) keys(customer string) []string {
	store := w.open(0)
	return []string{store.Key(customer), store.PendingKey(customer), store.UsageKey(customer), store.OverrideKey(customer)}
}

func (w *stretched) set(s step) {
	w.t.Helper()
	store := w.open(0)
	key, ttl := store.Key(s.Customer), stretchedFor(milliseconds(s.TTL))
	switch s.Key {
	case "pending":
		key, ttl = store.PendingKey(s.Customer), milliseconds(s.TTL)
	case "usage":
		key, ttl = store.UsageKey(s.Customer), milliseconds(s.TTL)
	case "override":
		key, ttl = store.OverrideKey(s.Customer), milliseconds(s.TTL)
	}
	w.check(w.client.Set(w.t.Context(), key, *s.Value, ttl).Err())
}

// took returns how long the case has taken by Redis's clock, of what a case does not know.
func (w *stretched) took() int64 {
	passed := must(w.client.Time(w.t.Context()).Result())(w.t).Sub(w.began)
	if passed == 0 {
		return 0
	}
	return passed.Milliseconds() + 1
}

func (w *stretched) dump(customer string) string {
	w.t.Helper()
	store := w.open(0)
	value := func(key string) string {
		kind := must(w.client.Type(w.t.Context(), key).Result())(w.t)
		if kind != "string" {
			return kind
		}
		return strconv.Quote(must(w.client.Get(w.t.Context(), key).Result())(w.t))
	}
	pending := store.PendingKey(customer)
	return fmt.Sprintf("count %s, pending %s %v, usage %s",
		value(store.Key(customer)), value(pending), w.pending(pending), value(store.UsageKey(customer)))
}

// pending returns the documents in a key, none where it is another one's.
func (w *stretched) pending(key string) []redis.Z {
	w.t.Helper()
	kind, err := w.client.Type(w.t.Context(), key).Result()
	w.check(err)
	if kind != "zset" {
		return nil
	}
	documents, err := w.client.ZRangeWithScores(w.t.Context(), key, 0, -1).Result()
	w.check(err)
	return documents
}

func (w *stretched) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// must returns what a call returned, or fails the test.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
