package priorityasynq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/memory"
)

func TestEnqueue_Level(t *testing.T) {
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
	if info := q.enqueue("clinic", asynq.NewTask("convert", nil)); info.Queue != "documents-1" {
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

func TestEnqueue_Later(t *testing.T) {
	t.Parallel()
	q := open(t)
	for _, opt := range []asynq.Option{asynq.ProcessAt(time.Now().Add(time.Hour)), asynq.ProcessIn(time.Hour), asynq.ProcessAt(time.Unix(1, 0)), asynq.MaxRetry(1)} {
		q.enqueue("acme", asynq.NewTask("remind", nil), opt)
	}
	if state, err := q.store.Peek(t.Context(), "acme"); state.Scheduled != 2 || err != nil {
		t.Errorf("%d documents are scheduled, want the first two; error %v", state.Scheduled, err)
	}
}

func TestEnqueue_KeepsTheTask(t *testing.T) {
	t.Parallel()
	q := open(t)
	headers := map[string]string{"tenant": "7"}
	deadline := time.Now().Add(time.Hour).Truncate(time.Second)
	task := asynq.NewTaskWithHeaders("convert", []byte("{}"), headers)
	opts := []asynq.Option{
		asynq.MaxRetry(4), asynq.Timeout(time.Minute), asynq.Deadline(deadline), asynq.Retention(time.Hour),
		asynq.Queue("team's"), Document("invoice"), Cost(2.5), nil,
	}
	returned := q.enqueue("acme", task, opts...)
	info, err := q.inspector.GetTaskInfo(returned.Queue, returned.ID)
	if err != nil {
		t.Fatal(err)
	}
	if info.Queue != "documents-1" || info.Type != "convert" || string(info.Payload) != "{}" || info.MaxRetry != 4 || info.Timeout != time.Minute ||
		!info.Deadline.Equal(deadline) || info.Retention != time.Hour {
		t.Errorf("%+v", info)
	}
	d, ok := documentOf(info.Headers)
	if info.Headers["tenant"] != "7" || !ok || d != (document{"acme", "invoice", 2.5}) {
		t.Errorf("headers %v", info.Headers)
	}
	if len(headers) != 1 || len(task.Headers()) != 1 {
		t.Error("the caller's task was changed")
	}
}

func TestEnqueue_Refused(t *testing.T) {
	t.Parallel()
	q := open(t)
	for what, c := range map[string]struct {
		customer string
		opt      asynq.Option
	}{
		"a customer that is not UTF-8": {"\xff", Cost(1)},
		"an id that is not UTF-8":      {"acme", Document("\xff")},
		"a group":                      {"acme", asynq.Group("all")},
		"a unique task":                {"acme", asynq.Unique(time.Hour)},
		"a cost below 0":               {"acme", Cost(-1)},
	} {
		_, err := q.Enqueue(t.Context(), c.customer, asynq.NewTask("convert", nil), c.opt)
		if !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if all, err := q.inspector.Queues(); err != nil || len(all) != 0 {
		t.Errorf("queues %q, error %v", all, err)
	}
}

func TestEnqueue_Fails(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue := func(opts ...asynq.Option) error {
		_, err := q.Enqueue(t.Context(), "acme", asynq.NewTask("convert", nil), opts...)
		return err
	}
	if err := enqueue(asynq.TaskID("team's")); err != nil {
		t.Fatal(err)
	}
	for range 30 { // a new document would get another level, and its task another queue
		q.enqueue("acme", asynq.NewTask("convert", nil))
	}
	if err := enqueue(asynq.TaskID("team's")); !errors.Is(err, asynq.ErrTaskIDConflict) || q.pending("acme") != 31 {
		t.Errorf("error %v; %d pending, want 31", err, q.pending("acme"))
	}
	if err := enqueue(asynq.TaskID(" ")); err == nil || q.pending("acme") != 31 {
		t.Errorf("error %v; %d pending, want 31", err, q.pending("acme"))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := q.Enqueue(ended, "other", asynq.NewTask("convert", nil)); err == nil || q.pending("other") != 0 {
		t.Errorf("error %v; %d pending", err, q.pending("other"))
	}
}

// Nothing but Settle sees the end of a task that is archived.
func TestSettle(t *testing.T) {
	t.Parallel()
	q := open(t)
	info := q.enqueue("acme", asynq.NewTask("convert", nil))
	if err := q.inspector.ArchiveTask(info.Queue, info.ID); err != nil {
		t.Fatal(err)
	}
	q.enqueue("acme", asynq.NewTask("convert", nil))
	if err := q.settle(t.Context(), q.redis, time.Now().Add(-time.Hour)); err != nil || q.pending("acme") != 1 {
		t.Errorf("error %v, %d pending, want 1", err, q.pending("acme"))
	}
}

// asynq tries a task again whose context has ended, whatever the handler returns then, but not
// one that is skipped or revoked.
func TestMiddleware_End(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		handle func(context.Context) error
		want   []int64 // pending, in each try
	}{
		"skipped":                   {func(context.Context) error { return fmt.Errorf("no document: %w", asynq.SkipRetry) }, []int64{1}},
		"revoked":                   {func(context.Context) error { return fmt.Errorf("no document: %w", asynq.RevokeTask) }, []int64{1}},
		"success after the timeout": {func(ctx context.Context) error { <-ctx.Done(); return nil }, []int64{1, 1}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			q.enqueue("acme", asynq.NewTask("convert", nil), asynq.Timeout(time.Second), asynq.MaxRetry(1))
			ctx, stop := context.WithCancel(t.Context())
			var mutex sync.Mutex
			var got []int64
			ended := make(chan error)
			go func() {
				ended <- (&program{q.Client, q.redis}).Work(ctx, func(ctx context.Context, _ string) error {
					mutex.Lock()
					got = append(got, q.pending("acme"))
					mutex.Unlock()
					return c.handle(ctx)
				})
			}()
			redistest.Await(t, "it is not pending", func() bool { return q.pending("acme") == 0 })
			stop()
			if err := <-ended; err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%d pending in the tries, want %d; error %v", got, c.want, err)
			}
		})
	}
}

// A handler that sends another task often gives it the headers of its own.
func TestEnqueue_CopiedHeaders(t *testing.T) {
	t.Parallel()
	q := open(t)
	first := q.enqueue("acme", asynq.NewTask("convert", nil), Document("own"), Cost(7))
	headers := maps.Clone(first.Headers)
	headers["tenant"] = "7"
	again := q.enqueue("acme", asynq.NewTaskWithHeaders("convert", nil, headers), Document("another"))
	if d, _ := documentOf(again.Headers); d.id != "another" || d.cost != 0 {
		t.Errorf("%+v", d)
	}
	plain := q.enqueue("", asynq.NewTaskWithHeaders("mail", []byte("{}"), headers), asynq.MaxRetry(3))
	if len(plain.Headers) != 1 || plain.Headers["tenant"] != "7" || plain.MaxRetry != 3 || plain.Queue != "default" || string(plain.Payload) != "{}" {
		t.Errorf("%+v", plain)
	}
	if len(headers) != len(first.Headers)+1 {
		t.Error("the caller's headers were changed")
	}
}

// testQueue is a Client with a Redis of its own.
type testQueue struct {
	*Client
	redis     *redis.Client
	inspector *asynq.Inspector
	t         *testing.T
}

func open(t *testing.T) *testQueue {
	t.Helper()
	server := redistest.Start(t).Client()
	client, err := NewClient(asynq.NewClientFromRedisClient(server), new(memory.Store), "documents")
	if err != nil {
		t.Fatal(err)
	}
	return &testQueue{client, server, asynq.NewInspectorFromRedisClient(server), t}
}

func (q *testQueue) enqueue(customer string, task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	q.t.Helper()
	info, err := q.Enqueue(q.t.Context(), customer, task, opts...)
	if err != nil {
		q.t.Fatal(err)
	}
	return info
}

func (q *testQueue) pending(customer string) int64 {
	q.t.Helper()
	state, err := q.store.Peek(q.t.Context(), customer)
	if err != nil {
		q.t.Fatal(err)
	}
	return state.Pending
}
