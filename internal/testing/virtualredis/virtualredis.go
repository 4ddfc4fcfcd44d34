// Package virtualredis has a miniredis whose clock only moves when it is told to, or with
// the time of a bubble of testing/synctest, and makes the commands that reach it fail.
package virtualredis

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Redis is a miniredis whose clock stands still until Pass moves it.
type Redis struct {
	Server *miniredis.Miniredis
	Faults *Faults

	// Sent is called with the commands of clients with faults. Default: it is not called.
	Sent func(cmds []redis.Cmder)

	t    testing.TB
	mu   sync.Mutex
	now  time.Time
	seen time.Time // in the bubble, when the clock was last moved
}

// Start starts a server that ends with the test. In a bubble it has to be started within.
func Start(t testing.TB) *Redis {
	r := &Redis{Server: miniredis.NewMiniRedis(), Faults: new(Faults), t: t, seen: time.Now()}
	r.now = r.seen.Truncate(time.Millisecond).Add(900 * time.Microsecond)
	r.Server.SetTime(r.now)
	r.Server.ClockTTL(true)
	t.Cleanup(r.Server.Close)
	return r
}

// Pass moves the clock. When exactly its TTL has passed, Redis still has a key, and
// miniredis does not. So this clock loses a nanosecond each time, which never shows in
// whole milliseconds, as it starts late within one.
func (r *Redis) Pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pass(d)
}

func (r *Redis) pass(d time.Duration) {
	if d != 0 {
		r.now = r.now.Add(d - time.Nanosecond)
		r.Server.SetTime(r.now)
	}
}

// follow moves the clock by the time that has passed in the bubble.
func (r *Redis) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := time.Since(r.seen)
	r.seen = r.seen.Add(passed)
	r.pass(passed)
}

// Listen has the server listen for programs, and returns a client of it. A bubble cannot
// wait for a network.
func (r *Redis) Listen() *redis.Client {
	if err := r.Server.Start(); err != nil {
		r.t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: r.Server.Addr()})
	r.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Client returns a client for a bubble, with whose time the clock moves. Its commands meet
// faults, unless they are nil.
func (r *Redis) Client(faults *Faults) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return buffered(r.Server.Dial()) },
		Addr:     "127.0.0.1:1", // go-redis would look up a name, which a bubble cannot
		PoolSize: 1024,          // go-redis's waiting for a connection does not work in many bubbles
	})
	client.AddHook(hook{r, faults})
	r.t.Cleanup(func() { _ = client.Close() })
	return client
}

// buffered lets a server write all its replies before any of them is read, as the
// replies to a pipeline are: it does not block as a net.Pipe does.
func buffered(server net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	replies := make(chan []byte, 1<<16)
	go func() {
		_, _ = io.Copy(server, near)
		_ = server.Close()
	}()
	go func() {
		defer close(replies)
		for {
			reply := make([]byte, 4096)
			n, err := server.Read(reply)
			if err != nil {
				return
			}
			replies <- reply[:n]
		}
	}()
	go func() {
		for reply := range replies {
			_, _ = near.Write(reply)
		}
		_ = near.Close()
	}()
	return client, nil
}

// hook makes commands meet faults.
type hook struct {
	redis  *Redis
	faults *Faults
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.process(ctx, []redis.Cmder{cmd}, func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds[0]) })
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h.process(ctx, cmds, next) }
}

func (h hook) process(ctx context.Context, cmds []redis.Cmder, next func(context.Context, []redis.Cmder) error) error {
	send := func(ctx context.Context, cmds []redis.Cmder) error {
		h.redis.follow()
		return next(ctx, cmds)
	}
	if h.faults == nil {
		return send(ctx, cmds)
	}
	if h.redis.Sent != nil {
		h.redis.Sent(cmds)
	}
	return h.faults.process(ctx, cmds, send)
}
