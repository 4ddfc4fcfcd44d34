package main

import (
	"context"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/redis/go-redis/v9"
)

// measureControl measures what package control costs where every customer who is
// measured has an override, and what a worker costs Redis that follows operators.
func measureControl(ctx context.Context, b *bench) (*report, error) {
	names := []string{"RedisStore", fmt.Sprintf("control, %s overrides", whole(float64(b.overrides)))}
	var controlled *control.Store
	times, err := b.compareOnServer(ctx, "control", len(names), func(client *redis.AutoPipeliner, i int) (decide, error) {
		if i == 0 {
			return storeDecide(client, &priority.RedisOptions{})
		}
		var err error
		controlled, err = b.overridden(ctx, client, fmt.Sprintf("%02d-", i))
		return next(controlled), err
	})
	if err != nil {
		return nil, err
	}
	if err := controlled.Close(ctx); err != nil {
		return nil, err
	}
	allocations, poll, err := b.controlInProcess(ctx)
	if err != nil {
		return nil, err
	}
	const fleet, asks = 1000, 2 // processes, and how often each asks in a second
	return &report{
		title: "control", notes: b.serverTimeNote(),
		grids: []grid{
			serverTimeGrid("store", names, times, times[0]),
			{
				{"store", "allocations"},
				{names[0], tenths(allocations[0])},
				{names[1], tenths(allocations[1])},
			},
			{
				{"to follow", "µs", "of a second, for 1,000 processes"},
				{"one question", tenths(poll), fmt.Sprintf("%.1f %%", 100*poll*fleet*asks/1e6)},
			},
		},
		bars: []bar{
			{what: "server time, to RedisStore", figure: times[1].over(times[0]).median(), bound: 1.02},
			{what: "allocations more than RedisStore", figure: allocations[1] - allocations[0], bound: 1},
		},
	}, nil
}

// overridden returns a store with an override for each of the customers whose names
// begin so. It asks for changes so seldom that it does not matter.
func (b *bench) overridden(ctx context.Context, client priority.RedisClient, measured string) (*control.Store, error) {
	own, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: patience})
	if err != nil {
		return nil, err
	}
	admin, err := control.NewAdmin(client, nil)
	if err != nil {
		return nil, err
	}
	err = decideAll(ctx, b.callers, customerNames(b.overrides), func(ctx context.Context, name string) error {
		_, err := admin.SetOverride(ctx, measured+name, control.Pin(2), control.MaxOverride, control.Change{By: "bench", Why: "to measure"})
		return err
	})
	if err != nil {
		return nil, err
	}
	store, err := control.New(own, &control.Options{Interval: time.Minute})
	if err != nil {
		return nil, err
	}
	return store, store.Refresh(ctx)
}

// controlInProcess returns the allocations of a decision without and with package
// control, and the microseconds that Redis takes to say whether something was changed.
func (b *bench) controlInProcess(ctx context.Context) (allocations [2]float64, poll float64, err error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return allocations, 0, err
	}
	defer server.stop()
	client := redis.NewClient(&redis.Options{Addr: server.addr})
	defer client.Close()
	store, err := b.overridden(ctx, client, "")
	if err != nil {
		return allocations, 0, err
	}
	defer store.Close(ctx)
	plain, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: patience})
	if err != nil {
		return allocations, 0, err
	}
	names := customerNames(b.overrides)
	for i, decide := range []decide{next(plain), next(store)} {
		if allocations[i], _, err = allocated(ctx, 1, names, decide); err != nil {
			return allocations, 0, err
		}
	}
	if err := client.ConfigResetStat(ctx).Err(); err != nil {
		return allocations, 0, err
	}
	for range b.decisions / 10 {
		if err := store.Refresh(ctx); err != nil {
			return allocations, 0, err
		}
	}
	perCall, err := server.commandTimes(ctx)
	return allocations, perCall["hmget"] + perCall["time"], err
}
