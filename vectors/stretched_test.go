package vectors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// stretch is how many milliseconds of Redis's time stand for one of a case's. Redis's
// clock cannot be moved, but what it is compared with can: TTLs, and the ends of
// leases. All that a script sets is half a stretch longer, so that a case's "exactly
// then" is well before and "a millisecond later" well after the end, however slow the
// test is.
const stretch = 50_000

// stretched is a customer's keys on a Redis, with a prefix of their own.
type stretched struct {
	t      *testing.T
	client *redis.Client
	prefix string
	policy priority.Policy
	stores map[time.Duration]*priority.RedisStore // by lease
}

func openStretched(t *testing.T, client *redis.Client, vector vector) *stretched {
	t.Helper()
	policy := vector.Policy.policy()
	policy.ResetInterval = stretchedFor(policy.ResetInterval)
	return &stretched{
		t: t, client: client, prefix: fmt.Sprintf("%x", t.Name()), policy: policy,
		stores: make(map[time.Duration]*priority.RedisStore),
	}
}

func stretchedFor(d time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return stretch*d + stretch*time.Millisecond/2
}

func (w *stretched) store(lease time.Duration) counter { return w.open(lease) }

func (w *stretched) milliseconds(d time.Duration) int64 { return d.Milliseconds() / stretch }

// open returns the store of a process with a lease; 0 is the default.
func (w *stretched) open(lease time.Duration) *priority.RedisStore {
	w.t.Helper()
	if w.stores[lease] == nil {
		store, err := priority.NewRedisStore(w.client, &priority.RedisOptions{
			Policy: w.policy, Lease: stretchedFor(lease), Prefix: w.prefix, Timeout: time.Minute,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.stores[lease] = store
	}
	return w.stores[lease]
}

// pass moves all TTLs and the ends of all leases.
func (w *stretched) pass(d time.Duration) {
	w.t.Helper()
	if d == 0 {
		return
	}
	ctx := w.t.Context()
	keys, err := w.client.Keys(ctx, w.prefix+":*").Result()
	w.check(err)
	for _, key := range keys {
		left, err := w.client.PTTL(ctx, key).Result()
		w.check(err)
		switch {
		case left < 0: // it has none
		case left > d*stretch:
			w.check(w.client.PExpire(ctx, key, left-d*stretch).Err())
		default:
			w.check(w.client.Del(ctx, key).Err())
		}
		for _, document := range w.pending(key) {
			document.Score -= float64(d.Milliseconds() * stretch)
			w.check(w.client.ZAddXX(ctx, key, document).Err())
		}
	}
}

func (w *stretched) set(customer, value string, ttl time.Duration) {
	w.t.Helper()
	w.check(w.client.Set(w.t.Context(), w.open(0).Key(customer), value, stretchedFor(ttl)).Err())
}

func (w *stretched) dump(customer string) string {
	w.t.Helper()
	store := w.open(0)
	value, err := w.client.Get(w.t.Context(), store.Key(customer)).Result()
	if err != redis.Nil {
		w.check(err)
	}
	return fmt.Sprintf("count %q, pending %v", value, w.pending(store.PendingKey(customer)))
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
