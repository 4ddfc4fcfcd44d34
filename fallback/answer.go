package fallback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/script"
)

const (
	leastInMemory = 1000                   // items that memory answers though the call has no time left
	memoryTimeout = 250 * time.Millisecond // for more of them: as a call of a RedisStore by default
)

// ask asks the primary, and memory if that fails. counts says whether the call counts documents.
func ask[T any](s *Store, ctx context.Context, customer string, counts bool, primary func() (T, error), memory func(context.Context) (T, error)) (answer T, err error) {
	fails, err := s.try(ctx, counts, func() (err error) {
		answer, err = primary()
		return err
	})
	if fails {
		answer, err = memory(context.WithoutCancel(ctx))
		s.used.Store(true)
	} else if err == nil && counts {
		s.counted(customer)
	}
	return answer, err
}

// each asks the primary for all items of a call, and memory for each that fails; worked is called
// for each other one.
func each[T, R any](s *Store, ctx context.Context, counts bool, items []T, worked func(T),
	primary func() ([]R, error), memory func(context.Context, T) (R, error)) (answers []R, err error) {
	fails, err := s.try(ctx, counts, func() (err error) {
		answers, err = primary()
		return err
	})
	if err == nil && !s.used.Load() {
		return answers, nil
	}
	all, errs, failed := make([]R, len(items)), slices.Clone(itemerrors.Of(err, len(items))), false
	copy(all, answers)
	patient := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	for at, item := range items {
		if errs[at] == nil {
			worked(item)
		} else if fails && (at < leastInMemory || ctx.Err() == nil) {
			all[at], errs[at] = memory(patient, item)
			s.used.Store(true)
		}
		failed = failed || errs[at] != nil
	}
	if failed {
		return all, &priority.BatchError{Errs: errs}
	}
	return all, nil
}

// errOpen is why memory answers while the circuit is open.
var errOpen = fmt.Errorf("%w: the circuit is open", priority.ErrNotCounted)

// try calls the primary, unless the circuit is open, and reports whether memory has to answer for
// its error.
func (s *Store) try(ctx context.Context, counts bool, call func() error) (fails bool, err error) {
	if s.breaker.open() && s.closed.Err() == nil {
		return true, errOpen
	}
	before := s.breaker.successes.Load()
	err = call()
	works := reached(err)
	if works && s.breaker.succeeded(counts) {
		s.forget()
	}
	if err == nil || errors.Is(err, priority.ErrInvalid) || errors.Is(ctx.Err(), context.Canceled) {
		return false, err
	}
	if !works {
		deadline, ok := ctx.Deadline() // a RedisStore gives up shortly before it
		s.breaker.failed(err, before, ok && time.Until(deadline) <= script.LongestShare)
		s.retryLater()
	}
	if s.opts.OnError != nil {
		s.opts.OnError(err)
	}
	return true, err
}

// counted forgets memory's numbers of a customer whom the primary has now counted, and of the
// account, which it counted too.
func (s *Store) counted(customer string) {
	if !s.used.Load() {
		return
	}
	_ = s.memory.Reset(context.Background(), customer)
	if account, _, isUser := keys.Account(customer); isUser && s.memory.Accounts() {
		_ = s.memory.Reset(context.Background(), account)
	}
}

// ended lets memory know of a Done that the primary has accepted.
func (s *Store) ended(customer, document string) {
	if s.used.Load() {
		_, _ = s.memory.Done(context.Background(), customer, document, 0)
	}
}

// forget forgets what memory counted while the circuit was open.
func (s *Store) forget() {
	s.used.Store(false)
	s.memory.Clear()
}

// reached reports whether an error, or the error of any entry of a batch, shows
// that the primary works. A corrupt count is one customer's trouble.
func reached(err error) bool {
	works := func(err error) bool { return err == nil || errors.Is(err, priority.ErrCorrupt) }
	if batch := (*priority.BatchError)(nil); errors.As(err, &batch) {
		return slices.ContainsFunc(batch.Errs, works)
	}
	return works(err)
}
