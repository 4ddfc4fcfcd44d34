package fallback

import (
	"sync"
	"sync/atomic"
)

// mostProbes is how many successful probes in a row close a half-open circuit, as one
// counted document does.
const mostProbes = 10

// breaker counts the failures of the primary. Many in a row open the circuit. A successful
// probe makes it half-open: calls go to the primary, and one failure opens it again. The
// first counted document closes it. A probe is not enough, as a Redis whose memory is full
// accepts probes but no documents.
type breaker struct {
	most int32 // failures in a row

	state     atomic.Int32 // closed, open or halfOpen
	failures  atomic.Int32 // in a row
	suspect   atomic.Bool  // the last call or probe failed
	successes atomic.Uint64

	mu     sync.Mutex // of all writes but successes
	probes int        // that succeeded while half-open
	cause  error      // the last failure
}

const (
	closed int32 = iota
	open
	halfOpen
)

func (b *breaker) open() bool { return b.state.Load() == open }

// failing reports whether the last call failed, or the circuit is not closed.
func (b *breaker) failing() bool { return b.state.Load() != closed || b.suspect.Load() }

// succeeded records a call that reached the primary, and reports whether that closed the
// circuit.
func (b *breaker) succeeded(counted bool) bool {
	b.successes.Add(1)
	if !b.failing() && b.failures.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state.Load() {
	case closed:
		b.failures.Store(0)
		b.suspect.Store(false)
	case halfOpen:
		return counted && b.close()
	}
	return false // a call that began before the circuit opened may end late
}

// failed records a failure, and reports whether that opened the circuit. If the primary has
// worked for others since before, it is not counted.
func (b *breaker) failed(err error, before uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cause = err
	b.suspect.Store(true)
	if b.successes.Load() != before && b.state.Load() == closed {
		return false
	}
	if b.failures.Add(1) < b.most && b.state.Load() == closed || b.state.Load() == open {
		return false
	}
	b.state.Store(open)
	return true
}

// probed records whether a probe reached the primary, and reports whether that closed the
// circuit.
func (b *breaker) probed(works bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !works {
		b.probes = 0
		if b.state.Load() == halfOpen {
			b.state.Store(open)
		}
		return false
	}
	switch b.state.Load() {
	case closed:
		b.suspect.Store(false) // but the failures count, if the next call fails too
		return false
	case open:
		b.probes = 0
		b.state.Store(halfOpen)
	}
	b.probes++
	return b.probes >= mostProbes && b.close()
}

// close closes the circuit. The caller holds mu.
func (b *breaker) close() bool {
	b.failures.Store(0)
	b.suspect.Store(false)
	b.cause = nil
	b.state.Store(closed)
	return true
}

// away reports whether the circuit is open or half-open, and why.
func (b *breaker) away() (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.Load() != closed, b.cause
}
