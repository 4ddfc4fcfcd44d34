package priority_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// TestSameTrackerDecisions makes random sequences of calls and pauses, and
// compares what the scripts in Redis and the model in Go decide.
func TestSameTrackerDecisions(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		testSameTrackerDecisions(t, trackMiniredis(t), time.Millisecond, quiet)
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		client := redistest.Start(t).Client()
		// Nothing may expire by itself.
		testSameTrackerDecisions(t, trackServer(client, client), time.Hour, 1000*time.Hour)
	})
}

func testSameTrackerDecisions(t *testing.T, open trackerOpener, shortest, longest time.Duration) {
	rapid.Check(t, func(rt *rapid.T) {
		l := leased{rule: drawRule(rt, shortest, longest), lease: drawMilliseconds(rt, shortest, longest, "lease")}
		customers := drawCustomers(rt)
		lua, model := open(t, l), trackMemory(t, l)
		customer := rapid.SampledFrom(customers)
		document := rapid.OneOf(rapid.SampledFrom(oddDocuments[:5]), rapid.SampledFrom(documentIDs("id", 20)))
		// Batches may be longer than what one call of a script takes.
		batch := rapid.OneOf(
			rapid.SliceOfN(document, 0, 12),
			rapid.Map(rapid.IntRange(1, 260), func(n int) []string { return documentIDs("id", n) }),
		)
		same := func(got, want []priority.Decision, gotErr, wantErr error) {
			rt.Helper()
			if gotErr != nil || wantErr != nil || !lua.agreeAll(got, want) {
				rt.Fatalf("Lua decides %+v, %v\nGo decides  %+v, %v", got, gotErr, want, wantErr)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"submit": func(rt *rapid.T) {
				c, d := customer.Draw(rt, "customer"), document.Draw(rt, "document")
				got, gotErr := lua.Submit(t.Context(), c, d)
				want, wantErr := model.Submit(t.Context(), c, d)
				same([]priority.Decision{got}, []priority.Decision{want}, gotErr, wantErr)
			},
			"submit n": func(rt *rapid.T) {
				c, ds := customer.Draw(rt, "customer"), batch.Draw(rt, "documents")
				got, gotErr := lua.SubmitN(t.Context(), c, ds)
				want, wantErr := model.SubmitN(t.Context(), c, ds)
				same(got, want, gotErr, wantErr)
			},
			"done": func(rt *rapid.T) {
				c, d := customer.Draw(rt, "customer"), document.Draw(rt, "document")
				same(nil, nil, lua.Done(t.Context(), c, d), model.Done(t.Context(), c, d))
			},
			"done n": func(rt *rapid.T) {
				c, ds := customer.Draw(rt, "customer"), batch.Draw(rt, "documents")
				same(nil, nil, lua.DoneN(t.Context(), c, ds), model.DoneN(t.Context(), c, ds))
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
				interval := rapid.SampledFrom([]time.Duration{l.lease, l.intervalOf(customers[0])}).Draw(rt, "interval")
				d := drawPause(rt, interval)
				lua.wait(d)
				model.wait(d)
			},
		})
	})
}
