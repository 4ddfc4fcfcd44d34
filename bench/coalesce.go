package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
)

// hot measures customers at the last level, few of whom have most of the documents.
type hot struct {
	*bench
	traffic []string      // the customers of documents
	sent    *sentCommands // by both stores

	store   *priority.RedisStore // of a plain client
	batched *priority.RedisStore // of an AutoPipeliner

	trips samples // round trips of a settlement, with one caller
	calls samples // of Redis for a document, with many callers
}

const (
	zipfExponent    = 1.1         // of how much few customers have
	settlementEvery = time.Second // the default of package coalesce
)

// measureCoalesce measures what package coalesce saves.
func measureCoalesce(ctx context.Context, b *bench) (r *report, err error) {
	err = b.unpinned(ctx, func(free *bench) error {
		r, err = free.measureCoalesce(ctx)
		return err
	})
	return r, err
}

func (b *bench) measureCoalesce(ctx context.Context) (*report, error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	client, sent := server.countingClient()
	defer client.Close()
	pipeliner, err := client.AutoPipelineWithOptions(batches)
	if err != nil {
		return nil, err
	}
	h := &hot{bench: b, traffic: make([]string, b.traffic), sent: sent}
	for store, client := range map[**priority.RedisStore]priority.RedisClient{&h.store: client, &h.batched: pipeliner} {
		if *store, err = priority.NewRedisStore(client, &priority.RedisOptions{Timeout: -1}); err != nil {
			return nil, err
		}
	}
	names := customerNames(b.hot)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), zipfExponent, 1, uint64(len(names)-1))
	for i := range h.traffic {
		h.traffic[i] = names[zipf.Uint64()]
	}
	if err := decideAll(ctx, b.callers, names, toLast(h.batched)); err != nil {
		return nil, err
	}
	all, err := b.takeTurns(ctx, "coalesce", []lap{h.alone, h.aloneCoalesced, h.many, h.manyCoalesced})
	if err != nil {
		return nil, err
	}
	return h.report(all[0], all[1], all[2], all[3]), nil
}

// The laps return documents a second. Those with package coalesce begin with an
// empty memory. Without it, a tenth of the documents tells the rate.

func (h *hot) alone(ctx context.Context) (float64, error) {
	traffic := h.traffic[:len(h.traffic)/10]
	began := time.Now()
	err := decideAll(ctx, 1, traffic, next(h.store))
	return float64(len(traffic)) / time.Since(began).Seconds(), err
}

// aloneCoalesced ends when all documents are in Redis.
func (h *hot) aloneCoalesced(ctx context.Context) (float64, error) {
	store, err := coalesce.New(h.store, nil)
	if err != nil {
		return 0, err
	}
	h.sent.reset()
	began := time.Now()
	if err := decideAll(ctx, 1, h.traffic, next(store)); err != nil {
		return 0, err
	}
	if err := store.Close(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	settlements := int(took/settlementEvery) + 1 // with that of Close
	h.trips = append(h.trips, float64(h.sent.pipelines())/float64(settlements))
	return float64(len(h.traffic)) / took.Seconds(), nil
}

func (h *hot) many(ctx context.Context) (float64, error) {
	return decideFor(ctx, h.lap, h.callers, h.traffic, next(h.batched))
}

// manyCoalesced has some time for settlements.
func (h *hot) manyCoalesced(ctx context.Context) (float64, error) {
	store, err := coalesce.New(h.batched, nil)
	if err != nil {
		return 0, err
	}
	h.sent.reset()
	long := 10 * h.lap
	rate, err := decideFor(ctx, long, h.callers, h.traffic, next(store))
	if err != nil {
		return 0, err
	}
	if err := store.Close(ctx); err != nil {
		return 0, err
	}
	h.calls = append(h.calls, float64(h.sent.calls()["evalsha"])/(rate*long.Seconds()))
	return rate, nil
}

func (h *hot) report(alone, aloneCoalesced, many, manyCoalesced samples) *report {
	g := grid{{"documents", "without", "1000/s", "coalesced", "1000/s"}}
	for _, row := range []struct {
		name             string
		plain, coalesced samples
	}{
		{"one caller", alone, aloneCoalesced}, {fmt.Sprintf("%d callers, batched", h.callers), many, manyCoalesced},
	} {
		g = append(g, []string{
			row.name, row.plain.over(row.plain).String(), thousands(row.plain),
			row.coalesced.over(row.plain).String(), thousands(row.coalesced),
		})
	}
	// The first round, which warms up, also had to tell Redis the scripts.
	return &report{
		title: "coalesce",
		notes: fmt.Sprintf(`Documents of %s customers at the last level, by Zipf's law with exponent %v, with and without package coalesce:
			medians of %d rounds, with the least and the most. One caller sends %s documents through a new coalesce.Store and closes it; that
			time is in the figure. %d callers send for %v. Nothing is pinned to a CPU.`,
			whole(float64(h.hot)), zipfExponent, h.rounds, whole(float64(len(h.traffic))), h.callers, 10*h.lap),
		grids: []grid{g},
		bars: []bar{
			{what: "one caller, to without", figure: aloneCoalesced.over(alone).median(), atLeast: true, bound: 10},
			{what: "one caller, round trips of a settlement, at most", figure: h.trips[1:].most(), bound: 1},
			{what: g[2][0] + ", to without", figure: manyCoalesced.over(many).median(), atLeast: true, bound: 10},
			{what: g[2][0] + ", calls of Redis a document", figure: h.calls[1:].median(), bound: 0.05},
		},
	}
}
