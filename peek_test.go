package priority_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// PeekEach says of each customer what Peek says, on all nodes of a cluster, and one
// customer's corrupt key is no other's trouble.
func TestManyCustomersAreLookedUpAtOnce(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{
		"single": redistest.Start(t).Client(), "cluster": redistest.StartCluster(t, 3).Client(),
	} {
		t.Run(name, func(t *testing.T) {
			store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: -1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.NextN(t.Context(), "acme", 30); err != nil {
				t.Fatal(err)
			}
			if _, err := store.SubmitN(t.Context(), "clinic", []string{"a", "b", "c"}, nil); err != nil {
				t.Fatal(err)
			}
			client.RPush(t.Context(), store.UsageKey("bad"), "1")
			customers := []string{"acme", "clinic", "bad", "nobody", "acme"}
			states, err := store.PeekEach(t.Context(), customers)
			if !errors.Is(err, priority.ErrCorruptCount) {
				t.Fatalf("got %v", err)
			}
			for i, err := range priority.ItemErrors(err, len(customers)) {
				state, wantErr := store.Peek(t.Context(), customers[i])
				if errors.Is(err, priority.ErrCorruptCount) != errors.Is(wantErr, priority.ErrCorruptCount) {
					t.Errorf("%s: %v, want %v", customers[i], err, wantErr)
				}
				for _, s := range []*priority.State{&state, &states[i]} { // which time changes
					s.ResetIn, s.Oldest = s.ResetIn.Round(1e12), s.Oldest.Round(1e12)
				}
				if !reflect.DeepEqual(states[i], state) {
					t.Errorf("%s: %+v, want %+v", customers[i], states[i], state)
				}
			}
			if states[0].Rule != priority.ByCount || states[1].Rule != priority.ByLoad || states[1].Pending != 3 || states[3].Rule != priority.Unknown {
				t.Errorf("got %+v", states)
			}
		})
	}
	store, err := priority.NewRedisStore(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if states, err := store.PeekEach(t.Context(), nil); states != nil || err != nil {
		t.Errorf("got %v, %v of nobody", states, err)
	}
	if _, err := store.PeekEach(t.Context(), []string{"acme", ""}); !errors.Is(err, priority.ErrInvalidCustomer) {
		t.Errorf("got %v", err)
	}
}
