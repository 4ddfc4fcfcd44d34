package simulation

import (
	"math"
	"time"
)

// Scheduler decides which of the waiting documents a free server takes. It knows
// documents by their index in the workload.
type Scheduler interface {
	// Submit hands in a document that is due now.
	Submit(document int, now time.Duration) error
	// Next gives out a document to be served from now, or false if none waits.
	Next(now time.Duration) (document int, ok bool)
	// Done says that a document's service has ended.
	Done(document int, now time.Duration) error
}

// foreseer is a Scheduler that hears of a document when it is enqueued, before it is due. Others
// hear of it when it is due.
type foreseer interface {
	Foresee(document int, now time.Duration) error
}

// Run serves all documents, each on one of the servers without interruption, and
// returns when the service of each began. What ends at a moment is done before
// what arrives at it is submitted, and all that arrives at a moment is submitted
// before servers choose.
func Run(w *Workload, servers int, scheduler Scheduler) (starts []time.Duration, err error) {
	starts = make([]time.Duration, len(w.Documents))
	var served heap[service]
	var early []int
	foreseer, foresees := scheduler.(foreseer)
	if foresees {
		early = w.early()
	}
	for arrived := 0; arrived < len(w.Documents) || len(served) > 0; {
		now := time.Duration(math.MaxInt64)
		if arrived < len(w.Documents) {
			now = w.Documents[arrived].Submitted
		}
		if len(served) > 0 {
			now = min(now, served[0].ends)
		}
		if len(early) > 0 {
			now = min(now, w.Documents[early[0]].enqueued())
		}
		for len(served) > 0 && served[0].ends == now {
			if err := scheduler.Done(int(served.pop().document), now); err != nil {
				return nil, err
			}
		}
		for ; len(early) > 0 && w.Documents[early[0]].enqueued() == now; early = early[1:] {
			if err := foreseer.Foresee(early[0], now); err != nil {
				return nil, err
			}
		}
		for ; arrived < len(w.Documents) && w.Documents[arrived].Submitted == now; arrived++ {
			if err := scheduler.Submit(arrived, now); err != nil {
				return nil, err
			}
		}
		for len(served) < servers {
			document, ok := scheduler.Next(now)
			if !ok {
				break
			}
			starts[document] = now
			served.push(service{now + w.Documents[document].Service, int32(document)})
		}
	}
	return starts, nil
}

// service is a document on a server.
type service struct {
	ends     time.Duration
	document int32
}

func (s service) Before(other service) bool {
	if s.ends != other.ends {
		return s.ends < other.ends
	}
	return s.document < other.document
}
