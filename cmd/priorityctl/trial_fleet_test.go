//go:build !race

package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/virtualredis"
	"github.com/docpriority/priority/prioritytest"
)

// trial is a small fleet in virtual time, an operator who looks at it, and the truth: all documents.
// Nothing happens while the operator looks, so that each number has to be exact.
type trial struct {
	operator
	redis  *virtualredis.Redis
	client *redis.Client

	ctx     context.Context // ends with the trial, before its workers
	serving sync.WaitGroup
	paused  atomic.Bool // whether nothing is submitted or taken
	queue   queue

	mu  sync.Mutex // guards what becomes of documents
	all []*document
}

// document is one that a worker of the trial submitted or counted.
type document struct {
	customer, id string
	by, endedBy  string // workers
	rule         priority.Rule
	priority.Decision
	decided, ended time.Time // ended is zero until Done was called

	failed    bool // no call gave it a level
	scheduled bool // it is due long after the trial
	forgotten bool // it was served, and no Done was called
}

func newTrial(t *testing.T) *trial {
	r := virtualredis.Start(t)
	f := &trial{operator: operatorOn(t, "-redis", "redis://counts"), redis: r, client: r.Client(nil)}
	f.connect = func(*redis.UniversalOptions) redis.UniversalClient {
		client := r.Client(nil)
		client.AddHook(info{})
		return client
	}
	f.queue.arrived.L = &f.queue.mu
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	f.ctx = ctx
	t.Cleanup(func() {
		stop()
		f.queue.close()
		f.serving.Wait()
	})
	return f
}

// info answers INFO, of which miniredis knows next to nothing.
type info struct{}

func (info) DialHook(next redis.DialHook) redis.DialHook { return next }
func (info) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (info) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "info" {
			cmd.(*redis.StringCmd).SetVal("redis_version:8.0.6\r\nredis_mode:standalone\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n")
		}
		return err
	}
}

// worker is a member of the fleet that stands for a process.
type worker struct {
	*fleet.Member
	name   string
	faults *virtualredis.Faults
	killed atomic.Bool
}

// join returns workers with these options of their stores.
func (f *trial) join(options priority.RedisOptions, names ...string) (all []*worker) {
	f.Helper()
	for _, name := range names {
		w := &worker{name: name, faults: new(virtualredis.Faults)}
		var err error
		if w.Member, err = fleet.Join(f.redis.Client(w.faults), &fleet.Options{Name: name, Store: options, Interval: 2 * time.Second, Logger: slog.New(slog.DiscardHandler)}); err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() {
			w.faults.Heal()
			_ = w.Close(context.Background())
		})
		all = append(all, w)
	}
	return all
}

func (f *trial) workers(names ...string) []*worker { return f.join(priority.RedisOptions{}, names...) }

// kill ends a worker as its machine would, or cuts it off.
func (w *worker) kill() {
	w.killed.Store(true)
	w.faults.Fail(prioritytest.Fault{})
}

// submit lets a worker submit documents of a customer, and enqueue them.
func (f *trial) submit(w *worker, customer string, n int) []*document {
	f.Helper()
	documents := f.decide(w, customer, n, priority.ByLoad, 0)
	f.queue.put(documents...)
	return documents
}

// decide lets a worker submit documents, or count them. It returns those that have got a level.
func (f *trial) decide(w *worker, customer string, n int, rule priority.Rule, delay time.Duration) []*document {
	f.Helper()
	documents, sent := make([]*document, n), make([]priority.Document, n)
	for i := range documents {
		sent[i] = priority.Document{ID: fmt.Sprintf("%s-%d", w.name, f.queue.number()), Delay: delay}
		documents[i] = &document{customer: customer, id: sent[i].ID, by: w.name, rule: rule, scheduled: delay > 0}
	}
	call := func() ([]priority.Decision, error) { return w.SubmitN(f.ctx, customer, sent) }
	if rule == priority.ByCount {
		call = func() ([]priority.Decision, error) { return w.NextN(f.ctx, customer, n) }
	}
	decisions, err := call()
	errs := itemerrors.Of(err, n)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, d := range documents {
		d.decided = time.Now()
		if d.failed = errs[i] != nil; !d.failed {
			d.Decision = decisions[i]
		}
	}
	f.all = append(f.all, documents...)
	return slices.DeleteFunc(slices.Clone(documents), func(d *document) bool { return d.failed })
}

// fate is what becomes of a document that a worker has taken.
type fate int

const (
	ends      fate = iota // the worker calls Done
	fails                 // it is put back, and no Done is called
	forgotten             // no Done is called
)

func allEnd(*document) fate { return ends }

// serve lets workers take documents, the first level first, until the trial ends.
func (f *trial) serve(takes time.Duration, fateOf func(*document) fate, workers ...*worker) {
	for _, w := range workers {
		f.serving.Go(func() {
			for {
				f.wait()
				d := f.queue.take()
				if d == nil || w.killed.Load() {
					return
				}
				time.Sleep(takes)
				switch fateOf(d) {
				case ends:
					f.done(w, d, takes)
				case fails:
					f.queue.put(d)
				case forgotten:
					f.mu.Lock()
					d.forgotten = true
					f.mu.Unlock()
				}
			}
		})
	}
}

// done lets a worker say that a document is done.
func (f *trial) done(w *worker, d *document, took time.Duration) {
	if d.rule == priority.ByLoad {
		_, _ = w.Done(f.ctx, d.customer, d.id, took) // a worker that is killed tells nobody
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d.ended, d.endedBy = time.Now(), w.name
}

// customers names some.
func customers(n int, others ...string) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("customer-", i))
	}
	return append(names, others...)
}

// send lets a worker submit a document of each customer in turn, until the trial ends.
func (f *trial) send(w *worker, customers ...string) {
	f.serving.Go(func() {
		for n := 0; f.ctx.Err() == nil && !w.killed.Load(); n++ {
			f.wait()
			f.submit(w, customers[n%len(customers)], 1)
			time.Sleep(time.Second)
		}
	})
}

// wait waits while the fleet is paused.
func (f *trial) wait() {
	for f.paused.Load() && f.ctx.Err() == nil {
		time.Sleep(time.Second)
	}
}

// count returns how many documents are so.
func (f *trial) count(is func(*document) bool) (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.all {
		if is(d) {
			n++
		}
	}
	return n
}

// byLoad: Redis gave it a level by load.
func (d *document) byLoad() bool { return d.rule == priority.ByLoad && !d.failed && !d.Degraded }

// waits: it is pending.
func (d *document) waits() bool { return d.byLoad() && d.ended.IsZero() && !d.scheduled }

// floods: it is pending beyond the last load of five.
func (d *document) floods() bool { return d.waits() && d.RuleLevel > 5 }

// queue is a broker's: strict, the first level first.
type queue struct {
	mu      sync.Mutex
	arrived sync.Cond
	levels  [256][]*document
	upTo    priority.Level // the last level that is served; 0: all are
	numbers int
	closed  bool
}

// number returns a number that no other document has.
func (q *queue) number() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.numbers++
	return q.numbers
}

func (q *queue) put(documents ...*document) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range documents {
		q.levels[d.Level] = append(q.levels[d.Level], d)
	}
	q.arrived.Broadcast()
}

// take waits for a document; nil: the queue is closed.
func (q *queue) take() *document {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		for level, waiting := range q.levels {
			if len(waiting) > 0 && (q.upTo == 0 || level <= int(q.upTo)) {
				q.levels[level] = waiting[1:]
				return waiting[0]
			}
		}
		q.arrived.Wait()
	}
	return nil
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.arrived.Broadcast()
}
