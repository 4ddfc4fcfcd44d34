package census

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Masters returns the servers that hold the keys: all masters of a cluster, in no
// order, or the one server. The client is a *redis.Client or a
// *redis.ClusterClient; the servers' clients are closed with it.
func Masters(ctx context.Context, client redis.UniversalClient) ([]*redis.Client, error) {
	switch client := client.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex
		var masters []*redis.Client
		err := client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, master)
			return nil
		})
		return masters, err
	case *redis.Client:
		return []*redis.Client{client}, nil
	}
	return nil, fmt.Errorf("a %T cannot be walked through", client)
}

// node is a server that holds a share of the keys.
type node struct {
	id     string
	client *redis.Client
}

// nodesOf returns the servers that hold the keys, in a stable order.
func nodesOf(ctx context.Context, client redis.UniversalClient) ([]node, error) {
	masters, err := Masters(ctx, client)
	if err != nil {
		return nil, err
	}
	var nodes []node
	for _, master := range masters {
		id, err := identity(ctx, master)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node{id, master})
	}
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.id, b.id) })
	return nodes, nil
}

// identity names a server's process, as a cursor of SCAN is valid only there.
// Without the right to ask, it is the address.
func identity(ctx context.Context, client *redis.Client) (string, error) {
	info, err := client.Info(ctx, "server").Result()
	if err != nil && !redis.IsPermissionError(err) {
		return "", err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return client.Options().Addr, nil
}
