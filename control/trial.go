package control

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

var tallyScript = script.New(lua.Tally, 1, 0)

// Moved is how many documents a trial has seen with a level that would have another.
type Moved struct {
	From      priority.Level `json:"from"`
	To        priority.Level `json:"to"` // by the rules on trial; it may be the same
	Documents int64          `json:"documents"`
}

// tally counts what one process sees of a trial. A nil *tally counts nothing.
type tally struct {
	version int64
	last    priority.Level
	counts  []pair // by from and to

	writing sync.Mutex // held while what is pending is written
}

type pair struct {
	seen    atomic.Int64 // by this process, ever
	pending atomic.Int64 // of that, what is not in Redis yet
}

func newTally(version int64, last priority.Level) *tally {
	return &tally{version: version, last: last, counts: make([]pair, int(last)*int(last))}
}

// add counts documents with a level, and the one by the rules on trial.
func (t *tally) add(from, to priority.Level, documents int64) {
	if t == nil || from < priority.First || to < priority.First || from > t.last || to > t.last {
		return
	}
	p := &t.counts[int(from-1)*int(t.last)+int(to-1)]
	p.seen.Add(documents)
	p.pending.Add(documents)
}

// moved returns what this process has seen.
func (t *tally) moved() (all []Moved) {
	if t == nil {
		return nil
	}
	for i := range t.counts {
		if n := t.counts[i].seen.Load(); n > 0 {
			all = append(all, Moved{t.levels(i).From, t.levels(i).To, n})
		}
	}
	return all
}

func (t *tally) levels(i int) Moved {
	return Moved{From: priority.Level(i/int(t.last)) + 1, To: priority.Level(i%int(t.last)) + 1}
}

// flush adds what is pending to the total in Redis, at most once.
func (t *tally) flush(ctx context.Context, r *reader) error {
	if t == nil {
		return nil
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	numbers := []int64{t.version}
	for i := range t.counts {
		if n := t.counts[i].pending.Swap(0); n > 0 {
			numbers = append(numbers, int64(t.levels(i).From), int64(t.levels(i).To), n)
		}
	}
	if len(numbers) == 1 {
		return nil
	}
	d, cancel := script.Begin(ctx, readTimeout)
	defer cancel()
	key := r.key("trial")
	_, failure := r.runner.Run(d, &script.Call{Script: tallyScript, Key: key, Numbers: numbers})
	if failure == nil {
		return nil
	}
	if failure.Outcome == script.NotCounted {
		for i := 1; i < len(numbers); i += 3 {
			t.counts[int(numbers[i]-1)*int(t.last)+int(numbers[i+1]-1)].pending.Add(numbers[i+2])
		}
	}
	return readFailed(key, failure.Err)
}
