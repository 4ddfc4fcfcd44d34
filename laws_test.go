package priority_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/internal/virtualredis"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

// lawfulPolicies are options with policies that differ in everything.
var lawfulPolicies = priority.RedisOptions{
	Policy: priority.Policy{ResetInterval: 20 * time.Minute, Turns: 4},
	Tiers: map[string]priority.Policy{
		"short":  {Thresholds: []int64{-1, -3, -9}, ResetInterval: time.Minute, Loads: []float64{1, 8.5}, Turns: 3},
		"steady": {ResetMode: priority.SinceLastReset, ResetInterval: 10 * time.Minute},
	},
	TierOf: func(customer string) string { tier, _, _ := strings.Cut(customer, " "); return tier },
	Lease:  3 * time.Minute,
}

var lawfulCustomers = []string{"acme", "short {b}%", "steady \x00"}

// fewSequences runs fewer than usual: miniredis with -race is slow.
func fewSequences(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if usual := checks.Value.String(); usual == checks.DefValue {
		_ = checks.Value.Set("30")
		t.Cleanup(func() { _ = checks.Value.Set(usual) })
	}
}

func TestARedisStoreKeepsTheLaws(t *testing.T) {
	fewSequences(t)
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		redis := newBubbleRedis(t)
		return prioritytest.Subject{
			Store: redis.open(&lawfulPolicies), Other: openStore(t, redis.Client(nil), &lawfulPolicies),
			Faulty: []prioritytest.Faulty{redis.Faults}, Goroutines: redisGoroutines, Customers: lawfulCustomers,
		}
	})
}

func TestARedisStoreOnAServerKeepsTheLaws(t *testing.T) {
	server := redistest.Start(t)
	prioritytest.TestStoreInRealTime(t, func(t *testing.T) prioritytest.Subject {
		client := server.Client()
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		opts := lawfulPolicies
		opts.Timeout = time.Minute // which nothing takes
		store := openStore(t, client, &opts)
		hand := &hand{t: t, client: client, store: store, moved: make(map[string]moved), leases: make(map[string]time.Duration)}
		return prioritytest.Subject{
			Store: store, Other: openStore(t, server.Client(), &opts),
			Wait: hand.wait, Slack: handSlip + 10*time.Second, Customers: lawfulCustomers,
		}
	})
}

// RedisStore, fallback and observe, one around the other.
func TestTheWholeStackKeepsTheLaws(t *testing.T) {
	fewSequences(t)
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		redis := newBubbleRedis(t)
		inner := redis.open(&lawfulPolicies)
		failing := prioritytest.NewFailingStore(observe.New(inner, func(context.Context, observe.Call) {}))
		fallen := must(fallback.New(failing, nil, nil))(t)
		return prioritytest.Subject{
			Store: observe.New(fallen, new(prioritytest.Recorder).Observe), Other: openStore(t, redis.Client(nil), &lawfulPolicies),
			Faulty: []prioritytest.Faulty{failing, redis.Faults}, Goroutines: redisGoroutines, Customers: lawfulCustomers,
			Recovery: 1250 * time.Millisecond,
			Close:    fallen.Close,
		}
	})
}

// redisGoroutines is as many as a RedisStore lets be under way, and those of the
// connections with their server.
const redisGoroutines = 1024 + 32 + 100

// bubbleRedis is a Redis in virtual time.
type bubbleRedis struct {
	*virtualredis.Redis
	t *testing.T
}

func newBubbleRedis(t *testing.T) *bubbleRedis { return &bubbleRedis{virtualredis.Start(t), t} }

// open returns a store that meets faults. The server knows its scripts: a customer who
// hangs in a pipeline would keep others from sending theirs.
func (r *bubbleRedis) open(opts *priority.RedisOptions) *priority.RedisStore {
	store := openStore(r.t, r.Client(r.Faults), opts)
	for _, customer := range lawfulCustomers {
		for name, call := range everyCall(r.t, store, customer, "d") {
			if err := call(); err != nil {
				r.t.Fatalf("%s of %q: %v", name, customer, err)
			}
		}
	}
	r.Server.FlushAll()
	return store
}

// hand lets time pass for a real server, the clock of which cannot be moved: it
// moves the ends of all keys and leases. What is over it removes. What is soon over
// it ends later, so that it stays until the test comes to it, and what is not it ends
// sooner, so that whatever is written since can be told from it.
type hand struct {
	t      *testing.T
	client *redis.Client
	store  *priority.RedisStore
	moved  map[string]moved         // counts, by key
	leases map[string]time.Duration // what is left of them, by key, document and score
}

type moved struct {
	left, ttl time.Duration // what is left of it, and what the server was told
	at        time.Time
}

// handSlip is by how much ends are moved too far. It is more than a test takes.
const handSlip = 15 * time.Second

// slip returns what the server is told of what is left of some time.
func slip(left, of time.Duration) time.Duration {
	if left < of/2 {
		return left + handSlip
	}
	return left - handSlip
}

func (h *hand) wait(d time.Duration) {
	h.t.Helper()
	keys, err := h.client.Keys(h.t.Context(), "*").Result()
	for _, key := range keys {
		if strings.HasSuffix(key, ":count") {
			err = errors.Join(err, h.moveCount(key, d))
		} else if strings.HasSuffix(key, ":pending") {
			err = errors.Join(err, h.moveLeases(key, d))
		} else if strings.HasSuffix(key, ":usage") {
			err = errors.Join(err, h.moveUsage(key, d))
		}
	}
	if err != nil {
		h.t.Fatalf("let %v pass: %v", d, err)
	}
}

func (h *hand) moveCount(key string, d time.Duration) error {
	ctx := h.t.Context()
	ttl, err := h.client.PTTL(ctx, key).Result()
	interval := h.store.PolicyOf(virtualredis.CustomerOf(key)).ResetInterval
	left, last := interval, h.moved[key]
	if ttl <= last.ttl && ttl > last.ttl-time.Since(last.at)-handSlip/2 {
		left = last.left // it was not written since
	}
	delete(h.moved, key)
	if left -= d; left < 0 {
		return errors.Join(err, h.client.Del(ctx, key).Err())
	}
	h.moved[key] = moved{left, slip(left, interval), time.Now()}
	return errors.Join(err, h.client.PExpire(ctx, key, slip(left, interval)).Err())
}

func (h *hand) moveLeases(key string, d time.Duration) error {
	ctx := h.t.Context()
	documents, err := h.client.ZRangeWithScores(ctx, key, 0, -1).Result()
	name := func(z redis.Z) string { return fmt.Sprint(key, " ", z.Member, " ", int64(z.Score)) }
	for _, document := range documents {
		left, ok := h.leases[name(document)]
		if !ok { // it was written since
			left = h.store.Lease()
		}
		if left -= d; left < 0 {
			err = errors.Join(err, h.client.ZRem(ctx, key, document.Member).Err())
			continue
		}
		at := time.Now().Add(slip(left, h.store.Lease()) - h.store.Lease()).UnixMilli()
		level := int64(math.Abs(document.Score)) % 64
		document.Score = math.Copysign(float64(64*at+level), document.Score)
		h.leases[name(document)] = left
		err = errors.Join(err, h.client.ZAdd(ctx, key, document).Err())
	}
	if len(documents) == 0 {
		return err
	}
	return errors.Join(err, h.client.PExpire(ctx, key, h.store.Lease()+handSlip).Err())
}

// moveUsage needs no slip: what was submitted lately fades slowly.
func (h *hand) moveUsage(key string, d time.Duration) error {
	ttl, err := h.client.PTTL(h.t.Context(), key).Result()
	if ttl -= d; ttl <= 0 {
		return errors.Join(err, h.client.Del(h.t.Context(), key).Err())
	}
	return errors.Join(err, h.client.PExpire(h.t.Context(), key, ttl).Err())
}
