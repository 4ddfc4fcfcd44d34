package fallback

import (
	"sync"
	"sync/atomic"
)

// mostProbes is how many successful probes in a row close a half-open circuit, as one
// counted document does.
const mostProbes = 10

// mostRounds rounds of many failures in a row, each ended by a successful probe with no
// document counted, open the circuit: a Redis whose memory is full accepts probes.
const mostRounds = 8

// breaker counts the failures of the primary. Many in a row open the circuit, if a probe
// finds that the primary works for no customer. A successful probe makes it half-open: calls
// go to the primary until a probe fails. The first counted document closes it.
type breaker struct {
	most int32 // failures in a row

	state     atomic.Int32 // closed, open or halfOpen
	failures  atomic.Int32 // how many calls in a row have failed
	suspect   atomic.Bool  // the latest call or probe failed
	doubted   atomic.Bool  // a caller's time was over before the primary answered
	successes atomic.Uint64

	rounds atomic.Int32 // as in mostRounds, since a document was counted

	mu     sync.Mutex // held by all that write the fields, except successes
	probes int        // that succeeded while half-open
	cause  error      // the last failure
}

const (
	closed int32 = iota
	open
	halfOpen
)

func (b *breaker) open() bool { return b.state.Load() == open }

// failing reports whether the latest call failed, or the circuit is not closed.
func (b *breaker) failing() bool { return b.state.Load() != closed || b.suspect.Load() }

// needsProbe reports whether a probe has to find out if the primary works.
func (b *breaker) needsProbe() bool { return b.failing() || b.doubted.Load() }

// succeeded records a call that reached the primary, and reports whether that closed the circuit.
func (b *breaker) succeeded(counted bool) (closes bool) {
	b.successes.Add(1)
	if !b.failing() && b.failures.Load() == 0 && (!counted || b.rounds.Load() == 0) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state.Load() {
	case closed:
		b.failures.Store(0)
		b.suspect.Store(false)
		if counted {
			b.rounds.Store(0)
		}
	case halfOpen:
		return counted && b.close()
	}
	return false // a call that began before the circuit opened may end late
}

// failed records a failure since a number of successes; one more shows that the primary works. A
// caller who had no patience proves nothing, but the next probe decides.
func (b *breaker) failed(err error, before uint64, impatient bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cause = err
	if impatient {
		b.doubted.Store(true)
		return
	}
	b.probes = 0
	b.suspect.Store(true)
	if b.successes.Load() == before {
		b.failures.Add(1)
	}
}

// probed records whether a probe reached the primary. It opens the circuit after many
// failures, or if callers had no patience to see it fail, and reports whether it has closed it.
func (b *breaker) probed(works bool) (closes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	isClosed, doubted := b.state.Load() == closed, b.doubted.Swap(false)
	switch {
	case !works:
		b.probes = 0
		if !isClosed || doubted || b.failures.Load() >= b.most {
			b.state.Store(open)
		}
	case isClosed:
		b.suspect.Store(false) // but fewer than most failures keep counting if the next call fails
		if b.failures.Load() < b.most {
			return false
		}
		b.failures.Store(0)
		if b.rounds.Add(1) == mostRounds {
			b.state.Store(open)
		}
	default:
		b.state.Store(halfOpen)
		b.probes++
		return b.probes >= mostProbes && b.close()
	}
	return false
}

// ajar makes an open circuit half-open.
func (b *breaker) ajar() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.CompareAndSwap(open, halfOpen)
}

// close closes the circuit. The caller holds mu.
func (b *breaker) close() bool {
	b.failures.Store(0)
	b.rounds.Store(0)
	b.suspect.Store(false)
	b.cause = nil
	b.state.Store(closed)
	return true
}

// away reports whether the circuit is open or half-open, and why.
func (b *breaker) away() (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.Load() == closed {
		return false, nil // a call may have failed since
	}
	return true, b.cause
}
