package laws

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

// TestBreaks puts what once was wrong around a RedisStore, and expects the law that finds
// it.
func TestBreaks(t *testing.T) {
	ofOutages := func(fault, of int) func(*run) {
		return func(r *run) { r.faulty(outages(faults[fault].Fault)[of]) }
	}
	for name, test := range map[string]struct {
		law   int
		wrong func(priority.Store) priority.Store
		find  func(*run)
	}{
		"a lost reply counts twice":           {1, func(s priority.Store) priority.Store { return repeats{s} }, ofOutages(3, 5)},
		"an outage is remembered":             {4, func(s priority.Store) priority.Store { return &remembers{Store: s} }, ofOutages(0, 0)},
		"an old Done ends a new Submit":       {4, func(s priority.Store) priority.Store { return owes{s} }, func(r *run) { r.faulty(lateDones()[0]) }},
		"what another has reset is restored":  {5, func(s priority.Store) priority.Store { return &restores{Store: s} }, ofOutages(1, 5)},
		"one customer's failures fail others": {6, func(s priority.Store) priority.Store { return &givesUp{Store: s} }, (*run).oneHangs},
	} {
		t.Run(name, func(t *testing.T) {
			found := attempt(t, func(t *testing.T) subject {
				s := openRedis(t)
				s.store, s.recovery = test.wrong(s.store), recovery
				return s
			}, test.find)
			if found == nil || found.law != test.law {
				t.Errorf("found: %v, want law %d", found, test.law)
			}
		})
	}
}

// repeats sends a document again whose reply was lost, as go-redis does.
type repeats struct{ priority.Store }

func (s repeats) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	decisions, err := s.Store.NextN(ctx, customer, n)
	if errors.Is(err, priority.ErrOutcomeUnknown) {
		return s.Store.NextN(ctx, customer, n)
	}
	return decisions, err
}

// remembers goes on after an outage where it was in it.
type remembers struct {
	priority.Store
	missed int64
}

func (s *remembers) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	decisions, err := s.Store.NextN(ctx, customer, n)
	if err != nil && ctx.Err() == nil {
		decisions, err = make([]priority.Decision, n), nil
		for i := range decisions {
			s.missed++
			decisions[i] = priority.Decision{Count: 1 - s.missed, Level: s.PolicyOf(customer).Level(1 - s.missed), Degraded: true}
			decisions[i].RuleLevel = decisions[i].Level
		}
	}
	return decisions, err
}

// owes sends a Done that failed once more, later.
type owes struct{ priority.Store }

func (s owes) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	ended, err := s.Store.Done(ctx, customer, document, took)
	if err != nil && ctx.Err() == nil {
		time.AfterFunc(recovery, func() { _, _ = s.Store.Done(context.Background(), customer, document, took) })
	}
	return ended, nil
}

// restores counts once more what it has counted, when the count is gone.
type restores struct {
	priority.Store
	mu    sync.Mutex
	count int64
}

func (s *restores) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	decisions, err := s.Store.NextN(ctx, customer, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if lost := decisions[0].Count - s.count; lost > 0 {
			_, _ = s.Store.NextN(ctx, customer, int(lost))
		}
		s.count = decisions[n-1].Count
	}
	return decisions, err
}

// givesUp answers nobody for a second, after three failures.
type givesUp struct {
	priority.Store
	mu       sync.Mutex
	failures int
	until    time.Time
}

func (s *givesUp) Next(ctx context.Context, customer string) (priority.Decision, error) {
	s.mu.Lock()
	open := time.Now().Before(s.until)
	s.mu.Unlock()
	if open {
		return priority.Decision{}, priority.ErrNotCounted
	}
	d, err := s.Store.Next(ctx, customer)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures++; err == nil {
		s.failures = 0
	}
	if s.failures == 3 {
		s.failures, s.until = 0, time.Now().Add(time.Second)
	}
	return d, err
}
