package insight_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// inspectorOf returns an Inspector of a server, with a store of these options.
func inspectorOf(t *testing.T, client *redis.Client, options priority.RedisOptions) *insight.Inspector {
	t.Helper()
	options.Timeout, options.Overrides = -1, true
	store, err := priority.NewRedisStore(client, &options)
	if err != nil {
		t.Fatal(err)
	}
	return &insight.Inspector{
		Client: client, Store: store, Options: options, Prefix: options.Prefix,
		Policy: insight.NamedPolicy{Policy: store.PolicyOf(""), Name: "the team's"},
		Server: insight.Server{Address: "redis://" + client.Options().Addr, Kind: insight.SingleServer},
	}
}

func lookup(t *testing.T, inspector *insight.Inspector, customer string) *insight.Customer {
	t.Helper()
	found, err := inspector.Customer(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// tiered are options by which customers whose name begins with gold have one level
// until they have sent 100 documents.
func tiered(prefix string) priority.RedisOptions {
	return priority.RedisOptions{
		Prefix: prefix,
		Tiers:  map[string]priority.Policy{"gold": {Thresholds: []int64{-100}, ResetMode: priority.SinceLastReset}},
		TierOf: tierOf,
	}
}

func tierOf(customer string) string { tier, _, _ := strings.Cut(customer, " "); return tier }

func TestACustomerIsJudgedByThePolicyOfItsTier(t *testing.T) {
	inspector := inspectorOf(t, redistest.Start(t).Client(), tiered("team"))
	inspector.PolicyName = func(customer string) string { return "that of tier " + tierOf(customer) }
	for _, customer := range []string{"gold mine", "acme"} {
		if _, err := inspector.Store.NextN(t.Context(), customer, 30); err != nil {
			t.Fatal(err)
		}
	}
	gold, acme := lookup(t, inspector, "gold mine"), lookup(t, inspector, "acme")
	if gold.Level != 1 || gold.Policy.Policy.ResetMode != priority.SinceLastReset || gold.PolicyName != "that of tier gold" {
		t.Errorf("got %+v", gold)
	}
	if want := `"gold mine" is not slow: such documents are processed first. The 72nd document from now has level 2.`; gold.Why() != want {
		t.Errorf("got %s", gold.Why())
	}
	if acme.Level != 9 || acme.CountKey != "team:{acme}:count" || !strings.HasPrefix(acme.Why(), "acme is slow because of 30 documents") {
		t.Errorf("got %+v, %s", acme, acme.Why())
	}
	if text := acme.String(); !strings.Contains(text, "policy    that of tier acme\n\nacme is slow") {
		t.Errorf("got\n%s", text)
	}
}

func TestACorruptKeyIsNamedWithItsRemedy(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, priority.RedisOptions{Prefix: "team"})
	client.RPush(t.Context(), "team:{it's}:pending", "1")
	_, err := inspector.Customer(t.Context(), "it's")
	if !errors.Is(err, priority.ErrCorrupt) || insight.Unreachable(err) ||
		!strings.Contains(err.Error(), `the key team:{it's}:pending holds a list, not pending documents; to forget all that is known of the customer: `+
			`priorityctl reset -prefix team 'it'\''s'; to remove only this key: redis-cli -u "$PRIORITY_REDIS_URL" unlink 'team:{it'\''s}:pending'`) {
		t.Errorf("got %v", err)
	}
	client.ZAdd(t.Context(), "team:{new}:pending", redis.Z{Member: ":fades", Score: -2}, redis.Z{Member: ":averages", Score: -2})
	_, err = inspector.Customer(t.Context(), "new")
	if !errors.Is(err, priority.ErrCorrupt) || !strings.HasSuffix(err.Error(), "a later version wrote the key team:{new}:pending: use that version's priorityctl") {
		t.Errorf("got %v", err)
	}
	if held := inspector.Held(t.Context(), "new"); !strings.Contains(held, "a later version wrote the key") {
		t.Errorf("a later version's customer holds %q", held)
	}
	reset, err := inspector.Reset(t.Context(), "it's", "mary", "a test")
	if err != nil || reset.String() != "it's: reset (a corrupt key)" || inspector.Held(t.Context(), "it's") != "nothing" {
		t.Errorf("got %v, %v", reset, err)
	}
	// A reset leaves an override, but not what no worker takes for one.
	for held, after := range map[string]string{"=1": "=1", "= 1": "", "": ""} {
		key := inspector.Store.Keys("acme").Override
		client.Del(t.Context(), key)
		if held != "" {
			client.Set(t.Context(), key, held, 0)
		} else {
			client.RPush(t.Context(), key, "=1")
		}
		reset, err := inspector.Reset(t.Context(), "acme", "mary", "a test")
		if got := client.Get(t.Context(), key).Val(); err != nil || got != after || (reset.Held == "a corrupt override") != (after == "") {
			t.Errorf("%q: got %q, %v, %v", held, got, reset, err)
		}
	}
	if _, err := inspector.Customer(t.Context(), ""); !errors.Is(err, priority.ErrInvalid) || insight.Unreachable(err) {
		t.Errorf("got %v", err)
	}
}

func TestANameInJSONTellsEveryCustomer(t *testing.T) {
	for _, customer := range []string{"acme", "\xff\xfe", "Müller & Co", "a\nb", "/w=="} {
		text, err := json.Marshal(insight.NameOf(customer))
		if err != nil {
			t.Fatal(err)
		}
		var name insight.Name
		if err := json.Unmarshal(text, &name); err != nil || name.Exact() != customer {
			t.Errorf("%q: got %q, %v", customer, name.Exact(), err)
		}
	}
}

// What is said of the next document is compared with what the next document gets, for
// customers of all kinds and policies of few levels and of many, with turns and without.
func TestACustomersNextLevelIsForetold(t *testing.T) {
	client := redistest.Start(t).Client()
	many := make([]int64, 254)
	for i := range many {
		many[i] = -int64(i + 1)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i, policy := range []priority.Policy{
		{}, {Turns: 13}, {Thresholds: []int64{-2, -9}}, {Thresholds: many}, {Thresholds: []int64{}}, {Loads: []float64{4, 40}, Turns: 3},
	} {
		inspector := inspectorOf(t, client, priority.RedisOptions{Policy: policy})
		store := inspector.Store
		for j := range 25 {
			customer := fmt.Sprintf("}%d%%%d", i, j)
			ids := make([]string, random.IntN(1<<random.IntN(11)))
			for k := range ids {
				ids[k] = fmt.Sprint(k)
			}
			if len(ids) > 0 {
				if _, err := store.SubmitN(t.Context(), customer, ids, nil); err != nil {
					t.Fatal(err)
				}
				usage := 1_000_000*random.IntN(1000) + 1 + random.IntN(5000)
				fades := time.Now().Add(time.Duration(random.Int64N(int64(10 * 24 * time.Hour))))
				client.ZAdd(t.Context(), store.Keys(customer).Pending, redis.Z{Member: ":averages", Score: float64(usage)},
					redis.Z{Member: ":fades", Score: float64(fades.UnixMilli())})
				if _, err := store.DoneN(t.Context(), customer, ids[:random.IntN(len(ids)+1)], 0); err != nil {
					t.Fatal(err)
				}
			}
			told := lookup(t, inspector, customer)
			if text := told.String(); !strings.Contains(text, told.Exact()) {
				t.Errorf("%s: got\n%s", customer, text)
			}
			next, err := store.Submit(t.Context(), customer, "next", 0)
			if err != nil || len(ids) > 0 && (next.Level != told.NextLevel || math.Abs(next.Load-told.Load) > 1e-3*told.Load || !told.ByLoad()) {
				t.Errorf("%s: %v, Submit gives %+v, not as in %+v", customer, err, next, told)
			}
			customer += " by count"
			if _, err := store.NextN(t.Context(), customer, len(ids)); err != nil {
				t.Fatal(err)
			}
			told = lookup(t, inspector, customer)
			if next, err = store.Next(t.Context(), customer); err != nil || next.Level != told.NextLevel || len(ids) > 0 && next.Count != told.Count-1 {
				t.Errorf("%s: %v, Next gives %+v, not as in %+v", customer, err, next, told)
			}
		}
	}
}

// With as many fewer pending as is said the level is better, and not with one less.
func TestACustomerIsToldHowManyFewerPendingHelp(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, priority.RedisOptions{})
	store := inspector.Store
	var ids []string
	for i := range 40 {
		ids = append(ids, fmt.Sprint("document ", i))
	}
	if _, err := store.SubmitN(t.Context(), "clinic", ids, nil); err != nil {
		t.Fatal(err)
	}
	// 5.2 s from Submit to Done, at 1.4 times the usual cost.
	sets := func() {
		client.ZAdd(t.Context(), store.Keys("clinic").Pending, redis.Z{Member: ":averages", Score: 52_001_400})
	}
	sets()
	told := lookup(t, inspector, "clinic")
	if told.FewerPending < 2 || told.FewerLevel >= told.NextLevel {
		t.Fatalf("got %+v", told)
	}
	for done := range told.FewerPending {
		if now := lookup(t, inspector, "clinic"); now.NextLevel != told.NextLevel {
			t.Fatalf("with %d fewer pending the next document gets %d", done, now.NextLevel)
		}
		if _, err := store.Done(t.Context(), "clinic", ids[done], 0); err != nil {
			t.Fatal(err)
		}
		sets()
	}
	if next, err := store.Submit(t.Context(), "clinic", "next", 0); err != nil || next.Level != told.FewerLevel {
		t.Errorf("%v, the level is %d, not %d", err, next.Level, told.FewerLevel)
	}
}

// A quiet time as long as is said makes the level better, and a shorter one does not.
func TestACustomerIsToldWhenWhatWasSubmittedFades(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, priority.RedisOptions{})
	fadesIn := func(left time.Duration) {
		client.ZAdd(t.Context(), inspector.Store.Keys("clinic").Pending, redis.Z{Member: ":averages", Score: 52_001_000},
			redis.Z{Member: ":fades", Score: float64(time.Now().Add(left).UnixMilli())})
	}
	const left = 8 * 24 * time.Hour
	fadesIn(left)
	told := lookup(t, inspector, "clinic")
	if told.NextLevel != 3 || told.Pending != 0 || told.Level != 0 || told.FadedInMS == 0 || told.FadedLevel != 2 {
		t.Fatalf("got %+v", told)
	}
	faded := time.Duration(told.FadedInMS) * time.Millisecond
	for _, test := range []struct {
		after time.Duration
		want  priority.Level
	}{{faded - time.Minute, 3}, {faded + time.Minute, 2}} {
		fadesIn(left - test.after)
		if now := lookup(t, inspector, "clinic"); now.NextLevel != test.want {
			t.Errorf("after %v the next document gets level %d, not %d", test.after, now.NextLevel, test.want)
		}
	}
}

// Each customer has one story, by the rule that they are counted by.
func TestACustomerHasOneStory(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, priority.RedisOptions{Policy: priority.Policy{Turns: 13}})
	store := inspector.Store
	if _, err := store.NextN(t.Context(), "both", 30); err != nil {
		t.Fatal(err)
	}
	if now := lookup(t, inspector, "both"); now.Rule != "by count" || now.Level != 9 || now.NextLevel != 9 || now.Number() != "-29" {
		t.Errorf("got %+v", now)
	}
	flood := make([]string, 1000)
	for i := range flood {
		flood[i] = fmt.Sprint(i)
	}
	if _, err := store.SubmitN(t.Context(), "both", flood, nil); err != nil {
		t.Fatal(err)
	}
	now := lookup(t, inspector, "both")
	last := priority.Level(6 + fair.Turn(now.PendingLast+1, 13))
	if now.Rule != "by load" || now.Pending != 1000 || now.PendingLast == 0 || now.NextLevel != last {
		t.Errorf("got %+v", now)
	}
	for text, want := range map[string][]string{
		now.String(): {"rule      by load\n", "next      level 16 of 1 to 19: load > 32,768, ≥ 601 pending\n", "512.0 recent × ", "beyond the last load, which do not count"},
		now.Why():    {"both waits behind levels 1 to 15", "512 or more documents submitted recently × ", "where floods take turns"},
	} {
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in\n%s", part, text)
			}
		}
		if strings.Contains(text, "count:") || strings.Contains(text, "reset") {
			t.Errorf("two stories:\n%s", text)
		}
	}
	nobody := lookup(t, inspector, "nobody")
	if want := "nobody is new, or misspelt: nothing is known about it. The next document gets level 1."; nobody.Why() != want || nobody.Rule != "unknown" {
		t.Errorf("got %+v", nobody)
	}
}
