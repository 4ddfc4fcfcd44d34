package soak

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/docpriority/priority"
)

const (
	backlog        = 2000 // documents of floods that wait at a time
	floods         = 3    // customers who send them
	smallCustomers = 500  // who send a document now and then
	smallEvery     = 50 * time.Millisecond
	workers        = 4
	workTakes      = 10 * time.Millisecond
)

// Waits is how long documents waited in the queue: from Submit's answer until a worker
// took them.
type Waits struct {
	Documents     int64
	Median, Worst time.Duration
}

// String gives the waits in one line.
func (w Waits) String() string {
	return fmt.Sprintf("%d documents, %v in the median, %v at most", w.Documents, w.Median.Round(time.Millisecond), w.Worst.Round(time.Millisecond))
}

// line is a queue and those at its ends: floods, of which a backlog always waits, small
// customers, whom that must not hold up, and workers.
type line struct {
	members []priority.Store // they submit and work in turn

	mu           sync.Mutex
	changed      *sync.Cond
	over         bool
	levels       [][]queued              // by level; workers take the first one, and of it the oldest
	waiting      int                     // of floods
	small, flood *hdrhistogram.Histogram // of waits, in µs
}

type queued struct {
	document
	arrived time.Time
	small   bool
}

func newLine(members []priority.Store) *line {
	histogram := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Hour.Microseconds(), 3) }
	l := &line{members: members, small: histogram(), flood: histogram()}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// run has documents come and be worked on until the context ends. What waits then is done
// without being worked on.
func (l *line) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.over = true
		l.changed.Broadcast()
	})
	defer stop()
	whole := context.WithoutCancel(ctx)
	var running sync.WaitGroup
	for at := range floods {
		running.Go(func() {
			for n := 0; l.awaitRoom(); n++ {
				l.send(whole, n, document{customer: fmt.Sprint("flood-", at), id: fmt.Sprint(n)}, false)
			}
		})
	}
	running.Go(func() {
		for n := 0; rest(ctx, smallEvery); n++ {
			l.send(whole, n, document{customer: fmt.Sprint("small-", n%smallCustomers), id: fmt.Sprint(n)}, true)
		}
	})
	for at := range workers {
		running.Go(func() {
			for q, ok := l.take(); ok; q, ok = l.take() {
				began := time.Now()
				time.Sleep(workTakes)
				_ = l.member(at).Done(whole, q.customer, q.id, time.Since(began))
			}
		})
	}
	running.Wait()
	for _, level := range l.levels {
		for n, q := range level {
			_ = l.member(n).Done(whole, q.customer, q.id, 0)
		}
	}
}

func (l *line) member(n int) priority.Store { return l.members[n%len(l.members)] }

// awaitRoom waits until floods may send more. It returns false when all is over.
func (l *line) awaitRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.waiting >= backlog && !l.over {
		l.changed.Wait()
	}
	return !l.over
}

// send submits a document and puts it into the queue.
func (l *line) send(ctx context.Context, n int, d document, small bool) {
	decision, err := l.member(n).Submit(ctx, d.customer, d.id, 0)
	level := int(decision.Level)
	if err != nil {
		level = int(priority.First) // as a worker's own default
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.levels) <= level {
		l.levels = append(l.levels, nil)
	}
	l.levels[level] = append(l.levels[level], queued{d, time.Now(), small})
	if !small {
		l.waiting++
	}
	l.changed.Broadcast()
}

// take takes the next document out of the queue. It returns false when all is over.
func (l *line) take() (queued, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.over {
		for level, of := range l.levels {
			if len(of) == 0 {
				continue
			}
			q := of[0]
			l.levels[level] = of[1:]
			waits := l.small
			if !q.small {
				waits = l.flood
				l.waiting--
			}
			_ = waits.RecordValue(min(time.Since(q.arrived), time.Hour).Microseconds())
			l.changed.Broadcast()
			return q, true
		}
		l.changed.Wait()
	}
	return queued{}, false
}

// waits returns the waits of small customers and of floods.
func (l *line) waits() (small, flood Waits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := func(h *hdrhistogram.Histogram) Waits {
		microseconds := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
		return Waits{h.TotalCount(), microseconds(h.ValueAtQuantile(50)), microseconds(h.Max())}
	}
	return of(l.small), of(l.flood)
}

// rest waits. It returns false when the context has ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
