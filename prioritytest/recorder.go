package prioritytest

import (
	"context"
	"slices"
	"sync"

	"github.com/docpriority/priority/observe"
)

// Recorder keeps the calls of a store that it observes, in the order in which they
// returned:
//
//	recorder := new(prioritytest.Recorder)
//	store, err := observe.New(inner, recorder.Observe)
//
// The zero value is ready to use. It is safe for concurrent use. Inside of a fallback it records
// the probes, too.
type Recorder struct {
	mu    sync.Mutex
	calls []observe.Call
}

// Observe is an [observe.Func].
func (r *Recorder) Observe(_ context.Context, call observe.Call) {
	call.Customers, call.Decisions, call.Ended = slices.Clone(call.Customers), slices.Clone(call.Decisions), slices.Clone(call.Ended)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

// Calls returns the calls that have returned.
func (r *Recorder) Calls() []observe.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}
