package vectors

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/lua"
)

// World is where the steps of a case are done.
type World struct {
	Pass  func(d time.Duration)                    // lets time pass
	Store func(lease time.Duration) priority.Store // returns the process of the case that has a lease
	Redis *redis.Client                            // for what no store does; nil: see ForStores
}

// Run does the steps of a case and returns them with what they came to.
func Run(ctx context.Context, c Case, world World) ([]Step, error) {
	now := int64(0)
	steps := make([]Step, len(c.Steps))
	for i, s := range c.Steps {
		world.Pass(Milliseconds(s.At - now))
		now = s.At
		s.Want, s.State = nil, nil
		var err error
		if s.Do == "set" || s.costs() {
			s.Want, err = withoutStore(ctx, world.Redis, c, s)
		} else {
			err = s.do(ctx, world.Store(Milliseconds(c.leaseOf(s))))
		}
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, asJSON(s), err)
		}
		steps[i] = s
	}
	return steps, nil
}

// Difference says where steps differ from what the case wants; "": nowhere.
func (c Case) Difference(got []Step) string {
	for i := range got {
		if !reflect.DeepEqual(got[i], c.Steps[i]) { // what comes after it says nothing
			is, want := asJSON(got[i]), asJSON(c.Steps[i])
			from := 0
			for from < min(len(is), len(want)) && is[from] == want[from] {
				from++
			}
			part := func(text string) string { return text[max(0, from-200):min(len(text), from+200)] }
			return fmt.Sprintf("%s: step %d came to …%s… and not …%s…", c.Name, i, part(is), part(want))
		}
	}
	return ""
}

// leaseOf returns the longest lease of a step's process, in milliseconds.
func (c Case) leaseOf(s Step) int64 { return cmp.Or(s.Lease, c.Lease, 86_400_000) }

// costs reports whether the step has a cost, which callers of a store cannot give in
// thousandths of the average.
func (s Step) costs() bool { return s.Cost > 0 || s.Costs != nil }

// ForStores reports whether a case has only steps that a store does.
func (c Case) ForStores() bool {
	for _, s := range c.Steps {
		if s.Do == "set" || s.Lease > 0 || s.costs() {
			return false
		}
	}
	return true
}

// do does a step on a store, and notes what it came to.
func (s *Step) do(ctx context.Context, store priority.Store) error {
	switch s.Do {
	case "next":
		decisions, err := store.NextN(ctx, s.Customer, *s.N)
		for _, d := range decisions {
			s.Want = append(s.Want, Result{Level: int64(d.Level), RuleLevel: other(d.RuleLevel, d.Level), Count: &d.Count, ResetIn: milliseconds(d.ResetIn)})
		}
		return err
	case "submit":
		documents := named.Documents(s.Documents...)
		for i, delay := range s.Delays {
			documents[i].Delay = Milliseconds(delay)
		}
		decisions, err := store.SubmitN(ctx, s.Customer, documents)
		for _, d := range decisions {
			load := times(d.Load, 1e6)
			s.Want = append(s.Want, Result{Level: int64(d.Level), RuleLevel: other(d.RuleLevel, d.Level), Load: &load, Pending: &d.Pending})
		}
		return err
	case "done":
		ended, err := store.DoneN(ctx, s.Customer, s.Documents, 0)
		for _, e := range ended {
			s.Want = append(s.Want, Result{Level: int64(e.Level), Latency: milliseconds(e.Latency)})
		}
		return err
	case "peek":
		p, err := store.Peek(ctx, s.Customer)
		s.State = &State{
			Rule:  map[priority.Rule]string{priority.Unknown: "unknown", priority.ByCount: "by_count", priority.ByLoad: "by_load"}[p.Rule],
			Level: int64(p.Level), NextLevel: int64(p.NextLevel), Count: p.Count, ResetIn: p.ResetIn.Milliseconds(),
			Load: times(p.Load, 1e6), Recent: times(p.Recent, 1000), Cost: times(p.Cost, 1000), Pending: p.Pending, PendingFlood: p.PendingFlood,
			Oldest: p.Oldest.Milliseconds(), Latency: p.Latency.Milliseconds(), Lease: p.Lease.Milliseconds(),
			RuleLevel: other(p.RuleLevel, p.NextLevel), Earliest: int64(p.Bounds.Earliest), Latest: int64(p.Bounds.Latest), EndsIn: p.OverrideEndsIn.Milliseconds(),
			Scheduled: p.Scheduled, AccountLoad: times(p.AccountLoad, 1e6), AccountFlood: p.AccountFlood,
		}
		return err
	case "reset":
		return store.Reset(ctx, s.Customer)
	}
	return fmt.Errorf("no store does %q", s.Do)
}

// other returns the level by the rule where it is another one, else 0.
func other(byRule, level priority.Level) int64 {
	if byRule == level {
		return 0
	}
	return int64(byRule)
}

// Script returns a script with the numbers of a policy and a lease.
func Script(text string, policy priority.Policy, lease time.Duration) string {
	policy = policy.WithDefaults()
	return lua.With(text, lua.Numbers{
		Thresholds: policy.Thresholds, Interval: policy.ResetInterval, SinceLastReset: policy.ResetMode == priority.SinceLastReset,
		Lease: lease, Loads: policy.Loads, Turns: policy.Turns, Levels: int(policy.Last()), InOrder: policy.InOrder,
	})
}

func times(number, unit float64) int64 { return int64(math.Round(number * unit)) }

func milliseconds(d time.Duration) *int64 {
	n := d.Milliseconds()
	return &n
}

func asJSON(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// withoutStore does what no store does: it sets a key, as another program may, or sends costs, as
// another process of the fleet does.
func withoutStore(ctx context.Context, client *redis.Client, c Case, s Step) ([]Result, error) {
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Accounts: c.Accounts})
	if err != nil {
		return nil, err
	}
	own := store.Keys(s.Customer)
	pending, overrides := []string{own.Pending}, []string{own.Pending, own.Override}
	if account, _, isUser := keys.Account(s.Customer); isUser && c.Accounts {
		its := store.Keys(account)
		pending, overrides = append(pending, its.Pending), append(overrides, its.Pending, its.Override)
	}
	var args []any
	switch s.Do {
	case "set":
		key := map[string]string{"": own.Count, "override": own.Override}[s.Key]
		return nil, client.Set(ctx, key, *s.Value, Milliseconds(s.TTL)).Err()
	case "done":
		args = append(args, s.Cost, "")
		for _, document := range s.Documents {
			args = append(args, document)
		}
		reply, err := client.Eval(ctx, lua.Done, pending, args...).Int64Slice()
		return ofEach(s, reply, 2, func(n []int64) Result { return Result{Latency: &n[0], Level: n[1]} }), err
	default:
		for i, document := range s.Documents {
			cost := fmt.Sprint(s.Costs[i])
			if s.Delays != nil && s.Delays[i] > 0 {
				cost += fmt.Sprint(" ", s.Delays[i])
			}
			args = append(args, document, cost)
		}
		reply, err := client.Eval(ctx, Script(lua.Submit, c.Policy.Priority(), Milliseconds(c.leaseOf(s))), overrides, args...).Int64Slice()
		return ofEach(s, reply, 4, func(n []int64) Result {
			result := Result{Level: n[0], Load: &n[1], Pending: &n[2]}
			result.RuleLevel = other(priority.Level(n[3]), priority.Level(n[0]))
			return result
		}), err
	}
}

// ofEach returns the results of a step's documents, for each of which a script replied n
// integers.
func ofEach(s Step, reply []int64, n int, result func([]int64) Result) (results []Result) {
	for i := range min(len(s.Documents), len(reply)/n) {
		results = append(results, result(reply[n*i:n*i+n]))
	}
	return results
}
