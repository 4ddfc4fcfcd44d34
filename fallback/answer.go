package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/script"
)

// decide asks for one decision.
func decide(s *Store, ctx context.Context, customer string, call func(context.Context, priority.Store) (priority.Decision, error)) (priority.Decision, error) {
	decision, fromMemory, err := ask(s, ctx, customer, true, call)
	decision.Degraded = decision.Degraded || fromMemory && err == nil
	return decision, err
}

// ask asks the primary, and memory if that fails; it reports which of the two answered.
func ask[T any](s *Store, ctx context.Context, customer string, counts bool, call func(context.Context, priority.Store) (T, error)) (answer T, fromMemory bool, err error) {
	err = s.try(ctx, customer, counts, func() (err error) {
		answer, err = call(ctx, s.primary)
		return err
	})
	if err == nil && counts {
		s.counted(customer)
	}
	if !s.answers(ctx, err) {
		return answer, false, err
	}
	answer, second := call(context.WithoutCancel(ctx), s.memory)
	s.used.Store(true)
	return answer, true, bothFailed(err, second)
}

// each asks the primary for each item, then memory for each item with an error.
func each[T any](s *Store, ctx context.Context, items []T, customer func(T) string,
	ask func(context.Context, priority.Store, []T) ([]priority.Decision, error),
) (decisions []priority.Decision, err error) {
	err = s.try(ctx, customer(items[0]), true, func() (err error) {
		decisions, err = ask(ctx, s.primary, items)
		return err
	})
	if err == nil && !s.used.Load() {
		return decisions, nil
	}
	errs := itemerrors.Of(err, len(items))
	for at, err := range errs {
		if err == nil {
			s.counted(customer(items[at]))
		}
	}
	if err == nil {
		return decisions, nil
	}
	all := make([]priority.Decision, len(items))
	copy(all, decisions)
	if !s.answers(ctx, err) {
		return all, &priority.BatchError{Errs: errs}
	}
	var places []int
	var rest []T
	for at, err := range errs {
		if err != nil {
			places, rest = append(places, at), append(rest, items[at])
		}
	}
	answers, err := ask(context.WithoutCancel(ctx), s.memory, rest)
	s.used.Store(true)
	left, seconds := make([]error, len(items)), itemerrors.Of(err, len(rest))
	for i, at := range places {
		if left[at] = bothFailed(errs[at], seconds[i]); left[at] == nil {
			all[at] = answers[i]
			all[at].Degraded = true
		}
	}
	if err != nil {
		return all, &priority.BatchError{Errs: left}
	}
	return all, nil
}

// try calls the primary, unless the circuit is open, and returns its error. counts
// says whether the call counts documents.
func (s *Store) try(ctx context.Context, customer string, counts bool, call func() error) error {
	if s.breaker.open() && !s.retry.closed.Load() {
		s.retry.failed.add(customer)
		return errOpen
	}
	before := s.breaker.successes.Load()
	err := call()
	switch {
	case reached(err):
		if n, closed := s.breaker.succeeded(counts); closed {
			s.recovered()
		} else if n&(n-1) == 0 || n%64 == 0 { // now and then
			s.retry.worked.add(customer)
		}
	case errors.Is(err, priority.ErrInvalid) || errors.Is(ctx.Err(), context.Canceled):
	case ctx.Err() != nil || impatient(ctx, err): // it proves nothing
		s.retry.failed.add(customer)
		s.breaker.doubt(err)
		s.retryLater()
	default:
		s.retry.failed.add(customer)
		if s.breaker.failed(err, before) {
			s.retryIn(0)
		} else {
			s.retryLater()
		}
	}
	return err
}

// counted forgets memory's numbers of a customer whom the primary has now counted.
func (s *Store) counted(customer string) {
	if s.used.Load() {
		_ = s.memory.Reset(context.Background(), customer)
	}
}

// recovered forgets what memory counted while the circuit was open.
func (s *Store) recovered() {
	s.used.Store(false)
	s.memory.Clear()
	s.tell()
}

// answers reports whether memory answers for this error of the primary.
func (s *Store) answers(ctx context.Context, err error) bool {
	if err == nil || errors.Is(err, priority.ErrInvalid) || errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	s.retryLater()
	if s.opts.OnError != nil && err != errOpen {
		s.opts.OnError(err)
	}
	return true
}

// errOpen is why memory answers while the circuit is open.
var errOpen = fmt.Errorf("%w: the circuit is open", priority.ErrNotCounted)

// reached reports whether an error, or the error of any entry of a batch, shows
// that the primary works. A corrupt count is one customer's trouble.
func reached(err error) bool {
	var batch *priority.BatchError
	if !errors.As(err, &batch) {
		return err == nil || errors.Is(err, priority.ErrCorrupt)
	}
	for i, err := range batch.Errs {
		if (i == 0 || err != batch.Errs[i-1]) && (err == nil || errors.Is(err, priority.ErrCorrupt)) {
			return true
		}
	}
	return false
}

// impatient reports whether the caller's deadline is about to end: a RedisStore gives up
// shortly before it.
func impatient(ctx context.Context, err error) bool {
	deadline, ok := ctx.Deadline()
	return ok && errors.Is(err, context.DeadlineExceeded) && time.Until(deadline) <= script.LongestShare
}

// bothFailed returns the error of a call that failed in memory too, in the primary's
// class: memory has counted nothing.
func bothFailed(primary, second error) error {
	if second == nil || errors.Is(second, priority.ErrInvalid) {
		return second
	}
	return fmt.Errorf("%w; in memory: %v", primary, second)
}
