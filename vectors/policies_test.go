package vectors_test

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"math"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/vectors"
	"github.com/docpriority/priority/lua"
)

func shapes() []vectors.Shape {
	down := func(first, step int64, n int) []int64 {
		thresholds := make([]int64, n)
		for i := range thresholds {
			thresholds[i] = first - step*int64(i)
		}
		return thresholds
	}
	many := make([]float64, 254)
	for i := range many {
		many[i] = float64(i+1) * 0.1 // not all of which are what their decimals say
	}
	return []vectors.Shape{
		{Name: "the default", Policy: standard},
		{Name: "one level, since the last reset", Policy: vectors.Policy{Thresholds: []int64{}, Interval: hour, Mode: sinceLastReset}, Lease: hour},
		{Name: "two levels", Policy: vectors.Policy{Thresholds: []int64{-100}, Interval: interval}},
		{Name: "three levels, the first for nobody", Policy: vectors.Policy{Thresholds: []int64{7, 0}, Interval: interval}},
		{Name: "nine levels that come fast, the shortest interval and lease", Policy: vectors.Policy{Thresholds: down(-1, 1, 8), Interval: 1}, Lease: second},
		{Name: "ten levels, an odd interval and lease", Policy: vectors.Policy{Thresholds: down(-3, 5, 9), Interval: 1_500_001}, Lease: 77_777_777},
		{Name: "255 levels, ninety days", Policy: vectors.Policy{Thresholds: down(-1, 1, 254), Interval: 90 * day}},
		{Name: "the greatest thresholds", Policy: vectors.Policy{Thresholds: []int64{1 << 53, -1 << 53}, Interval: interval}},
		{Name: "four levels", Policy: vectors.Policy{Thresholds: down(-2, 2, 3), Interval: interval}},
		{Name: "five levels and four turns", Policy: vectors.Policy{Thresholds: down(-2, 2, 4), Interval: interval, Turns: 4}},
		{Name: "six levels", Policy: vectors.Policy{Thresholds: down(-2, 2, 5), Interval: interval}},
		{Name: "seven levels", Policy: vectors.Policy{Thresholds: down(-2, 2, 6), Interval: interval}},
		{Name: "eight levels", Policy: vectors.Policy{Thresholds: down(-2, 2, 7), Interval: interval}},
		{Name: "loads with fractions", Policy: loaded(0, 0.000_001, 0.5, 1.707_107, 72.000_001, 1e9)},
		{Name: "one level by load, and 254 turns", Policy: loaded(254, []float64{}...)},
		{Name: "255 levels by load", Policy: loaded(0, many...)},
	}
}

func refusals() []vectors.Refusal {
	of := func(why string, policy vectors.Policy, lease int64) vectors.Refusal {
		policy.Interval, policy.Mode = cmp.Or(policy.Interval, interval), cmp.Or(policy.Mode, sinceLastUpdate)
		return vectors.Refusal{Why: why, Policy: policy, Lease: lease}
	}
	tooMany := make([]int64, 255)
	for i := range tooMany {
		tooMany[i] = -int64(i)
	}
	loads := make([]float64, 255)
	for i := range loads {
		loads[i] = float64(i + 1)
	}
	return []vectors.Refusal{
		of("the thresholds go up", vectors.Policy{Thresholds: []int64{-4, -2}}, lease),
		of("a threshold is above 2^53", vectors.Policy{Thresholds: []int64{1<<53 + 2}}, lease),
		of("255 thresholds are too many", vectors.Policy{Thresholds: tooMany}, lease),
		of("the interval is less than nothing", vectors.Policy{Thresholds: standard.Thresholds, Interval: -1}, lease),
		of("there is no such mode", vectors.Policy{Thresholds: standard.Thresholds, Mode: "since_yesterday"}, lease),
		of("the loads go down", loaded(0, 2, 1), lease),
		of("two loads differ by less than a millionth", loaded(0, 2, 2.000_000_4), lease),
		of("a load is below a millionth", loaded(0, 0.000_000_9, 2), lease),
		of("a load is above a billion", loaded(0, 2, 1_000_000_001), lease),
		of("256 levels by load are too many", loaded(0, loads...), lease),
		of("256 levels by load are too many, with turns and the default loads", loaded(250), lease),
		of("less than no turns", loaded(-1, 2, 8), lease),
		of("the lease is less than nothing", standard, -1),
		of("the lease is less than a second", standard, second-1),
		of("the lease is longer than a day", standard, day+1),
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	policies := shapes()
	for i := range policies {
		shape := &policies[i]
		shape.Policy.Mode, shape.Lease = cmp.Or(shape.Policy.Mode, sinceLastUpdate), cmp.Or(shape.Lease, lease)
		store := offline(t, &priority.RedisOptions{Policy: shape.Policy.Priority(), Lease: vectors.Milliseconds(shape.Lease)})
		filled := store.PolicyOf("acme")
		shape.Loads, shape.Turns, shape.Last = filled.Loads, filled.Turns, int64(store.Last())
		shape.Levels, shape.ByLoad = levelsOf(shape.Policy), levelsByLoad(t, filled)
		script := func(text string) string { return sha(vectors.Script(text, filled, store.Lease())) }
		shape.SHA = map[string]string{
			"next": script(lua.Next), "submit": script(lua.Submit), "peek": script(lua.Peek),
		}
	}
	for _, refusal := range refusals() {
		if _, err := priority.NewRedisStore(redis.NewClient(new(redis.Options)), &priority.RedisOptions{
			Policy: refusal.Policy.Priority(), Lease: vectors.Milliseconds(refusal.Lease),
		}); err == nil && refusal.Policy.Mode != "since_yesterday" {
			t.Errorf("%s: a RedisStore takes it", refusal.Why)
		}
	}
	always := map[string]string{"done": sha(lua.Done), "reset": sha(lua.Reset)}
	compare(t, "policies.json", asFile(t, "policies", policies, "always", always, "refused", refusals()))
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// levelsOf returns some counts with their levels by the definition.
func levelsOf(policy vectors.Policy) [][2]int64 {
	levels := [][2]int64{}
	for _, count := range []int64{0, -1, -2, -3, -4, -7, -8, -14, -15, -20, -21, -47, -48, -100, -101, -254, -255} {
		level := int64(1)
		for _, threshold := range policy.Thresholds {
			if count < threshold {
				level++
			}
		}
		levels = append(levels, [2]int64{count, level})
	}
	return levels
}

// levelsByLoad returns the loads of a table, in millionths, and those behind them, with
// their levels by the definition.
func levelsByLoad(t *testing.T, policy priority.Policy) (levels [][2]int64) {
	for i, load := range policy.Loads {
		at := int64(math.Round(load * 1e6))
		levels = append(levels, [2]int64{at, int64(i + 1)})
		if at < 1e15 { // the greatest load
			levels = append(levels, [2]int64{at + 1, int64(i + 2)})
		}
	}
	for _, level := range levels {
		if got := policy.LevelOfLoad(float64(level[0]) / 1e6); int64(got) != level[1] {
			t.Errorf("the load %d has level %d, not %d", level[0], got, level[1])
		}
	}
	return levels
}
