package priority

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/script"
)

// The numbers in a reply of submit.lua and of done.lua for each document.
const numbersPerSubmit, numbersPerDone = 4, 2

// Submit implements [Store]. It is resent within the timeout if its reply is lost.
func (s *RedisStore) Submit(ctx context.Context, customer string, document Document) (Decision, error) {
	if err := check.Submit(customer, document); err != nil {
		return Decision{}, err
	}
	call := s.submitCall(customer, 1)
	call.Args = []any{document.ID, costAndDelay(s.means.costs.Relative(document.Cost), document.Delay)}
	reply, err := s.run(ctx, "Submit", &call)
	if err != nil {
		return Decision{}, err
	}
	s.means.costs.Add(keys.Payer(customer, s.accounts), document.Cost)
	return s.submitted(reply, 0), nil
}

// SubmitN implements [Store]. Every 50 documents are one atomic command, and every 100,000
// one round trip. Documents that Redis refuses temporarily, as in a failover, are resent
// and so come after the others.
func (s *RedisStore) SubmitN(ctx context.Context, customer string, documents []Document) ([]Decision, error) {
	if err := check.SubmitN(customer, documents); err != nil || len(documents) == 0 {
		return nil, err
	}
	// All costs are compared with what was known before the call.
	costs := make([]int64, len(documents))
	for i, document := range documents {
		costs[i] = s.means.costs.Relative(document.Cost)
	}
	first := s.submitCall(customer, 0)
	call := func(from, to int) script.Call {
		call := first
		call.Integers = numbersPerSubmit * (to - from)
		for i, document := range documents[from:to] {
			call.Args = append(call.Args, document.ID, costAndDelay(costs[from+i], document.Delay))
		}
		return call
	}
	decisions := make([]Decision, len(documents))
	err := s.eachDocument(ctx, "SubmitN", len(documents), submittedPerCall, call, func(at, in int, reply script.Reply) {
		decisions[at] = s.submitted(reply, in)
		s.means.costs.Add(keys.Payer(customer, s.accounts), documents[at].Cost)
	})
	return decisions, err
}

// submitCall returns a call for n documents.
func (s *RedisStore) submitCall(customer string, n int) script.Call {
	call := script.Call{Script: s.tier(customer).submit, Key: s.key(customer, keys.Pending), Integers: numbersPerSubmit * n, Timed: true, Repeatable: true}
	s.addOverride(&call, customer, keys.Pending)
	return call
}

// costAndDelay returns a document's argument of submit.lua.
func costAndDelay(cost int64, delay time.Duration) any {
	if ms := delay.Milliseconds(); ms > 0 {
		return fmt.Sprintf("%d %d", cost, ms)
	}
	return cost
}

// submitted reads one document's part of a reply of submit.lua. An override that was read apart
// bounds the level here only: the set then holds the level by the rule.
func (s *RedisStore) submitted(answer script.Reply, in int) Decision {
	reply := answer.Integers[numbersPerSubmit*in:]
	return Decision{
		Level: apart(answer).Level(Level(reply[0]), s.levels), Load: float64(reply[1]) / 1e6, Pending: reply[2], RuleLevel: Level(reply[3]),
	}
}

// Done implements [Store]. It is resent within the timeout if its reply is lost.
func (s *RedisStore) Done(ctx context.Context, customer, document string, took time.Duration) (Ended, error) {
	if err := check.Done(customer, document, took); err != nil {
		return Ended{}, err
	}
	each := fair.Each(took, 1)
	call := s.doneCall(customer, each, "", 1)
	call.Args = append(call.Args, document)
	reply, err := s.run(ctx, "Done", &call)
	if err != nil {
		return Ended{}, err
	}
	return s.ended(customer, each, reply.Integers), nil
}

// DoneN implements [Store]. Every 250 documents are one atomic command, and every 100,000
// one round trip.
func (s *RedisStore) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]Ended, error) {
	return s.doneN(ctx, "DoneN", customer, documents, took, func(int, int) any { return "" })
}

func (s *RedisStore) doneN(ctx context.Context, operation, customer string, documents []string, took time.Duration,
	late func(from, to int) any) ([]Ended, error) {
	if err := check.DoneN(customer, documents, took); err != nil || len(documents) == 0 {
		return nil, err
	}
	each, ended := fair.Each(took, len(documents)), make([]Ended, len(documents))
	call := func(from, to int) script.Call {
		call := s.doneCall(customer, each, late(from, to), to-from)
		for _, document := range documents[from:to] {
			call.Args = append(call.Args, document)
		}
		return call
	}
	err := s.eachDocument(ctx, operation, len(documents), donePerCall, call, func(at, in int, reply script.Reply) {
		ended[at] = s.ended(customer, each, reply.Integers[numbersPerDone*in:])
	})
	return ended, err
}

// Late is a document that was done some time ago, when its Done could not be sent.
type Late struct {
	ID    string
	Since time.Time // when it was done, by the process's clock
}

// DoneLate is a DoneN of documents that were done some time ago. It leaves those pending that
// were submitted again since then, but for as long as the call was on its way to Redis.
func (s *RedisStore) DoneLate(ctx context.Context, customer string, documents []Late, took time.Duration) ([]Ended, error) {
	documents = slices.Clone(documents) // go-redis may read them after it has returned
	ids := make([]string, len(documents))
	for i, document := range documents {
		ids[i] = document.ID
	}
	return s.doneN(ctx, "DoneLate", customer, ids, took, func(from, to int) any { return ages(documents[from:to]) })
}

// ages are written as how many milliseconds ago each document was done. go-redis asks for the
// bytes when it writes the command, however long that had to wait.
type ages []Late

func (a ages) MarshalBinary() ([]byte, error) {
	var text []byte
	for _, document := range a {
		text = append(strconv.AppendInt(text, max(time.Since(document.Since).Milliseconds(), 0), 10), ' ')
	}
	return text, nil
}

// doneCall returns a call for n documents that took that many seconds each.
func (s *RedisStore) doneCall(customer string, each float64, late any, n int) script.Call {
	args := append(make([]any, 0, 2+n), s.means.times.Relative(each), late)
	call := script.Call{Script: doneScript, Key: s.key(customer, keys.Pending), Args: args, Integers: numbersPerDone * n, Repeatable: true}
	if account, _, isUser := keys.Account(customer); isUser && s.accounts {
		call.OtherKeys = []string{s.prefix.Of(account, keys.Pending)}
	}
	return call
}

// ended reads one document's part of a reply of done.lua, and learns from it.
func (s *RedisStore) ended(customer string, each float64, reply []int64) Ended {
	ended := Ended{Latency: time.Duration(reply[0]) * time.Millisecond, Level: Level(reply[1])}
	if ended.Level > 0 {
		s.means.times.Add(keys.Payer(customer, s.accounts), each)
	}
	return ended
}

// eachDocument makes one call for every perCall of n documents, in their order, and passes
// replied each document's reply and its index in it.
func (s *RedisStore) eachDocument(ctx context.Context, operation string, n, perCall int, call func(from, to int) script.Call,
	replied func(at, in int, reply script.Reply)) error {
	return s.inTrips(ctx, operation, n, documentsPerTrip,
		func(d *script.Deadline, from, to int, fail func(at int, err error)) {
			var calls []script.Call
			for first := from; first < to; first += perCall {
				next := call(first, min(first+perCall, to))
				// Else Redis could refuse the first commands because it does not know the
				// script, and run those that come after another process has loaded it.
				next.Ordered = n > perCall
				calls = append(calls, next)
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
