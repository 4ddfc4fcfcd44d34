package priority_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

// toldTracker is a MemoryTracker that fails as it is told: before it does
// something, or after.
type toldTracker struct {
	priority.MemoryTracker
	before, after error
	calls         int
}

func (t *toldTracker) SubmitN(ctx context.Context, customer string, documents []string) ([]priority.Decision, error) {
	t.calls++
	if t.before != nil {
		return nil, t.before
	}
	decisions, err := t.MemoryTracker.SubmitN(ctx, customer, documents)
	return decisions, errors.Join(err, t.after)
}

func (t *toldTracker) DoneN(ctx context.Context, customer string, documents []string) error {
	t.calls++
	if t.before != nil {
		return t.before
	}
	return errors.Join(t.MemoryTracker.DoneN(ctx, customer, documents), t.after)
}

func (t *toldTracker) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	if t.before != nil {
		return priority.Decision{}, t.before
	}
	return t.MemoryTracker.Peek(ctx, customer)
}

func (t *toldTracker) Reset(ctx context.Context, customer string) error {
	if t.before != nil {
		return t.before
	}
	return t.MemoryTracker.Reset(ctx, customer)
}

var (
	errTrackerAway = fmt.Errorf("%w: away", priority.ErrNotCounted)
	errTrackerLost = fmt.Errorf("%w: lost", priority.ErrOutcomeUnknown)
)

// wantTracked fails the test unless a tracker has this count and so many pending
// documents.
func wantTracked(t *testing.T, tracker priority.Tracker, count, pending int64) {
	t.Helper()
	got, err := tracker.Peek(t.Context(), "acme")
	if err != nil || got.Count != count || got.Pending != pending {
		t.Errorf("Peek = %+v, %v, want count %d and %d pending", got, err, count, pending)
	}
}

func submitTo(t *testing.T, tracker priority.Tracker, document string, degraded bool) {
	t.Helper()
	got, err := tracker.Submit(t.Context(), "acme", document)
	if err != nil || got.Degraded != degraded || got.Level == 0 {
		t.Errorf("Submit(%s) = %+v, %v, want degraded %t", document, got, err, degraded)
	}
}

func doneIn(t *testing.T, tracker priority.Tracker, documents ...string) {
	t.Helper()
	if err := tracker.DoneN(t.Context(), "acme", documents); err != nil {
		t.Errorf("DoneN(%q) = %v", documents, err)
	}
}

// What was submitted and done while the primary was away is so in the primary
// after the customer's next document.
func TestTrackerFallbackPaysItsDebts(t *testing.T) {
	primary := new(toldTracker)
	fallback := priority.NewTrackerFallback(primary, nil, nil)
	submitTo(t, fallback, "before", false)
	primary.before = errTrackerAway
	submitTo(t, fallback, "a", true)
	submitTo(t, fallback, "b", true)
	submitTo(t, fallback, "b", true) // delivered again
	doneIn(t, fallback, "a", "before")
	primary.before = nil
	wantTracked(t, primary, 0, 1)
	doneIn(t, fallback, "unknown") // pays nothing
	submitTo(t, fallback, "c", false)
	wantTracked(t, primary, -3, 2) // before, a, b, c; b and c are pending
	submitTo(t, fallback, "d", false)
	wantTracked(t, primary, -4, 3)
}

// A document that is done once the primary is back, but before it is submitted
// there, is counted and not pending.
func TestTrackerFallbackDoneOfADebt(t *testing.T) {
	primary := new(toldTracker)
	fallback := priority.NewTrackerFallback(primary, nil, nil)
	primary.before = errTrackerAway
	submitTo(t, fallback, "a", true)
	primary.before = nil
	doneIn(t, fallback, "a")
	submitTo(t, fallback, "b", false)
	wantTracked(t, primary, -1, 1)
}

// What may have been counted is not submitted again: it may be done by then, and
// would be counted twice.
func TestTrackerFallbackUnknownOutcome(t *testing.T) {
	primary := new(toldTracker)
	fallback := priority.NewTrackerFallback(primary, nil, nil)
	primary.after = errTrackerLost
	submitTo(t, fallback, "a", true)
	primary.after = nil
	doneIn(t, fallback, "a")
	submitTo(t, fallback, "b", false)
	wantTracked(t, primary, -1, 1)
}

// A debt that could not be paid is paid later.
func TestTrackerFallbackDebtIsKept(t *testing.T) {
	primary := new(toldTracker)
	fallback := priority.NewTrackerFallback(primary, nil, &priority.FallbackOptions{MaxFailures: 100})
	primary.before = errTrackerAway
	for i := range 5 {
		submitTo(t, fallback, fmt.Sprint(i), true)
	}
	doneIn(t, fallback, "0", "1")
	primary.before = nil
	submitTo(t, fallback, "5", false)
	wantTracked(t, primary, -5, 4)
}

func TestTrackerFallbackReset(t *testing.T) {
	primary := new(toldTracker)
	fallback := priority.NewTrackerFallback(primary, nil, nil)
	primary.before = errTrackerAway
	submitTo(t, fallback, "a", true)
	if err := fallback.Reset(t.Context(), "acme"); !errors.Is(err, priority.ErrNotCounted) {
		t.Errorf("Reset = %v, though the primary's count stands", err)
	}
	wantTracked(t, fallback, 0, 0)
	primary.before = nil
	submitTo(t, fallback, "b", false)
	wantTracked(t, primary, 0, 1)
}

// The primary is left alone after failures in a row, and a wrong call is an error.
func TestTrackerFallbackErrors(t *testing.T) {
	primary := new(toldTracker)
	var told []error
	fallback := priority.NewTrackerFallback(primary, nil, &priority.FallbackOptions{
		MaxFailures: 3, OnError: func(err error) { told = append(told, err) },
	})
	primary.before = errTrackerAway
	for i := range 10 {
		submitTo(t, fallback, fmt.Sprint(i), true)
	}
	if primary.calls != 3 || len(told) != 3 || !fallback.Degraded() {
		t.Errorf("the primary was called %d times, and told %v; degraded: %t", primary.calls, told, fallback.Degraded())
	}
	if _, err := fallback.Submit(t.Context(), "", "a"); !errors.Is(err, priority.ErrInvalidCustomer) {
		t.Errorf("Submit without a customer: %v", err)
	}
	if _, err := fallback.Submit(t.Context(), "acme", ""); !errors.Is(err, priority.ErrInvalidDocument) {
		t.Errorf("Submit without a document: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fallback.Submit(canceled, "acme", "x"); !errors.Is(err, priority.ErrNotCounted) {
		t.Errorf("Submit that is canceled: %v", err)
	}
	if _, err := priority.NewTrackerFallback(nil, nil, nil).Submit(t.Context(), "acme", "x"); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("Submit without a primary: %v", err)
	}
}

// The secondary has the primary's policies.
func TestTrackerFallbackPolicies(t *testing.T) {
	nowhere := connect(t, "127.0.0.1:1")
	tracker, err := priority.NewRedisTracker(nowhere, &priority.RedisOptions{
		Policy: priority.Policy{Thresholds: []int64{0}}, Timeout: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	fallback := priority.NewTrackerFallback(tracker, nil, nil)
	for i, want := range []priority.Level{1, 2} {
		got, err := fallback.Submit(t.Context(), "acme", fmt.Sprint(i))
		if err != nil || got.Level != want || !got.Degraded {
			t.Errorf("document %d: %+v, %v, want level %d", i, got, err, want)
		}
	}
}
