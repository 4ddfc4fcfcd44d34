package page

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// Server names a Redis for people: its URL without a password, its kind ("single
// server", "cluster" or "sentinel"), and whether the connection uses TLS.
type Server = insight.Server

// serverOf says where a client leads, without a password.
func serverOf(client redis.UniversalClient) (Server, error) {
	switch client := client.(type) {
	case *redis.Client:
		options := client.Options()
		server := Server{Address: options.Addr, Kind: insight.SingleServer, TLS: options.TLSConfig != nil}
		if server.Address == "FailoverClient" { // as go-redis calls it
			server.Address, server.Kind = "the sentinels' master", insight.Sentinel
		}
		return server, nil
	case *redis.ClusterClient:
		options := client.Options()
		return Server{Address: strings.Join(options.Addrs, ", "), Kind: insight.Cluster, TLS: options.TLSConfig != nil}, nil
	}
	return Server{}, fmt.Errorf("page: %w: the client is a %T, not a *redis.Client or a *redis.ClusterClient", priority.ErrInvalidOption, client)
}
