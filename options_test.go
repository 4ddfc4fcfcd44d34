package priority_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/redis/go-redis/v9"
)

// TestConstructors gives NewRedisStore and memory.New what they must refuse.
func TestConstructors(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	gold := func(policy priority.Policy) rule {
		return rule{tiers: map[string]priority.Policy{"silver": {}, "gold": policy}, tierOf: func(string) string { return "gold" }}
	}
	type refused struct {
		name  string
		rule  rule
		shown []string
	}
	tests := []refused{
		{"tiers without TierOf", rule{tiers: map[string]priority.Policy{"gold": {}}}, []string{"TierOf"}},
		{"a tier of ten levels", gold(priority.Policy{Thresholds: descending(0, 9)}), []string{`"gold"`, "10", "9"}},
		{"a tier with turns", gold(priority.Policy{Turns: 4}), []string{`"gold"`, "10", "9"}},
		{"negative lease", rule{lease: -time.Second}, []string{"Lease -1s"}},
		{"lease below 1 s", rule{lease: 999 * time.Millisecond}, []string{"Lease 999ms"}},
		{"lease of no whole ms", rule{lease: time.Second + time.Microsecond}, []string{"Lease 1.000001s"}},
	}
	for _, invalid := range invalidPolicies {
		tests = append(tests,
			refused{invalid.name, rule{policy: invalid.policy}, []string{invalid.shown}},
			refused{invalid.name + " in a tier", gold(invalid.policy), []string{invalid.shown, `"gold"`}})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := test.rule
			store, errRedis := priority.NewRedisStore(client, &priority.RedisOptions{Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf, Lease: r.lease})
			inMemory, errMemory := memory.New(&memory.Options{Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf, Lease: r.lease})
			for _, shown := range test.shown {
				wantInvalid(t, errRedis, shown)
				wantInvalid(t, errMemory, shown)
			}
			if store != nil || inMemory != nil {
				t.Error("a store beside the error")
			}
		})
	}
	for _, prefix := range []string{"a{b", "a}b"} {
		_, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: prefix})
		wantInvalid(t, err, prefix)
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	_, err := priority.NewRedisStore(ring, &priority.RedisOptions{Overrides: true})
	wantInvalid(t, err, "Ring")
	for _, client := range []priority.RedisClient{
		nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil), (*redis.Ring)(nil),
		redis.UniversalClient((*redis.Client)(nil)),
	} {
		store, err := priority.NewRedisStore(client, nil)
		wantInvalid(t, err, "nil")
		if store != nil {
			t.Errorf("%T: a store beside the error", client)
		}
	}
}

// What the process has learned of costs stays when the rules change.
func TestFollow_KeepsCosts(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	store := openStore(t, client, patient)
	w := &world{Store: store, slack: serverSlack}
	ctx := t.Context()
	for _, customer := range customers(20) {
		must(store.Submit(ctx, customer, "page", 4))(t)
		if _, err := store.Done(ctx, customer, "page", 2*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Follow(priority.Policy{Loads: []float64{3}}, nil); err != nil {
		t.Fatal(err)
	}
	got, err := w.Submit(ctx, "acme", "a", 10)
	w.decided(t, "Submit", got, err, priority.Decision{Level: 1, Load: 2.5, Pending: 1})
	if _, err := w.Done(ctx, "acme", "a", 8*time.Second); err != nil {
		t.Fatal(err)
	}
	if state := must(w.Peek(ctx, "acme"))(t); state.Cost != .9+.1*4 {
		t.Errorf("Peek: %+v, want a cost of 1.3", state)
	}
	if err := store.Follow(priority.Policy{}, nil); err != nil { // and back
		t.Fatal(err)
	}
	got, err = store.Submit(ctx, "acme", "b", 0)
	w.decided(t, "Submit", got, err, byLoad(2*1.3, 1))
}

// A policy that cannot be followed leaves the store as it is.
func TestFollow_Refused(t *testing.T) {
	store := openStore(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), &priority.RedisOptions{TierOf: func(string) string { return "gold" }})
	ten := priority.Policy{Thresholds: descending(0, 9)}
	for _, err := range []error{
		store.Follow(ten, nil),
		store.Follow(priority.Policy{Turns: -1}, nil),
		store.Follow(priority.Policy{}, map[string]priority.Policy{"gold": ten}),
	} {
		wantInvalid(t, err, "")
	}
	if got := store.PolicyOf("acme"); !reflect.DeepEqual(got, priority.DefaultPolicy()) || store.Last() != 9 {
		t.Errorf("%+v, %d levels", got, store.Last())
	}
	if err := store.Follow(priority.Policy{}, map[string]priority.Policy{"gold": {Turns: 2}}); err != nil {
		t.Fatal(err)
	}
	if got := store.PolicyOf("acme"); got.Turns != 2 || store.Last() != 9 {
		t.Errorf("%+v, %d levels", got, store.Last())
	}
}
