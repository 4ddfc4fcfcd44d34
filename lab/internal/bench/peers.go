package bench

import (
	"context"
	"fmt"
)

// peerRow is what is known of one contender.
type peerRow struct {
	*contender
	server, callers samples // µs a decision; decisions a second
	memory          float64
}

// measurePeers measures the module beside what else decides in Redis.
func measurePeers(ctx context.Context, b *bench) (*report, error) {
	rows, err := b.peerTimes(ctx)
	if err != nil {
		return nil, err
	}
	err = b.unpinned(ctx, func(free *bench) error { return free.peerClients(ctx, rows) })
	if err != nil {
		return nil, err
	}
	return peerReport(rows, b), nil
}

// peerTimes measures the server time of all contenders.
func (b *bench) peerTimes(ctx context.Context) ([]*peerRow, error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	contenders, closeAll, err := openContenders(ctx, server.Addr)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	loads := make([]timed, len(contenders))
	for i, c := range contenders {
		loads[i] = timed{server, c.sent, b.documents(b.slice, fmt.Sprintf("%02d-", i)), b.together(c.counted)}
	}
	times, err := b.serverTimes(ctx, "peers, server time", loads)
	if err != nil {
		return nil, err
	}
	rows := make([]*peerRow, len(contenders))
	for i, c := range contenders {
		rows[i] = &peerRow{contender: c, server: times[i]}
	}
	return rows, nil
}

// peerClients measures what the contenders' clients do in a second, and what their
// keys take of memory.
func (b *bench) peerClients(ctx context.Context, rows []*peerRow) error {
	server, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	contenders, closeAll, err := openContenders(ctx, server.Addr)
	if err != nil {
		return err
	}
	defer closeAll()
	names := customerNames(b.customers)
	order := shuffled(names)
	var laps []lap
	for _, c := range contenders {
		laps = append(laps, func(ctx context.Context) (float64, error) {
			if err := server.clear(ctx); err != nil {
				return 0, err
			}
			return decideFor(ctx, b.lap, b.callers, order, c.decide)
		})
	}
	throughputs, err := b.takeTurns(ctx, "peers, throughput", laps)
	if err != nil {
		return err
	}
	for i, row := range rows {
		row.contender, row.callers = contenders[i], throughputs[i]
		if row.memory, err = server.memoryOfCustomers(ctx, b.callers, names, row.decide); err != nil {
			return err
		}
	}
	return nil
}

func peerReport(rows []*peerRow, b *bench) *report {
	find := func(name string) *peerRow {
		for _, row := range rows {
			if row.name == name {
				return row
			}
		}
		panic("no contender " + name)
	}
	floor, next, overridden, batched := find(floorName), find(nextName), find(overriddenName), find(batchedName)
	rate, raw, timed := find(rateName), find(rueidisName), find(timedName)

	table := grid{{"contender", "server time", "µs", fmt.Sprintf("%d callers", b.callers), "1000/s", "memory"}}
	for _, row := range rows {
		server, callers := row.server.over(floor.server), row.callers.over(rate.callers)
		table = append(table, []string{
			row.name, server.String(), tenths(row.server.median()), callers.String(), tenths(row.callers.median() / 1000), whole(row.memory),
		})
	}
	return &report{
		title: "peers",
		notes: fmt.Sprintf(`Medians of %d rounds, with the least and the most. Server time is
			the sum of all commands of a decision, by INFO commandstats, as a ratio to a script of INCR and PEXPIRE; %s. Throughput is
			each row's own client's, as a ratio to redis_rate on a plain client. "Batched" is on a
			deferred AutoPipeliner with two batches at a time; of the module, without a timeout but for "and timed". For throughput nothing is pinned to a CPU. Memory is
			bytes of Redis a customer, after one decision for each of %s.`,
			b.rounds, b.serverTimeLoad(), whole(float64(b.customers))),
		grids: []grid{table},
		bars: []bar{
			{what: "server time, to INCR+PEXPIRE", figure: next.server.over(floor.server).median(), bound: 1.12},
			{what: "the same with overrides read", figure: overridden.server.over(floor.server).median(), bound: 1.30},
			{what: "server time, to redis_rate", figure: next.server.over(rate.server).median(), bound: 0.60},
			{what: "batched throughput, to redis_rate", figure: batched.callers.over(rate.callers).median(), atLeast: true, bound: 2.3},
			{what: "batched throughput, to rueidis", figure: batched.callers.over(raw.callers).median(), atLeast: true, bound: 0.88},
			{what: "the same with a timeout, to rueidis", figure: timed.callers.over(raw.callers).median(), atLeast: true, bound: 0.8},
			{what: "throughput on a pool, to redis_rate", figure: next.callers.over(rate.callers).median(), atLeast: true, bound: 1.1},
		},
	}
}
