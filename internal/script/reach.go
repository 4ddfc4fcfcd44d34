package script

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// reach finds out why a call got no connection. go-redis says so only after five
// tries, when most calls have ended: all it says then is that time ran out.
type reach struct {
	mu   sync.Mutex
	last *attempt
}

type attempt struct {
	begun time.Time
	ended chan struct{}
	over  atomic.Bool // the same; it may be asked outside the bubble of testing/synctest that made ended
	err   error       // once it is over
}

// attemptEvery keeps an outage from becoming a storm of connections.
const attemptEvery = 100 * time.Millisecond

// why tries to connect, unless somebody just did, and returns what is known of the
// address when ctx ends at the latest; nil if the client does not tell the address.
func (r *reach) why(ctx context.Context, client Client) error {
	dial, network, addr := dialer(client)
	if dial == nil {
		return nil
	}
	a := r.attempt(dial, network, addr)
	if !a.over.Load() {
		select {
		case <-a.ended:
		case <-ctx.Done():
			return fmt.Errorf("dial %s %s: no answer yet", network, addr)
		}
	}
	if a.err == nil {
		return fmt.Errorf("%s accepts connections", addr)
	}
	return a.err
}

func (r *reach) attempt(dial dialFunc, network, addr string) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.last; a != nil && (time.Since(a.begun).Abs() < attemptEvery || !a.over.Load()) {
		return a
	}
	a := &attempt{begun: time.Now(), ended: make(chan struct{})}
	r.last = a
	go func() { // a dialer may be deaf to its context
		defer close(a.ended)
		ctx, cancel := context.WithTimeout(context.Background(), attemptEvery)
		defer cancel()
		var conn net.Conn
		if conn, a.err = dial(ctx, network, addr); a.err == nil {
			_ = conn.Close()
		}
		a.over.Store(true)
	}()
	return a
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer returns how a client connects, and where to; nil if it does not tell.
func dialer(client Client) (dial dialFunc, network, addr string) {
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		opt := c.Options()
		return opt.Dialer, opt.Network, opt.Addr
	case interface{ Options() *redis.ClusterOptions }:
		opt := c.Options()
		if len(opt.Addrs) == 0 {
			return nil, "", ""
		}
		dial = opt.Dialer
		if dial == nil {
			dial = redis.NewDialer(&redis.Options{TLSConfig: opt.TLSConfig, DialTimeout: attemptEvery})
		}
		return dial, "tcp", opt.Addrs[0]
	}
	return nil, "", ""
}
