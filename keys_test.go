package priority_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// What is in Redis: values and TTLs, which programs in other languages share. What the keys are
// called, and what the scripts answer, the vectors say.

const day = 24 * time.Hour

// onEachServer runs a test on miniredis and on a real server.
func onEachServer(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, onMiniredis(t))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Client())
	})
}

func TestKeys(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := openStore(t, client, &priority.RedisOptions{Timeout: -1, Policy: priority.Policy{Loads: []float64{1.5, 6.5}, Turns: 4}})
		before := time.Now().Truncate(time.Millisecond)
		must(store.NextN(t.Context(), "a}b", 5))(t)
		must(submit(t, store, "a}b", slices.Concat([]string{":b", "a\x00"}, numbered("photo", 18))...))(t)
		const count, pending = "priority:{a%7Db}:count", "priority:{a%7Db}:pending"
		if got := client.Get(t.Context(), count).Val(); got != "-4" {
			t.Errorf("after 5 documents the key holds %q", got)
		}
		wantTTL(t, client, count, quiet)
		wantEnd(t, client, pending)
		var levels []priority.Level
		own := make(map[string]float64)
		for _, member := range client.ZRangeWithScores(t.Context(), pending, 0, -1).Val() {
			id, level := member.Member.(string), priority.Level(int64(math.Abs(member.Score))%256)
			if strings.HasPrefix(id, ":") && id != "::b" {
				own[id] = member.Score
				continue
			}
			// What is beyond the last load has a score below zero, with its turn.
			due := time.UnixMilli(int64(math.Abs(member.Score)) / 256)
			if due.Before(before) || due.After(time.Now()) || (member.Score < 0) != (level >= 3) {
				t.Errorf("%q is due at %v, want from %v on, and has level %d", id, due, before, level)
			}
			levels = append(levels, level)
		}
		if want := []priority.Level{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 1, 2}; len(own) != 2 || own[":averages"] != 1000 || !slices.Equal(levels, want) {
			t.Errorf("the scores have the levels %v, want %v, and those of our own are %v", levels, want, own)
		}
		if n := client.DBSize(t.Context()).Val(); n != 2 {
			t.Errorf("%d keys, want 2", n)
		}
	})
}

// wantTTL fails the test unless a key has a TTL, less what the test has taken.
func wantTTL(t testing.TB, client redis.Cmdable, key string, want time.Duration) {
	t.Helper()
	if got := client.PTTL(t.Context(), key).Val(); got > want || got < want-slack {
		t.Errorf("%q has the TTL %v, want %v", key, got, want)
	}
}

// wantFades fails the test unless the recent documents fade after a time, less what the
// test has taken.
func wantFades(t testing.TB, client redis.Cmdable, key string, want time.Duration) {
	t.Helper()
	fades := time.UnixMilli(int64(client.ZScore(t.Context(), key, ":fades").Val()))
	if got := time.Until(fades); got > want || got < want-slack {
		t.Errorf("what %q has of recent documents fades in %v, want %v", key, got, want)
	}
}

// wantEnd fails the test unless a set of pending documents ends with a day, after all that
// it holds, and within a day of that.
func wantEnd(t testing.TB, client redis.Cmdable, key string) {
	t.Helper()
	ttl := client.PTTL(t.Context(), key).Val()
	end := time.Now().Add(ttl)
	fades := time.UnixMilli(int64(client.ZScore(t.Context(), key, ":fades").Val()))
	if round := end.Round(time.Minute); !round.Equal(round.Truncate(day)) || end.Before(fades) || ttl < day-slack ||
		end.Sub(fades) > day+slack && ttl > 2*day {
		t.Errorf("%q ends in %v, at %v; the recent documents fade at %v", key, ttl, end, fades)
	}
}

// The set of pending documents has a TTL that Submit sets, and no other call changes.
func TestKeys_TTL(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		ctx, store := t.Context(), newStore(t, client)
		key := store.Keys("acme").Pending
		decides(t, flood(4)...)(submit(t, store, "acme", "a", "b", "c", "d"))
		wantFades(t, client, key, 3*day) // four documents
		wantEnd(t, client, key)
		client.PExpire(ctx, key, 100*day)
		must(store.Done(ctx, "acme", "d", time.Second))(t)
		decides(t, loaded(4*3, 3))(submit(t, store, "acme", "c")) // ends on the same day
		wantTTL(t, client, key, 100*day)
		client.Persist(ctx, key) // as in a copy
		must(submit(t, store, "acme", "c"))(t)
		wantEnd(t, client, key)
		must(submit(t, store, "acme", numbered("more", 12)...))(t) // on a later one
		wantFades(t, client, key, 5*day)
		wantEnd(t, client, key)

		// A document that is submitted again when the recent documents have faded is pending for
		// a day too.
		client.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: float64(time.Now().Add(-time.Hour).UnixMilli())})
		client.PExpire(ctx, key, time.Hour)
		must(submit(t, store, "acme", "a"))(t)
		pends(t, store, "acme", 15)
		if ttl := client.PTTL(ctx, key).Val(); ttl < day-slack || ttl > 2*day {
			t.Errorf("the TTL is %v", ttl)
		}

		// What is set for years does not stay.
		client.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: float64(time.Now().Add(3650 * day).UnixMilli())})
		must(submit(t, store, "acme", "f"))(t)
		pends(t, store, "acme", 16)
		wantFades(t, client, key, 10*day)
		wantEnd(t, client, key)
	})
}

// Documents of more than a day ago are cleared by the customer's Submits, some at a time.
func TestKeys_OldDocuments(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := newStore(t, client)
		key := store.Keys("acme").Pending
		must(submit(t, store, "acme", "new"))(t)
		at := func(age time.Duration) float64 { return float64(256*time.Now().Add(-age).UnixMilli() + 3) }
		members := []redis.Z{{Score: at(23 * time.Hour), Member: "young"}}
		for _, id := range numbered("old", 700) {
			members = append(members, redis.Z{Score: at(25 * time.Hour), Member: id}, redis.Z{Score: -at(26 * time.Hour), Member: "flood " + id})
		}
		client.ZAdd(t.Context(), key, members...)
		pends(t, store, "acme", 2)
		for _, left := range []int64{400, 0} {
			if again := must(submit(t, store, "acme", "new"))(t)[0]; again.Pending != 2 {
				t.Fatalf("again: %+v, want 2 pending", again)
			}
			if n := client.ZCard(t.Context(), key).Val(); n != left+4 {
				t.Fatalf("%d members, want %d old ones", n, left)
			}
		}
		late := []priority.Late{{ID: "young", Since: time.Now().Add(-20 * time.Hour)}}
		if ended := must(store.DoneLate(t.Context(), "acme", late, 0))(t)[0]; ended.Level != 3 || !near(ended.Latency, 3*time.Hour) {
			t.Errorf("done after three hours, which was 20 hours ago: %v", ended)
		}
	})
}

// A key that holds something else fails every call that would count by it or tell it, and is left
// as it is. Other customers and the other rule do not notice.
func TestKeys_Corrupt(t *testing.T) {
	members := func(members ...redis.Z) func(t *testing.T, c *redis.Client, key string) {
		return func(t *testing.T, c *redis.Client, key string) { check(t, c.ZAdd(t.Context(), key, members...).Err()) }
	}
	averages := func(averages float64) func(t *testing.T, c *redis.Client, key string) {
		soon := float64(time.Now().Add(day).UnixMilli())
		return members(redis.Z{Member: ":fades", Score: soon}, redis.Z{Member: ":averages", Score: averages}, redis.Z{Member: "a", Score: 1})
	}
	later := "a later version"
	corruptions := map[string]func(t *testing.T, c *redis.Client, key string){
		"a list":               func(t *testing.T, c *redis.Client, key string) { check(t, c.RPush(t.Context(), key, "-1").Err()) },
		"a sorted set":         members(redis.Z{Score: -1, Member: "-1"}),
		"an average cost of 0": averages(3_000_000), "a quarter of a thousandth": averages(1000.25), "averages beyond all": averages(1e13),
		later: members(redis.Z{Member: ":fades", Score: -2}, redis.Z{Member: ":averages", Score: -2}),
	}
	for _, value := range []string{"abc", "1.5", "", "5 ", "1e3", "5\x00", "9223372036854775808", "1000000000000001", "-1000000000000000"} {
		corruptions[fmt.Sprintf("%q", value)] = func(t *testing.T, c *redis.Client, key string) { check(t, c.Set(t.Context(), key, value, 0).Err()) }
	}
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for name, corrupt := range corruptions {
			for _, rule := range []string{"Next", "Submit"} {
				store := newStore(t, client)
				key, other, fail := store.Keys("acme").Count, "Submit", []string{"Next", "NextN", "NextEach", "Peek"}
				if rule == "Submit" {
					key, other, fail = store.Keys("acme").Pending, "Next", []string{"Submit", "SubmitN", "Done", "DoneN", "Peek"}
				}
				corrupt(t, client, key)
				client.PExpire(t.Context(), key, 100*time.Hour)
				before, calls := contents(t, client, key), named.Calls(t.Context(), store, "acme", "a")
				for _, operation := range fail {
					err := calls[operation]()
					wantError(t, err, priority.ErrCorrupt, key)
					if isLater := name == later && rule == "Submit"; strings.Contains(fmt.Sprint(err), later) != isLater {
						t.Errorf("%s, %s: %v", name, operation, err)
					}
				}
				_, err := store.NextEach(t.Context(), []string{"globex", "acme", "globex"})
				for i, err := range itemerrors.Of(err, 3) {
					if want := i == 1 && rule == "Next"; errors.Is(err, priority.ErrCorrupt) != want {
						t.Errorf("%s, NextEach, entry %d: %v", name, i, err)
					}
				}
				if after := contents(t, client, key); after != before {
					t.Errorf("%s: the key holds %s, before %s", name, after, before)
				}
				check(t, calls[other]())
				check(t, store.Reset(t.Context(), "acme"))
				check(t, calls[rule]())
			}
		}
	})
}

// contents shows what a key holds, and about how long.
func contents(t *testing.T, client *redis.Client, key string) string {
	ctx := t.Context()
	return fmt.Sprint(client.Type(ctx, key).Val(), client.Get(ctx, key).Val(), client.LRange(ctx, key, 0, -1).Val(),
		client.ZRangeWithScores(ctx, key, 0, -1).Val(), client.PTTL(ctx, key).Val().Round(20*time.Minute))
}

// Programs in other languages run the scripts as printed, and count along with the
// stores of the default policy.
func TestKeys_ScriptsAsPrinted(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := newStore(t, client)
		keys := store.Keys("acme")
		eval := func(script, key string, args ...any) error {
			text := string(must(os.ReadFile("lua/" + script + ".lua"))(t))
			return client.Eval(t.Context(), text, []string{key}, args...).Err()
		}
		check(t, eval("next", keys.Count))
		decides(t, countdown(-1, 2)...)(store.NextN(t.Context(), "acme", 2))
		check(t, eval("submit", keys.Pending, "a", 0, "b", 0))
		decides(t, flood(2)[1])(submit(t, store, "acme", "b"))
		check(t, eval("done", keys.Pending, 0, "", "a"))
		pends(t, store, "acme", 1)

		// What is no number of documents, or no cost, changes nothing.
		before := contents(t, client, keys.Count) + contents(t, client, keys.Pending)
		for _, test := range []struct {
			script, complaint string
			args              []any
		}{
			{"next", "number of documents", []any{"0"}},
			{"next", "number of documents", []any{"1.5"}},
			{"next", "number of documents", []any{"1000001"}},
			{"submit", "number of documents", nil},
			{"submit", "number of documents", slices.Repeat([]any{"1"}, 202)},
			{"submit", "cost", []any{"c", "1", "d", "1.5"}},
			{"done", "cost", []any{"x", "", "c"}},
			{"done", "cost", []any{"1000000", "", "c"}},
			{"done", "times", []any{"0", "-5", "c"}},
			{"done", "times", []any{"0", "5", "c", "d"}},
		} {
			key := map[bool]string{true: keys.Count, false: keys.Pending}[test.script == "next"]
			if err := eval(test.script, key, test.args...); err == nil || !strings.HasPrefix(err.Error(), "ERR the "+test.complaint) {
				t.Errorf("%s %q: %v, want a complaint about the %s", test.script, test.args, err, test.complaint)
			}
		}
		if after := contents(t, client, keys.Count) + contents(t, client, keys.Pending); after != before {
			t.Errorf("the keys hold %s, before %s", after, before)
		}
	})
}
