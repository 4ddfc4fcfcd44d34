package priority_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/redistest"
)

// What decides with an override is what decides without it, bounded: whatever the rule,
// the policy and the moment at which the override comes and goes.
func TestAnOverrideBoundsWhatWouldBeDecided(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		server := miniredis.RunT(t)
		open := onMiniredis(t, server)
		testOverrides(t, open, connectToMiniredis(t, server), ms, quiet)
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		client := redistest.Start(t).Client()
		testOverrides(t, onServer(client, client), client, time.Hour, 1000*time.Hour)
	})
}

func testOverrides(t *testing.T, open opener, hand redis.Cmdable, shortest, longest time.Duration) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		r := drawRule(rt, shortest, longest, shortestLease)
		r.overrides = true
		names := drawCustomers(rt)
		store, model := open(t, r), openMemory(t, r)
		held := make(map[string]priority.Override)
		given := make(map[[2]string]priority.Level)
		bounded := func(customer string, d priority.Decision) priority.Decision {
			if override, ok := held[customer]; ok {
				d.Ruled, d.Level = d.Level, override.Level(d.Level, store.Last())
			}
			return d
		}
		key := func(customer string) string {
			redisStore, _ := priority.As[*priority.RedisStore](store.Store)
			return redisStore.OverrideKey(customer)
		}
		for _, name := range names {
			hand.Del(ctx, key(name))
		}
		customer := rapid.SampledFrom(names)
		document := rapid.SampledFrom(documentIDs("id", 20))
		rt.Repeat(map[string]func(*rapid.T){
			"next": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				want := bounded(c, must(model.Next(ctx, c))(t))
				if got, err := store.Next(ctx, c); err != nil || !store.agree(got, want) {
					rt.Fatalf("%+v, %v, want %+v", got, err, want)
				}
			},
			"next n": func(rt *rapid.T) {
				c, n := customer.Draw(rt, "customer"), rapid.IntRange(0, 30).Draw(rt, "n")
				want := must(model.NextN(ctx, c, n))(t)
				for i := range want {
					want[i] = bounded(c, want[i])
				}
				if got, err := store.NextN(ctx, c, n); err != nil || !store.agreeAll(got, want) {
					rt.Fatalf("%+v, %v, want %+v", got, err, want)
				}
			},
			"next each": func(rt *rapid.T) {
				cs := rapid.SliceOfN(customer, 0, 12).Draw(rt, "customers")
				want := must(model.NextEach(ctx, cs))(t)
				for i := range want {
					want[i] = bounded(cs[i], want[i])
				}
				if got, err := store.NextEach(ctx, cs); err != nil || !store.agreeAll(got, want) {
					rt.Fatalf("%+v, %v, want %+v", got, err, want)
				}
			},
			"submit": func(rt *rapid.T) {
				c, ds := customer.Draw(rt, "customer"), rapid.SliceOfN(document, 1, 60).Draw(rt, "documents")
				submit := func(w *world) ([]priority.Decision, error) {
					if len(ds) == 1 {
						decision, err := w.Submit(ctx, c, ds[0], 0)
						return []priority.Decision{decision}, err
					}
					return w.SubmitN(ctx, c, ds, nil)
				}
				want := must(submit(model))(t)
				for i := range want {
					want[i] = bounded(c, want[i])
					given[[2]string{c, ds[i]}] = want[i].Level
				}
				if got, err := submit(store); err != nil || !store.agreeAll(got, want) {
					rt.Fatalf("%+v, %v, want %+v", got, err, want)
				}
				store.wait(ms)
				model.wait(ms)
			},
			"done": func(rt *rapid.T) {
				c, d := customer.Draw(rt, "customer"), document.Draw(rt, "document")
				ends := func(w *world) (level priority.Level) {
					ctx := priority.WithEnded(ctx, func(e priority.Ended) { level = e.Level })
					if err := w.Done(ctx, c, d, 0); err != nil {
						rt.Fatal(err)
					}
					return level
				}
				got, want := ends(store), ends(model)
				if want > 0 {
					want = given[[2]string{c, d}]
				}
				if got != want {
					rt.Fatalf("ended at level %d, want %d", got, want)
				}
			},
			"peek": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				got, want := must(store.Peek(ctx, c))(t), must(model.Peek(ctx, c))(t)
				next := bounded(c, priority.Decision{Level: want.NextLevel})
				if got.NextLevel != next.Level || got.Ruled != next.Ruled || (got.Override != priority.Override{}) != (next.Ruled > 0) {
					rt.Fatalf("%+v, want %+v", got, next)
				}
			},
			"set": func(rt *rapid.T) {
				c, level := customer.Draw(rt, "customer"), priority.Level(rapid.IntRange(1, 40).Draw(rt, "level"))
				override := rapid.SampledFrom([]priority.Override{{Earliest: level, Latest: level}, {Earliest: level}, {Latest: level}}).Draw(rt, "override")
				hand.Set(ctx, key(c), string(must(override.MarshalText())(t)), 0)
				held[c] = override
			},
			"end": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				hand.Del(ctx, key(c))
				delete(held, c)
			},
			"junk": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				hand.Del(ctx, key(c))
				delete(held, c)
				if junk := rapid.SampledFrom([]string{"", "=", "=0", "==1", "9", "<7", ">=", " =1", "=1 ", "=1\n", "=1000", "=-1"}).Draw(rt, "junk"); junk != "" {
					hand.Set(ctx, key(c), junk, 0)
				} else {
					hand.RPush(ctx, key(c), "=1")
				}
			},
			"reset": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				if err := errors.Join(store.Reset(ctx, c), model.Reset(ctx, c)); err != nil {
					rt.Fatal(err)
				}
			},
			"wait": func(rt *rapid.T) {
				d := drawPause(rt, r.policyOf(customer.Draw(rt, "whose interval")).ResetInterval)
				store.wait(d)
				model.wait(d)
			},
		})
	})
}

// An override ends by its TTL, and a store that is not asked to reads none.
func TestAnOverrideEndsByItself(t *testing.T) {
	server := miniredis.RunT(t)
	client := connectToMiniredis(t, server)
	store := onMiniredis(t, server)(t, rule{})
	reads := openStore(t, client, &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	store.Store = reads
	other := &world{Store: openStore(t, client, &priority.RedisOptions{Timeout: time.Minute})}
	client.Set(t.Context(), reads.OverrideKey("acme"), "=7", time.Minute)
	want := priority.Decision{Level: 7, Count: 0, ResetIn: quiet, Ruled: 1}
	store.next(t, "acme", want)
	other.next(t, "acme", counted(-1))
	if state := must(store.Peek(t.Context(), "acme"))(t); state.NextLevel != 7 || state.OverrideEndsIn != time.Minute ||
		state.Override != (priority.Override{Earliest: 7, Latest: 7}) || state.Ruled != 1 {
		t.Errorf("got %+v", state)
	}
	if state := must(other.Peek(t.Context(), "acme"))(t); state.NextLevel != 1 || state.Override != (priority.Override{}) {
		t.Errorf("got %+v from a store that reads no overrides", state)
	}
	store.wait(time.Minute + ms)
	store.next(t, "acme", counted(-2))
}

// A store remembers an override that it has met, for a fallback, until it ends or is met
// no more.
func TestAStoreRemembersOverrides(t *testing.T) {
	server := redistest.Start(t)
	hand := server.Client()
	store := openStore(t, server.Client(), &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	remembered := func(customer string) priority.Decision {
		return store.Override(customer, priority.Decision{Level: 2})
	}
	const ordinary, overridden = 2, 9
	for i, meet := range []func(customer string) error{
		func(c string) error { _, err := store.Next(t.Context(), c); return err },
		func(c string) error { _, err := store.NextN(t.Context(), c, 3); return err },
		func(c string) error { _, err := store.NextEach(t.Context(), []string{"other", c, c}); return err },
		func(c string) error { _, err := store.Submit(t.Context(), c, "a", 0); return err },
		func(c string) error { _, err := store.SubmitN(t.Context(), c, documentIDs("d", 120), nil); return err },
		func(c string) error { _, err := store.Peek(t.Context(), c); return err },
		func(c string) error { _, err := store.PeekEach(t.Context(), []string{"other", c}); return err },
	} {
		c := string(rune('a' + i))
		key := store.OverrideKey(c)
		if level := remembered(c).Level; level != ordinary {
			t.Errorf("call %d: level %d before", i, level)
		}
		hand.Set(t.Context(), key, ">=12", 0)
		if err := meet(c); err != nil {
			t.Fatal(err)
		}
		if got := remembered(c); got.Level != overridden || got.Ruled != ordinary {
			t.Errorf("call %d: %+v", i, got)
		}
		hand.Del(t.Context(), key)
		if err := meet(c); err != nil {
			t.Fatal(err)
		}
		if level := remembered(c).Level; level != ordinary {
			t.Errorf("call %d: level %d after", i, level)
		}
	}
	if got := remembered("other"); got.Ruled != 0 {
		t.Errorf("%+v of a customer without one", got)
	}
}

func TestOverridesAreWrittenAndRead(t *testing.T) {
	for text, want := range map[string]priority.Override{
		"=1": {Earliest: 1, Latest: 1}, ">=7": {Earliest: 7}, "<=3": {Latest: 3}, "=255": {Earliest: 255, Latest: 255},
	} {
		var got priority.Override
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
		if again := string(must(want.MarshalText())(t)); again != text {
			t.Errorf("%+v is %s, want %s", want, again, text)
		}
	}
	for _, text := range []string{"", "1", "=", "=0", "=01", "= 1", "=1 ", "=-1", "=1000", ">7", ">=7x", "<=", "=1\n"} {
		var got priority.Override
		if err := got.UnmarshalText([]byte(text)); !errors.Is(err, priority.ErrInvalidOption) || got != (priority.Override{}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, override := range []priority.Override{{}, {Earliest: 2, Latest: 5}, {Earliest: -1}, {Latest: -1, Earliest: -1}, {Earliest: 1000}} {
		if text, err := override.MarshalText(); !errors.Is(err, priority.ErrInvalidOption) {
			t.Errorf("%+v is %s, %v", override, text, err)
		}
	}
	levels := func(o priority.Override) (levels []priority.Level) {
		for level := range priority.Level(5) {
			levels = append(levels, o.Level(level+1, 5))
		}
		return levels
	}
	for want, override := range map[[5]priority.Level]priority.Override{
		{1, 2, 3, 4, 5}: {}, {3, 3, 3, 3, 3}: {Earliest: 3, Latest: 3}, {3, 3, 3, 4, 5}: {Earliest: 3},
		{1, 2, 2, 2, 2}: {Latest: 2}, {5, 5, 5, 5, 5}: {Earliest: 9, Latest: 9},
	} {
		if got := levels(override); !slices.Equal(got, want[:]) {
			t.Errorf("%+v: %v, want %v", override, got, want)
		}
	}
}

// Nothing that is there is touched by the look for an override.
func TestALookForAnOverrideTouchesNothing(t *testing.T) {
	server := redistest.Start(t)
	hand := server.Client()
	store := openStore(t, server.Client(), &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	ctx := context.Background()
	hand.RPush(ctx, store.OverrideKey("acme"), "=1")
	hand.RPush(ctx, store.UsageKey("bad"), "1")
	for range 3 {
		if decision, err := store.Next(ctx, "acme"); err != nil || decision.Ruled != 0 {
			t.Errorf("%+v, %v", decision, err)
		}
	}
	if _, err := store.Submit(ctx, "bad", "a", 0); !errors.Is(err, priority.ErrCorruptCount) {
		t.Errorf("a list in the place of a usage: %v", err)
	}
	if got := hand.LRange(ctx, store.OverrideKey("acme"), 0, -1).Val(); !reflect.DeepEqual(got, []string{"=1"}) {
		t.Errorf("the override's key holds %v", got)
	}
	if count := hand.Get(ctx, store.Key("acme")).Val(); count != "-2" {
		t.Errorf("the count is %s", count)
	}
}

// While Redis is away, a fallback goes by the overrides that the store has met.
func TestAnOverrideOutlivesAnOutage(t *testing.T) {
	server := redistest.Start(t)
	store := openStore(t, server.Client(), &priority.RedisOptions{Overrides: true})
	safe := must(fallback.New(store, nil, nil))(t)
	defer safe.Close(t.Context())
	ctx := t.Context()
	server.Client().Set(ctx, store.OverrideKey("acme"), "=7", time.Hour)
	if decision, err := safe.Next(ctx, "acme"); err != nil || decision.Level != 7 || decision.Degraded {
		t.Fatalf("%+v, %v", decision, err)
	}
	server.Kill()
	for customer, want := range map[string]priority.Decision{"acme": {Level: 7, Ruled: 1}, "other": {Level: 1}} {
		if decision, err := safe.Next(ctx, customer); err != nil || decision.Level != want.Level || decision.Ruled != want.Ruled || !decision.Degraded {
			t.Errorf("%s: %+v, %v, want %+v", customer, decision, err, want)
		}
		if decision, err := safe.Submit(ctx, customer, "a", 0); err != nil || decision.Level != want.Level || decision.Ruled != want.Ruled {
			t.Errorf("%s: %+v, %v, want %+v", customer, decision, err, want)
		}
	}
}
