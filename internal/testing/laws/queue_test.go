package laws

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/prioritytest"
)

// What queues promise: a document counts from when it is due, and in order none is overtaken. The
// steps are one customer's, and each document has an id of its own unless they say otherwise.

// queued is a document of a sequence.
type queued struct {
	due   time.Duration // since the sequence began
	level priority.Level
	flood bool
	ended bool
}

// youngest is how long a document counts as pending at least, whatever was learned.
const youngest = 3 * time.Minute

// queueSequence returns steps of one of the customers.
func queueSequence(random *rand.Rand, customers []string, isDelayed, isRepeated bool) (steps []step) {
	customer, submitted := pick(random, customers...), 0
	for range 10 + random.IntN(30) {
		c := call{operation: prioritytest.SubmitN, customers: []string{customer}}
		switch random.IntN(3) {
		case 0:
			steps = append(steps, step{amount: pick(random, time.Millisecond, time.Second, 10*time.Second, time.Minute, 20*time.Minute)})
			continue
		case 1:
			c.operation = prioritytest.DoneN
			for range 1 + random.IntN(20) {
				c.documents = append(c.documents, numbered(random.IntN(submitted+1), 1)...)
			}
		default:
			c.documents = numbered(submitted, 1+random.IntN(12))
			submitted += len(c.documents)
			if isRepeated && random.IntN(2) == 0 {
				c.documents = numbered(random.IntN(min(submitted, 8)), 1) // one with an early level
			}
			if isDelayed {
				for range c.documents {
					c.delays = append(c.delays, pick(random, 0, 0, time.Millisecond, time.Second, time.Minute, time.Hour))
				}
			}
		}
		steps = append(steps, step{call: &c})
	}
	return steps
}

func dueSequence(random *rand.Rand) []step { return queueSequence(random, everyone, true, false) }

func orderSequence(random *rand.Rand) []step {
	return queueSequence(random, inOrder, random.IntN(2) == 0, random.IntN(3) == 0)
}

// due does the steps, and checks that a document counts from when it is due: it is decided as if
// those that are due later did not exist, and those that are due by then are pending, but for those whose lease has ended by then.
func (r *run) due(steps []step) {
	// The recent documents of those who have scheduled some are rounded otherwise: one for next
	// year, which is in the comparison, too, makes both sides alike.
	nextYear := step{call: &call{operation: prioritytest.SubmitN, documents: []string{"next year"}, delays: []time.Duration{priority.MaxDelay}}}
	if at := slices.IndexFunc(steps, func(s step) bool { return s.call != nil }); at >= 0 {
		nextYear.call.customers = steps[at].call.customers
		steps = append([]step{nextYear}, steps...)
	}
	known := make(map[string]*queued)
	pending := func(due time.Duration) (pending bounds, scheduled int64) {
		for _, d := range known {
			switch age := due - d.due; { // by then
			case d.ended:
			case age < 0:
				scheduled++
			case age <= youngest:
				pending.add(1, 1)
			case age <= lease:
				pending.add(0, 1)
			}
		}
		return pending, scheduled
	}
	check := func(what any, got int64, want bounds) {
		if got < int64(want.least) || got > int64(want.most) {
			broken(8, "%v has %d pending, want %d to %d", what, got, want.least, want.most)
		}
	}
	var calls []timed
	for _, s := range steps {
		if s.call == nil {
			r.note("wait %v", s.amount)
			r.pass(s.amount)
			continue
		}
		now := r.now()
		a := r.call(caller{}, s.call)
		if a.err != nil {
			broken(8, "%v fails: %v", s.call, a.err)
		}
		calls = append(calls, timed{now, s.call})
		for i, id := range s.call.documents {
			if d := known[id]; s.call.operation == prioritytest.SubmitN {
				known[id] = &queued{due: now + s.call.delays[i], level: a.decisions[i].Level}
			} else {
				var want priority.Ended
				if d != nil && !d.ended {
					want, d.ended = priority.Ended{Level: d.level, Latency: max(now-d.due, 0)}, true
				}
				if a.ended[i] != want {
					broken(8, "the end of %s is %+v, want %+v", id, a.ended[i], want)
				}
			}
		}
		if last := len(a.decisions) - 1; last >= 0 {
			due := now + s.call.delays[last]
			pends, _ := pending(due)
			got := a.decisions[last]
			check(s.call, got.Pending, pends)
			want := r.without(calls, due)
			if math.Abs(want.Load-got.Load) < want.Load/1000 { // what was counted another hour fades otherwise
				want.Load = got.Load
			}
			if got != want {
				broken(8, "the last of %v = %+v, but %+v if nothing was due later", s.call, got, want)
			}
		}
		state := r.peek(s.call.customers[0])
		want, scheduled := pending(r.now())
		if check(describe(state), state.Pending, want); state.Scheduled != scheduled {
			broken(8, "%d are scheduled, want %d", state.Scheduled, scheduled)
		}
	}
}

// timed is a call and when it was made.
type timed struct {
	at   time.Duration
	call *call
}

// without returns the last decision of a store that gets the calls without the documents that are
// due later, but for next year's.
func (r *run) without(calls []timed, due time.Duration) priority.Decision {
	now := r.began
	store := reference(func() time.Time { return now })
	var last answer
	for _, c := range calls {
		now = r.began.Add(c.at)
		fewer := *c.call
		if fewer.operation == prioritytest.SubmitN {
			fewer.documents, fewer.delays = nil, nil
			for i, delay := range c.call.delays {
				if c.at+delay <= due || delay == priority.MaxDelay {
					fewer.documents, fewer.delays = append(fewer.documents, c.call.documents[i]), append(fewer.delays, delay)
				}
			}
		}
		last = fewer.on(context.Background(), store)
	}
	return last.decisions[len(last.decisions)-1]
}

// order does the steps, and checks that no document gets an earlier level than one that is pending
// and due no later. Where some were scheduled or submitted again, those are the newest pending one,
// and the newest one of a flood: these keep an early level when they become the newest.
func (r *run) order(steps []step) {
	known := make(map[string]*queued)
	isMixed := false
	earliest := func(due time.Duration) priority.Level {
		var newest, newestFlood *queued
		level := priority.First
		for _, d := range known {
			if d.ended || d.due > due {
				continue
			}
			isSure := r.now()-d.due <= youngest
			if isSure && !isMixed {
				level = max(level, d.level)
			}
			if newer(d, newest) {
				newest = d
			}
			if d.flood && isSure && newer(d, newestFlood) {
				newestFlood = d
			}
		}
		for _, d := range []*queued{newest, newestFlood} {
			if d != nil && r.now()-d.due <= youngest {
				level = max(level, d.level)
			}
		}
		return level
	}
	for _, s := range steps {
		if s.call == nil {
			r.note("wait %v", s.amount)
			r.pass(s.amount)
			continue
		}
		now := r.now()
		a := r.call(caller{}, s.call)
		if a.err != nil {
			broken(9, "%v fails: %v", s.call, a.err)
		}
		loads := r.store.PolicyOf(s.call.customers[0]).Loads
		for i, id := range s.call.documents {
			d := known[id]
			if s.call.operation == prioritytest.DoneN {
				if d != nil {
					d.ended = true
				}
				continue
			}
			got := a.decisions[i]
			new := &queued{due: now, level: got.Level, flood: got.Load > loads[len(loads)-1]}
			if s.call.delays != nil {
				new.due, isMixed = now+s.call.delays[i], true
			}
			switch {
			case d == nil || d.ended:
				if least := earliest(new.due); got.Level < least {
					broken(9, "%s of %v is %+v, and would be taken before one of level %d", id, s.call, got, least)
				}
			case now-d.due <= youngest:
				if isMixed, new.flood = true, d.flood; got.Level != d.level {
					broken(9, "%s of %v had level %d, and has %d", id, s.call, d.level, got.Level)
				}
			default: // it may be presumed lost
				isMixed, new.flood = true, false
			}
			known[id] = new
		}
		if state, least := r.peek(s.call.customers[0]), earliest(r.now()); state.NextLevel < least {
			broken(9, "the next one would be taken before one of level %d: %s", least, describe(state))
		}
	}
}

// newer reports whether a document binds the next one before another, which may be nil.
func newer(d, other *queued) bool {
	return other == nil || d.due > other.due || d.due == other.due && d.level > other.level
}
