package priority_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/memory"
)

// TestConstructors gives NewRedisStore and memory.New what they must refuse.
func TestConstructors(t *testing.T) {
	client := connect(t, &redis.Options{Addr: "127.0.0.1:1"})
	gold := func(policy priority.Policy) priority.RedisOptions {
		return priority.RedisOptions{
			Tiers: map[string]priority.Policy{"silver": {}, "gold": policy}, TierOf: func(string) string { return "gold" },
		}
	}
	type refused struct {
		name    string
		options priority.RedisOptions
		shown   []string
	}
	tests := []refused{
		{"tiers without TierOf", priority.RedisOptions{Tiers: map[string]priority.Policy{"gold": {}}}, []string{"TierOf"}},
		{"a tier of ten levels", gold(priority.Policy{Thresholds: descending(0, 9)}), []string{`"gold"`, "10", "9"}},
		{"a tier with turns", gold(priority.Policy{Turns: 4}), []string{`"gold"`, "10", "9"}},
		{"negative lease", priority.RedisOptions{Lease: -time.Second}, []string{"Lease -1s"}},
		{"lease below 1 s", priority.RedisOptions{Lease: 999 * time.Millisecond}, []string{"Lease 999ms"}},
		{"levels below 1", priority.RedisOptions{Levels: -1}, []string{"-1"}},
		{"levels above 255", priority.RedisOptions{Levels: 256}, []string{"Levels 256"}},
		{"lease of no whole ms", priority.RedisOptions{Lease: time.Second + time.Microsecond}, []string{"Lease 1.000001s"}},
	}
	for _, invalid := range invalidPolicies {
		tests = append(tests,
			refused{invalid.name, priority.RedisOptions{Policy: invalid.policy}, []string{invalid.shown}},
			refused{invalid.name + " in a tier", gold(invalid.policy), []string{invalid.shown, `"gold"`}})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := test.options
			store, errRedis := priority.NewRedisStore(client, &o)
			for _, shown := range test.shown {
				wantError(t, errRedis, priority.ErrInvalid, shown)
			}
			if o.Tiers == nil {
				options := memory.Options{Policy: o.Policy, Lease: o.Lease, Levels: o.Levels}
				if o.Levels != 0 {
					options.PolicyOf = func(string) priority.Policy { return priority.Policy{} }
				}
				_, err := memory.New(&options)
				wantError(t, err, priority.ErrInvalid, test.shown[0])
			}
			if store != nil {
				t.Error("a store beside the error")
			}
		})
	}
	for _, prefix := range []string{"a{b", "a}b"} {
		_, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: prefix})
		wantError(t, err, priority.ErrInvalid, prefix)
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	_, err := priority.NewRedisStore(ring, &priority.RedisOptions{Overrides: true})
	wantError(t, err, priority.ErrInvalid, "Ring")
	for _, client := range []priority.RedisClient{
		nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil), (*redis.Ring)(nil),
		redis.UniversalClient((*redis.Client)(nil)),
	} {
		store, err := priority.NewRedisStore(client, nil)
		wantError(t, err, priority.ErrInvalid, "nil")
		if store != nil {
			t.Errorf("%T: a store beside the error", client)
		}
	}
}

// What the process has learned of costs stays when the rules change.
func TestFollow_KeepsCosts(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	ctx, store := t.Context(), newStore(t, client)
	for _, customer := range numbered("customer", 20) {
		must(store.Submit(ctx, customer, priority.Document{ID: "page", Cost: 4}))(t)
		must(store.Done(ctx, customer, "page", 2*time.Second))(t)
	}
	check(t, store.Follow(&priority.Policies{Policy: priority.Policy{Loads: []float64{3}}}))
	decides(t, loaded(2.5, 1))(one(store.Submit(ctx, "acme", priority.Document{ID: "a", Cost: 10})))
	must(store.Done(ctx, "acme", "a", 8*time.Second))(t)
	if state := must(store.Peek(ctx, "acme"))(t); state.Cost != .9+.1*4 {
		t.Errorf("Peek: %+v, want a cost of 1.3", state)
	}
	check(t, store.Follow(nil)) // and back
	decides(t, loaded(2*1.3, 1))(submit(t, store, "acme", "b"))
}

// A policy that cannot be followed leaves the store as it is.
func TestFollow_Refused(t *testing.T) {
	store := openStore(t, connect(t, &redis.Options{Addr: "127.0.0.1:1"}), &priority.RedisOptions{TierOf: func(string) string { return "gold" }})
	ten := priority.Policy{Thresholds: descending(0, 9)}
	for _, err := range []error{
		store.Follow(&priority.Policies{Policy: ten}),
		store.Follow(&priority.Policies{Policy: priority.Policy{Turns: -1}}),
		store.Follow(&priority.Policies{Tiers: map[string]priority.Policy{"gold": ten}}),
	} {
		wantError(t, err, priority.ErrInvalid, "")
	}
	if got := store.PolicyOf("acme"); !reflect.DeepEqual(got, priority.DefaultPolicy()) || store.Last() != 9 {
		t.Errorf("%+v, %d levels", got, store.Last())
	}
	if err := store.Follow(&priority.Policies{Tiers: map[string]priority.Policy{"gold": {Turns: 2}}}); err != nil {
		t.Fatal(err)
	}
	if got := store.PolicyOf("acme"); got.Turns != 2 || store.Last() != 9 {
		t.Errorf("%+v, %d levels", got, store.Last())
	}
}
