package bench

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docpriority/priority"
)

// decide makes one decision for a customer.
type decide func(ctx context.Context, customer string) error

// decideAll has callers make one decision for each of customers.
func decideAll(ctx context.Context, callers int, customers []string, decide decide) error {
	var at atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range callers {
		group.Go(func() error {
			for ctx.Err() == nil {
				i := int(at.Add(1)) - 1
				if i >= len(customers) {
					return nil
				}
				if err := decide(ctx, customers[i]); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// together has the callers decide at the same time.
func (b *bench) together(decide decide) load {
	return func(ctx context.Context, customers []string) error {
		return decideAll(ctx, b.callers, customers, decide)
	}
}

// decideFor has callers make decisions for some time and returns how many they
// made in a second.
func decideFor(ctx context.Context, long time.Duration, callers int, customers []string, decide decide) (float64, error) {
	var over atomic.Bool
	var next, calls atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	timer := time.AfterFunc(long, func() { over.Store(true) })
	defer timer.Stop()
	for range callers {
		group.Go(func() error {
			for {
				if err := decide(ctx, customers[int(next.Add(1)-1)%len(customers)]); err != nil {
					return err
				}
				calls.Add(1)
				if over.Load() || ctx.Err() != nil {
					return ctx.Err()
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return float64(calls.Load()) / time.Since(began).Seconds(), nil
}

// next decides by Next.
func next(store priority.Store) decide {
	return func(ctx context.Context, customer string) error {
		_, err := store.Next(ctx, customer)
		return err
	}
}
