package main

import (
	"context"
	"errors"
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
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// trial is a small fleet on a Redis of its own, an operator who looks at it, and the truth.
type trial struct {
	operator
	server *redistest.Server
	client *redis.Client
	book   book
	warned atomic.Bool // a member itself has said that Redis does not answer it in time

	ctx     context.Context // ends with the trial, before its workers
	serving sync.WaitGroup
	queue   queue
	since   time.Time
}

func newTrial(t *testing.T) *trial {
	server := redistest.Start(t)
	f := &trial{operator: operatorOn(t, "-redis", "redis://"+server.Addr), server: server, client: server.Client(), since: time.Now()}
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

// worker is a process of the fleet, or a member that stands for one.
type worker struct {
	name string
	caller
}

// caller has the calls that workers of a trial make.
type caller interface {
	NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error)
	SubmitN(ctx context.Context, customer string, documents []priority.Document) ([]priority.Decision, error)
	Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error)
}

// joining is how a worker joins.
type joining struct {
	priority.RedisOptions
	hook redis.Hook // on its way to Redis
}

// join returns a worker in this process.
func (f *trial) join(name string, options ...func(*joining)) *worker {
	f.Helper()
	how := joining{RedisOptions: priority.RedisOptions{Timeout: 10 * time.Second}} // as the machine may be slow
	for _, option := range options {
		option(&how)
	}
	client := f.server.Client()
	if how.hook != nil {
		client.AddHook(how.hook)
	}
	member, err := fleet.Join(client, &fleet.Options{Name: name, Store: how.RedisOptions, Logger: slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = member.Close(ctx)
	})
	return &worker{name, member}
}

// Write notes that a member logs a warning.
func (f *trial) Write(line []byte) (int, error) {
	f.warned.Store(true)
	return len(line), nil
}

// joinAll returns workers in this process.
func (f *trial) joinAll(names ...string) (all []*worker) {
	f.Helper()
	for _, name := range names {
		all = append(all, f.join(name))
	}
	return all
}

// submit lets a worker submit documents of a customer, and enqueue them.
func (f *trial) submit(w *worker, customer string, n int) []*document {
	f.Helper()
	documents := f.submitOnly(w, customer, n)
	f.queue.put(documents...)
	return documents
}

func (f *trial) submitOnly(w *worker, customer string, n int) []*document {
	f.Helper()
	return f.decide(w, customer, n, priority.ByLoad, func(documents []priority.Document) ([]priority.Decision, error) {
		return w.SubmitN(f.ctx, customer, documents)
	})
}

// schedule lets a worker submit documents that are due long after the trial.
func (f *trial) schedule(w *worker, customer string, n int) {
	f.Helper()
	f.decide(w, customer, n, priority.ByLoad, func(documents []priority.Document) ([]priority.Decision, error) {
		for i := range documents {
			documents[i].Delay = time.Hour
		}
		return w.SubmitN(f.ctx, customer, documents)
	})
}

// count lets a worker count documents of a customer, and enqueue them.
func (f *trial) count(w *worker, customer string, n int) {
	f.Helper()
	f.queue.put(f.decide(w, customer, n, priority.ByCount, func([]priority.Document) ([]priority.Decision, error) {
		return w.NextN(f.ctx, customer, n)
	})...)
}

func (f *trial) decide(w *worker, customer string, n int, rule priority.Rule, call func([]priority.Document) ([]priority.Decision, error)) []*document {
	f.Helper()
	documents, sent := make([]*document, n), make([]priority.Document, n)
	for i := range documents {
		sent[i].ID = fmt.Sprintf("%s-%d", w.name, f.queue.number())
		documents[i] = &document{customer: customer, id: sent[i].ID, by: w.name, rule: rule, decided: period{began: time.Now()}}
	}
	f.book.write(documents)
	decisions, err := call(sent)
	ended, errs := time.Now(), itemerrors.Of(err, n)
	for i, d := range documents {
		f.book.change(d, func(d *document) {
			d.decided.ended = ended
			d.scheduled = sent[i].Delay > 0
			if d.failed = errs[i] != nil || i >= len(decisions); !d.failed {
				d.Decision = decisions[i]
			}
		})
	}
	return slices.DeleteFunc(documents, func(d *document) bool { return d.failed })
}

// fate is what becomes of a document that a worker has taken.
type fate int

const (
	ends          fate = iota // the worker calls Done
	fails                     // it is put back, and no Done is called
	endsElsewhere             // the worker calls Done, where the document is not pending
	forgotten                 // no Done is called, as if it were not known how
)

// serve lets workers take documents, the first level first, until the trial ends.
func (f *trial) serve(takes time.Duration, fateOf func(*document) fate, workers ...*worker) {
	for _, w := range workers {
		f.serving.Go(func() {
			for {
				d := f.queue.take()
				if d == nil {
					return
				}
				time.Sleep(takes) // it is processed
				switch fateOf(d) {
				case ends:
					if err := f.done(w, d, takes); errors.Is(err, errGone) {
						return
					}
				case fails:
					f.queue.put(d)
				case endsElsewhere:
					if ended, err := w.Done(f.ctx, d.customer, d.id, takes); ended.Level > 0 || err != nil && f.ctx.Err() == nil {
						f.Errorf("%s ended %+v, %v", w.name, ended, err)
					}
					fallthrough
				case forgotten:
					f.book.change(d, func(d *document) { d.forgotten = true })
				}
			}
		})
	}
}

// errGone: the worker's process has ended.
var errGone = errors.New("the process is gone")

func allEnd(*document) fate { return ends }

// done lets a worker say that a document is done.
func (f *trial) done(w *worker, d *document, took time.Duration) error {
	f.book.change(d, func(d *document) { d.ended.began, d.endedBy = time.Now(), w.name })
	if d.rule == priority.ByLoad {
		if _, err := w.Done(f.ctx, d.customer, d.id, took); err != nil {
			return err
		}
	}
	f.book.change(d, func(d *document) { d.ended.ended = time.Now() })
	return nil
}

// customers names some.
func customers(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("customer-", i))
	}
	return names
}

// send lets a worker submit a document of each customer in turn, until the trial ends.
func (f *trial) send(every time.Duration, w *worker, customers ...string) {
	f.serving.Go(func() {
		for n := 0; f.ctx.Err() == nil; n++ {
			f.submit(w, customers[n%len(customers)], 1)
			select {
			case <-time.After(every):
			case <-f.ctx.Done():
			}
		}
	})
}

// age makes pending documents of a customer older, in Redis and in the book.
func (f *trial) age(by time.Duration, documents ...*document) {
	f.Helper()
	for _, d := range documents {
		key := keys.Prefix("").Of(d.customer, keys.Pending)
		score, err := f.client.ZScore(f.Context(), key, d.id).Result()
		if err != nil {
			f.Fatal(err)
		}
		if earlier := 256 * float64(by.Milliseconds()); score > 0 {
			score -= earlier
		} else {
			score += earlier
		}
		f.client.ZAddXX(f.Context(), key, redis.Z{Member: d.id, Score: score})
		f.book.change(d, func(d *document) { d.older += by })
	}
}

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
