package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// throughMemory decides the documents by the model in memory.
func throughMemory(trace []document, policy priority.Policy, bar *progress) ([]priority.Decision, error) {
	var now time.Time
	store, err := priority.NewMemoryStore(&priority.MemoryOptions{
		Policy: policy,
		Now:    func() time.Time { return now },
	})
	if err != nil {
		return nil, err
	}
	decisions := make([]priority.Decision, len(trace))
	for i, d := range trace {
		now = time.UnixMilli(d.submitted)
		if decisions[i], err = store.Next(context.Background(), d.customer); err != nil {
			return nil, fmt.Errorf("line %d: %w", d.line, err)
		}
		bar.show("memory", i+1, len(trace))
	}
	return decisions, nil
}

// throughLua decides the documents by the script, in a miniredis in this process.
func throughLua(trace []document, policy priority.Policy, bar *progress) ([]priority.Decision, error) {
	server := miniredis.NewMiniRedis()
	defer server.Close()
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
	})
	defer client.Close()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Policy: policy, Timeout: -1})
	if err != nil {
		return nil, err
	}
	server.SetTime(time.UnixMilli(0))
	server.ClockTTL(true)
	decisions := make([]priority.Decision, len(trace))
	for i, d := range trace {
		server.SetTime(time.UnixMilli(0).Add(miniredisTime(d.submitted, policy.ResetInterval)))
		if decisions[i], err = store.Next(context.Background(), d.customer); err != nil {
			return nil, fmt.Errorf("line %d: %w", d.line, err)
		}
		bar.show("lua", i+1, len(trace))
	}
	return decisions, nil
}

// miniredisTime makes miniredis's clock slower than the trace's, by half a
// millisecond in an interval and a millisecond. Redis expires a key in the first
// millisecond after its deadline, miniredis at the deadline itself; on the slow
// clock a key lives through exactly the interval, and is gone a millisecond later.
func miniredisTime(submitted int64, interval time.Duration) time.Duration {
	exact := time.Duration(submitted) * time.Millisecond
	return exact - exact/time.Duration(2*(interval.Milliseconds()+1))
}

// throughRedis decides the documents by the script, on a real server. Its clock
// cannot be moved, so a key whose time is up in the trace is deleted by hand.
func throughRedis(ctx context.Context, trace []document, policy priority.Policy, address string, bar *progress) (_ []priority.Decision, err error) {
	logging.Disable() // what go-redis would write to stderr is in its errors too
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{
		Policy:  policy,
		Prefix:  "replay-" + rand.Text(), // the server may have counts of its own
		Timeout: -1,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, deleteCounts(client, store, trace)) }()

	decisions := make([]priority.Decision, 0, len(trace))
	for next := range batches(trace, policy) {
		// Only between two batches: what is under way would count after the deletion.
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		if len(next.expired) > 0 {
			if err := client.Del(context.Background(), keys(store, next.expired)...).Err(); err != nil {
				return nil, fmt.Errorf("expire %d keys by hand: %w", len(next.expired), err)
			}
		}
		decided, err := store.NextEach(context.Background(), next.customers)
		if err != nil {
			return nil, fmt.Errorf("from line %d on: %w", trace[len(decisions)].line, err)
		}
		decisions = append(decisions, decided...)
		bar.show("redis", len(decisions), len(trace))
	}
	return decisions, nil
}

// deleteCounts leaves the server as it was.
func deleteCounts(client *redis.Client, store *priority.RedisStore, trace []document) error {
	for chunk := range slices.Chunk(customersOf(trace), 1000) {
		if err := client.Del(context.Background(), keys(store, chunk)...).Err(); err != nil {
			return fmt.Errorf("delete this replay's keys: %w", err)
		}
	}
	return nil
}

func customersOf(trace []document) []string {
	customers := make([]string, len(trace))
	for i, d := range trace {
		customers[i] = d.customer
	}
	slices.Sort(customers)
	return slices.Compact(customers)
}

func keys(store *priority.RedisStore, customers []string) []string {
	keys := make([]string, len(customers))
	for i, customer := range customers {
		keys[i] = store.Key(customer)
	}
	return keys
}
