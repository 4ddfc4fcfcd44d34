package census_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight/census"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestAKeyTellsItsCustomer(t *testing.T) {
	store, err := priority.NewRedisStore(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), &priority.RedisOptions{Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	for _, customer := range []string{
		"acme", "}", "%", "%25", "%7D", "%257D", "{}", "}:count", "a:{b}:count", "Müller & Co", "\x00\xff", "a b\n", "*", strings.Repeat("}", 512),
	} {
		for _, key := range []string{store.Keys(customer).Count, store.Keys(customer).Pending, store.Keys(customer).Override} {
			if got, ok := census.CustomerOf("p", key); !ok || got != customer {
				t.Errorf("%q: got %q, %v", key, got, ok)
			}
		}
	}
	for _, key := range []string{
		"", "p", "p:{}:count", "p:{acme}:overrides", "p:{acme}", "p:acme:count", "pp:{acme}:count", "p:{acme}:counts", "p:{a}b}:count",
		"p:{100%}:count", "p:{%20}:count", "p:{%7d}:count", "p:{%2}:count", "p:{" + strings.Repeat("a", 513) + "}:count",
	} {
		if got, ok := census.CustomerOf("p", key); ok {
			t.Errorf("%q is taken for the key of %q", key, got)
		}
	}
}

func storeOf(t *testing.T, client redis.UniversalClient, prefix string) *priority.RedisStore {
	t.Helper()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: prefix, Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// walked goes through all customers, with a new walk for each page if fresh.
func walked(t *testing.T, client redis.UniversalClient, options census.Options, fresh bool) []census.Entry {
	t.Helper()
	store := storeOf(t, client, options.Prefix)
	var all []census.Entry
	walk, err := census.Start(t.Context(), client, options, "")
	if err != nil {
		t.Fatal(err)
	}
	for {
		entries, err := walk.Next(t.Context(), store)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entries...)
		if fresh {
			if walk, err = census.Start(t.Context(), client, options, walk.Cursor()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkWalk compares a walk with what was written.
func checkWalk(t *testing.T, entries []census.Entry, want map[string]int64) {
	t.Helper()
	got := make(map[string]int64)
	for _, entry := range entries {
		if _, double := got[entry.Customer]; double {
			t.Errorf("%q comes twice", entry.Customer)
		}
		got[entry.Customer] = entry.State.Count
		if entry.State.Rule == priority.ByLoad {
			got[entry.Customer] = entry.State.Pending
		}
		if entry.Corrupt != "" || entry.State.Rule == priority.ByCount && entry.State.ResetIn <= 0 {
			t.Errorf("got %+v", entry)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d customers, not %d, or other counts", len(got), len(want))
	}
}

// fill counts and submits documents of customers, among keys that are not theirs. It
// returns the counts, or how many are pending.
func fill(t *testing.T, client redis.UniversalClient, prefix string, customers int) map[string]int64 {
	t.Helper()
	store := storeOf(t, client, prefix)
	want := make(map[string]int64)
	var batch []string
	for i := range customers {
		customer := fmt.Sprintf("customer}%d%%", i)
		want[customer] = -int64(i % 30)
		batch = append(batch, slices.Repeat([]string{customer}, i%30+1)...)
	}
	if _, err := store.NextEach(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	// Some have another key, some have that alone.
	for i := range 20 {
		customer := fmt.Sprintf("customer}%d%%", i)
		if i >= 5 {
			customer = fmt.Sprintf("submits}%d%%", i)
		}
		if _, err := store.SubmitN(t.Context(), customer, []string{"a", "b"}, nil); err != nil {
			t.Fatal(err)
		}
		switch want[customer] = 2; {
		case i >= 15:
			client.ZRem(t.Context(), store.Keys(customer).Pending, ":fades", ":averages")
		case i >= 10:
			if _, err := store.DoneN(t.Context(), customer, []string{"a", "b"}, 0); err != nil {
				t.Fatal(err)
			}
			want[customer] = 0
		}
	}
	for _, key := range []string{prefix + ":{control}:document", prefix + "x:{x}:count", "x" + prefix + ":{x}:count", prefix + ":{%41}:count"} {
		if err := client.Set(t.Context(), key, "-1", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 { // of customers of whom something is known, and of others
		if err := client.Set(t.Context(), store.Keys(fmt.Sprintf("customer}%d%%", i*100)).Override, "<=3", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

func TestAWalkMeetsEveryCustomerOnce(t *testing.T) {
	single := redistest.Start(t).Client()
	cluster := redistest.StartCluster(t, 3).Client()
	const prefix = `odd[a-z]*?\`
	for name, client := range map[string]redis.UniversalClient{"single": single, "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			want := fill(t, client, prefix, 2000)
			options := census.Options{Prefix: prefix, PageKeys: 100}
			checkWalk(t, walked(t, client, options, false), want)
			checkWalk(t, walked(t, client, options, true), want)
		})
	}
}

func TestAWalkShowsWhatIsCorrupt(t *testing.T) {
	client := redistest.Start(t).Client()
	for customer, value := range map[string]string{"word": "x", "long": "1234567890123456", "plus": "+1", "zero": "-0", "fine": "-7"} {
		client.Set(t.Context(), "priority:{"+customer+"}:count", value, 0)
	}
	client.RPush(t.Context(), "priority:{list}:count", "-1")
	// Of keys that are all corrupt, one stands for the customer.
	for _, end := range []string{"count", "pending"} {
		client.HSet(t.Context(), "priority:{all}:"+end, "a", "b")
	}
	client.ZAdd(t.Context(), "priority:{half}:pending", redis.Z{Score: 65, Member: ":averages"})
	client.Set(t.Context(), "priority:{half}:count", "-3", 0)
	// No worker goes by such an override, and the customer is counted.
	client.Set(t.Context(), "priority:{fine}:override", "<= 3", 0)
	client.HSet(t.Context(), "priority:{hash}:override", "a", "b")
	client.Set(t.Context(), "priority:{held}:override", ">=3", 0)
	var got []string
	for _, entry := range walked(t, client, census.Options{Prefix: "priority"}, false) {
		if entry.Corrupt != "" {
			got = append(got, entry.Corrupt)
		} else if entry.Customer != "fine" || entry.State.Count != -7 || entry.State.ResetIn != 0 {
			t.Errorf("got %+v", entry)
		}
	}
	slices.Sort(got)
	want := []string{
		"priority:{all}:count", "priority:{fine}:override", "priority:{half}:pending", "priority:{hash}:override", "priority:{list}:count",
		"priority:{long}:count", "priority:{plus}:count", "priority:{word}:count", "priority:{zero}:count",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestACursorFitsItsServersOnly(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	walk, err := census.Start(t.Context(), client, census.Options{Prefix: "priority"}, "")
	if err != nil {
		t.Fatal(err)
	}
	cursor := walk.Cursor()
	if err := census.CheckCursor(cursor); err != nil {
		t.Error(err)
	}
	if _, err := census.Start(t.Context(), client, census.Options{Prefix: "other"}, cursor); !errors.Is(err, census.ErrOtherServers) {
		t.Errorf("another prefix: %v", err)
	}
	server.Kill()
	server.Restart()
	if _, err := census.Start(t.Context(), client, census.Options{Prefix: "priority"}, cursor); !errors.Is(err, census.ErrOtherServers) {
		t.Errorf("another process: %v", err)
	}
	for _, text := range []string{"0", "a-b-c", "0123456789ab--1-0", "0123456789ab-0--1", cursor + "-0"} {
		if err := census.CheckCursor(text); err == nil {
			t.Errorf("%q is taken for a cursor", text)
		}
	}
}

func TestAnInterruptedWalkStaysWhereItIs(t *testing.T) {
	client := redistest.Start(t).Client()
	want := fill(t, client, "priority", 300)
	store, options := storeOf(t, client, "priority"), census.Options{Prefix: "priority", PageKeys: 50}
	walk, err := census.Start(t.Context(), client, options, "")
	if err != nil {
		t.Fatal(err)
	}
	first, err := walk.Next(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	cursor := walk.Cursor()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := walk.Next(ctx, store); !errors.Is(err, context.Canceled) || walk.Cursor() != cursor {
		t.Errorf("error %v, cursor %s after %s", err, walk.Cursor(), cursor)
	}
	walk, err = census.Start(t.Context(), client, options, cursor)
	if err != nil {
		t.Fatal(err)
	}
	for !walk.Done() {
		entries, err := walk.Next(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, entries...)
	}
	checkWalk(t, first, want)
}
