package bench

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// compareOnServer measures the server time of n ways to decide, on one server.
func (b *bench) compareOnServer(ctx context.Context, what string, n int,
	open func(client *redis.AutoPipeliner, i int) (decide, error)) ([]samples, error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	client, sent := server.countingClient()
	defer client.Close()
	batching, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}

	loads := make([]timed, n)
	for i := range loads {
		decide, err := open(batching, i)
		if err != nil {
			return nil, err
		}
		loads[i] = timed{server, sent, b.documents(b.slice, fmt.Sprintf("%02d-", i)), b.together(decide)}
	}
	return b.serverTimes(ctx, what, loads)
}

// countingClient returns a client that counts what it sends.
func (s *server) countingClient() (*redis.Client, *sentCommands) {
	sent := new(sentCommands)
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	client.AddHook(sent)
	return client, sent
}

// serverTimeGrid shows server times beside the base's.
func serverTimeGrid(head string, names []string, times []samples, base samples) grid {
	g := grid{{head, "server time", "µs"}}
	for i, name := range names {
		g = append(g, []string{name, times[i].over(base).String(), tenths(times[i].median())})
	}
	return g
}

// serverTimeNote says how server times were measured.
func (b *bench) serverTimeNote() string {
	return fmt.Sprintf(`Server time, by INFO commandstats: medians of %d rounds, with the least and the most; %s.`,
		b.rounds, b.serverTimeLoad())
}

// serverTimeLoad says what the load was.
func (b *bench) serverTimeLoad() string {
	return fmt.Sprintf(`of %d callers of an AutoPipeliner; a round's figure is the median of %d slices of %d decisions,
		for random ones of %s customers and, one in %d, for new ones`,
		b.callers, b.decisions/b.slice, b.slice, whole(float64(b.customers)), newCustomers)
}
