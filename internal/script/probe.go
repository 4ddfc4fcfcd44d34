package script

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// probe finds out why a call got no connection. go-redis says so only after five
// tries, when most calls have ended: all it says then is that time ran out.
type probe struct {
	mu      sync.Mutex
	running chan struct{} // closed when the attempt in flight ends; nil: there is none
	ended   time.Time     // the last attempt
	err     error         // its result
}

// probeEvery keeps an outage from becoming a storm of connections.
const probeEvery = 100 * time.Millisecond

// why tries to connect as the client does, unless it just did, and returns what is known,
// at the latest when ctx ends; nil if the client hides its address.
func (p *probe) why(ctx context.Context, client Client) error {
	dial, network, addr := dialer(client)
	if dial == nil {
		return nil
	}
	p.mu.Lock()
	if p.running == nil && time.Since(p.ended).Abs() >= probeEvery {
		p.running = make(chan struct{})
		go p.connect(dial, network, addr) // a dialer may ignore its context
	}
	running := p.running
	p.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return fmt.Errorf("dial %s %s: no answer yet", network, addr)
	}
	return p.err
}

func (p *probe) connect(dial dialFunc, network, addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), probeEvery)
	defer cancel()
	conn, err := dial(ctx, network, addr)
	if err == nil {
		_ = conn.Close()
		err = fmt.Errorf("%s accepts connections", addr)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.running)
	p.running, p.ended, p.err = nil, time.Now(), err
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer returns how a client connects, and where to; nil if it does not tell.
func dialer(client Client) (dial dialFunc, network, addr string) {
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		opt := c.Options()
		return opt.Dialer, opt.Network, opt.Addr
	case interface{ Options() *redis.ClusterOptions }:
		if opt := c.Options(); len(opt.Addrs) > 0 {
			if dial = opt.Dialer; dial == nil {
				dial = redis.NewDialer(&redis.Options{TLSConfig: opt.TLSConfig, DialTimeout: probeEvery})
			}
			return dial, "tcp", opt.Addrs[0]
		}
	}
	return nil, "", ""
}
