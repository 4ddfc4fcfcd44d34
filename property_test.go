package priority_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// TestSameDecisions makes random sequences of calls and pauses, and compares what
// the script in Redis and the model in Go decide.
func TestSameDecisions(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		// A clock that is moved allows any interval that the tests' slower clock
		// of miniredis can tell from no time.
		testSameDecisions(t, onMiniredis(t, quiet), 10*time.Millisecond, quiet)
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		client := redistest.Start(t).Client()
		// Nothing may expire by itself.
		testSameDecisions(t, onServer(client, client), time.Hour, 1000*time.Hour)
	})
}

func testSameDecisions(t *testing.T, open opener, shortest, longest time.Duration) {
	rapid.Check(t, func(rt *rapid.T) {
		r := drawRule(rt, shortest, longest)
		customers := drawCustomers(rt)
		lua, model := open(t, r), openMemory(t, r)
		customer := rapid.SampledFrom(customers)
		same := func(got, want []priority.Decision, gotErr, wantErr error) {
			rt.Helper()
			if gotErr != nil || wantErr != nil || !lua.agreeAll(got, want) {
				rt.Fatalf("Lua decides %+v, %v\nGo decides  %+v, %v", got, gotErr, want, wantErr)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"next": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				got, gotErr := lua.Next(t.Context(), c)
				want, wantErr := model.Next(t.Context(), c)
				same([]priority.Decision{got}, []priority.Decision{want}, gotErr, wantErr)
			},
			"next n": func(rt *rapid.T) {
				c, n := customer.Draw(rt, "customer"), rapid.IntRange(0, 30).Draw(rt, "n")
				got, gotErr := lua.NextN(t.Context(), c, n)
				want, wantErr := model.NextN(t.Context(), c, n)
				same(got, want, gotErr, wantErr)
			},
			"next each": func(rt *rapid.T) {
				cs := rapid.SliceOfN(customer, 0, 12).Draw(rt, "customers")
				got, gotErr := lua.NextEach(t.Context(), cs)
				want, wantErr := model.NextEach(t.Context(), cs)
				same(got, want, gotErr, wantErr)
			},
			"peek": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				got, gotErr := lua.Peek(t.Context(), c)
				want, wantErr := model.Peek(t.Context(), c)
				same([]priority.Decision{got}, []priority.Decision{want}, gotErr, wantErr)
			},
			"reset": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				same(nil, nil, lua.Reset(t.Context(), c), model.Reset(t.Context(), c))
			},
			"wait": func(rt *rapid.T) {
				d := drawPause(rt, r.intervalOf(customer.Draw(rt, "whose interval")))
				lua.wait(d)
				model.wait(d)
			},
		})
	})
}

func drawRule(rt *rapid.T, shortest, longest time.Duration) rule {
	policy := func(label string) priority.Policy {
		p := priority.Policy{
			ResetInterval: drawMilliseconds(rt, shortest, longest, label+" interval"),
			ResetMode: rapid.SampledFrom([]priority.ResetMode{
				priority.SinceLastUpdate, priority.SinceLastReset,
			}).Draw(rt, label+" mode"),
		}
		if rapid.Bool().Draw(rt, label+" has thresholds") {
			p.Thresholds = rapid.SliceOfNDistinct(rapid.Int64Range(-30, 3), 0, 12, rapid.ID).Draw(rt, label+" thresholds")
			slices.Sort(p.Thresholds)
			slices.Reverse(p.Thresholds)
		}
		return p
	}
	r := rule{policy: policy("policy")}
	if rapid.Bool().Draw(rt, "has tiers") {
		r.tiers = map[string]priority.Policy{"1": policy("tier 1"), "2": policy("tier 2")}
		r.tierOf = func(customer string) string { return fmt.Sprint(len(customer) % 4) }
	}
	return r
}

// drawCustomers returns one to four different customers, some of whom differ in
// little.
func drawCustomers(rt *rapid.T) []string {
	character := rapid.OneOf(
		rapid.SampledFrom([]byte("{}%7D25:\x00\n ")),
		rapid.Byte(),
	)
	customer := rapid.OneOf(
		rapid.SampledFrom(oddCustomers),
		rapid.Map(rapid.SliceOfN(character, 1, 6), func(b []byte) string { return string(b) }),
	)
	return rapid.SliceOfNDistinct(customer, 1, 4, rapid.ID).Draw(rt, "customers")
}

// drawPause returns a pause that is often as long as an interval, or as long but
// for a millisecond.
func drawPause(rt *rapid.T, interval time.Duration) time.Duration {
	const ms = time.Millisecond
	return rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, ms, interval - ms, interval, interval + ms, 2*interval + ms}),
		rapid.Map(rapid.Int64Range(0, int64(interval/ms)), func(n int64) time.Duration { return time.Duration(n) * ms }),
	).Draw(rt, "pause")
}

func drawMilliseconds(rt *rapid.T, from, to time.Duration, label string) time.Duration {
	const ms = time.Millisecond
	return time.Duration(rapid.Int64Range(int64(from/ms), int64(to/ms)).Draw(rt, label)) * ms
}
