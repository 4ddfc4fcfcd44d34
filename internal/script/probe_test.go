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

// Many calls that fail make few attempts to connect.
func TestProbe_Outage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var dialed atomic.Int64
		client := redis.NewClient(&redis.Options{Addr: address, Dialer: func(context.Context, string, string) (net.Conn, error) {
			dialed.Add(1)
			return nil, errRefused
		}})
		defer client.Close()
		p := new(probe)
		for range 20 {
			var calls sync.WaitGroup
			for range 100 {
				calls.Go(func() {
					if err := p.why(t.Context(), client); !errors.Is(err, errRefused) {
						t.Errorf("%v", err)
					}
				})
			}
			calls.Wait()
			time.Sleep(probeEvery)
		}
		if n := dialed.Load(); n > 21 {
			t.Errorf("%d attempts, want one for each while", n)
		}
	})
}
