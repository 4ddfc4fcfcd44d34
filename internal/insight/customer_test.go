package insight_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// inspectorOf returns an Inspector of a server, with a store of these options.
func inspectorOf(t *testing.T, client *redis.Client, options priority.RedisOptions) *insight.Inspector {
	t.Helper()
	options.Timeout = -1
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
	if gold.Level != 1 || gold.Policy.Policy.ResetMode != priority.SinceLastReset || gold.PolicyName != "that of tier gold" || gold.Row != "count ≥ -100" {
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
	client.RPush(t.Context(), "team:{it's}:usage", "1")
	_, err := inspector.Customer(t.Context(), "it's")
	if !errors.Is(err, priority.ErrCorruptCount) || insight.Unreachable(err) ||
		!strings.Contains(err.Error(), `team:{it's}:usage holds a list, not a usage (a string of at most 15 digits); to remove it: priorityctl reset -prefix team 'it'\''s'`) {
		t.Errorf("got %v", err)
	}
	forgotten, err := inspector.Forget(t.Context(), "it's")
	if err != nil || forgotten.String() != "it's: forgotten (a corrupt key)" || inspector.Held(t.Context(), "it's") != "no count" {
		t.Errorf("got %v, %v", forgotten, err)
	}
	if _, err := inspector.Customer(t.Context(), ""); !errors.Is(err, priority.ErrInvalidCustomer) || insight.Unreachable(err) {
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

// What is said of the next document is compared with what the next document gets,
// for customers of all kinds and policies of few levels and of many.
func TestACustomersNextLevelsAreForetold(t *testing.T) {
	client := redistest.Start(t).Client()
	many := make([]int64, 254)
	for i := range many {
		many[i] = -int64(i + 1)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i, thresholds := range [][]int64{priority.DefaultPolicy().Thresholds, {-2, -9}, many, {}, {-50}} {
		policy := priority.Policy{Thresholds: thresholds}
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
				client.SetArgs(t.Context(), store.UsageKey(customer), usage, redis.SetArgs{KeepTTL: true})
				client.PExpire(t.Context(), store.UsageKey(customer), time.Duration(random.Int64N(int64(10*24*time.Hour))))
				if err := store.DoneN(t.Context(), customer, ids[:random.IntN(len(ids)+1)], 0); err != nil {
					t.Fatal(err)
				}
			}
			told := lookup(t, inspector, customer)
			if text := told.String(); !strings.Contains(text, told.Exact()) {
				t.Errorf("%s: got\n%s", customer, text)
			}
			now, err := store.Peek(t.Context(), customer)
			if err != nil || now.Level != told.Level || now.Count != told.Count || now.Pending != told.Pending {
				t.Errorf("%s: %v, Peek says %+v, not %+v", customer, err, now, told)
			}
			if told.Pending > 0 && !told.Submit.NewestLast && scaled(told.Submit.ScaleLevel, len(thresholds)+1) != int(told.Level) {
				t.Errorf("%s: %d of 9 does not explain level %d", customer, told.Submit.ScaleLevel, told.Level)
			}
			next, err := store.Submit(t.Context(), customer, "next", 0)
			if err != nil || next.Level != told.Submit.NextLevel {
				t.Errorf("%s: %v, Submit gives %d, not as in %+v", customer, err, next.Level, told.Submit)
			}
			if err := store.Done(t.Context(), customer, "next", 0); err != nil {
				t.Fatal(err)
			}
			if next, err = store.Next(t.Context(), customer); err != nil || next.Level != policy.Level(next.Count) {
				t.Errorf("%s: %v, Next gives %+v", customer, err, next)
			}
		}
	}
}

// scaled is a policy's level for one of the scale of 9.
func scaled(level, levels int) int {
	if levels < 9 {
		switch {
		case level == 9:
			return levels
		case level > 6:
			return max(levels-1, 1)
		}
		return max(1+(level-1)*(levels-2)/6, 1)
	}
	return level
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
		client.SetArgs(t.Context(), store.UsageKey("clinic"), 52_001_400, redis.SetArgs{KeepTTL: true})
	}
	sets()
	told := lookup(t, inspector, "clinic").Submit
	if told.FewerPending < 2 || told.FewerLevel >= told.NextLevel {
		t.Fatalf("got %+v", told)
	}
	for done := range told.FewerPending {
		if now := lookup(t, inspector, "clinic").Submit; now.NextLevel != told.NextLevel {
			t.Fatalf("with %d fewer pending the next document gets %d", done, now.NextLevel)
		}
		if err := store.Done(t.Context(), "clinic", ids[done], 0); err != nil {
			t.Fatal(err)
		}
		sets()
	}
	if next, err := store.Submit(t.Context(), "clinic", "next", 0); err != nil || next.Level != told.FewerLevel {
		t.Errorf("%v, the level is %d, not %d", err, next.Level, told.FewerLevel)
	}
}
