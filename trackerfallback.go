package priority

import "context"

// TrackerFallback is a [Tracker] that answers when the fleet's counts cannot be
// reached, as [Fallback] does for a Store: from a secondary tracker, with
// [Decision.Degraded] set and no error.
//
// What the primary surely did not do is owed to it: the documents are submitted
// there, and those that were done meanwhile are done there, together with the same
// customer's next Submit after the primary is back, unless the count has been
// reset by then. What has an unknown outcome is not owed. Up to 100,000 documents
// are remembered, in memory: those of a worker that ends are lost.
//
// A call that is wrong stays an error ([ErrInvalid]), and so do a canceled
// context and a Reset that the primary did not do. It is safe for concurrent use.
type TrackerFallback struct {
	primary, secondary Tracker
	guard              *guard
	debts              documentDebts
}

var _ Tracker = (*TrackerFallback)(nil)

// NewTrackerFallback returns a TrackerFallback. A nil secondary is a
// [MemoryTracker], with the primary's policies where the primary has a PolicyOf,
// as the trackers of this package have, and with the default policy otherwise: it
// is fair within one process. Nil opts are the defaults.
func NewTrackerFallback(primary, secondary Tracker, opts *FallbackOptions) *TrackerFallback {
	if opts == nil {
		opts = &FallbackOptions{}
	}
	policyOf := policyOf(primary)
	if secondary == nil {
		memory := new(MemoryTracker)
		memory.counts.policyOf = policyOf
		secondary = memory
	}
	return &TrackerFallback{
		primary:   primary,
		secondary: secondary,
		guard:     newGuard(primary == nil, opts),
		debts:     documentDebts{policyOf: policyOf},
	}
}

// Degraded reports whether the primary is being left alone.
func (f *TrackerFallback) Degraded() bool { return f.guard.degraded() }

// Submit implements [Tracker].
func (f *TrackerFallback) Submit(ctx context.Context, customer, document string) (Decision, error) {
	decisions, err := f.SubmitN(ctx, customer, []string{document})
	if err != nil {
		return Decision{}, only(err)
	}
	return decisions[0], nil
}

// SubmitN implements [Tracker]. The secondary answers for the documents that the
// primary did not count.
func (f *TrackerFallback) SubmitN(ctx context.Context, customer string, documents []string) ([]Decision, error) {
	if err := checkSubmitted(customer, documents...); err != nil || len(documents) == 0 {
		return nil, err
	}
	decisions, errs := make([]Decision, len(documents)), make([]error, len(documents))
	cause := f.guard.try(func() error { return f.submit(ctx, customer, documents, decisions, errs) })
	if cause == nil {
		return decisions, nil
	}
	var failed []int
	var failedDocuments []string
	for at := range documents {
		if errs[at] == nil && decisions[at].Level == 0 { // the primary was not asked
			errs[at] = cause
		}
		if errs[at] != nil {
			failed = append(failed, at)
			failedDocuments = append(failedDocuments, documents[at])
		}
	}
	if !f.guard.answers(ctx, cause) {
		return decisions, &BatchError{Errs: errs}
	}
	answers, err := f.secondary.SubmitN(pastDeadline(ctx), customer, failedDocuments)
	if err != nil {
		for _, at := range failed {
			errs[at] = bothFailed(errs[at], err)
		}
		return decisions, &BatchError{Errs: errs}
	}
	for i, at := range failed {
		f.debts.submitted(customer, documents[at], errs[at])
		decisions[at] = answers[i]
		decisions[at].Degraded = true
	}
	return decisions, nil
}

// submit has the primary count the documents, and what is owed to it before.
func (f *TrackerFallback) submit(ctx context.Context, customer string, documents []string, decisions []Decision, errs []error) error {
	owed := f.debts.take(customer, MaxDocuments-len(documents))
	answers, err := f.primary.SubmitN(ctx, customer, append(owed.submitted, documents...))
	failures := eachError(err, len(owed.submitted)+len(documents))
	for i, document := range owed.submitted {
		f.debts.submitted(customer, document, failures[i])
	}
	for at := range documents {
		i := len(owed.submitted) + at
		if errs[at] = failures[i]; errs[at] == nil {
			decisions[at] = answers[i]
		}
	}
	if len(owed.done) > 0 {
		failures := eachError(f.primary.DoneN(ctx, customer, owed.done), len(owed.done))
		for i, document := range owed.done {
			f.debts.done(customer, document, failures[i])
		}
	}
	return err
}

// Done implements [Tracker].
func (f *TrackerFallback) Done(ctx context.Context, customer, document string) error {
	return only(f.DoneN(ctx, customer, []string{document}))
}

// DoneN implements [Tracker]. What the primary did not take is owed to it and is
// no error.
func (f *TrackerFallback) DoneN(ctx context.Context, customer string, documents []string) error {
	if err := checkSubmitted(customer, documents...); err != nil || len(documents) == 0 {
		return err
	}
	err := f.guard.try(func() error { return f.primary.DoneN(ctx, customer, documents) })
	if err != nil && !f.guard.answers(ctx, err) {
		return err
	}
	failures := eachError(err, len(documents))
	for i, document := range documents {
		f.debts.done(customer, document, failures[i])
	}
	return f.secondary.DoneN(pastDeadline(ctx), customer, documents)
}

// Peek implements [Tracker].
func (f *TrackerFallback) Peek(ctx context.Context, customer string) (Decision, error) {
	return f.guard.peek(ctx, customer, f.primary, f.secondary)
}

// Reset implements [Tracker]. It returns the primary's error, for the fleet's
// count stands then; what this process counted and owes is forgotten anyway.
func (f *TrackerFallback) Reset(ctx context.Context, customer string) error {
	return f.guard.reset(ctx, customer, f.primary, f.secondary, f.debts.forget)
}

// PolicyOf returns the policy by which the primary decides for a customer, with
// every field filled in.
func (f *TrackerFallback) PolicyOf(customer string) Policy {
	return f.debts.policyOf(customer).filled()
}
