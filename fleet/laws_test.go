package fleet_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/virtualredis"
	"github.com/docpriority/priority/prioritytest"
)

// lawfulPolicies are options with policies that differ in everything.
var lawfulPolicies = priority.RedisOptions{
	Policy: priority.Policy{ResetInterval: 20 * time.Minute, Turns: 4},
	Tiers: map[string]priority.Policy{
		"short":  {Thresholds: []int64{-1, -3, -9}, ResetInterval: time.Minute, Loads: []float64{1, 8.5}, Turns: 3},
		"steady": {ResetMode: priority.SinceLastReset, ResetInterval: 10 * time.Minute},
	},
	TierOf: func(customer string) string { tier, _, _ := strings.Cut(customer, " "); return tier },
	Lease:  3 * time.Minute,
}

var lawfulCustomers = []string{"acme", "short {b}%", "steady \x00"}

// redisGoroutines is as many as a RedisStore lets be under way, and those of the
// connections with their server.
const redisGoroutines = 1024 + 32 + 100

// miniredis with -race is slow: -rapid.checks asks for more sequences.
func init() { _ = flag.Set("rapid.checks", "8") }

// The whole stack, as Join puts it together.
func TestAMemberKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		redis := virtualredis.Start(t)
		fleet.ReportEvery(t, time.Hour) // each of a bubble's days has many five seconds
		member := must(fleet.Join(redis.Client(redis.Faults), &fleet.Options{Store: lawfulPolicies, Interval: time.Minute}))(t)
		t.Cleanup(func() { _ = member.Close(ended(t)) })
		warmUp(t, member)
		redis.Server.FlushAll()
		return prioritytest.Subject{
			Store: member, Other: must(priority.NewRedisStore(redis.Client(nil), &lawfulPolicies))(t),
			Faulty: []prioritytest.Faulty{redis.Faults}, Goroutines: redisGoroutines, Customers: lawfulCustomers,
			Recovery: 1250 * time.Millisecond, Close: member.Close,
			Slack: time.Millisecond, // a Close while Redis hangs ends between two milliseconds
		}
	})
}

// warmUp lets the server know the scripts: a customer who hangs in a pipeline would keep
// others from sending theirs.
func warmUp(t *testing.T, store priority.Store) {
	ctx := t.Context()
	for _, customer := range lawfulCustomers {
		must(store.NextEach(ctx, []string{customer}))(t)
		must(store.Submit(ctx, customer, "d", 0))(t)
		check(t, store.Done(ctx, customer, "d", 0))
		must(store.Peek(ctx, customer))(t)
		check(t, store.Reset(ctx, customer))
	}
}
