package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/docpriority/priority"
)

const quiet = "a quiet customer"

// measureHot measures what one customer who sends most of all costs: all callers call for
// them, and others meanwhile wait in the same client.
func measureHot(ctx context.Context, b *bench) (r *report, err error) {
	err = b.unpinned(ctx, func(free *bench) error {
		r, err = free.measureHot(ctx)
		return err
	})
	return r, err
}

func (b *bench) measureHot(ctx context.Context) (*report, error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	pipeliner, err := client.AsyncAutoPipelineWithOptions(batches)
	if err != nil {
		return nil, err
	}
	store, err := priority.NewRedisStore(pipeliner, &priority.RedisOptions{Timeout: patience})
	if err != nil {
		return nil, err
	}
	many := shuffled(customerNames(b.customers))
	all, err := b.takeTurns(ctx, "hot", []lap{
		func(ctx context.Context) (float64, error) { return decideFor(ctx, b.lap, b.callers, many, next(store)) },
		func(ctx context.Context) (float64, error) {
			return decideFor(ctx, b.lap, b.callers, []string{"acme"}, next(store))
		},
		func(ctx context.Context) (float64, error) { return b.beside(ctx, next(store)) },
	})
	if err != nil {
		return nil, err
	}
	spread, hot, wait := all[0], all[1], all[2]
	everybody := fmt.Sprintf("%s customers", whole(float64(len(many))))
	return &report{
		title: "hot",
		notes: fmt.Sprintf(`One customer for whom all %d callers of a deferred AutoPipeliner call, to as many calls for %s: medians of %d
			rounds, with the least and the most. Then what 99 of 100 calls for a quiet customer take at most, beside %s callers of the hot one.`,
			b.callers, everybody, b.rounds, whole(float64(b.crowd))),
		grids: []grid{
			{{fmt.Sprintf("%d callers", b.callers), "decisions", "1000/s"}, {everybody, spread.over(spread).String(), thousands(spread)}, {"one customer", hot.over(spread).String(), thousands(hot)}},
			{{"a quiet customer's call, p99", "ms"}, {fmt.Sprintf("beside %s callers", whole(float64(b.crowd))), wait.String()}},
		},
		bars: []bar{
			{what: "one customer, to " + everybody, figure: hot.over(spread).median(), atLeast: true, bound: 0.8},
			{what: "a quiet customer's call, p99, ms", figure: wait.median(), bound: 5},
		},
	}, nil
}

// beside returns the milliseconds that 99 of 100 calls for a quiet customer take at most,
// while a crowd calls for a hot one.
func (b *bench) beside(ctx context.Context, decide decide) (float64, error) {
	var over atomic.Bool
	group, crowded := errgroup.WithContext(ctx)
	for range b.crowd {
		group.Go(func() error {
			for !over.Load() {
				if err := decide(crowded, "acme"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var waits samples
	_, err := callFor(ctx, 5*b.lap, 1, func(ctx context.Context, _ int) error {
		began := time.Now()
		err := decide(ctx, quiet)
		waits = append(waits, 1000*time.Since(began).Seconds())
		return err
	})
	over.Store(true)
	slices.Sort(waits)
	return waits[len(waits)*99/100], errors.Join(err, group.Wait())
}
