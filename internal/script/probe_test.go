package script

import (
	"context"
	"errors"
	"net"
	"strings"
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

// Whatever is wrong with a connection, the message has the address. A refusal has the root's test.
func TestProbe(t *testing.T) {
	for _, test := range []struct {
		dial dialFunc
		want string
	}{
		{func(context.Context, string, string) (net.Conn, error) {
			conn, _ := net.Pipe()
			return conn, nil
		}, address + " accepts connections"},
		{func(ctx context.Context, _, _ string) (net.Conn, error) { // a black hole
			<-ctx.Done()
			return nil, ctx.Err()
		}, "dial tcp " + address + ": no answer yet"},
		{func(context.Context, string, string) (net.Conn, error) { // deaf
			time.Sleep(time.Minute)
			return nil, errRefused
		}, "dial tcp " + address + ": no answer yet"},
	} {
		bubble.Test(t, func(t *testing.T) {
			err := why(new(probe), dialing(t, test.dial), 10*time.Millisecond)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			time.Sleep(time.Hour) // until every attempt has ended
		})
	}
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
