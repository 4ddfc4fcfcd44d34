package priority_test

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
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

// recorded is what happens to a document of a trace: it is submitted, or done.
type recorded struct {
	at                 time.Duration
	customer, document string
	done               bool
}

// events are the documents of a recorded trace, in the order of time. A document
// is done when its service is over, after a minute at the most.
func events(t *testing.T, name string) []recorded {
	t.Helper()
	folder := os.Getenv("PRIORITY_TRACES")
	if folder == "" {
		folder = filepath.Join("..", "shared", "traces")
	}
	file, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		t.Skipf("%v: name the folder that has it in PRIORITY_TRACES", err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(unzipped).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	for i, row := range rows[1:] {
		milliseconds, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		service := time.Minute
		if ms, err := strconv.ParseInt(row[2], 10, 64); err == nil {
			service = min(service, time.Duration(ms)*time.Millisecond)
		}
		submitted := recorded{at: time.Duration(milliseconds) * time.Millisecond, customer: row[1], document: fmt.Sprint(i)}
		done := submitted
		done.at, done.done = submitted.at+service, true
		all = append(all, submitted, done)
	}
	slices.SortStableFunc(all, func(a, b recorded) int { return cmp.Compare(a.at, b.at) })
	return all
}

// TestRealTrace lets the trackers and stores on Redis decide about a day of real
// submissions as those in memory do, and alike about the rule's count.
func TestRealTrace(t *testing.T) {
	t.Parallel()
	for mode, lease := range map[priority.ResetMode]time.Duration{
		priority.SinceLastUpdate: lease,
		priority.SinceLastReset:  30 * time.Second, // sometimes shorter than the service
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			replay(t, leased{rule: rule{policy: priority.Policy{ResetMode: mode}}, lease: lease})
		})
	}
}

func replay(t *testing.T, l leased) {
	t.Helper()
	all := events(t, "google_borg_2011_day02.csv.gz")
	server := miniredis.RunT(t)
	lua, model := trackMiniredisOn(t, server)(t, l), trackMemory(t, l)
	luaStore, modelStore := newStore(t, connect(t, server.Addr()), l.rule), openMemory(t, l.rule)
	var now time.Duration
	submissions, begun, most := 0, 0, int64(0)
	for i, event := range all {
		if pause := event.at - now; pause > 0 {
			now = event.at
			lua.wait(pause)
			model.wait(pause)
			modelStore.wait(pause)
		}
		if event.done {
			if err := lua.Done(t.Context(), event.customer, event.document); err != nil {
				t.Fatal(err)
			}
			if err := model.Done(t.Context(), event.customer, event.document); err != nil {
				t.Fatal(err)
			}
			continue
		}
		submissions++
		got, err := lua.Submit(t.Context(), event.customer, event.document)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := model.Submit(t.Context(), event.customer, event.document)
		if got != want {
			t.Fatalf("event %d, %+v: the tracker on Redis decides %+v, in memory %+v", i, event, got, want)
		}
		gotByRule, err := luaStore.Next(t.Context(), event.customer)
		if err != nil {
			t.Fatal(err)
		}
		wantByRule, _ := modelStore.Next(t.Context(), event.customer)
		if gotByRule != wantByRule {
			t.Fatalf("event %d, %+v: the store on Redis decides %+v, in memory %+v", i, event, gotByRule, wantByRule)
		}
		if got.Count != gotByRule.Count || got.ResetIn != gotByRule.ResetIn {
			t.Fatalf("event %d, %+v: the tracker has %+v, the store %+v", i, event, got, gotByRule)
		}
		if got.Count == 0 {
			begun++
		}
		most = max(most, got.Pending)
	}
	t.Logf("%d submissions, %d of them began a count; at most %d pending", submissions, begun, most)
}
