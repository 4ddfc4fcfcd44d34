package page

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/page/insight"
)

// serverOf says where a client leads, without a password.
func serverOf(client redis.UniversalClient) (insight.Server, error) {
	switch client := client.(type) {
	case *redis.Client:
		options := client.Options()
		server := insight.Server{Address: options.Addr, Kind: insight.SingleServer, TLS: options.TLSConfig != nil}
		if server.Address == "FailoverClient" { // as go-redis calls it
			server.Address, server.Kind = "the sentinels' master", insight.Sentinel
		}
		return server, nil
	case *redis.ClusterClient:
		options := client.Options()
		return insight.Server{Address: strings.Join(options.Addrs, ", "), Kind: insight.Cluster, TLS: options.TLSConfig != nil}, nil
	}
	return insight.Server{}, fmt.Errorf("page: %w: the client is a %T, not a *redis.Client or a *redis.ClusterClient", priority.ErrInvalidOption, client)
}
