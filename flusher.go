package priority

import (
	"container/list"
	"sync"
	"time"
)

// flusher is the queue of the customers for whom documents are owed, in the order
// in which they are due. It needs no goroutine while nothing is due. The zero
// value with a flush is ready to use.
type flusher struct {
	// flush begins to write what is owed for a customer, and calls landed in the
	// end. It returns false if there is nothing to do.
	flush func(e *coalesced, landed func()) bool

	mu      sync.Mutex
	queue   list.List // of *coalesced
	timer   *time.Timer
	flights int
	stopped bool
}

// add puts a customer at the end of the queue. No one in it may be due later.
func (f *flusher) add(e *coalesced, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || e.queued != nil {
		return
	}
	e.due = due
	e.queued = f.queue.PushBack(e)
	if f.queue.Len() == 1 {
		f.wake()
	}
}

// hasten makes what is owed for a customer due now.
func (f *flusher) hasten(e *coalesced) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.queued != nil {
		e.due = time.Now()
		f.queue.MoveToFront(e.queued)
		f.wake()
	}
}

// remove takes a customer out of the queue.
func (f *flusher) remove(e *coalesced) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unqueue(e)
}

// stop empties the queue for good.
func (f *flusher) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for f.queue.Len() > 0 {
		f.unqueue(f.queue.Front().Value.(*coalesced))
	}
	if f.timer != nil {
		f.timer.Stop()
	}
}

// run flushes what is due, as much at a time as is allowed.
func (f *flusher) run() {
	for e := f.take(); e != nil; e = f.take() {
		if !f.flush(e, f.landed) {
			f.free()
		}
	}
}

func (f *flusher) landed() {
	f.free()
	f.run()
}

func (f *flusher) free() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flights--
}

// take takes the first in the queue if it is due and may be flushed now.
func (f *flusher) take() *coalesced {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue.Len() == 0 || f.flights == mostFlights {
		return nil
	}
	e := f.queue.Front().Value.(*coalesced)
	if time.Now().Before(e.due) {
		f.wake()
		return nil
	}
	f.unqueue(e)
	f.flights++
	return e
}

// wake sets the timer for the first in the queue. The caller holds mu.
func (f *flusher) wake() {
	wait := time.Until(f.queue.Front().Value.(*coalesced).due)
	if f.timer == nil {
		f.timer = time.AfterFunc(wait, f.run)
	} else {
		f.timer.Reset(wait)
	}
}

// The caller holds mu.
func (f *flusher) unqueue(e *coalesced) {
	if e.queued != nil {
		f.queue.Remove(e.queued)
		e.queued = nil
	}
}
