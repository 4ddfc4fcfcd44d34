package laws

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/prioritytest"
)

// TestRedisStore_Timeout shows law 2 of connections, not only of calls: no call takes
// longer than the store's timeout or its context, whatever hangs on the way.
func TestRedisStore_Timeout(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, dial := range map[string]func(t *testing.T, ctx context.Context) (net.Conn, error){
		"refused": func(*testing.T, context.Context) (net.Conn, error) { return nil, refused },
		"a dialer that is deaf to its context": func(*testing.T, context.Context) (net.Conn, error) {
			time.Sleep(time.Minute)
			return nil, refused
		},
		"a server that says nothing": func(*testing.T, context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, there) }()
			return here, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				client := redis.NewClient(&redis.Options{
					Addr:     "127.0.0.1:1", // not a name, for which a bubble would ask the network
					PoolSize: 100,
					Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(t, ctx) },
				})
				store := must(priority.NewRedisStore(client, &options))(t)
				for _, patience := range []time.Duration{time.Hour, timeout / 5, -time.Second} {
					for _, operation := range operations {
						c := call{operation: operation, customers: customers[:1], documents: numbered(0, 3), n: 1}
						if operation == prioritytest.NextEach {
							c.customers = numbered(0, 10_001) // more than a round trip takes
						}
						ctx, cancel := context.WithTimeout(context.Background(), patience)
						began := time.Now()
						a := c.on(ctx, store)
						if took := time.Since(began); a.err == nil || took > max(0, min(patience, timeout)) {
							t.Errorf("%v with a context of %v: %v after %v", operation, patience, a.err, took)
						}
						cancel()
					}
				}
				_ = client.Close()
				time.Sleep(time.Hour) // until whatever hangs has ended
			})
		})
	}
}
