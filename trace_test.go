//go:build !race

package priority_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/internal/trace"
)

// With the race detector this takes more than a minute, and it has nothing to
// find: all is done one after another.

// documents returns the first documents of the trace.
func documents(t *testing.T) []trace.Document {
	t.Helper()
	name := os.Getenv("PRIORITY_TRACE")
	if name == "" {
		redistest.Skip(t, "PRIORITY_TRACE has to name a file of submitted_ms,customer,service_ms")
	}
	var all []trace.Document
	for document, err := range trace.Open(name, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 8000 { // with miniredis all of a day takes half a minute
			break
		}
		if document.Service == trace.Unknown {
			document.Service = time.Minute
		}
		document.Service = min(document.Service, time.Minute)
		all = append(all, document)
	}
	return all
}

// recorded is what happens to a document: it is submitted, or done.
type recorded struct {
	at                 time.Duration
	customer, document string
	cost               float64 // of every other document
	done               bool
}

// events are documents that are done as soon as their service is over, in the order
// of time.
func events(documents []trace.Document) []recorded {
	var all []recorded
	for _, document := range documents {
		submitted := recorded{at: document.Submitted, customer: document.Customer, document: fmt.Sprint(document.Line)}
		if document.Line%2 == 0 {
			submitted.cost = document.Service.Seconds()
		}
		done := submitted
		done.at, done.done = submitted.at+document.Service, true
		all = append(all, submitted, done)
	}
	slices.SortStableFunc(all, func(a, b recorded) int { return cmp.Compare(a.at, b.at) })
	return all
}

// TestRedisDecidesAboutARealTraceAsMemoryDoes replays real submissions, by both rules.
func TestRedisDecidesAboutARealTraceAsMemoryDoes(t *testing.T) {
	t.Parallel()
	for mode, lease := range map[priority.ResetMode]time.Duration{
		priority.SinceLastUpdate: lease,
		priority.SinceLastReset:  30 * time.Second, // sometimes shorter than the service
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			replay(t, rule{policy: priority.Policy{ResetMode: mode}, lease: lease})
		})
	}
}

func replay(t *testing.T, r rule) {
	t.Helper()
	ctx, all := t.Context(), events(documents(t))
	open := onMiniredis(t, miniredis.RunT(t))
	submits, nexts := open(t, r), open(t, r).Store // with a prefix each and one clock
	model, modelNexts := openMemory(t, r), openMemory(t, r)
	var now time.Duration
	submissions, begun, most := 0, 0, int64(0)
	for i, event := range all {
		if pause := event.at - now; pause > 0 {
			now = event.at
			for _, w := range []*world{submits, model, modelNexts} {
				w.wait(pause)
			}
		}
		if event.done {
			took := time.Duration(event.cost * float64(time.Second))
			if err := errors.Join(submits.Done(ctx, event.customer, event.document, took), model.Done(ctx, event.customer, event.document, took)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		submissions++
		got := must(submits.Submit(ctx, event.customer, event.document, event.cost))(t)
		want := must(model.Submit(ctx, event.customer, event.document, event.cost))(t)
		ruled := must(nexts.Next(ctx, event.customer))(t)
		wantRuled := must(modelNexts.Next(ctx, event.customer))(t)
		if got != want || ruled != wantRuled {
			t.Fatalf("event %d, %+v: Redis decides %+v and %+v, memory %+v and %+v", i, event, got, ruled, want, wantRuled)
		}
		if ruled.Count == 0 {
			begun++
		}
		most = max(most, got.Pending)
	}
	t.Logf("%d submissions, %d of them began a count; at most %d pending", submissions, begun, most)
}
