package priority_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
)

// TestRedisDecidesAsMemoryDoes makes random sequences of calls and pauses, and
// compares what the scripts in Redis and the model in Go decide.
func TestRedisDecidesAsMemoryDoes(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		testSameDecisions(t, onMiniredis(t, miniredis.RunT(t)), ms, quiet, day, 260)
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		client := redistest.Start(t).Client()
		testSameDecisions(t, onServer(client, client), time.Hour, 1000*time.Hour, shortestLease, 50) // nothing may expire by itself
	})
}

// What a server submits in one millisecond and what it does not is not known here, but
// that what one call of a script submits is.
func testSameDecisions(t *testing.T, open opener, shortest, longest, longestLease time.Duration, longestBatch int) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		r := drawRule(rt, shortest, longest, longestLease)
		names := drawCustomers(rt)
		lua, model := open(t, r), openMemory(t, r)
		pass := func(d time.Duration) {
			lua.wait(d)
			model.wait(d)
		}
		customer := rapid.SampledFrom(names)
		document := rapid.OneOf(rapid.SampledFrom(oddDocuments[:5]), rapid.SampledFrom(documentIDs("id", 20)))
		// Batches may be longer than what one call of a script takes.
		batch := rapid.OneOf(
			rapid.SliceOfN(document, 0, 12),
			rapid.Map(rapid.IntRange(1, longestBatch), func(n int) []string { return documentIDs("id", n) }),
		)
		took := rapid.SampledFrom([]time.Duration{0, ms, time.Second, 100 * time.Second, time.Hour})
		cost := rapid.SampledFrom([]float64{0, 1, 2.5, 30, 0.01, 1e-12, 1e12})
		same := func(rt *rapid.T, call func(w *world) ([]priority.Decision, error)) {
			rt.Helper()
			got, gotErr := call(lua)
			want, wantErr := call(model)
			gotErrs, wantErrs := priority.ItemErrors(gotErr, len(got)), priority.ItemErrors(wantErr, len(want))
			if !lua.agreeAll(got, want) || (gotErr == nil) != (wantErr == nil) ||
				!slices.EqualFunc(gotErrs, wantErrs, func(a, b error) bool { return a == b }) { // nil
				for i := range min(len(got), len(want)) {
					if !lua.agreeAll(got[i:i+1], want[i:i+1]) {
						rt.Fatalf("of decision %d of %d Redis says %+v, memory %+v", i, len(got), got[i], want[i])
					}
				}
				rt.Fatalf("Redis decides  %+v, %v\nmemory decides %+v, %v", got, gotErr, want, wantErr)
			}
		}
		sameEnds := func(rt *rapid.T, call func(ctx context.Context, w *world) error) {
			rt.Helper()
			ends := func(w *world) (ended []priority.Ended) {
				if err := call(priority.WithEnded(ctx, func(e priority.Ended) { ended = append(ended, e) }), w); err != nil {
					rt.Fatal(err)
				}
				return ended
			}
			got, want := ends(lua), ends(model)
			if !slices.EqualFunc(got, want, func(a, b priority.Ended) bool {
				return lua.near(a.Sojourn, b.Sojourn) && a.Document == b.Document && a.Level == b.Level
			}) {
				rt.Fatalf("Redis ends  %+v\nmemory ends %+v", got, want)
			}
		}
		one := func(rt *rapid.T, call func(w *world, customer string) (priority.Decision, error)) {
			c := customer.Draw(rt, "customer")
			same(rt, func(w *world) ([]priority.Decision, error) {
				decision, err := call(w, c)
				return []priority.Decision{decision}, err
			})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"next": func(rt *rapid.T) {
				one(rt, func(w *world, c string) (priority.Decision, error) { return w.Next(ctx, c) })
			},
			"next n": func(rt *rapid.T) {
				c, n := customer.Draw(rt, "customer"), rapid.IntRange(0, 30).Draw(rt, "n")
				same(rt, func(w *world) ([]priority.Decision, error) { return w.NextN(ctx, c, n) })
			},
			"next each": func(rt *rapid.T) {
				cs := rapid.SliceOfN(customer, 0, 12).Draw(rt, "customers")
				same(rt, func(w *world) ([]priority.Decision, error) { return w.NextEach(ctx, cs) })
			},
			"submit": func(rt *rapid.T) {
				d := document.Draw(rt, "document")
				cost := cost.Draw(rt, "cost")
				one(rt, func(w *world, c string) (priority.Decision, error) { return w.Submit(ctx, c, d, cost) })
				pass(ms)
			},
			"submit n": func(rt *rapid.T) {
				c, ds := customer.Draw(rt, "customer"), batch.Draw(rt, "documents")
				var costs []float64
				for repeated := rapid.SliceOfN(cost, 0, 3).Draw(rt, "costs"); len(repeated) > 0 && len(costs) < len(ds); {
					costs = append(costs, repeated[len(costs)%len(repeated)])
				}
				same(rt, func(w *world) ([]priority.Decision, error) { return w.SubmitN(ctx, c, ds, costs) })
				pass(ms)
			},
			"done": func(rt *rapid.T) {
				d, took := document.Draw(rt, "document"), took.Draw(rt, "took")
				c := customer.Draw(rt, "customer")
				sameEnds(rt, func(ctx context.Context, w *world) error { return w.Done(ctx, c, d, took) })
			},
			"done n": func(rt *rapid.T) {
				c, ds, took := customer.Draw(rt, "customer"), batch.Draw(rt, "documents"), took.Draw(rt, "took")
				sameEnds(rt, func(ctx context.Context, w *world) error { return w.DoneN(ctx, c, ds, took) })
			},
			"peek": func(rt *rapid.T) {
				c := customer.Draw(rt, "customer")
				got, want := must(lua.Peek(ctx, c))(t), must(model.Peek(ctx, c))(t)
				if lua.slack > 0 {
					got.Level, want.Level = 0, 0 // what is moved by hand does not keep its order
					got.Sojourn, want.Sojourn = 0, 0
				}
				if !lua.agreeOn(got, want) {
					rt.Fatalf("of %q Redis tells\n%+v, memory\n%+v", c, got, want)
				}
			},
			"reset": func(rt *rapid.T) {
				one(rt, func(w *world, c string) (priority.Decision, error) { return priority.Decision{}, w.Reset(ctx, c) })
			},
			"wait": func(rt *rapid.T) {
				interval := r.policyOf(customer.Draw(rt, "whose interval")).ResetInterval
				if rapid.Bool().Draw(rt, "lease") {
					interval = r.leaseOf()
				}
				if rapid.IntRange(0, 9).Draw(rt, "day") == 0 {
					interval = day
					if lua.slack > 0 { // a server does not come to a moment exactly
						interval += 7 * time.Minute
					}
				}
				d := drawPause(rt, interval)
				pass(d)
			},
		})
	})
}

const (
	day = 24 * time.Hour

	// shortestLease is the longest that does not depend on how long documents take,
	// about which a server's clock and a model's do not agree.
	shortestLease = 3 * time.Minute
)

func drawRule(rt *rapid.T, shortest, longest, longestLease time.Duration) rule {
	milliseconds := func(label string) time.Duration {
		return time.Duration(rapid.Int64Range(int64(shortest/ms), int64(longest/ms)).Draw(rt, label)) * ms
	}
	policy := func(label string, most int) priority.Policy {
		p := priority.Policy{ResetInterval: milliseconds(label + " interval"), ResetMode: rapid.SampledFrom(bothModes).Draw(rt, label+" mode")}
		if most < 8 || rapid.Bool().Draw(rt, label+" has thresholds") {
			p.Thresholds = rapid.SliceOfNDistinct(rapid.Int64Range(-30, 3), 0, most, rapid.ID).Draw(rt, label+" thresholds")
			slices.Sort(p.Thresholds)
			slices.Reverse(p.Thresholds)
		}
		if rapid.Bool().Draw(rt, label+" has loads") {
			// Halves, which no load is by chance that has faded a little on its way to a server.
			for _, load := range rapid.SliceOfNDistinct(rapid.IntRange(0, 600), 0, most, rapid.ID).Draw(rt, label+" loads") {
				p.Loads = append(p.Loads, float64(load)+.5)
			}
			slices.Sort(p.Loads)
		}
		p.Turns = rapid.IntRange(0, max(0, most+1-int(p.Last()))).Draw(rt, label+" turns")
		return p
	}
	lease := time.Duration(rapid.Int64Range(int64(min(shortest, shortestLease)/ms), int64(longestLease/ms)).Draw(rt, "lease")) * ms
	r := rule{policy: policy("policy", 12), lease: lease}
	if rapid.Bool().Draw(rt, "has tiers") { // none of them with more levels
		most := int(r.policy.Last()) - 1
		r.tiers = map[string]priority.Policy{"1": policy("tier 1", min(most, 7)), "2": policy("tier 2", min(most, 7))}
		r.tierOf = func(customer string) string { return fmt.Sprint(len(customer) % 4) }
	}
	return r
}

// drawCustomers returns one to four different customers, some of whom differ in
// little.
func drawCustomers(rt *rapid.T) []string {
	character := rapid.OneOf(rapid.SampledFrom([]byte("{}%7D25:\x00\n ")), rapid.Byte())
	customer := rapid.OneOf(
		rapid.SampledFrom(oddCustomers),
		rapid.Map(rapid.SliceOfN(character, 1, 6), func(b []byte) string { return string(b) }),
	)
	return rapid.SliceOfNDistinct(customer, 1, 4, rapid.ID).Draw(rt, "customers")
}

// drawPause returns a pause that is often as long as an interval, or as long but
// for a millisecond.
func drawPause(rt *rapid.T, interval time.Duration) time.Duration {
	return rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, ms, interval - ms, interval, interval + ms, 2*interval + ms}),
		rapid.Map(rapid.Int64Range(0, int64(interval/ms)), func(n int64) time.Duration { return time.Duration(n) * ms }),
	).Draw(rt, "pause")
}

// A DoneN of more documents than one command takes ends them, and learns from them, as the
// one command of a memory.Store does.
func TestDoneNOfManyCommandsIsAsInMemory(t *testing.T) {
	for seed := range uint64(10) {
		bubble.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 0))
			stores := []priority.Store{openStore(t, newBubbleRedis(t).Client(nil), nil), must(memory.New(nil))(t)}
			each := func(do func(s priority.Store) error) {
				for _, s := range stores {
					if err := do(s); err != nil {
						t.Fatal(err)
					}
				}
			}
			ids := documentIDs("d", 250+chance.IntN(600))
			for _, customer := range []string{"teacher", "acme"} { // the mean is known from the teacher's
				for batch := range slices.Chunk(ids, 50) {
					each(func(s priority.Store) error { _, err := s.SubmitN(t.Context(), customer, batch, nil); return err })
					time.Sleep(time.Duration(chance.IntN(20_000)) * time.Millisecond)
				}
				done, took := append(slices.Clone(ids), ids[:100]...), time.Duration(chance.IntN(1000))*time.Second
				chance.Shuffle(len(done), func(i, j int) { done[i], done[j] = done[j], done[i] })
				var reports [2][]priority.Ended
				for i, s := range stores {
					ctx := priority.WithEnded(t.Context(), func(e priority.Ended) { reports[i] = append(reports[i], e) })
					if err := s.DoneN(ctx, customer, done, took); err != nil {
						t.Fatal(err)
					}
				}
				if !slices.Equal(reports[0], reports[1]) || len(reports[0]) != len(ids) {
					t.Errorf("seed %d: of %d documents Redis reports %d ended, memory %d, or others", seed, len(ids), len(reports[0]), len(reports[1]))
				}
				redis, inMemory := must(stores[0].Peek(t.Context(), customer))(t), must(stores[1].Peek(t.Context(), customer))(t)
				if redis != inMemory {
					t.Errorf("seed %d: Redis has %+v, memory %+v", seed, redis, inMemory)
				}
			}
		})
	}
}
