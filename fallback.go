package priority

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// FallbackOptions configures a [Fallback] or a [TrackerFallback]. The zero value
// works.
type FallbackOptions struct {
	// MaxFailures is how many failures of the primary in a row, of all callers
	// together, make the Fallback leave it alone. Default (0 or less): 10.
	MaxFailures int

	// RetryAfter is how long the primary is left alone before one call tries it
	// again. Default (0 or less): 500 ms.
	RetryAfter time.Duration

	// OnChange is told when the primary is left alone (true, and its last error)
	// and when it answers again (false, nil). It must return soon and may not
	// use the Fallback. Default: nobody is told.
	OnChange func(degraded bool, cause error)

	// OnError is told each error of the primary that the caller is not told
	// because the secondary answered. It must be safe for concurrent use.
	// Default: nobody is told.
	OnError func(err error)

	// Logger is told what OnChange is told: a warning, with the last error as its
	// "cause", when the primary is left alone, and an info when it answers again.
	// Calls wait for it while it writes. Default: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultMaxFailures = 10
	defaultRetryAfter  = 500 * time.Millisecond

	// mostOwedEach is how many documents owed for one customer a NextEach counts,
	// where each is an entry. What is more stays owed.
	mostOwedEach = 1000
)

// Fallback is a [Store] that answers when the fleet's counts cannot be reached:
// from a secondary store, with [Decision.Degraded] set and no error.
//
// A call of the primary that fails costs what the primary's timeout is. After
// some failures in a row a circuit breaker leaves the primary alone, so that
// calls cost nothing, and lets one call try it now and then.
//
// Documents that the primary surely did not count are owed to it: they are
// counted there together with the same customer's next document after the
// primary is back, unless the count has been reset in the meantime. Documents
// of unknown outcome are not owed, for they may have been counted. Debts of up
// to 100,000 customers are kept, in memory: those of a worker that ends are lost.
//
// A call that is wrong stays an error ([ErrInvalid]), and so do a canceled
// context and a Reset that the primary did not do. It is safe for concurrent use.
type Fallback struct {
	primary, secondary Store
	guard              *guard
	debts              debts
}

var _ Store = (*Fallback)(nil)

// NewFallback returns a Fallback. A nil secondary is a [MemoryStore], with the
// primary's policies where the primary has a PolicyOf, as the stores of this
// package have, and with the default policy otherwise: it is fair within one
// process. Nil opts are the defaults.
func NewFallback(primary, secondary Store, opts *FallbackOptions) *Fallback {
	if opts == nil {
		opts = &FallbackOptions{}
	}
	policyOf := policyOf(primary)
	if secondary == nil {
		secondary = &MemoryStore{policyOf: policyOf}
	}
	return &Fallback{
		primary:   primary,
		secondary: secondary,
		guard:     newGuard(primary == nil, opts),
		debts:     debts{policyOf: policyOf},
	}
}

// Degraded reports whether the primary is being left alone.
func (f *Fallback) Degraded() bool {
	return f.guard.degraded()
}

// Next implements [Store].
func (f *Fallback) Next(ctx context.Context, customer string) (Decision, error) {
	if err := checkCustomer(customer); err != nil {
		return Decision{}, err
	}
	var decision Decision
	cause := f.guard.try(func() (err error) {
		owed := f.debts.take(customer, MaxDocuments-1)
		if owed == 0 {
			decision, err = f.primary.Next(ctx, customer)
			return err
		}
		decisions, err := f.primary.NextN(ctx, customer, owed+1)
		if err != nil {
			f.debts.owe(customer, owed, err)
			return err
		}
		decision = decisions[owed]
		return nil
	})
	if !f.guard.answers(ctx, cause) {
		return decision, cause
	}
	decision, err := f.secondary.Next(pastDeadline(ctx), customer)
	if err != nil {
		return Decision{}, bothFailed(cause, err)
	}
	f.debts.owe(customer, 1, cause)
	decision.Degraded = true
	return decision, nil
}

// NextN implements [Store].
func (f *Fallback) NextN(ctx context.Context, customer string, n int) ([]Decision, error) {
	if err := checkDocuments(customer, n); err != nil || n == 0 {
		return nil, err
	}
	var decisions []Decision
	cause := f.guard.try(func() error {
		owed := f.debts.take(customer, MaxDocuments-n)
		all, err := f.primary.NextN(ctx, customer, owed+n)
		if err != nil {
			f.debts.owe(customer, owed, err)
			return err
		}
		decisions = all[owed:]
		return nil
	})
	if !f.guard.answers(ctx, cause) {
		return decisions, cause
	}
	decisions, err := f.secondary.NextN(pastDeadline(ctx), customer, n)
	if err != nil {
		return nil, bothFailed(cause, err)
	}
	f.debts.owe(customer, n, cause)
	return degraded(decisions), nil
}

// NextEach implements [Store]. The secondary answers for the entries that the
// primary did not count.
func (f *Fallback) NextEach(ctx context.Context, customers []string) ([]Decision, error) {
	if err := checkCustomers(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	decisions, errs := make([]Decision, len(customers)), make([]error, len(customers))
	cause := f.guard.try(func() error { return f.nextEach(ctx, customers, decisions, errs) })
	if cause != nil {
		for at := range errs {
			errs[at] = cmp.Or(errs[at], cause)
		}
	}

	var failed []int
	var failedCustomers []string
	for at, err := range errs {
		if err != nil {
			failed = append(failed, at)
			failedCustomers = append(failedCustomers, customers[at])
		}
	}
	if len(failed) == 0 {
		return decisions, nil
	}
	if !f.guard.answers(ctx, errs[failed[0]]) {
		return decisions, &BatchError{Errs: errs}
	}
	answers, err := f.secondary.NextEach(pastDeadline(ctx), failedCustomers)
	if err != nil {
		for _, at := range failed {
			errs[at] = bothFailed(errs[at], err)
		}
		return decisions, &BatchError{Errs: errs}
	}
	for i, at := range failed {
		f.debts.owe(customers[at], 1, errs[at])
		decisions[at] = answers[i]
		decisions[at].Degraded = true
	}
	return decisions, nil
}

// nextEach asks the primary for one document of each customer, and for what is
// owed to it. It returns an error if the primary failed altogether.
func (f *Fallback) nextEach(ctx context.Context, customers []string, decisions []Decision, errs []error) error {
	entries := make([]string, 0, len(customers))
	entryOf := make([]int, len(customers)) // negative entries are owed
	for at, customer := range customers {
		owed := f.debts.take(customer, min(mostOwedEach, MaxDocuments-len(entries)-(len(customers)-at)))
		for range owed {
			entries = append(entries, customer)
		}
		entryOf[at] = len(entries)
		entries = append(entries, customer)
	}

	answers, err := f.primary.NextEach(ctx, entries)
	failures := eachError(err, len(entries))
	worked := false
	at := 0
	for i, customer := range entries {
		entryErr := failures[i]
		worked = worked || entryErr == nil
		switch {
		case i != entryOf[at]:
			if entryErr != nil {
				f.debts.owe(customer, 1, entryErr)
			}
			continue
		case entryErr != nil:
			errs[at] = entryErr
		default:
			decisions[at] = answers[i]
		}
		at++
	}
	if worked {
		return nil
	}
	return err
}

// Peek implements [Store].
func (f *Fallback) Peek(ctx context.Context, customer string) (Decision, error) {
	return f.guard.peek(ctx, customer, f.primary, f.secondary)
}

// Reset implements [Store]. It returns the primary's error, for the fleet's
// count stands then; what this process counted and owes is forgotten anyway.
func (f *Fallback) Reset(ctx context.Context, customer string) error {
	return f.guard.reset(ctx, customer, f.primary, f.secondary, f.debts.forget)
}

// PolicyOf returns the policy by which the primary decides for a customer, with
// every field filled in.
func (f *Fallback) PolicyOf(customer string) Policy { return f.debts.policyOf(customer).filled() }
