package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
)

// trips measures the calls that decide about many documents at once.
type trips struct {
	*bench
	server    *server
	names     []string
	documents documents // in slices that are a NextEach

	store *priority.RedisStore // of a plain client

	counted  *priority.RedisStore // of one that counts what it sends
	batching *priority.RedisStore // of an AutoPipeliner that does
	sent     *sentCommands
}

// measureTrips measures what calls for many documents save.
func measureTrips(ctx context.Context, b *bench) (*report, error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	plain := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer plain.Close()
	client, sent := server.countingClient()
	defer client.Close()
	pipeliner, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	t := &trips{bench: b, server: server, names: customerNames(b.customers), documents: b.documents(b.batch, "next-"), sent: sent}
	for store, client := range map[**priority.RedisStore]priority.RedisClient{
		&t.store: plain, &t.counted: client, &t.batching: pipeliner,
	} {
		if *store, err = priority.NewRedisStore(client, &priority.RedisOptions{Timeout: patience}); err != nil {
			return nil, err
		}
	}

	each := t.documents
	many := documents{slices: slices.Collect(slices.Chunk(t.names[:len(each.slices)*nextNSlice], nextNSlice))}
	all, err := b.takeTurns(ctx, "trips", []lap{
		t.serially, t.byNextN, t.serialCustomers, t.byNextEach,
	})
	if err != nil {
		return nil, err
	}
	times, err := b.serverTimes(ctx, "trips, server time", []timed{
		{server, sent, each, t.batchedNext},
		{server, sent, b.documents(b.batch, "each-"), t.nextEach},
		{server, sent, many, t.nextN},
	})
	if err != nil {
		return nil, err
	}
	trips, err := t.countTrips(ctx)
	if err != nil {
		return nil, err
	}
	return t.report(append(all, times...), trips), nil
}

// nextNSlice is how many calls of NextN are measured at once.
const nextNSlice = 5

// The loads.

func next(store priority.Store) decide {
	return func(ctx context.Context, customer string) error {
		_, err := store.Next(ctx, customer)
		return err
	}
}

func (t *trips) batchedNext(ctx context.Context, customers []string) error {
	return decideAll(ctx, t.callers, customers, next(t.batching))
}

func (t *trips) nextEach(ctx context.Context, customers []string) error {
	for batch := range slices.Chunk(customers, t.batch) {
		if _, err := t.counted.NextEach(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (t *trips) nextN(ctx context.Context, customers []string) error {
	for _, name := range customers {
		if _, err := t.counted.NextN(ctx, name, t.many); err != nil {
			return err
		}
	}
	return nil
}

// The laps that return decisions a second.

func (t *trips) serially(ctx context.Context) (float64, error) {
	return decideFor(ctx, t.lap, 1, []string{"acme"}, next(t.store))
}

func (t *trips) byNextN(ctx context.Context) (float64, error) {
	calls, err := callFor(ctx, t.lap/4, 1, func(ctx context.Context, _ int) error {
		_, err := t.store.NextN(ctx, "acme", t.many)
		return err
	})
	return calls * float64(t.many), err
}

func (t *trips) serialCustomers(ctx context.Context) (float64, error) {
	return decideFor(ctx, t.lap, 1, t.names[:t.batch], next(t.store))
}

func (t *trips) byNextEach(ctx context.Context) (float64, error) {
	calls, err := callFor(ctx, t.lap, 1, func(ctx context.Context, _ int) error {
		_, err := t.store.NextEach(ctx, t.names[:t.batch])
		return err
	})
	return calls * float64(t.batch), err
}

// trip is what one call sends.
type trip struct{ commands, roundTrips int }

// countTrips returns what Next, NextN and NextEach send, in this order.
func (t *trips) countTrips(ctx context.Context) ([]trip, error) {
	var counted []trip
	for _, call := range []func() error{
		func() error { _, err := t.counted.Next(ctx, "acme"); return err },
		func() error { _, err := t.counted.NextN(ctx, "acme", t.many); return err },
		func() error { _, err := t.counted.NextEach(ctx, t.names[:t.batch]); return err },
	} {
		t.sent.reset()
		if err := call(); err != nil {
			return nil, err
		}
		counted = append(counted, trip{t.sent.calls()["evalsha"], t.sent.roundTrips})
	}
	return counted, nil
}

func (t *trips) report(all []samples, counted []trip) *report {
	serially, byNextN, serialCustomers, byNextEach := all[0], all[1], all[2], all[3]
	nextTime, eachTime, manyTime := all[4], all[5], all[6]

	many := fmt.Sprintf("NextN of %s", whole(float64(t.many)))
	each := fmt.Sprintf("NextEach of %s", whole(float64(t.batch)))
	speed := grid{{"one caller", "commands", "round trips", "decisions", "1000/s"}}
	for i, row := range []struct {
		name         string
		figure, base samples
	}{
		{"Next", serially, serially}, {many, byNextN, serially}, {each, byNextEach, serialCustomers},
	} {
		speed = append(speed, []string{
			row.name, strconv.Itoa(counted[i].commands), strconv.Itoa(counted[i].roundTrips),
			row.figure.over(row.base).String(), thousands(row.figure),
		})
	}
	scripts := grid{{"one script of", "server time", "µs"}}
	for _, row := range []struct {
		name string
		time samples
	}{{"Next", nextTime}, {many, manyTime}, {each, eachTime}} {
		scripts = append(scripts, []string{row.name, row.time.over(nextTime).String(), tenths(row.time.median())})
	}
	return &report{
		title: "trips",
		notes: fmt.Sprintf(`Calls for many documents at once: medians of %d rounds, with the least and the most. Decisions a second
			as a ratio to Next by one caller, without a pipeline. Server time of a script as a ratio to a Next by %d callers of an
			AutoPipeliner.`, t.rounds, t.callers),
		grids: []grid{speed, scripts},
		bars: []bar{
			{what: many + ", to Next", figure: byNextN.over(serially).median(), atLeast: true, bound: 500},
			{what: each + ", to Next", figure: byNextEach.over(serialCustomers).median(), atLeast: true, bound: 12},
			{what: each + ", round trips", figure: float64(counted[2].roundTrips), bound: 1},
			{what: each + ", server time, to Next", figure: eachTime.over(nextTime).median(), bound: 1},
		},
	}
}
