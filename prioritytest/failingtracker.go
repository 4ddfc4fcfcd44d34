package prioritytest

import (
	"context"
	"slices"

	"github.com/docpriority/priority"
)

// FailingTracker is a [priority.Tracker] around a Tracker that fails as it is told
// to, as a [FailingStore] does. A call of many documents fails for all of them. It
// is safe for concurrent use.
type FailingTracker struct {
	tracker priority.Tracker
	faults  faults
}

var _ priority.Tracker = (*FailingTracker)(nil)

// NewFailingTracker returns a tracker that does not fail yet.
func NewFailingTracker(tracker priority.Tracker) *FailingTracker {
	return &FailingTracker{tracker: tracker}
}

// Fail makes calls fail from now on. Of several faults, a call meets the first
// that was told and is not over.
func (t *FailingTracker) Fail(fault Fault) { t.faults.add(fault) }

// Heal ends all faults.
func (t *FailingTracker) Heal() { t.faults.heal() }

// Submit implements [priority.Tracker].
func (t *FailingTracker) Submit(ctx context.Context, customer, document string) (priority.Decision, error) {
	fault := t.take(ctx, Submit, customer, document)
	if fault == nil {
		return t.tracker.Submit(ctx, customer, document)
	}
	if fault.Counted {
		_, _ = t.tracker.Submit(ctx, customer, document)
	}
	return priority.Decision{}, fault.failed(Submit, customer)
}

// SubmitN implements [priority.Tracker]. Its error is a [*priority.BatchError].
func (t *FailingTracker) SubmitN(ctx context.Context, customer string, documents []string) ([]priority.Decision, error) {
	fault := t.take(ctx, SubmitN, customer, documents...)
	if fault == nil {
		return t.tracker.SubmitN(ctx, customer, documents)
	}
	if fault.Counted {
		_, _ = t.tracker.SubmitN(ctx, customer, documents)
	}
	return make([]priority.Decision, len(documents)), fault.failedEach(SubmitN, customer, len(documents))
}

// Done implements [priority.Tracker].
func (t *FailingTracker) Done(ctx context.Context, customer, document string) error {
	fault := t.take(ctx, Done, customer, document)
	if fault == nil {
		return t.tracker.Done(ctx, customer, document)
	}
	if fault.Counted {
		_ = t.tracker.Done(ctx, customer, document)
	}
	return fault.failed(Done, customer)
}

// DoneN implements [priority.Tracker]. Its error is a [*priority.BatchError].
func (t *FailingTracker) DoneN(ctx context.Context, customer string, documents []string) error {
	fault := t.take(ctx, DoneN, customer, documents...)
	if fault == nil {
		return t.tracker.DoneN(ctx, customer, documents)
	}
	if fault.Counted {
		_ = t.tracker.DoneN(ctx, customer, documents)
	}
	return fault.failedEach(DoneN, customer, len(documents))
}

// Peek implements [priority.Tracker].
func (t *FailingTracker) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	if fault := t.faults.take(ctx, Peek, customer); fault != nil {
		return priority.Decision{}, fault.failed(Peek, customer)
	}
	return t.tracker.Peek(ctx, customer)
}

// Reset implements [priority.Tracker].
func (t *FailingTracker) Reset(ctx context.Context, customer string) error {
	fault := t.faults.take(ctx, Reset, customer)
	if fault == nil {
		return t.tracker.Reset(ctx, customer)
	}
	if fault.Counted {
		_ = t.tracker.Reset(ctx, customer)
	}
	return fault.failed(Reset, customer)
}

// PolicyOf returns the policy by which the tracker decides for a customer, with
// every field filled in.
func (t *FailingTracker) PolicyOf(customer string) priority.Policy {
	return policyOf(t.tracker, customer)
}

// take returns the fault that a call meets; nil if it meets none.
func (t *FailingTracker) take(ctx context.Context, operation Operation, customer string, documents ...string) *Fault {
	if n := len(documents); n == 0 || n > priority.MaxDocuments || slices.ContainsFunc(documents, func(document string) bool {
		return document == "" || len(document) > priority.MaxDocumentBytes
	}) {
		return nil // nothing would be sent
	}
	return t.faults.take(ctx, operation, customer)
}

// failedEach is the error that a Redis tracker would return for n documents.
func (f *Fault) failedEach(operation Operation, customer string, n int) error {
	return &priority.BatchError{Errs: slices.Repeat([]error{f.failed(operation, customer)}, n)}
}
