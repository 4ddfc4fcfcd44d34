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
	"github.com/docpriority/priority/internal/trace"
	"github.com/docpriority/priority/memory"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// throughMemory decides the documents by the model in memory.
func throughMemory(documents []trace.Document, policy priority.Policy, bar *progress) ([]priority.Decision, error) {
	var now time.Time
	store, err := memory.New(&memory.Options{
		Policy: policy,
		Now:    func() time.Time { return now },
	})
	if err != nil {
		return nil, err
	}
	decisions := make([]priority.Decision, len(documents))
	for i, d := range documents {
		now = time.UnixMilli(0).Add(d.Submitted)
		if decisions[i], err = store.Next(context.Background(), d.Customer); err != nil {
			return nil, fmt.Errorf("line %d: %w", d.Line, err)
		}
		bar.show("memory", i+1, len(documents))
	}
	return decisions, nil
}

// throughLua decides the documents by the script, in a miniredis in this process.
func throughLua(documents []trace.Document, policy priority.Policy, bar *progress) ([]priority.Decision, error) {
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
	decisions := make([]priority.Decision, len(documents))
	for i, d := range documents {
		server.SetTime(time.UnixMilli(0).Add(miniredisTime(d.Submitted, policy.ResetInterval)))
		if decisions[i], err = store.Next(context.Background(), d.Customer); err != nil {
			return nil, fmt.Errorf("line %d: %w", d.Line, err)
		}
		bar.show("lua", i+1, len(documents))
	}
	return decisions, nil
}

// miniredisTime makes miniredis's clock slower than the trace's, by half a
// millisecond in an interval and a millisecond. Redis expires a key in the first
// millisecond after its deadline, miniredis at the deadline itself; on the slow
// clock a key lives through exactly the interval, and is gone a millisecond later.
func miniredisTime(submitted, interval time.Duration) time.Duration {
	return submitted - submitted/time.Duration(2*(interval.Milliseconds()+1))
}

// throughRedis decides the documents by the script, on a real server. Its clock
// cannot be moved, so a key whose time is up in the trace is deleted by hand.
func throughRedis(ctx context.Context, documents []trace.Document, policy priority.Policy, address string, bar *progress) (_ []priority.Decision, err error) {
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
	defer func() { err = errors.Join(err, deleteCounts(client, store, documents)) }()

	decisions := make([]priority.Decision, 0, len(documents))
	for next := range batches(documents, policy) {
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
			return nil, fmt.Errorf("from line %d on: %w", documents[len(decisions)].Line, err)
		}
		decisions = append(decisions, decided...)
		bar.show("redis", len(decisions), len(documents))
	}
	return decisions, nil
}

// deleteCounts leaves the server as it was.
func deleteCounts(client *redis.Client, store *priority.RedisStore, documents []trace.Document) error {
	for chunk := range slices.Chunk(customersOf(documents), 1000) {
		if err := client.Del(context.Background(), keys(store, chunk)...).Err(); err != nil {
			return fmt.Errorf("delete this replay's keys: %w", err)
		}
	}
	return nil
}

func customersOf(documents []trace.Document) []string {
	customers := make([]string, len(documents))
	for i, d := range documents {
		customers[i] = d.Customer
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
