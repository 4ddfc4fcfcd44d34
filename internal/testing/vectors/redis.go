package vectors

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Redis is a miniredis whose time stands still until it is moved.
type Redis struct {
	*miniredis.Miniredis
	Client *redis.Client

	now time.Time
}

// StartRedis starts a server that ends with the test.
func StartRedis(tb testing.TB) *Redis {
	r := &Redis{Miniredis: miniredis.NewMiniRedis(), now: time.Now().Truncate(time.Millisecond).Add(900 * time.Microsecond)}
	if err := r.Start(); err != nil {
		tb.Fatal(err)
	}
	r.Pass(0)
	r.ClockTTL(true)
	r.Client = redis.NewClient(&redis.Options{Addr: r.Addr()})
	tb.Cleanup(func() {
		_ = r.Client.Close()
		r.Close()
	})
	return r
}

// Pass lets time pass. When exactly its TTL has passed, Redis still has a key, and miniredis
// does not. So this clock loses a nanosecond each time, which never shows in whole
// milliseconds, as it starts late within one.
func (r *Redis) Pass(d time.Duration) {
	if d > 0 {
		r.now = r.now.Add(d - time.Nanosecond)
	}
	r.SetTime(r.now)
}
