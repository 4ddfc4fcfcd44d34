package laws

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/prioritytest"
)

// A document counts from when it is due. The steps are one customer's, and each document has an id
// of its own.

// queued is a document of a sequence.
type queued struct {
	submitted, due   time.Duration // since the sequence began
	level            priority.Level
	flood            bool
	ended, cancelled bool // cancelled: ended before it was due
}

// youngest is how long a document counts as pending at least, whatever was learned.
const youngest = 3 * time.Minute

// dueSequence returns steps of one of the customers.
func dueSequence(random *rand.Rand) (steps []step) {
	customer, submitted := pick(random, everyone...), 0
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
			for range c.documents {
				c.delays = append(c.delays, pick(random, 0, 0, time.Millisecond, time.Second, time.Minute, 90*time.Second, time.Hour, 80*time.Minute))
			}
		}
		steps = append(steps, step{call: &c})
	}
	return steps
}

// due does the steps, and checks that a document counts from when it is due: one counts those that
// are due before it, but for those whose lease has ended by then, and those that are due as long
// after it as its delay, a lease at most.
func (r *run) due(steps []step) {
	known := make(map[string]*queued)
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
		policy := r.store.PolicyOf(s.call.customers[0])
		for i, id := range s.call.documents {
			if s.call.operation == prioritytest.DoneN {
				var want priority.Ended
				if d := known[id]; d != nil && !d.ended {
					want, d.ended, d.cancelled = priority.Ended{Level: d.level, Latency: max(now-d.due, 0)}, true, now < d.due
				}
				if a.ended[i] != want {
					broken(8, "the end of %s is %+v, want %+v", id, a.ended[i], want)
				}
				continue
			}
			got, delay := a.decisions[i], s.call.delays[i]
			c := count(known, now, delay)
			load := bounds{(c.recent.least + 1000) * (c.ordinary.least + 1), (c.recent.most + 1000) * (c.ordinary.most + 1)}
			earliest := policy.LevelOfLoad(got.Load, int64(c.flood.least+1))
			c.pending.add(1, 1)
			if !c.pending.has(got.Pending) || !load.has(int64(math.Round(1000*got.Load))) || got.Level < earliest {
				broken(8, "%s of %v is %+v, want %v pending, a load of %v thousandths, level %d or later", id, s.call, got, c.pending, load, earliest)
			}
			known[id] = &queued{submitted: now, due: now + delay, level: got.Level, flood: got.Load > policy.Loads[len(policy.Loads)-1]}
		}
		state, c := r.peek(s.call.customers[0]), count(known, now, 0)
		if !c.pending.has(state.Pending) || state.Scheduled != c.scheduled {
			broken(8, "want %v pending, %d scheduled: %s", c.pending, c.scheduled, describe(state))
		}
	}
}

// counts are what a new document counts. Of the recent ones it counts thousandths.
type counts struct {
	pending, ordinary, flood, recent bounds
	scheduled                        int64
}

func count(known map[string]*queued, now, delay time.Duration) (c counts) {
	for _, d := range known {
		age := now + delay - d.due // when the new one is due
		if age < 0 && !d.ended {
			c.scheduled++
		}
		least, most := 0, 0
		if age >= -min(delay, lease) {
			most = 1
		}
		if age >= -min(delay, youngest) {
			least = 1
		}
		if d.cancelled { // it may be among the recent ones already
			c.recent.add(0, 1000*most)
		} else {
			left := math.Exp2(-float64(now-d.submitted) / float64(24*time.Hour))
			c.recent.add(int(990*left)*least, 1000*most)
		}
		if d.ended || age > lease {
			continue
		} else if age > youngest {
			least = 0
		}
		c.pending.add(least, most)
		if d.flood {
			c.flood.add(least, most)
		} else {
			c.ordinary.add(least, most)
		}
	}
	return c
}

func (b bounds) has(n int64) bool { return int64(b.least) <= n && n <= int64(b.most) }
