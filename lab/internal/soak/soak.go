// Package soak puts a mixed load on a store on Redis, and compares in the end what callers
// were told with what the server counted.
package soak

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/observe"
)

// Options says what load is put on what.
type Options struct {
	Redis        string // host:port; several, separated by commas, are a cluster's nodes
	AutoPipeline bool
	Fallback     bool
	Timeout      time.Duration // of the store
	For          time.Duration
	Callers      int
	Customers    int
	Rest         time.Duration // of a caller after each call

	// Site has faults done to it, with a fallback, while members of a fleet serve a queue and
	// operators make changes. Nil: Redis names the server, and nothing happens to it.
	Site *Site

	prefix string        // of the keys; empty: a new one
	calls  int64         // end after that many; 0: no limit
	grace  time.Duration // what goroutines may take to end; 0: 15 s
	rounds int           // of faults, then end; 0: no limit
	calm   time.Duration // between faults, about; 0: 2 s
}

// redisOptions configures the stores.
func (o Options) redisOptions() priority.RedisOptions {
	return priority.RedisOptions{
		Prefix:    o.prefix,
		Timeout:   o.Timeout,
		Overrides: o.Site != nil,
		// A count that is reset while the load runs cannot be reconciled.
		Policy: priority.Policy{ResetInterval: (o.For + time.Hour).Round(time.Millisecond)},
	}
}

// client returns a client of the server, and the addresses of all servers.
func (o Options) client() (redis.UniversalClient, []string) {
	if o.Site != nil {
		return redis.NewClient(&redis.Options{Addr: "the master", Dialer: o.Site.dial, ClientName: o.prefix}), o.Site.addrs()
	}
	addresses := strings.Split(o.Redis, ",")
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addresses, ClientName: o.prefix}), addresses
}

// Validate returns an error that says what is wrong, or nil.
func (o Options) Validate() error {
	switch {
	case o.Timeout <= 0:
		return fmt.Errorf("-timeout %v is not more than 0", o.Timeout)
	case o.For <= 0:
		return fmt.Errorf("-for %v is not more than 0", o.For)
	case o.Callers < 1:
		return fmt.Errorf("-callers %d is not at least 1", o.Callers)
	case o.Rest < 0:
		return fmt.Errorf("-rest %v is less than 0", o.Rest)
	case o.Customers < 1:
		return fmt.Errorf("-customers %d is not at least 1", o.Customers)
	}
	return nil
}

// Report is what a soak found.
type Report struct {
	Operations     []Operation      // the last: all of them
	Errors         map[string]error // the first of each class
	Documents      ledger.Totals
	Reconciliation ledger.Reconciliation
	Before, After  Process
	Connections    int    // that the server had of the closed client
	Fleet          *Fleet // nil without a Site
}

// Process is what this process takes.
type Process struct {
	Heap       uint64 // bytes in use after a garbage collection
	Goroutines int
	Redis      uint64 // bytes of data in Redis; 0: not known
}

// Err returns what is wrong with what was found.
func (r *Report) Err() error {
	var wrong []error
	if !r.Reconciliation.Exact() {
		wrong = append(wrong, fmt.Errorf("the counts are wrong: %v", r.Reconciliation))
	}
	if r.After.Goroutines > r.Before.Goroutines {
		wrong = append(wrong, fmt.Errorf("%d goroutines are left", r.After.Goroutines-r.Before.Goroutines))
	}
	if r.Connections > 0 {
		wrong = append(wrong, fmt.Errorf("%d connections are left", r.Connections))
	}
	if r.Fleet != nil {
		wrong = append(wrong, r.Fleet.Err())
	}
	return errors.Join(wrong...)
}

// Run puts the load on the server until the time is over or the context ends.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.prefix == "" {
		o.prefix = "soak-" + rand.Text()[:10]
	}
	if o.grace == 0 {
		o.grace = 15 * time.Second // more than a go-redis client's own timeouts
	}
	if o.calm == 0 {
		o.calm = 2 * time.Second
	}
	r := &Report{Before: process()}
	client, addresses := o.client()
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("soak: %s: %w", o.Redis, err), client.Close())
	}
	book := new(ledger.Ledger)
	inner, store, finish, err := open(client, o, book)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	load := newLoad(store, book, o)
	began := time.Now()
	during, cancel := context.WithTimeout(ctx, o.For)
	var running sync.WaitGroup
	var failed error
	if o.Site != nil {
		running.Go(func() { r.Fleet, failed = live(during, cancel, client, inner, o) })
	}
	load.run(during)
	running.Wait()
	cancel()
	r.Operations, r.Errors = load.recorder.summarize(time.Since(began))

	// What comes now is done even if the load was interrupted.
	ctx = context.WithoutCancel(ctx)
	err = errors.Join(failed, finish(ctx))
	r.Documents = book.Totals()
	// Calls that their callers gave up on may be under way still, and count.
	awaitAtMost(o.grace, 0, func() int { stats := client.PoolStats(); return int(stats.TotalConns) - int(stats.IdleConns) })
	counts, unread := readCounts(ctx, client, inner, load.customers)
	r.Reconciliation = book.Reconcile(func(customer string) (int64, bool) {
		count, held := counts[customer]
		return count, held
	})
	if r.Fleet != nil {
		var unknown error
		r.Fleet.Pending, unknown = o.pending(ctx, inner, load.customers)
		err = errors.Join(err, unknown)
	}
	for _, customer := range load.customers {
		err = errors.Join(err, o.patiently(ctx, func(ctx context.Context) error { return inner.Reset(ctx, customer) }))
	}
	err = errors.Join(err, unread, client.Close())
	awaitAtMost(o.grace, r.Before.Goroutines, runtime.NumGoroutine)
	r.After = process()
	for _, address := range addresses {
		left, failed := connections(ctx, address, o.prefix, o.grace)
		r.Connections += left
		err = errors.Join(err, failed)
	}
	return r, err
}

// open makes the store, and what ends it.
func open(client redis.UniversalClient, o Options, book *ledger.Ledger) (inner *priority.RedisStore, store priority.Store, finish func(context.Context) error, err error) {
	var by priority.RedisClient = client
	if o.AutoPipeline {
		if by, err = client.AutoPipeline(); err != nil {
			return nil, nil, nil, err
		}
	}
	options := o.redisOptions()
	if inner, err = priority.NewRedisStore(by, &options); err != nil {
		return nil, nil, nil, err
	}
	finish = func(context.Context) error { return nil }
	store = inner
	if o.Site != nil {
		follows, err := control.New(by, &control.Options{Store: options})
		if err != nil {
			return nil, nil, nil, err
		}
		store, finish = follows, follows.Close
	}
	if !o.Fallback {
		return inner, store, finish, nil
	}
	wrapped, err := fallback.New(observe.New(store, book.Primary), nil, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	unfollow := finish
	return inner, wrapped, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, o.grace)
		defer cancel()
		return errors.Join(wrapped.Close(ctx), unfollow(ctx))
	}, nil
}

// patiently repeats a call, on a machine that may be too busy for the store's timeout.
func (o Options) patiently(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, o.grace)
	defer cancel()
	for {
		if err := call(ctx); err == nil || !rest(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// readCounts reads the customers' counts.
func readCounts(ctx context.Context, client redis.UniversalClient, store *priority.RedisStore, customers []string) (map[string]int64, error) {
	pipe := client.Pipeline()
	held := make([]*redis.StringCmd, len(customers))
	for i, customer := range customers {
		held[i] = pipe.Get(ctx, store.Key(customer))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	counts := make(map[string]int64, len(customers))
	for i, customer := range customers {
		count, err := held[i].Int64()
		if err == nil {
			counts[customer] = count
		} else if !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("soak: the count of %s: %w", customer, err)
		}
	}
	return counts, nil
}

// connections returns how many connections of a client's name a server has left.
func connections(ctx context.Context, address, name string, grace time.Duration) (left int, err error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	left = awaitAtMost(grace, 0, func() int {
		var list string
		list, err = client.ClientList(ctx).Result()
		return strings.Count(list, "name="+name)
	})
	return left, err
}

func process() Process {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return Process{Heap: memory.HeapAlloc, Goroutines: runtime.NumGoroutine()}
}

// awaitAtMost waits until a number has come down to a bound, for some time at most.
func awaitAtMost(grace time.Duration, bound int, number func() int) int {
	for deadline := time.Now().Add(grace); ; time.Sleep(10 * time.Millisecond) {
		if n := number(); n <= bound || time.Now().After(deadline) {
			return n
		}
	}
}
