package priority

import (
	"context"
	"time"

	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/script"
)

// Submit implements [Store]. It is resent within the timeout if its reply is lost.
func (s *RedisStore) Submit(ctx context.Context, customer, document string, cost float64) (Decision, error) {
	documents, costs := []string{document}, []float64{cost}
	if err := check.Submit(customer, documents, costs); err != nil {
		return Decision{}, err
	}
	call := s.submitCall(customer)
	call.IDs, call.Costs = documents, []int64{s.means.costs.Relative(cost)}
	reply, err := s.run(ctx, "Submit", &call)
	if err != nil {
		return Decision{}, err
	}
	s.means.costs.Add(customer, cost)
	return submitted(reply, 0), nil
}

// SubmitN implements [Store]. Every 50 documents are one atomic command, and every 100,000
// one round trip. Documents that Redis refuses temporarily, as in a failover, are resent
// and so come after the others.
func (s *RedisStore) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]Decision, error) {
	if err := check.Submit(customer, documents, costs); err != nil || len(documents) == 0 {
		return nil, err
	}
	call := s.submitCall(customer)
	relative := make([]int64, len(documents))
	for i, cost := range costs {
		relative[i] = s.means.costs.Relative(cost)
	}
	decisions := make([]Decision, len(documents))
	err := s.eachDocument(ctx, "SubmitN", documents, relative, submittedPerCall, call, func(at, in int, reply []int64) {
		decisions[at] = submitted(reply, in)
		if costs != nil {
			s.means.costs.Add(customer, costs[at])
		}
	})
	return decisions, err
}

func (s *RedisStore) submitCall(customer string) script.Call {
	return script.Call{
		Script: s.of(customer).submit, Key: s.key(customer, pendingEnd),
		Others: [3]string{s.overrideRead(customer)}, Repeatable: true,
	}
}

// Done implements [Store]. It is resent within the timeout if its reply is lost.
func (s *RedisStore) Done(ctx context.Context, customer, document string, took time.Duration) (Ended, error) {
	documents := []string{document}
	if err := check.Done(customer, documents, took); err != nil {
		return Ended{}, err
	}
	each := fair.Each(took, 1)
	call := s.doneCall(customer, each)
	call.IDs = documents
	reply, err := s.run(ctx, "Done", &call)
	if err != nil {
		return Ended{}, err
	}
	return s.ended(customer, each, reply), nil
}

// DoneN implements [Store]. Every 250 documents are one atomic command, and every 100,000
// one round trip.
func (s *RedisStore) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]Ended, error) {
	if err := check.Done(customer, documents, took); err != nil || len(documents) == 0 {
		return nil, err
	}
	each, ended := fair.Each(took, len(documents)), make([]Ended, len(documents))
	err := s.eachDocument(ctx, "DoneN", documents, nil, donePerCall, s.doneCall(customer, each), func(at, in int, reply []int64) {
		ended[at] = s.ended(customer, each, reply[2*in:])
	})
	return ended, err
}

// doneCall returns a call for documents that took that many seconds each.
func (s *RedisStore) doneCall(customer string, each float64) script.Call {
	return script.Call{
		Script: doneScript, Key: s.key(customer, pendingEnd), Numbers: []int64{s.means.times.Relative(each)}, Repeatable: true,
	}
}

// ended reads one document's part of a reply of done.lua, and learns from it.
func (s *RedisStore) ended(customer string, each float64, reply []int64) Ended {
	ended := Ended{Latency: time.Duration(reply[0]) * time.Millisecond, Level: Level(reply[1])}
	if ended.Level > 0 {
		s.means.times.Add(customer, each)
	}
	return ended
}

// eachDocument makes one call for every perCall documents, with any costs, and passes
// replied each document's reply and its index in it.
func (s *RedisStore) eachDocument(ctx context.Context, operation string, documents []string, costs []int64, perCall int, call script.Call,
	replied func(at, in int, reply []int64)) error {
	return s.inTrips(ctx, s.timeout, operation, len(documents), documentsPerTrip,
		func(d *script.Deadline, from, to int, fail func(at int, err error)) {
			var calls []script.Call
			for first := from; first < to; first += perCall {
				last := min(first+perCall, to)
				call.IDs = documents[first:last]
				if costs != nil {
					call.Costs = costs[first:last]
				}
				calls = append(calls, call)
			}
			replies, errs := s.runEach(d, operation, calls)
			for at := range to - from {
				if i := at / perCall; errs[i] != nil {
					fail(at, errs[i])
				} else {
					replied(from+at, at%perCall, replies[i])
				}
			}
		})
}

// numbersPerSubmit is how many numbers a reply of submit.lua has for each document.
const numbersPerSubmit = 4

// submitted reads the part of a reply of submit.lua for the document at an index.
func submitted(reply []int64, at int) Decision {
	each := reply[numbersPerSubmit*at:]
	return Decision{Level: Level(each[0]), Load: float64(each[1]) / 1e6, Pending: each[2], RuleLevel: Level(each[3])}
}
