package queues_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/brokertest"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// BenchmarkFlood measures the queues without a module: a sorted set, and a table as in
// package sql.
func BenchmarkFlood(b *testing.B) {
	for name, open := range map[string]func(*testing.B) func(context.Context, priority.Store) (brokertest.Queue, error){
		"sorted-set": openSortedSet,
		"sql":        openTable,
	} {
		b.Run(name, func(b *testing.B) {
			brokertest.Flood(b, brokertest.InProcess(open(b)), 9)
		})
	}
}

// BenchmarkTiers measures what customers of the weights 1, 3 and 10 get of the workers' time, in
// parts of what their weight entitles them to, while each of them sends more than that. The loads
// of a tier are multiplied by its weight.
func BenchmarkTiers(b *testing.B) {
	const (
		warmUp, measured = 20 * time.Second, 40 * time.Second
		interval         = 15 * time.Millisecond // between a customer's documents: four times the capacity
	)
	tiers := make(map[string]priority.Policy)
	for _, weight := range []float64{1, 3, 10} {
		policy := priority.DefaultPolicy()
		for i := range policy.Loads {
			policy.Loads[i] *= weight
		}
		tiers[fmt.Sprint(weight)] = policy
	}
	tierOf := func(customer string) string { tier, _, _ := strings.Cut(customer, "-"); return tier }
	for b.Loop() {
		store, err := priority.NewRedisStore(redistest.Start(b).Client(), &priority.RedisOptions{Timeout: 10 * time.Second, Tiers: tiers, TierOf: tierOf})
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithTimeout(b.Context(), warmUp+measured)
		begin := time.Now()
		var mutex sync.Mutex
		served, all := make(map[string]float64), 0.0
		open := openSortedSet(b)
		var running errgroup.Group
		for range 2 {
			queue, err := open(ctx, store)
			if err != nil {
				b.Fatal(err)
			}
			running.Go(func() error {
				return queue.Work(ctx, func(_ context.Context, document string) error {
					time.Sleep(brokertest.FloodWork)
					if time.Since(begin) > warmUp {
						mutex.Lock()
						defer mutex.Unlock()
						served[tierOf(document)]++
						all++
					}
					return nil
				})
			})
		}
		customers := map[string]int{"1": 10, "3": 6, "10": 4}
		for tier, n := range customers {
			for number := range n {
				queue, err := open(ctx, store)
				if err != nil {
					b.Fatal(err)
				}
				running.Go(func() error {
					customer := fmt.Sprint(tier, "-", number)
					for sent := 0; ctx.Err() == nil; sent++ {
						if err := queue.Publish(context.WithoutCancel(ctx), customer, fmt.Sprint(customer, "-", sent)); err != nil {
							return err
						}
						time.Sleep(time.Until(begin.Add(time.Duration(sent) * interval)))
					}
					return nil
				})
			}
		}
		if err := running.Wait(); err != nil {
			b.Fatal(err)
		}
		stop()
		for tier, n := range customers {
			weight, _ := strconv.ParseFloat(tier, 64)
			b.ReportMetric(served[tier]/float64(n)/weight/(all/68), "share-of-weight-"+tier) // 68 is the sum of the weights
		}
		b.ReportMetric(0, "ns/op")
	}
}

// pullQueue is a queue from which two workers pull documents.
type pullQueue struct {
	store priority.Store
	put   func(ctx context.Context, level priority.Level, customer, document string) error
	pull  func(ctx context.Context, work func(customer, document string) error) error // waits a little if there is none
}

func (q *pullQueue) Publish(ctx context.Context, customer, document string) error {
	decision, err := q.store.Submit(ctx, customer, priority.Document{ID: document})
	if err != nil {
		return err
	}
	return q.put(ctx, decision.Level, customer, document)
}

func (q *pullQueue) Work(ctx context.Context, handle func(context.Context, string) error) error {
	var workers errgroup.Group
	for range 2 {
		workers.Go(func() error {
			for ctx.Err() == nil {
				if err := q.pull(ctx, func(customer, document string) error {
					began := time.Now()
					if err := handle(ctx, document); err != nil {
						return err
					}
					_, err := q.store.Done(context.WithoutCancel(ctx), customer, document, time.Since(began))
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return workers.Wait()
}

func (q *pullQueue) Close() {}

// openSortedSet returns queues on a sorted set, whose score is the level and, within a level,
// the order of arrival.
func openSortedSet(b *testing.B) func(context.Context, priority.Store) (brokertest.Queue, error) {
	client := redistest.Start(b).Client()
	return func(_ context.Context, store priority.Store) (brokertest.Queue, error) {
		return &pullQueue{store, func(ctx context.Context, level priority.Level, customer, document string) error {
			number, err := client.Incr(ctx, "number").Result()
			if err != nil {
				return err
			}
			return client.ZAdd(ctx, "documents", redis.Z{Score: float64(level)*1e12 + float64(number), Member: customer + " " + document}).Err()
		}, func(ctx context.Context, work func(customer, document string) error) error {
			first, err := client.BZPopMin(context.WithoutCancel(ctx), time.Second, "documents").Result()
			if errors.Is(err, redis.Nil) {
				return nil
			} else if err != nil {
				return err
			}
			customer, document, _ := strings.Cut(first.Member.(string), " ")
			return work(customer, document)
		}}, nil
	}
}

// openTable returns queues on a table with a row for each document.
func openTable(b *testing.B) func(context.Context, priority.Store) (brokertest.Queue, error) {
	config, err := pgxpool.ParseConfig(brokertest.StartPostgres(b).URL)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 20 // a worker's transaction is as long as its work
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), `CREATE TABLE documents (id bigserial PRIMARY KEY, level int, customer text, name text);
		CREATE INDEX ON documents (level, id)`); err != nil {
		b.Fatal(err)
	}
	return func(_ context.Context, store priority.Store) (brokertest.Queue, error) {
		return &pullQueue{store, func(ctx context.Context, level priority.Level, customer, document string) error {
			_, err := pool.Exec(ctx, `INSERT INTO documents (level, customer, name) VALUES ($1, $2, $3)`, level, customer, document)
			return err
		}, func(ctx context.Context, work func(customer, document string) error) error {
			ctx = context.WithoutCancel(ctx)
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				var customer, document string
				if err := tx.QueryRow(ctx, `DELETE FROM documents WHERE id = (SELECT id FROM documents ORDER BY level, id
					FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING customer, name`).Scan(&customer, &document); errors.Is(err, pgx.ErrNoRows) {
					time.Sleep(10 * time.Millisecond)
					return nil
				} else if err != nil {
					return err
				}
				return work(customer, document)
			})
		}}, nil
	}
}
