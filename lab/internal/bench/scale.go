package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
)

// measureScale measures what many customers cost, in memory and in server time.
func measureScale(ctx context.Context, b *bench) (*report, error) {
	names := customerNames(slices.Max(b.scale))
	times, floors, err := b.timesByCustomers(ctx, names)
	if err != nil {
		return nil, err
	}
	rows, err := b.memoryByCustomers(ctx, names)
	if err != nil {
		return nil, err
	}
	first := times[0]
	g := grid{{"customers", "server time of Next", "µs", "of the floor", "Next to floor"}}
	r := &report{title: "scale"}
	for i, n := range b.scale {
		g = append(g, []string{whole(float64(n)), times[i].over(first).String(), tenths(times[i].median()),
			floors[i].over(floors[0]).String(), ratio(times[i].over(floors[i]).median())})
		if i > 0 {
			r.bars = append(r.bars, bar{
				what:   fmt.Sprintf("%s customers, to %s", whole(float64(n)), whole(float64(b.scale[0]))),
				figure: times[i].over(first).median(), bound: 1.15,
			})
		}
	}
	memory := grid{{"bytes of Redis a customer"}}
	for _, n := range b.scale {
		memory[0] = append(memory[0], whole(float64(n)))
	}
	memory[0] = append(memory[0], "to priority")
	ours := rows[nextName]
	for _, name := range []string{nextName, rateName, limiterName} {
		row := []string{name}
		for _, bytes := range rows[name] {
			row = append(row, whole(bytes))
		}
		last := len(b.scale) - 1
		memory = append(memory, append(row, ratio(rows[name][last]/ours[last])))
	}
	r.grids = []grid{g, memory}
	r.notes = fmt.Sprintf(`Server time of Next for customers who are at the last level, as a ratio to the fewest customers: medians
		of %d rounds, with the least and the most, measured as for the peers, for customers picked at random; and of the
		script of INCR and PEXPIRE on keys of its own. Memory of each
		after one decision, keys and tables and all; the last column is for the most customers.`, b.rounds)
	return r, nil
}

// timesByCustomers returns the server times of Next and of the floor, on
// servers that hold different numbers of customers.
func (b *bench) timesByCustomers(ctx context.Context, names []string) (times, floors []samples, err error) {
	loads := make([]timed, 2*len(b.scale))
	for i, n := range b.scale {
		server, err := b.startServer(ctx)
		if err != nil {
			return nil, nil, err
		}
		defer server.stop()
		client, sent := server.countingClient()
		defer client.Close()
		batching, err := client.AutoPipeline()
		if err != nil {
			return nil, nil, err
		}
		store, err := priority.NewRedisStore(batching, &priority.RedisOptions{Timeout: patience})
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(b.progress, "scale: a server with %d customers\n", n)
		if err := decideAll(ctx, b.callers, names[:n], toLast(store)); err != nil {
			return nil, nil, err
		}
		floor := scriptDecide(batching, floorLua)
		if err := decideAll(ctx, b.callers, names[:n], floor); err != nil {
			return nil, nil, err
		}
		random := rand.New(rand.NewPCG(1, uint64(n)))
		var documents documents
		for range b.decisions / b.slice {
			slice := make([]string, b.slice)
			for i := range slice {
				slice[i] = names[random.IntN(n)]
			}
			documents.slices = append(documents.slices, slice)
		}
		loads[i] = timed{server, sent, documents, b.together(next(store))}
		loads[len(b.scale)+i] = timed{server, sent, documents, b.together(floor)}
	}
	all, err := b.serverTimes(ctx, "scale", loads)
	if err != nil {
		return nil, nil, err
	}
	return all[:len(b.scale)], all[len(b.scale):], nil
}

// toLast brings a customer to the last level at once. However many documents
// there are for each customer, all of them take the same way through the script
// then.
func toLast(store *priority.RedisStore) decide {
	return func(ctx context.Context, customer string) error {
		_, err := store.NextN(ctx, customer, 50)
		return err
	}
}

// memoryByCustomers returns the bytes of Redis a customer at each number of
// customers, of the module and its peers.
func (b *bench) memoryByCustomers(ctx context.Context, names []string) (map[string][]float64, error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	batching, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	rows := make(map[string][]float64)
	for name, open := range map[string]func(context.Context, redis.UniversalClient) (decide, error){
		nextName: priorityNext, rateName: redisRate, limiterName: ululeLimiter,
	} {
		fmt.Fprintf(b.progress, "scale: memory of %s\n", name)
		decide, err := open(ctx, batching)
		if err != nil {
			return nil, err
		}
		for _, n := range b.scale {
			bytes, err := server.memoryOfCustomers(ctx, b.callers, names[:n], decide)
			if err != nil {
				return nil, err
			}
			rows[name] = append(rows[name], bytes)
		}
	}
	return rows, nil
}
