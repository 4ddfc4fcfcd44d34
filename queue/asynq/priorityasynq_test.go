package priorityasynq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

func TestEachTaskGoesToTheQueueOfItsLevel(t *testing.T) {
	t.Parallel()
	q := open(t)
	var last *asynq.TaskInfo
	for number := range 40 {
		info := q.enqueue("flood", asynq.NewTask("convert", nil))
		if number == 0 && info.Queue != "documents-1" {
			t.Errorf("the first task is in %s", info.Queue)
		}
		last = info
	}
	if last.Queue <= "documents-3" {
		t.Errorf("a flood's 40th task is in %s", last.Queue)
	}
	if info := q.enqueue("clinic", asynq.NewTask("convert", nil, asynq.Queue("team's"))); info.Queue != "documents-1" {
		t.Errorf("another customer's task is in %s", info.Queue)
	}
	info := q.enqueue("", asynq.NewTask("convert", nil, asynq.Queue("team's")))
	if info.Queue != "team's" || len(info.Headers) != 0 {
		t.Errorf("a task without a customer: %+v", info)
	}
	if q.pending("flood") != 40 || q.pending("clinic") != 1 {
		t.Error("not all are pending")
	}
}

func TestATaskKeepsItsOptionsAndHeaders(t *testing.T) {
	t.Parallel()
	q := open(t)
	headers := map[string]string{"tenant": "7"}
	deadline := time.Now().Add(time.Hour).Truncate(time.Second)
	task := asynq.NewTaskWithHeaders("convert", []byte("{}"), headers,
		asynq.MaxRetry(3), asynq.Timeout(time.Minute), asynq.Deadline(deadline), Document("invoice"), nil)
	returned := q.enqueue("acme", task, asynq.MaxRetry(4), asynq.Retention(time.Hour), Cost(2.5))
	info, err := q.inspector.GetTaskInfo(returned.Queue, returned.ID)
	if err != nil {
		t.Fatal(err)
	}
	if info.Type != "convert" || string(info.Payload) != "{}" || info.MaxRetry != 4 || info.Timeout != time.Minute ||
		!info.Deadline.Equal(deadline) || info.Retention != time.Hour {
		t.Errorf("%+v", info)
	}
	of, ok := documentOf(info.Headers)
	if info.Headers["tenant"] != "7" || !ok || of != (document{"acme", "invoice", 2.5}) {
		t.Errorf("headers %v", info.Headers)
	}
	if len(headers) != 1 || len(task.Headers()) != 1 {
		t.Error("the caller's task was changed")
	}
}

func TestWithoutALevelNothingIsEnqueued(t *testing.T) {
	t.Parallel()
	q := open(t)
	for what, c := range map[string]struct {
		customer string
		opt      asynq.Option
		want     error
	}{
		"a customer that is not UTF-8": {"\xff", Cost(1), priority.ErrInvalidCustomer},
		"an id that is not UTF-8":      {"acme", Document("\xff"), priority.ErrInvalidDocument},
		"a group":                      {"acme", asynq.Group("all"), priority.ErrInvalidOption},
		"a unique task":                {"acme", asynq.Unique(time.Hour), priority.ErrInvalidOption},
		"a cost below 0":               {"acme", Cost(-1), priority.ErrInvalidCost},
	} {
		_, err := q.Enqueue(t.Context(), c.customer, asynq.NewTask("convert", nil, c.opt))
		if !errors.Is(err, ErrSubmit) || !errors.Is(err, c.want) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if all, err := q.inspector.Queues(); err != nil || len(all) != 0 {
		t.Errorf("queues %q, error %v", all, err)
	}
}

// The client has sent it, and sends it again.
func TestALostReplyIsNoSecondDocument(t *testing.T) {
	t.Parallel()
	q := open(t)
	var lost atomic.Bool
	q.redis.AddHook(each(func(ctx context.Context, command redis.Cmder, next redis.ProcessHook) error {
		if strings.HasPrefix(command.Name(), "eval") && lost.CompareAndSwap(false, true) {
			if err := next(ctx, command); err != nil {
				return err
			}
		}
		return next(ctx, command)
	}))
	first := q.enqueue("acme", asynq.NewTask("convert", nil))
	info, err := q.inspector.GetTaskInfo(first.Queue, first.ID)
	if err != nil || info.State != asynq.TaskStatePending || !lost.Load() || q.pending("acme") != 1 {
		t.Errorf("%+v, error %v; %d pending", info, err, q.pending("acme"))
	}
}

func TestWhatIsNotEnqueuedIsNotPending(t *testing.T) {
	t.Parallel()
	q := openWith(t, priority.Policy{Thresholds: []int64{}}) // one level, so that ids conflict
	enqueue := func(opts ...asynq.Option) error {
		_, err := q.Enqueue(t.Context(), "acme", asynq.NewTask("convert", nil), opts...)
		return err
	}
	if err := enqueue(asynq.TaskID("team's")); err != nil {
		t.Fatal(err)
	}
	if err := enqueue(asynq.TaskID("team's")); !errors.Is(err, asynq.ErrTaskIDConflict) || q.pending("acme") != 1 {
		t.Errorf("error %v; %d pending, want 1", err, q.pending("acme"))
	}
	if err := enqueue(asynq.TaskID("invoice"), Document("invoice")); err != nil {
		t.Fatal(err)
	}
	err := enqueue(asynq.TaskID("invoice"), Document("invoice")) // it ends with the task that is there
	if !errors.Is(err, asynq.ErrTaskIDConflict) || q.pending("acme") != 2 {
		t.Errorf("error %v; %d pending, want 2", err, q.pending("acme"))
	}
	if err := enqueue(asynq.TaskID(" ")); err == nil || q.pending("acme") != 2 {
		t.Errorf("error %v; %d pending, want 2", err, q.pending("acme"))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := q.Enqueue(ended, "other", asynq.NewTask("convert", nil)); err == nil || q.pending("other") != 0 {
		t.Errorf("error %v; %d pending", err, q.pending("other"))
	}
}

type reason struct{ text string }

func (r *reason) Error() string { return r.text }

func TestAnErrorOfAnyTextCanBeStored(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	handle := func(task *asynq.Task, handler func() error) (panicked any, err error) {
		defer func() { panicked = recover() }()
		return nil, Middleware(new(memory.Store))(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return handler() })).
			ProcessTask(t.Context(), task)
	}
	ours := asynq.NewTaskWithHeaders("convert", nil, map[string]string{customerHeader: "acme", documentHeader: "invoice"})
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"plain":           {boom, "boom"},
		"not UTF-8":       {fmt.Errorf("no number: \xff\xfe: %w", boom), "no number: \uFFFD: boom"},
		"Error panics":    {(*reason)(nil), "<nil>"},
		"wraps SkipRetry": {fmt.Errorf("\xff: %w", asynq.SkipRetry), "\uFFFD: " + asynq.SkipRetry.Error()},
	} {
		_, err := handle(ours, func() error { return c.err })
		if err == nil || err.Error() != c.want || !errors.Is(err, c.err) && what != "Error panics" {
			t.Errorf("%s: error %v, want %s", what, err, c.want)
		}
	}
	if panicked, _ := handle(ours, func() error { panic("no number: \xff") }); panicked != "no number: \uFFFD" {
		t.Errorf("panic %q", panicked)
	}
	if panicked, _ := handle(ours, func() error { panic(boom) }); panicked != boom {
		t.Errorf("panic %v", panicked)
	}
	foreign := errors.New("\xff")
	if _, err := handle(asynq.NewTask("mail", nil), func() error { return foreign }); err != foreign {
		t.Errorf("another program's task: error %q", err)
	}
}

func TestDeadLettersAreRetriedAsNewTasks(t *testing.T) {
	t.Parallel()
	q := open(t)
	task := asynq.NewTaskWithHeaders("convert", []byte("{}"), map[string]string{"tenant": "7"}, asynq.MaxRetry(3), asynq.Timeout(time.Minute), asynq.Retention(time.Hour))
	q.archive(q.enqueue("acme", task))
	for number := range 150 { // more than a page has
		info, err := q.Client.client.Enqueue(asynq.NewTask("mail", nil, asynq.Queue("documents-9")))
		if err != nil {
			t.Fatal(number, err)
		}
		q.archive(info)
	}
	dead := q.dead()
	if len(dead) != 151 || dead[0].Customer != "acme" || dead[0].Document == "" || dead[1].Customer != "" || dead[1].Task.Type != "mail" {
		t.Fatalf("%d letters: %+v", len(dead), dead[:2])
	}
	letter := dead[0]
	if err := q.store.Done(t.Context(), "acme", letter.Document, 0); err != nil { // as Settle says it
		t.Fatal(err)
	}
	for number := range 40 { // the customer has become a flood
		if _, err := q.store.Submit(t.Context(), "acme", fmt.Sprint(number), 0); err != nil {
			t.Fatal(err)
		}
	}
	var retried atomic.Int32
	var operators sync.WaitGroup
	for range 4 {
		operators.Go(func() {
			switch err := q.Retry(t.Context(), letter); {
			case err == nil:
				retried.Add(1)
			case !errors.Is(err, asynq.ErrTaskNotFound) && !errors.Is(err, errUnderWay):
				t.Error(err)
			}
		})
	}
	operators.Wait()
	if err := q.Retry(t.Context(), letter); !errors.Is(err, asynq.ErrTaskNotFound) {
		t.Errorf("again: error %v", err)
	}
	waiting := q.waiting()
	if retried.Load() < 1 || len(waiting) != 1 || q.pending("acme") != 41 {
		t.Fatalf("%d operators have retried it; %d wait, %d pending", retried.Load(), len(waiting), q.pending("acme"))
	}
	info := waiting[0]
	if info.Queue <= "documents-3" || info.Retried != 0 || info.MaxRetry != 3 || info.Timeout != time.Minute || info.Retention != time.Hour ||
		info.Type != "convert" || string(info.Payload) != "{}" || !maps.Equal(info.Headers, letter.Task.Headers) {
		t.Errorf("%+v", info)
	}
	if err := q.Retry(t.Context(), dead[1]); err != nil {
		t.Error(err)
	}
	if left := q.dead(); len(left) != 149 || len(q.waiting()) != 2 {
		t.Errorf("%d letters are left, %d wait", len(left), len(q.waiting()))
	}
}

// An operator's program was killed in the middle. Whoever repeats it does the rest.
func TestARetryThatWasBrokenOffIsRepeated(t *testing.T) {
	t.Parallel()
	for what, fails := range map[string]func(redis.Cmder, int) bool{
		"the enqueue":  func(_ redis.Cmder, scripts int) bool { return scripts == 2 },
		"its note":     func(command redis.Cmder, _ int) bool { return len(command.Args()) > 2 && command.Args()[2] == sent },
		"the deletion": func(_ redis.Cmder, scripts int) bool { return scripts == 3 },
	} {
		q := open(t)
		q.archive(q.enqueue("acme", asynq.NewTask("convert", nil)))
		letter, scripts, away := q.dead()[0], 0, errors.New("away")
		q.redis.AddHook(each(func(ctx context.Context, command redis.Cmder, next redis.ProcessHook) error {
			if command.Name() == "evalsha" {
				scripts++
			}
			if away != nil && fails(command, scripts) {
				return away
			}
			return next(ctx, command)
		}))
		if err := q.Retry(t.Context(), letter); err == nil {
			t.Errorf("%s: no error", what)
		}
		away = nil
		err := q.Retry(t.Context(), letter)
		if errors.Is(err, errUnderWay) {
			q.redis.PExpire(t.Context(), "priorityasynq:{"+letter.Task.Queue+"}:retry:"+letter.Task.ID, remembered-patience)
			err = q.Retry(t.Context(), letter)
		}
		if err != nil || len(q.waiting()) != 1 || len(q.dead()) != 0 || q.pending("acme") != 1 {
			t.Errorf("%s: error %v; %d wait, %d letters, %d pending", what, err, len(q.waiting()), len(q.dead()), q.pending("acme"))
		}
	}
}

func TestSettleSaysDoneForArchivedTasks(t *testing.T) {
	t.Parallel()
	q := open(t)
	q.archive(q.enqueue("acme", asynq.NewTask("convert", nil)))
	q.enqueue("acme", asynq.NewTask("convert", nil))
	ctx, cancel := context.WithCancel(t.Context())
	var settled sync.WaitGroup
	settled.Go(func() { q.Settle(ctx) })
	redistest.Await(t, "the archived one is done", func() bool { return q.pending("acme") == 1 })
	cancel()
	settled.Wait()
	if pending := q.pending("acme"); pending != 1 {
		t.Errorf("%d pending", pending)
	}
}

// failing is a store in memory whose Done fails as told.
type failing struct {
	memory.Store
	done func(ctx context.Context, document string) error
}

func (f *failing) Done(ctx context.Context, customer, document string, took time.Duration) error {
	if err := f.done(ctx, document); err != nil {
		return err
	}
	return f.Store.Done(ctx, customer, document, took)
}

// Settle looks again at what it has not settled, and one document stops no others.
func TestADoneThatFailsIsSaidAgainBySettle(t *testing.T) {
	t.Parallel()
	q := open(t)
	var fail error
	store := &failing{done: func(_ context.Context, document string) error {
		if document == "first" {
			return fail
		}
		return nil
	}}
	q.Client.store = store
	for _, id := range []string{"first", "second"} {
		q.archive(q.enqueue("acme", asynq.NewTask("convert", nil), Document(id)))
	}
	since := time.Now().Add(-time.Hour)
	for _, fail = range []error{priority.ErrNotCounted, priority.ErrOutcomeUnknown} {
		if err := q.settle(t.Context(), since); !errors.Is(err, fail) {
			t.Errorf("error %v, want %v", err, fail)
		}
	}
	fail = priority.ErrCorruptCount
	if err := q.settle(t.Context(), since); err != nil || q.pending("acme") != 1 {
		t.Errorf("error %v, %d pending, want 1", err, q.pending("acme"))
	}
	fail = nil
	if err := q.settle(t.Context(), since); err != nil || q.pending("acme") != 0 {
		t.Errorf("error %v, %d pending, want 0", err, q.pending("acme"))
	}
}

func TestAStoreThatHangsHoldsNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &failing{done: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		headers, err := document{customer: "acme", id: "own"}.into(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		handled := Middleware(store)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })).
			ProcessTask(t.Context(), asynq.NewTaskWithHeaders("convert", nil, headers))
		if handled != nil {
			t.Error(handled)
		}
	})
}

// A handler that sends another task often gives it the headers of its own.
func TestCopiedHeadersAreNoDocument(t *testing.T) {
	t.Parallel()
	q := open(t)
	first := q.enqueue("acme", asynq.NewTask("convert", nil), Document("own"), Cost(7))
	headers := maps.Clone(first.Headers)
	headers["tenant"] = "7"
	again := q.enqueue("acme", asynq.NewTaskWithHeaders("convert", nil, headers), Document("another"))
	if of, _ := documentOf(again.Headers); of.id != "another" || of.cost != 0 {
		t.Errorf("%+v", of)
	}
	none := q.enqueue("", asynq.NewTaskWithHeaders("mail", []byte("{}"), headers, asynq.MaxRetry(3)))
	if len(none.Headers) != 1 || none.Headers["tenant"] != "7" || none.MaxRetry != 3 || none.Queue != "default" || string(none.Payload) != "{}" {
		t.Errorf("%+v", none)
	}
	if len(headers) != len(first.Headers)+1 {
		t.Error("the caller's headers were changed")
	}
}

func TestWhatIsMissingIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: "127.0.0.1:1"})
	own, err := NewClient(client, new(memory.Store), "documents")
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"no client":   func() error { _, err := NewClient(nil, new(memory.Store), "documents"); return err },
		"a nil store": func() error { _, err := NewClient(client, (*memory.Store)(nil), "documents"); return err },
		"no name":     func() error { _, err := NewClient(client, new(memory.Store), ""); return err },
		"no Redis":    func() error { _, err := LettersOf(own, (*redis.Client)(nil)); return err },
		"no Client":   func() error { _, err := LettersOf(nil, redis.NewClient(&redis.Options{})); return err },
	} {
		if err := call(); !errors.Is(err, priority.ErrInvalidOption) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a middleware without a store")
		}
	}()
	Middleware(nil)
}

// opened are queues on a Redis of their own.
type opened struct {
	*Client
	*Letters
	t *testing.T
}

func open(t *testing.T) *opened {
	t.Helper()
	return openWith(t, priority.Policy{})
}

func openWith(t *testing.T, policy priority.Policy) *opened {
	t.Helper()
	store, err := memory.New(&memory.Options{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t).Client()
	client, err := NewClient(asynq.NewClientFromRedisClient(server), store, "documents")
	if err != nil {
		t.Fatal(err)
	}
	letters, err := LettersOf(client, server)
	if err != nil {
		t.Fatal(err)
	}
	return &opened{client, letters, t}
}

func (q *opened) enqueue(customer string, task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	q.t.Helper()
	info, err := q.Enqueue(q.t.Context(), customer, task, opts...)
	if err != nil {
		q.t.Fatal(err)
	}
	return info
}

// archive gives a task up, as an operator does.
func (q *opened) archive(info *asynq.TaskInfo) {
	q.t.Helper()
	if err := q.inspector.ArchiveTask(info.Queue, info.ID); err != nil {
		q.t.Fatal(err)
	}
}

func (q *opened) dead() []Letter {
	q.t.Helper()
	dead, err := q.Dead(q.t.Context())
	if err != nil {
		q.t.Fatal(err)
	}
	return dead
}

// waiting are the tasks of all levels that wait for a worker.
func (q *opened) waiting() (all []*asynq.TaskInfo) {
	q.t.Helper()
	for _, name := range queue.Names("documents", 9) {
		tasks, err := q.inspector.ListPendingTasks(name)
		if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			q.t.Fatal(err)
		}
		all = slices.Concat(all, tasks)
	}
	return all
}

func (q *opened) pending(customer string) int64 {
	q.t.Helper()
	state, err := q.store.Peek(q.t.Context(), customer)
	if err != nil {
		q.t.Fatal(err)
	}
	return state.Pending
}

// each is a hook around each command.
type each func(context.Context, redis.Cmder, redis.ProcessHook) error

func (e each) DialHook(next redis.DialHook) redis.DialHook { return next }
func (e each) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (e each) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := e(ctx, command, next)
		command.SetErr(err)
		return err
	}
}
