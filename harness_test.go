package priority_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// quiet is the default policy's reset interval, and lease the lease of the tests
// that do not choose one.
const (
	day   = 24 * time.Hour
	quiet = 1500 * time.Second
	lease = 900 * time.Second
)

// levels is the default policy's table written out: levels[n] is the level of
// count -n, and all counts below -30 have the level of -30.
var levels = []priority.Level{
	1, 1, 1, // 0, -1, -2
	2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, // -3 to -14
	8, 8, 8, 8, 8, 8, // -15 to -20
	9, 9, 9, 9, 9, 9, 9, 9, 9, 9, // -21 to -30
}

// counted is the default policy's decision at a count that is not above 0, with
// nothing pending.
func counted(count int64) priority.Decision {
	level := levels[min(-count, 30)]
	return priority.Decision{Level: level, RuleLevel: level, Count: count, ResetIn: quiet}
}

// pending is Submit's decision with some documents pending. Load is not compared here.
func pending(documents int64) priority.Decision { return priority.Decision{Pending: documents} }

// pendingEach is pending of n new documents, from a number of documents on.
func pendingEach(documents int64, n int) []priority.Decision {
	decisions := make([]priority.Decision, n)
	for i := range decisions {
		decisions[i] = pending(documents + int64(i))
	}
	return decisions
}

// flood is the decisions about n documents of a new customer, none of which is done: by
// the rule as the package's page has it, with the default policy.
func flood(n int) []priority.Decision {
	decisions := make([]priority.Decision, n)
	var beyond int64 // the last load
	for i := range decisions {
		recent, documents := int64(i+1), int64(i+1)
		decisions[i] = byLoad(float64(min(recent, 512)*(documents-beyond)), documents)
		if decisions[i].Level == 6 {
			beyond++
			for _, begins := range []int64{16, 256, 4096} {
				if beyond >= begins {
					decisions[i].Level++
				}
			}
		}
	}
	return decisions
}

// byLoad is the decision at a load by the default policy, without turns.
func byLoad(load float64, documents int64) priority.Decision {
	return priority.Decision{Level: priority.Policy{}.LevelOfLoad(load), Load: load, Pending: documents}
}

// countdown is the decisions of n documents from a count down.
func countdown(from int64, n int) []priority.Decision {
	decisions := make([]priority.Decision, n)
	for i := range decisions {
		decisions[i] = counted(from - int64(i))
	}
	return decisions
}

// documentIDs is the ids of n documents.
func documentIDs(name string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = name + " " + strconv.Itoa(i)
	}
	return ids
}

// customers is the names of n customers.
func customers(n int) []string { return documentIDs("customer", n) }

// rule is what the options of all stores have in common.
type rule struct {
	policy priority.Policy
	tiers  map[string]priority.Policy
	tierOf func(customer string) string
	lease  time.Duration // 0: lease

	overrides bool
}

func (r rule) leaseOf() time.Duration {
	if r.lease == 0 {
		return lease
	}
	return r.lease
}

// world is a store, and by how much times may be off in it.
type world struct {
	priority.Store
	slack time.Duration
}

// opener makes a store without counts.
type opener func(t *testing.T, r rule) *world

// agree reports whether two decisions are the same. If want has no level, any level and
// load will do; if it has no RuleLevel, that is the level.
func (w *world) agree(got, want priority.Decision) bool {
	want.RuleLevel = cmp.Or(want.RuleLevel, want.Level)
	if want.Level == 0 {
		got.Level, got.RuleLevel, got.Load = 0, 0, 0
	}
	isNear := w.near(got.ResetIn, want.ResetIn) && w.alike(got.Load, want.Load)
	got.ResetIn, got.Load = want.ResetIn, want.Load
	return isNear && got == want
}

// agreeOn is the same of two states.
func (w *world) agreeOn(got, want priority.State) bool {
	want.RuleLevel = cmp.Or(want.RuleLevel, want.NextLevel)
	isNear := w.alike(got.Load, want.Load) && w.alike(got.Recent, want.Recent) && w.near(got.ResetIn, want.ResetIn) &&
		w.near(got.Oldest, want.Oldest) && w.near(got.Latency, want.Latency)
	got.Load, got.Recent, got.ResetIn, got.Oldest, got.Latency = want.Load, want.Recent, want.ResetIn, want.Oldest, want.Latency
	return isNear && got == want
}

func (w *world) near(got, want time.Duration) bool { return (got - want).Abs() <= w.slack }

// alike reports whether two numbers that halve each day are the same, but for what the
// slack makes of them.
func (w *world) alike(got, want float64) bool {
	return math.Abs(got-want) <= want*w.slack.Hours()/24
}

func (w *world) agreeAll(got, want []priority.Decision) bool {
	return slices.EqualFunc(got, want, w.agree)
}

// The checks below fail the test unless a call works and answers as wanted.

func (w *world) next(t testing.TB, customer string, want priority.Decision) {
	t.Helper()
	got, err := w.Next(t.Context(), customer)
	w.decided(t, "Next of "+customer, got, err, want)
}

func (w *world) nextN(t testing.TB, customer string, n int, want ...priority.Decision) {
	t.Helper()
	got, err := w.NextN(t.Context(), customer, n)
	w.decidedAll(t, "NextN of "+customer, got, err, want)
}

func (w *world) nextEach(t testing.TB, customers []string, want ...priority.Decision) {
	t.Helper()
	got, err := w.NextEach(t.Context(), customers)
	w.decidedAll(t, "NextEach", got, err, want)
}

func (w *world) submit(t testing.TB, customer, document string, want priority.Decision) {
	t.Helper()
	got, err := w.Submit(t.Context(), customer, document, 0)
	w.decided(t, fmt.Sprintf("Submit of %s's %.40q", customer, document), got, err, want)
}

func (w *world) submitN(t testing.TB, customer string, documents []string, want ...priority.Decision) {
	t.Helper()
	got, err := w.SubmitN(t.Context(), customer, documents, nil)
	w.decidedAll(t, "SubmitN of "+customer, got, err, want)
}

func (w *world) peek(t testing.TB, customer string, want priority.State) {
	t.Helper()
	if got, err := w.Peek(t.Context(), customer); err != nil || !w.agreeOn(got, want) {
		t.Fatalf("Peek of %.60q:\n%+v, %v, want\n%+v", customer, got, err, want)
	}
}

// counts checks that Peek tells a count, whatever else it tells.
func (w *world) counts(t testing.TB, customer string, want priority.Decision) {
	t.Helper()
	got, err := w.Peek(t.Context(), customer)
	if err != nil || got.Count != want.Count || !w.near(got.ResetIn, want.ResetIn) {
		t.Fatalf("Peek of %.60q: %+v, %v, want %+v", customer, got, err, want)
	}
}

// pends checks that Peek tells how many documents are pending.
func (w *world) pends(t testing.TB, customer string, want int64) {
	t.Helper()
	got, err := w.Peek(t.Context(), customer)
	if err != nil || got.Rule != priority.ByLoad || got.Pending != want {
		t.Fatalf("Peek of %.60q: %+v, %v, want %d pending", customer, got, err, want)
	}
}

// unknown is the state of a customer of whom nothing is known.
var unknown = priority.State{NextLevel: priority.First}

func (w *world) done(t testing.TB, customer string, documents ...string) {
	t.Helper()
	for _, document := range documents {
		if _, err := w.Done(t.Context(), customer, document, time.Second); err != nil {
			t.Fatalf("Done(%.40q, %.40q) = %v", customer, document, err)
		}
	}
}

func (w *world) doneN(t testing.TB, customer string, documents ...string) {
	t.Helper()
	if _, err := w.DoneN(t.Context(), customer, documents, time.Second); err != nil {
		t.Fatalf("DoneN of %.40q = %v", customer, err)
	}
}

func (w *world) reset(t testing.TB, customer string) {
	t.Helper()
	if err := w.Reset(t.Context(), customer); err != nil {
		t.Fatalf("Reset(%.40q) = %v", customer, err)
	}
}

func (w *world) decided(t testing.TB, call string, got priority.Decision, err error, want priority.Decision) {
	t.Helper()
	if err != nil || !w.agree(got, want) {
		t.Fatalf("%.60q: %+v, %v, want %+v", call, got, err, want)
	}
}

func (w *world) decidedAll(t testing.TB, call string, got []priority.Decision, err error, want []priority.Decision) {
	t.Helper()
	if err != nil || !w.agreeAll(got, want) {
		t.Fatalf("%.60q: %.800s, %v, want %.800s", call, fmt.Sprint(got), err, fmt.Sprint(want))
	}
}

// countingCalls are the calls by the rule that count one customer, by name.
func countingCalls(t testing.TB, store priority.Store, customer string) map[string]func() error {
	return map[string]func() error{
		"Next":     func() error { _, err := store.Next(t.Context(), customer); return err },
		"NextN":    func() error { _, err := store.NextN(t.Context(), customer, 3); return err },
		"NextEach": func() error { _, err := store.NextEach(t.Context(), []string{customer}); return err },
	}
}

// documentCalls are the calls about one document, by name.
func documentCalls(t testing.TB, store priority.Store, customer, document string) map[string]func() error {
	documents := []string{document}
	return map[string]func() error{
		"Submit":  func() error { _, err := store.Submit(t.Context(), customer, document, 0); return err },
		"SubmitN": func() error { _, err := store.SubmitN(t.Context(), customer, documents, nil); return err },
		"Done":    func() error { _, err := store.Done(t.Context(), customer, document, 0); return err },
		"DoneN":   func() error { _, err := store.DoneN(t.Context(), customer, documents, 0); return err },
	}
}

// everyCall is all calls that can fail, by name.
func everyCall(t testing.TB, store priority.Store, customer, document string) map[string]func() error {
	calls := countingCalls(t, store, customer)
	for name, call := range documentCalls(t, store, customer, document) {
		calls[name] = call
	}
	calls["Peek"] = func() error { _, err := store.Peek(t.Context(), customer); return err }
	calls["Reset"] = func() error { return store.Reset(t.Context(), customer) }
	return calls
}

// must returns a value, or fails the test on its error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// wantClass fails the test unless an error is of one class and no other.
func wantClass(t testing.TB, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("error = %v, want one that wraps %q", err, class)
	}
	for _, other := range []error{priority.ErrInvalid, priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorrupt} {
		if errors.Is(err, other) && !errors.Is(class, other) {
			t.Errorf("error %v wraps %q too", err, other)
		}
	}
}

// wantInvalid fails the test unless an error is a wrong call's and shows the wrong value.
func wantInvalid(t testing.TB, err error, shown string) {
	t.Helper()
	wantClass(t, err, priority.ErrInvalid)
	if err != nil && (!strings.HasPrefix(err.Error(), "priority: ") || !strings.Contains(err.Error(), shown)) {
		t.Errorf("error = %q, want one that begins with the package's name and shows %q", err, shown)
	}
}

// wantCorrupt fails the test unless an error says that a key, which it names,
// holds something else.
func wantCorrupt(t testing.TB, err error, key string) {
	t.Helper()
	wantClass(t, err, priority.ErrCorrupt)
	if err != nil && !strings.Contains(err.Error(), key) {
		t.Errorf("error = %q, want the key %q in it", err, key)
	}
}

// wantBatchError fails the test unless an error is a *BatchError of n entries that
// has these errors and no others.
func wantBatchError(t testing.TB, err error, n int, want map[int]error) {
	t.Helper()
	var batch *priority.BatchError
	if !errors.As(err, &batch) || len(batch.Errs) != n {
		t.Fatalf("error = %#v, want a *BatchError of %d entries", err, n)
	}
	for i, err := range batch.Errs {
		if !errors.Is(err, want[i]) {
			t.Errorf("Errs[%d] = %v, want %v", i, err, want[i])
		}
	}
}

// wantTTL fails the test unless a key has a TTL, less what the test has taken.
func wantTTL(t testing.TB, client redis.Cmdable, key string, want time.Duration) {
	t.Helper()
	got := client.PTTL(t.Context(), key).Val()
	if got > want || got < want-serverSlack {
		t.Errorf("%q has the TTL %v, want %v", key, got, want)
	}
}
