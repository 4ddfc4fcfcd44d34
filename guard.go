package priority

import (
	"context"
	"errors"
	"fmt"

	"github.com/sony/gobreaker/v2"
)

// guard keeps a fallback's calls from a primary that has failed of late, and says
// which failures the secondary answers for.
type guard struct {
	breaker *gobreaker.CircuitBreaker[struct{}]
	absent  bool // there is no primary
	onError func(error)
}

func newGuard(absent bool, opts *FallbackOptions) *guard {
	return &guard{breaker: newBreaker(opts), absent: absent, onError: opts.OnError}
}

func newBreaker(opts *FallbackOptions) *gobreaker.CircuitBreaker[struct{}] {
	maxFailures, retryAfter := opts.MaxFailures, opts.RetryAfter
	if maxFailures < 1 {
		maxFailures = defaultMaxFailures
	}
	if retryAfter <= 0 {
		retryAfter = defaultRetryAfter
	}
	var last error // the breaker calls these functions one at a time
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     retryAfter,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return int(counts.ConsecutiveFailures) >= maxFailures },
		IsExcluded:  func(err error) bool { return errors.Is(err, ErrInvalid) || errors.Is(err, context.Canceled) },
		IsSuccessful: func(err error) bool {
			last = err
			return err == nil || errors.Is(err, ErrCorruptCount)
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				opts.changed(true, last)
			case to == gobreaker.StateClosed:
				opts.changed(false, nil)
			}
		},
	})
}

// changed tells those who want to know that the primary is left alone, or not any
// more.
func (o *FallbackOptions) changed(degraded bool, cause error) {
	if o.OnChange != nil {
		o.OnChange(degraded, cause)
	}
	switch {
	case o.Logger == nil:
	case degraded:
		o.Logger.Warn("priority: the primary is left alone, the secondary answers", "cause", cause)
	default:
		o.Logger.Info("priority: the primary answers again")
	}
}

// degraded reports whether the primary is being left alone.
func (g *guard) degraded() bool { return g.breaker.State() != gobreaker.StateClosed }

// errLeftAlone is why the secondary answers while the primary is left alone.
var errLeftAlone = fmt.Errorf("%w: the primary failed of late and is left alone", ErrNotCounted)

// try calls the primary, unless it is left alone, and returns its error.
func (g *guard) try(call func() error) error {
	if g.absent {
		return fmt.Errorf("%w: the primary is nil", ErrInvalidOption)
	}
	_, err := g.breaker.Execute(func() (struct{}, error) { return struct{}{}, call() })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return errLeftAlone
	}
	return err
}

// answers reports whether the secondary answers for this error of the primary.
func (g *guard) answers(ctx context.Context, cause error) bool {
	if cause == nil || errors.Is(cause, ErrInvalid) || errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	if g.onError != nil && cause != errLeftAlone {
		g.onError(cause)
	}
	return true
}

// counts is what stores and trackers have in common.
type counts interface {
	Peek(ctx context.Context, customer string) (Decision, error)
	Reset(ctx context.Context, customer string) error
}

// peek is the Peek of a fallback.
func (g *guard) peek(ctx context.Context, customer string, primary, secondary counts) (Decision, error) {
	if err := checkCustomer(customer); err != nil {
		return Decision{}, err
	}
	var decision Decision
	cause := g.try(func() (err error) {
		decision, err = primary.Peek(ctx, customer)
		return err
	})
	if !g.answers(ctx, cause) {
		return decision, cause
	}
	decision, err := secondary.Peek(pastDeadline(ctx), customer)
	if err != nil {
		return Decision{}, bothFailed(cause, err)
	}
	decision.Degraded = true
	return decision, nil
}

// reset is the Reset of a fallback. What is owed is forgotten in between: not
// before the primary's count, to which it could be paid.
func (g *guard) reset(ctx context.Context, customer string, primary, secondary counts, forget func(customer string)) error {
	if err := checkCustomer(customer); err != nil {
		return err
	}
	err := g.try(func() error { return primary.Reset(ctx, customer) })
	forget(customer)
	return errors.Join(err, secondary.Reset(pastDeadline(ctx), customer))
}

// pastDeadline lets the secondary answer where the deadline has passed while
// the primary was waited for.
func pastDeadline(ctx context.Context) context.Context {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func bothFailed(primary, secondary error) error {
	return fmt.Errorf("%w; the secondary: %w", primary, secondary)
}

func degraded(decisions []Decision) []Decision {
	for i := range decisions {
		decisions[i].Degraded = true
	}
	return decisions
}
