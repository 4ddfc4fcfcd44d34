package linearizability

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/docpriority/priority"
)

// history notes the calls of several callers at once, and how they ended.
type history struct {
	began time.Time

	mu         sync.Mutex
	calls      []porcupine.Operation
	notCounted int
	unknown    int
	failures   []error // of no class that a call may end with here
}

func newHistory() *history {
	return &history{began: time.Now()}
}

// operations returns the calls that did or may have taken effect.
func (h *history) operations() []porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.now()
	for i := range h.calls {
		if h.calls[i].Output.(result).unknown {
			h.calls[i].Return = end
		}
	}
	return h.calls
}

// now is the time since the history began. It never goes back.
func (h *history) now() int64 { return int64(time.Since(h.began)) }

// note adds a call that began at some time and has ended just now.
func (h *history) note(caller int, c call, began int64, decisions []priority.Decision, err error) {
	ended := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	var r result
	switch {
	case err == nil:
		for _, d := range decisions {
			r.told = append(r.told, told{level: d.Level, count: d.Count, running: d.ResetIn > 0})
		}
	case errors.Is(err, priority.ErrNotCounted):
		h.notCounted++
		return
	case errors.Is(err, priority.ErrOutcomeUnknown):
		h.unknown++
		r.unknown = true
	default:
		h.failures = append(h.failures, fmt.Errorf("%v of %s: %w", c, c.customer, err))
		return
	}
	h.calls = append(h.calls, porcupine.Operation{ClientId: caller, Input: c, Call: began, Output: r, Return: ended})
}

// caller calls a store and notes it in a history.
type caller struct {
	id      int
	store   priority.Store
	history *history
}

func (c caller) call(ctx context.Context, what call) {
	began := c.history.now()
	decisions := make([]priority.Decision, 1)
	var err error
	switch what.operation {
	case next:
		decisions[0], err = c.store.Next(ctx, what.customer)
	case nextN:
		decisions, err = c.store.NextN(ctx, what.customer, what.documents)
	case peek:
		var s priority.State
		s, err = c.store.Peek(ctx, what.customer)
		decisions[0] = priority.Decision{Level: s.Level, Count: s.Count, ResetIn: s.ResetIn}
	case reset:
		decisions, err = nil, c.store.Reset(ctx, what.customer)
	}
	c.history.note(c.id, what, began, decisions, err)
}

// nextEach is one call of Next for each of the customers, who are all different.
func (c caller) nextEach(ctx context.Context, customers []string) {
	began := c.history.now()
	decisions, err := c.store.NextEach(ctx, customers)
	var batch *priority.BatchError
	for i, customer := range customers {
		var decision []priority.Decision
		failure := err
		if errors.As(err, &batch) {
			failure = batch.Errs[i]
		}
		if failure == nil {
			decision = decisions[i : i+1]
		}
		c.history.note(c.id, call{operation: next, customer: customer}, began, decision, failure)
	}
}
