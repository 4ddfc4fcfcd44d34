package bench

import (
	"context"

	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
)

// measurePolicies measures what other policies than the default cost.
func measurePolicies(ctx context.Context, b *bench) (*report, error) {
	policies := []struct {
		name    string
		atMost  float64 // 0: it is the default
		options func() *priority.RedisOptions
	}{
		{"the default policy", 0, func() *priority.RedisOptions {
			return &priority.RedisOptions{}
		}},
		{"20 levels", 1.05, func() *priority.RedisOptions {
			return &priority.RedisOptions{Policy: priority.Policy{Thresholds: thresholds(20)}}
		}},
		{"255 levels", 1.05, func() *priority.RedisOptions {
			return &priority.RedisOptions{Policy: priority.Policy{Thresholds: thresholds(255)}}
		}},
		{"a tier", 1.05, func() *priority.RedisOptions {
			return &priority.RedisOptions{
				Tiers:  map[string]priority.Policy{"gold": {Thresholds: thresholds(9)}},
				TierOf: func(string) string { return "gold" },
			}
		}},
		{"SinceLastReset", 1.00, func() *priority.RedisOptions {
			return &priority.RedisOptions{Policy: priority.Policy{ResetMode: priority.SinceLastReset}}
		}},
	}
	times, err := b.compareOnServer(ctx, "policies", len(policies), func(client *redis.AutoPipeliner, i int) (decide, error) {
		return storeDecide(client, policies[i].options())
	})
	if err != nil {
		return nil, err
	}
	r := &report{title: "policies", notes: b.serverTimeNote()}
	names := make([]string, len(policies))
	for i, policy := range policies {
		names[i] = policy.name
		if policy.atMost > 0 {
			r.bars = append(r.bars, bar{
				what: policy.name + ", to the default", figure: times[i].over(times[0]).median(), bound: policy.atMost,
			})
		}
	}
	r.grids = []grid{serverTimeGrid("policy", names, times, times[0])}
	return r, nil
}

// thresholds returns the thresholds of a policy with this many levels, two documents each.
func thresholds(levels int) []int64 {
	thresholds := make([]int64, levels-1)
	for i := range thresholds {
		thresholds[i] = int64(-2 * (i + 1))
	}
	return thresholds
}
