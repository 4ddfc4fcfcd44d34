package priorityredis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/priorityotel"
	"github.com/redis/go-redis/v9"
)

// Process works on a document. With an error, or a panic, it is tried again later. It may be
// called again for a document that it has worked on: what it writes, it writes under customer
// and id. Both are "" in what somebody else has pushed without them.
type Process = func(ctx context.Context, customer, document string, body []byte) error

// Work has process work on documents, on as many at a time as there are workers,
// until the context ends. Then it finishes what is in hand, and returns.
func (q *Queue) Work(ctx context.Context, process Process) error {
	host, _ := os.Hostname()
	name := fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8])
	var workers []string
	free := make(chan string, q.options.Workers)
	for number := range q.options.Workers {
		workers = append(workers, fmt.Sprint(name, "-", number+1))
		free <- workers[number]
	}
	q.tidy(ctx)

	var busy sync.WaitGroup
	idle := pause{most: q.options.Poll}
	for ctx.Err() == nil {
		var worker string
		select {
		case <-ctx.Done():
			continue
		case worker = <-free:
		}
		got, err := q.fetch(ctx, worker)
		if err == nil {
			idle.last = 0
			busy.Go(func() {
				q.serve(ctx, got, process)
				free <- worker
			})
			continue
		}
		if !errors.Is(err, redis.Nil) && ctx.Err() == nil {
			q.options.Logger.Warn("no document can be fetched", "error", err)
		}
		free <- worker
		_ = idle.sleep(ctx)
	}
	busy.Wait()
	q.tidy(context.WithoutCancel(ctx), workers...)
	return nil
}

// delivery is a document in a worker's hands.
type delivery struct {
	keys               []string // those that its scripts take
	worker, id         string
	tries              int
	customer, document string
	body               []byte
	trace              map[string]string
}

// fetch takes a document for a worker that has none, without waiting. The error is
// redis.Nil where there is none.
func (q *Queue) fetch(ctx context.Context, worker string) (*delivery, error) {
	order := q.order()
	keys := make([]string, 2*len(order), 2*len(order)+1)
	for i, level := range order {
		keys[i], keys[len(order)+i] = q.queues[level], q.later[level]
	}
	// After an outage those who live have half a lease to renew what they hold. So no
	// fetch begins before an outage and succeeds after it.
	spare := time.Now().UnixMilli()-q.unreached.Load() < q.options.Lease.Milliseconds()/2
	ctx, end := context.WithTimeout(ctx, max(q.options.Lease/4, time.Second))
	defer end()
	reply, err := q.run(ctx, "fetch", append(keys, q.hands...), worker, q.options.Lease.Milliseconds(), spare).Slice()
	if err != nil {
		return nil, err
	}
	level := order[reply[0].(int64)-1]
	return &delivery{
		keys:   append([]string{q.queues[level], q.later[level], q.dead}, q.hands...),
		worker: worker, id: reply[1].(string), tries: int(reply[2].(int64)),
		customer: reply[3].(string), document: reply[4].(string), body: []byte(reply[5].(string)),
		trace: map[string]string{traceparent: reply[6].(string)},
	}, nil
}

// order returns the levels, from 0, in the order in which to look for a document:
// strictly, or at random by weight. Each is the first of those that have documents
// as often as its weight's share of theirs.
func (q *Queue) order() []int {
	order := make([]int, len(q.queues))
	race := make([]float64, len(q.queues)) // who arrives first, at a speed of its weight
	for level := range order {
		order[level] = level
		race[level] = mathrand.ExpFloat64() / float64(q.options.Weights[level])
	}
	if !q.options.Strict {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(race[a], race[b]) })
	}
	return order
}

var (
	errLost  = errors.New("another worker has the document: this one was not heard of for a lease")
	errKills = errors.New("the workers that had the document were lost with it")
)

// serve works on a document and tells Redis what became of it. It does not end with
// the context.
func (q *Queue) serve(ctx context.Context, got *delivery, process Process) {
	log := q.options.Logger.With("customer", got.customer, "document", got.document, "try", got.tries)
	mostTries := len(q.options.Backoff) + 1
	if got.tries > 2*mostTries { // those who had it died before they could say so, or lost Redis
		q.giveUp(ctx, log, got, 0, errKills)
		return
	}

	ctx, endSpan := priorityotel.StartProcess(ctx, system, q.options.Name, got.trace)
	limited, end := context.WithTimeoutCause(context.WithoutCancel(ctx), q.options.Limit,
		fmt.Errorf("the document took longer than %v", q.options.Limit))
	defer end()
	held, lose := context.WithCancelCause(limited)
	defer lose(nil)
	go q.renew(held, log, got, lose)
	began := time.Now()
	err := guard(func() error { return process(held, got.customer, got.document, got.body) })
	took := time.Since(began)
	defer func() { endSpan(err) }()

	if err != nil && held.Err() != nil {
		err = errors.Join(context.Cause(held), err)
	}
	switch {
	case err == nil:
		q.settle(ctx, log, got, took)
		q.tell(ctx, log, "done", got)
	case errors.Is(err, errLost):
		log.Warn("a document is left to another worker", "error", err)
	case got.tries < mostTries:
		wait := q.options.Backoff[got.tries-1]
		log.Warn("a document failed and is tried again", "in", wait, "error", err)
		q.tell(ctx, log, "failed", got, wait.Milliseconds(), err.Error())
	default:
		q.giveUp(ctx, log, got, took, err)
	}
}

func (q *Queue) giveUp(ctx context.Context, log *slog.Logger, got *delivery, took time.Duration, why error) {
	log.Error("a document is given up", "error", why)
	q.settle(ctx, log, got, took)
	q.tell(ctx, log, "failed", got, -1, why.Error())
}

const doneTime = 5 * time.Second // a store that hangs holds no worker

// settle says that the document is pending no more. It comes before Redis removes
// the document: after a crash between the two it is served again, and settled.
func (q *Queue) settle(ctx context.Context, log *slog.Logger, got *delivery, took time.Duration) {
	if !isSubmitted(got.customer, got.document) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), doneTime)
	defer cancel()
	if err := q.store.Done(ctx, got.customer, got.document, took); err != nil {
		log.Warn("a document counts as pending until its lease ends", "error", err)
	}
}

// isSubmitted returns whether the store takes these names. What somebody else has added may have others.
func isSubmitted(customer, document string) bool {
	return priority.CheckDone(customer, []string{document}, 0) == nil
}

// guard turns a panic into an error.
func guard(process func() error) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return process()
}

// renew keeps the document this worker's until the context ends, or another has it.
func (q *Queue) renew(ctx context.Context, log *slog.Logger, got *delivery, lose context.CancelCauseFunc) {
	ticks := time.NewTicker(q.options.Lease / 3)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		ticks.Reset(q.options.Lease / 3)
		held, err := q.run(ctx, "renew", got.keys, got.worker, got.id, q.options.Lease.Milliseconds()).Bool()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("a document's lease is not renewed", "error", err)
			ticks.Reset(min(time.Second, q.options.Lease/6))
		case !held:
			lose(errLost)
			return
		}
	}
}

// tell runs a script until Redis has confirmed it. After the context's end it does so
// for one lease: then another worker has the document.
func (q *Queue) tell(ctx context.Context, log *slog.Logger, script string, got *delivery, arguments ...any) {
	began := time.Now()
	for wait := (pause{most: time.Second}); ; _ = wait.sleep(context.WithoutCancel(ctx)) {
		err := q.run(context.WithoutCancel(ctx), script, got.keys, append([]any{got.worker, got.id}, arguments...)...).Err()
		if err == nil {
			return
		}
		log.Warn("Redis does not know yet that a document is "+script, "error", err)
		if ctx.Err() != nil && time.Since(began) > q.options.Lease {
			return
		}
	}
}

// tidy removes these workers, and those that have not been heard of for a day, from
// the groups of the streams. Lists have no such memory.
func (q *Queue) tidy(ctx context.Context, ended ...string) {
	if q.options.Lists {
		return
	}
	arguments := []any{(24 * time.Hour).Milliseconds()}
	for _, worker := range ended {
		arguments = append(arguments, worker)
	}
	if err := q.run(ctx, "tidy", q.queues, arguments...).Err(); err != nil {
		q.options.Logger.Warn("workers that have ended are still listed", "error", err)
	}
}
