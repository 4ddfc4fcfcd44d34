//go:build !race

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

	"github.com/docpriority/priority"
)

// With the race detector this takes more than a minute, and it has nothing to
// find: all is done one after another.

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
