package prioritytest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/docpriority/priority"
)

// account is what the model knows of a customer: what the fleet has counted and what
// is pending there, and what is uncertain of both. What was uncertain of the count is
// decided when the fleet is asked next.
type account struct {
	customer string
	policy   priority.Policy

	has     bool
	count   int64
	resetAt time.Duration // a document later than this resets the count

	docs     map[string]lease
	doneAt   time.Duration // the last Done that may not have arrived
	adaptive bool          // leases depend on how long documents take

	others bool // another process did something since the Store reset it
}

// lease is a document that is pending, or may be.
type lease struct {
	sure, maybe time.Duration // it is pending until sure, and may be until maybe
	coming      bool          // a Done may still arrive
	ends        bool          // and must do so
}

const never time.Duration = math.MinInt64

// span is what a range of calls may have counted, between two times.
type span struct {
	from, to time.Duration
	min, max int
	atomic   bool // all or none
	reset    bool // the count may have been reset
	kept     bool // and may not have been
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
	fresh := !a.has || a.resetAt < s.to
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

// is reports whether a decision of Peek shows the candidate.
func (c *candidate) is(peeked priority.State, now, slack time.Duration) bool {
	if c.has && c.high+slack >= now && peeked.Count == c.count {
		resetAt := now + peeked.ResetIn
		if resetAt >= c.low-slack && resetAt <= c.high+slack {
			return true
		}
	}
	return (!c.has || c.low < now) && peeked.Count == 0 && peeked.ResetIn == 0
}

// adopt takes the count that the fleet holds, if calls that counted as the span says
// can have made it.
func (a *account) adopt(s span, peeked priority.State, now, slack time.Duration) bool {
	return a.candidates(s, func(c candidate) bool {
		if !c.is(peeked, now, slack) {
			return false
		}
		a.has = peeked.ResetIn > 0 || c.has && c.high >= now
		a.count, a.resetAt = peeked.Count, min(max(now+peeked.ResetIn, c.low), c.high)
		return true
	})
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

// adoptPending takes the number of pending documents, if it can be that. What it
// decides is not uncertain any more.
func (a *account) adoptPending(pending int64, now time.Duration) bool {
	sure, most := a.pending(now)
	if pending < int64(sure) || pending > int64(most) {
		return false
	}
	for document, l := range a.docs {
		switch {
		case l.maybe >= now && a.adaptive: // the next Done may change what is pending
		case l.maybe < now, l.sure < now && pending == int64(sure):
			if l.maybe = never; l.coming {
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

// nextLeaseEnd returns the first time from now on at which a lease ends; now if none
// does.
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
	customer, document string // no document: by the rule alone
	decision           priority.Decision
	err                error
}

// judgeLevel checks a decision's level.
func (r *run) judgeLevel(policy priority.Policy, d priority.Decision, submits bool) {
	level := policy.Level(d.Count)
	if submits {
		level = policy.LevelOfLoad(d.Load)
	}
	if d.Level < level || d.Level > level && (!submits || d.Level > level+priority.Level(policy.Turns)) {
		r.broken(4, "count %d and load %v are level %d, not %d", d.Count, d.Load, level, d.Level)
	}
}

// progress is what a call's entries of one customer may have counted so far.
type progress struct {
	min, max int
	docs     map[string]lease
}

// within reports whether a count can be that after so many documents.
func (a *account) within(count int64, p *progress, from, to time.Duration) bool {
	live, fresh := a.has && a.resetAt >= from, !a.has || a.resetAt < to
	if live && count >= a.count-int64(p.max) && count <= a.count-int64(p.min) {
		return true
	}
	return fresh && count >= min(0, int64(1-p.max)) && count <= min(0, int64(1-p.min))
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
		case l.sure == l.maybe:
			docs = append(docs, fmt.Sprintf("%s until %v", document, l.sure))
		default:
			docs = append(docs, fmt.Sprintf("%s perhaps until %v", document, l.maybe))
		}
	}
	slices.Sort(docs)
	return fmt.Sprintf("%s, pending %q", count, docs)
}
