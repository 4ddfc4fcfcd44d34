package prioritytest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// account is what the model knows about a customer: what the fleet has counted, what
// was submitted there and is pending, and what of that is uncertain. The next Peek of
// the fleet decides what was uncertain about the count and about what was submitted
// lately.
type account struct {
	customer string
	policy   priority.Policy

	has     bool
	count   int64
	resetAt time.Duration // a document later than this resets the count
	perhaps bool          // a Reset may have ended the count, at resetAt itself

	lately   float64 // how many documents were submitted lately
	latelyAt time.Duration

	docs     map[string]lease
	doneAt   time.Duration // the last Done that may not have arrived
	adaptive bool          // leases depend on how long documents take

	others bool // another process did something since the Store reset it
}

// lease is a document that is pending, or may be, or was not long ago.
type lease struct {
	sure, maybe time.Duration  // it is pending until sure, and may be until maybe
	from, to    time.Duration  // it was submitted between them
	level       priority.Level // as given; 0: not known
	coming      bool           // a Done may still arrive
	ends        bool           // and must do so
}

const never time.Duration = math.MinInt64

// gone returns the lease of a document that is not pending.
func (l lease) gone() lease {
	return lease{sure: never, maybe: never, from: never, to: never, coming: l.coming, ends: l.ends}
}

// was reports whether a document may have been there, pending or not, since a time: it
// is forgotten after a day.
func (l lease) was(since time.Duration) bool { return l.to != never && l.to+fair.Day >= since }

// span is what a range of calls may have counted, between two times.
type span struct {
	from, to time.Duration
	min, max int
	atomic   bool // all or none
	reset    bool // the count may have been reset
	kept     bool // and may not have been

	submitsMin, submitsMax int // documents that were submitted and not pending
	again                  int // at most, that were
}

// candidate is a count that the fleet may hold.
type candidate struct {
	has       bool
	count     int64
	low, high time.Duration // of resetAt
}

// candidates calls yield with the counts that the fleet may hold after the span, until
// yield says that one of them is right.
func (a *account) candidates(s span, yield func(candidate) bool) bool {
	interval := a.policy.ResetInterval
	sinceUpdate := a.policy.ResetMode == priority.SinceLastUpdate
	if s.reset && yield(candidate{}) {
		return true
	}
	if s.reset && !s.kept {
		return false
	}
	fresh := !a.has || a.perhaps || a.resetAt < s.to
	for called := s.min; called <= s.max; called++ {
		if s.atomic && called != s.min && called != s.max {
			continue
		}
		if a.has {
			c := candidate{has: true, count: a.count - int64(called), low: a.resetAt, high: a.resetAt}
			if sinceUpdate && called > 0 {
				c.low, c.high = s.from+interval, s.to+interval
			}
			if a.resetAt >= s.from && yield(c) {
				return true
			}
		}
		if fresh {
			c := candidate{low: s.from + interval, high: s.to + interval}
			if called > 0 {
				c.has, c.count = true, int64(1-called)
			}
			if yield(c) {
				return true
			}
		}
	}
	return false
}

// is reports whether a Peek shows the candidate.
func (c *candidate) is(peeked priority.State, now, slack time.Duration) bool {
	if c.has && c.high+slack >= now && peeked.Count == c.count && peeked.Rule != priority.Unknown {
		resetAt := now + peeked.ResetIn
		if resetAt >= c.low-slack && resetAt <= c.high+slack {
			return true
		}
	}
	return (!c.has || c.low < now) && peeked.Count == 0 && peeked.ResetIn == 0 && peeked.Rule != priority.ByCount
}

// adopt takes the count that the fleet holds, if calls that counted as the span says
// can have made it.
func (a *account) adopt(s span, peeked priority.State, now, slack time.Duration) bool {
	return a.candidates(s, func(c candidate) bool {
		if !c.is(peeked, now, slack) {
			return false
		}
		a.perhaps = s.reset && s.kept && a.has && a.count == 0 && a.resetAt == now && peeked.ResetIn == 0
		if a.perhaps { // both would look like this
			return true
		}
		a.has = peeked.ResetIn > 0 || c.has && c.high >= now && peeked.Rule != priority.Unknown
		a.count, a.resetAt = peeked.Count, min(max(now+peeked.ResetIn, c.low), c.high)
		return true
	})
}

// mostLately is how many of the documents submitted lately are remembered.
const mostLately = 512

// loadOf returns a load in millionths. Lately and the cost are in thousandths.
func loadOf(lately, pending, cost int64) int64 {
	return min(min(lately, 1000*mostLately)*pending*cost, 1e15)
}

// turnOf returns by how many levels a document comes later if, with it, beyond documents
// are beyond the last load.
func turnOf(beyond int64, turns int) (turn priority.Level) {
	for ; beyond > 1 && turns > 0; turns-- {
		turn, beyond = turn+1, beyond/2
	}
	return turn
}

// latelyIn returns how much of what was submitted lately is left between two times, at
// least and at most. Below half a document, nothing is left.
func (a *account) latelyIn(from, to, slack time.Duration) (least, most float64) {
	const rounding = .003
	least = a.lately*math.Exp2(-float64(to+slack-a.latelyAt)/float64(fair.Day)) - rounding
	most = a.lately*math.Exp2(-float64(from-slack-a.latelyAt)/float64(fair.Day)) + rounding
	if least < .5 {
		least = 0
	}
	if most < .5 {
		most = 0
	}
	return least, most
}

// adoptLately takes what was submitted lately, if calls that counted as the span says can
// have made it.
func (a *account) adoptLately(s span, lately float64, now, slack time.Duration) bool {
	since := math.Exp2(-float64(now+slack-s.from) / float64(fair.Day))
	can := func(least, most float64) bool {
		for n := s.submitsMin; n <= s.submitsMax; n++ {
			low, high := least, most
			if n > 0 { // documents that are submitted again count 1 each then, though they faded
				low, high = (least+float64(n))*since-.003, max(most, float64(s.again))+float64(n)+.003
			}
			if lately == 0 && low <= 0 || lately >= .5 && lately >= min(low, mostLately*since-.003) && lately <= min(high, mostLately) {
				return true
			}
		}
		return false
	}
	if least, most := a.latelyIn(s.from, now, slack); !(s.reset && can(0, 0)) && (s.reset && !s.kept || !can(least, most)) {
		return false
	}
	a.lately, a.latelyAt = lately, now
	return true
}

// pending returns how many documents are pending at a time, at least and at most.
func (a *account) pending(now time.Duration) (sure, most int) {
	return pendingOf(a.docs, now)
}

func pendingOf(docs map[string]lease, now time.Duration) (sure, most int) {
	for _, l := range docs {
		if l.sure >= now {
			sure++
		}
		if l.maybe >= now {
			most++
		}
	}
	return sure, most
}

// split returns how many documents are pending before the last load and beyond it,
// except the documents that without names.
func (a *account) split(from, to time.Duration, without func(document string) bool) (ordinary, beyond bounds) {
	for document, l := range a.docs {
		if without(document) {
			continue
		}
		for _, part := range []struct {
			of *bounds
			is bool
		}{{&ordinary, !a.isBeyond(l.level)}, {&beyond, a.isBeyond(l.level)}} {
			if l.sure >= to && part.is && l.level > 0 {
				part.of.least++
			}
			if l.maybe >= from && (part.is || l.level == 0) {
				part.of.most++
			}
		}
	}
	return ordinary, beyond
}

// isBeyond reports whether a level is beyond the last load.
func (a *account) isBeyond(level priority.Level) bool {
	return level > priority.Level(len(a.policy.Loads))
}

// bounds are the bounds of a number.
type bounds struct{ least, most int64 }

func (b *bounds) add(least, most int64) { b.least, b.most = b.least+least, b.most+most }

// adoptPending takes the number of pending documents, if it can be that. That
// settles what was uncertain.
func (a *account) adoptPending(pending int64, now time.Duration) bool {
	sure, most := a.pending(now)
	if pending < int64(sure) || pending > int64(most) {
		return false
	}
	for document, l := range a.docs {
		switch {
		case l.maybe >= now && a.adaptive: // the next Done may change what is pending
		case l.maybe < now, l.sure < now && pending == int64(sure):
			if l.maybe = never; l.coming || l.was(now) {
				a.docs[document] = l
			} else {
				delete(a.docs, document)
			}
		case pending == int64(most) && l.sure < now && !l.coming:
			l.sure = now
			a.docs[document] = l
		}
	}
	return true
}

// arrived notes that all Dones have arrived that were accepted.
func (a *account) arrived() {
	for document, l := range a.docs {
		if l.ends {
			delete(a.docs, document)
		} else {
			l.coming = false
			a.docs[document] = l
		}
	}
}

// nextLeaseEnd returns the first time from now on at which a lease ends, or now if
// there is no such time.
func (a *account) nextLeaseEnd(now time.Duration) time.Duration {
	end := time.Duration(math.MaxInt64)
	for _, l := range a.docs {
		switch {
		case l.sure >= now:
			end = min(end, l.sure)
		case l.maybe >= now:
			end = min(end, l.maybe)
		}
	}
	if end == math.MaxInt64 {
		return now
	}
	return end
}

// entry is one document of a call, and what the call returned for it.
type entry struct {
	customer, document string // without a document: by the count
	cost               float64
	decision           priority.Decision
	err                error
}

// within reports whether the count can have that value after that many documents.
func (a *account) within(count int64, documents bounds, from, to time.Duration) bool {
	live, fresh := a.has && a.resetAt >= from, !a.has || a.perhaps || a.resetAt < to
	if live && count >= a.count-documents.most && count <= a.count-documents.least {
		return true
	}
	return fresh && count >= min(0, 1-documents.most) && count <= min(0, 1-documents.least)
}

// String shows what the model knows.
func (a *account) String() string {
	count := "no count"
	if a.has {
		count = fmt.Sprintf("count %d until %v", a.count, a.resetAt)
	}
	var docs []string
	for document, l := range a.docs {
		switch {
		case l.maybe == never:
		case l.sure == l.maybe:
			docs = append(docs, fmt.Sprintf("%s until %v", document, l.sure))
		default:
			docs = append(docs, fmt.Sprintf("%s perhaps until %v", document, l.maybe))
		}
	}
	slices.Sort(docs)
	return fmt.Sprintf("%s, %.3f lately, pending %q", count, a.lately, docs)
}
