// Package virtualredis has a miniredis for tests in a bubble of testing/synctest, and
// makes the commands that reach it fail on request.
package virtualredis

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Redis is a miniredis in a bubble of testing/synctest, whose clock is the bubble's.
type Redis struct {
	Server *miniredis.Miniredis
	Faults *Faults

	// Sent is called with the commands of clients with faults. Default: it is not called.
	Sent func(cmds []redis.Cmder)

	t     testing.TB
	began time.Time
	ahead atomic.Int64
}

// Start starts a server that ends with the test. It is called within the bubble.
func Start(t testing.TB) *Redis {
	r := &Redis{Server: miniredis.NewMiniRedis(), Faults: new(Faults), t: t, began: time.Now()}
	r.Tick()
	r.Server.ClockTTL(true)
	t.Cleanup(r.Server.Close)
	return r
}

// Tick moves the server's clock. When exactly its TTL has passed, Redis still has a
// key, and miniredis does not. So this clock loses a nanosecond a second, which never
// shows in whole milliseconds, as it starts within one.
func (r *Redis) Tick() {
	passed := time.Since(r.began)
	r.Server.SetTime(r.began.Add(time.Duration(r.ahead.Load()) + 900*time.Microsecond + passed - passed/time.Second))
}

// SetAhead sets how far the server's clock is ahead of the process's: at first not at
// all.
func (r *Redis) SetAhead(d time.Duration) { r.ahead.Store(int64(d)) }

// Client returns a client whose commands meet faults, unless they are nil.
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
	if h.faults != nil && h.redis.Sent != nil {
		h.redis.Sent(cmds)
	}
	return h.faults.process(ctx, cmds, func(ctx context.Context, cmds []redis.Cmder) error {
		h.redis.Tick()
		return next(ctx, cmds)
	})
}
