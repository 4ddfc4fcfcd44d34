package priority_test

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// What NewRedisStore and memory.New refuse, the error's message shows. vectors/policies.json has
// more that is refused.
func TestConstructors(t *testing.T) {
	client := connect(t, &redis.Options{Addr: "127.0.0.1:1"})
	gold := func(policy priority.Policy) priority.RedisOptions {
		return priority.RedisOptions{
			Tiers: map[string]priority.Policy{"silver": {}, "gold": policy}, TierOf: func(string) string { return "gold" },
		}
	}
	policy := func(policy priority.Policy) priority.RedisOptions { return priority.RedisOptions{Policy: policy} }
	for _, test := range []struct {
		options priority.RedisOptions
		shown   string
	}{
		{priority.RedisOptions{Tiers: map[string]priority.Policy{"gold": {}}}, "TierOf"},
		{gold(priority.Policy{Thresholds: descending(0, 9)}), `tier "gold" has 10 levels, more than the 9`},
		{gold(priority.Policy{Turns: -1}), `-1 Turns are not 1 to 255 levels (tier "gold")`},
		{priority.RedisOptions{Lease: 999 * time.Millisecond}, "Lease 999ms"},
		{priority.RedisOptions{Lease: time.Second + time.Microsecond}, "Lease 1.000001s"},
		{priority.RedisOptions{Levels: -1}, "-1"},
		{priority.RedisOptions{Levels: 256}, "Levels 256"},
		{policy(priority.Policy{Thresholds: []int64{-2, -61, -53}}), "-53"},
		{policy(priority.Policy{Thresholds: []int64{0, -1<<53 - 1}}), "-9007199254740993"},
		{policy(priority.Policy{ResetInterval: 999 * time.Microsecond}), "999µs"},
		{policy(priority.Policy{ResetInterval: time.Second + time.Nanosecond}), "1.000000001s"},
		{policy(priority.Policy{Loads: []float64{1, 47, 47}}), "Loads[2] = 47"},
		{policy(priority.Policy{Loads: []float64{1, math.NaN()}}), "Loads[1] = NaN"},
		{policy(priority.Policy{Loads: []float64{1, math.Inf(1)}}), "Loads[1] = +Inf"},
		{policy(priority.Policy{Turns: 250}), "250 Turns"},
		{policy(priority.Policy{ResetMode: 2}), "2"},
		{priority.RedisOptions{Prefix: "a}b"}, "a}b"},
	} {
		o := test.options
		_, err := priority.NewRedisStore(client, &o)
		wantError(t, err, priority.ErrInvalid, test.shown)
		if o.Tiers == nil && o.Prefix == "" {
			options := memory.Options{Policy: o.Policy, Lease: o.Lease, Levels: o.Levels}
			if o.Levels != 0 {
				options.PolicyOf = func(string) priority.Policy { return priority.Policy{} }
			}
			_, err := memory.New(&options)
			wantError(t, err, priority.ErrInvalid, test.shown)
		}
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	_, err := priority.NewRedisStore(ring, &priority.RedisOptions{Overrides: true})
	wantError(t, err, priority.ErrInvalid, "Ring")
	for _, client := range []priority.RedisClient{nil, (*redis.Client)(nil), redis.UniversalClient((*redis.Client)(nil))} {
		_, err := priority.NewRedisStore(client, nil)
		wantError(t, err, priority.ErrInvalid, "nil")
	}
}

// descending returns n thresholds from first down.
func descending(first int64, n int) []int64 {
	thresholds := make([]int64, n)
	for i := range thresholds {
		thresholds[i] = first - int64(i)
	}
	return thresholds
}
