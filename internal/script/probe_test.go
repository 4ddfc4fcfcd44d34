package script

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/testing/bubble"
)

// address is a number: for a name, a client in a bubble would ask the network.
const address = "127.0.0.1:1"

func dialing(t *testing.T, dial dialFunc) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: address, Dialer: dial})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func why(r *probe, client Client, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return r.why(ctx, client)
}

// Many calls that fail make few attempts to connect.
func TestProbe_Outage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var dialed atomic.Int64
		client := dialing(t, func(context.Context, string, string) (net.Conn, error) {
			dialed.Add(1)
			return nil, errRefused
		})
		r := new(probe)
		const callers, seconds = 100, 2
		for range seconds * int(time.Second/probeEvery) {
			var calls sync.WaitGroup
			for range callers {
				calls.Go(func() {
					if err := why(r, client, time.Second); !errors.Is(err, errRefused) {
						t.Errorf("%v", err)
					}
				})
			}
			calls.Wait()
			time.Sleep(probeEvery)
		}
		if most := int64(seconds*time.Second/probeEvery) + 1; dialed.Load() > most {
			t.Errorf("%d attempts, want at most %d", dialed.Load(), most)
		}
	})
}
