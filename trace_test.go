//go:build !race

package priority_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/trace"
)

// With the race detector this takes more than a minute, and it has nothing to
// find: all is done one after another.

// wholeWeekVariable has all documents of a week replayed:
//
//	PRIORITY_WHOLE_WEEK=1 go test -timeout 20m -run RealWeek -v .
const wholeWeekVariable = "PRIORITY_WHOLE_WEEK"

// documents are those of a recorded trace. Where it is not there, they are made up.
func documents(t *testing.T, name string) []trace.Document {
	t.Helper()
	folder := cmp.Or(os.Getenv("PRIORITY_TRACES"), filepath.Join("..", "shared", "traces"))
	file, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		t.Logf("made-up documents, for %v: PRIORITY_TRACES names the folder that has it", err)
		return madeUp()
	}
	defer file.Close()
	var all []trace.Document
	for document, err := range trace.Read(name, file) {
		if err != nil {
			t.Fatal(err)
		}
		if document.Service == trace.Unknown {
			document.Service = time.Minute
		}
		document.Service = min(document.Service, time.Minute)
		all = append(all, document)
	}
	return all
}

// madeUp returns the documents of a day: of customers who send more or less, with
// pauses, and of some who send many at once.
func madeUp() []trace.Document {
	random := rand.New(rand.NewPCG(1, 2))
	var all []trace.Document
	for at := time.Duration(0); at < 24*time.Hour; at += time.Duration(random.ExpFloat64() * float64(20*time.Second)).Truncate(time.Millisecond) {
		customer, n := int(30*random.Float64()*random.Float64()), 1
		if random.IntN(500) == 0 {
			n = 400
		}
		for range n {
			service := time.Duration(1+random.IntN(60_000)) * time.Millisecond
			all = append(all, trace.Document{Customer: strconv.Itoa(customer), Submitted: at, Service: service, Line: len(all)})
		}
	}
	return all
}

// recorded is what happens to a document: it is submitted, or done.
type recorded struct {
	at                 time.Duration
	customer, document string
	done               bool
}

// events are documents that are done as soon as their service is over, in the order
// of time.
func events(documents []trace.Document) []recorded {
	var all []recorded
	for _, document := range documents {
		submitted := recorded{document.Submitted, document.Customer, fmt.Sprint(document.Line), false}
		done := submitted
		done.at, done.done = submitted.at+document.Service, true
		all = append(all, submitted, done)
	}
	slices.SortStableFunc(all, func(a, b recorded) int { return cmp.Compare(a.at, b.at) })
	return all
}

// TestRedisDecidesAboutARealDayAsMemoryDoes replays a day of real submissions, by
// both ways of counting, which also agree about the count.
func TestRedisDecidesAboutARealDayAsMemoryDoes(t *testing.T) {
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
	ctx, all := t.Context(), events(documents(t, "google_borg_2011_day02.csv.gz"))
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
			submits.done(t, event.customer, event.document)
			model.done(t, event.customer, event.document)
			continue
		}
		submissions++
		got := must(submits.Submit(ctx, event.customer, event.document))(t)
		want := must(model.Submit(ctx, event.customer, event.document))(t)
		ruled := must(nexts.Next(ctx, event.customer))(t)
		wantRuled := must(modelNexts.Next(ctx, event.customer))(t)
		if got != want || ruled != wantRuled || got.Count != ruled.Count || got.ResetIn != ruled.ResetIn {
			t.Fatalf("event %d, %+v: Redis decides %+v and %+v, memory %+v and %+v", i, event, got, ruled, want, wantRuled)
		}
		if got.Count == 0 {
			begun++
		}
		most = max(most, got.Pending)
	}
	t.Logf("%d submissions, %d of them began a count; at most %d pending", submissions, begun, most)
}

// TestRedisDecidesAboutARealWeekAsMemoryDoes has the documents of seven days wait for
// 12 servers, which take those of the first level first: so what is decided about one
// changes how long others wait, and what they count. The whole week takes minutes, and
// is replayed where wholeWeekVariable is set; else its first 20,000 documents are.
func TestRedisDecidesAboutARealWeekAsMemoryDoes(t *testing.T) {
	t.Parallel()
	const servers = 12
	ctx, all := t.Context(), documents(t, "google_borg_2011_d01-07.csv.gz")
	if os.Getenv(wholeWeekVariable) == "" {
		all = all[:min(20_000, len(all))]
	}
	store, model := onMiniredis(t, miniredis.RunT(t))(t, rule{}), openMemory(t, rule{})
	var now time.Duration
	pass := func(to time.Duration) {
		if to > now {
			store.wait(to - now)
			model.wait(to - now)
			now = to
		}
	}
	var waiting [10][]trace.Document // by level
	var served []trace.Document      // by when it ends, which is in Submitted
	var levels [10]int
	for len(all) > 0 || len(served) > 0 {
		if len(served) > 0 && (len(all) == 0 || served[0].Submitted <= all[0].Submitted) {
			document := served[0]
			served = served[1:]
			pass(document.Submitted)
			for _, w := range []*world{store, model} {
				if err := w.Done(ctx, document.Customer, fmt.Sprint(document.Line), document.Service); err != nil {
					t.Fatal(err)
				}
			}
		} else {
			document := all[0]
			all = all[1:]
			pass(document.Submitted)
			got := must(store.Submit(ctx, document.Customer, fmt.Sprint(document.Line)))(t)
			if want := must(model.Submit(ctx, document.Customer, fmt.Sprint(document.Line)))(t); got != want {
				t.Fatalf("%+v: Redis decides %+v, memory %+v", document, got, want)
			}
			waiting[got.Level] = append(waiting[got.Level], document)
			levels[got.Level]++
		}
		for level := 1; level < len(waiting); {
			if len(served) == servers || len(waiting[level]) == 0 {
				level++
				continue
			}
			document := waiting[level][0]
			waiting[level] = waiting[level][1:]
			document.Submitted = now + document.Service
			at, _ := slices.BinarySearchFunc(served, document, func(a, b trace.Document) int { return cmp.Compare(a.Submitted, b.Submitted) })
			served = slices.Insert(served, at, document)
		}
	}
	t.Logf("documents by level: %v", levels[1:])
}
