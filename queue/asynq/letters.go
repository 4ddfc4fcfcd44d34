package priorityasynq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Letter is a task that asynq has given up: one in its archive.
type Letter struct {
	Customer, Document string    // empty for a task without a customer
	Reason             string    // of the last failure
	Tries              int       // how often it was begun
	At                 time.Time // of the last failure

	Task *asynq.TaskInfo
}

// Letters are the tasks in the archives of all levels' queues, for operators and for tasks
// that end without a worker.
type Letters struct {
	client    *Client
	redis     redis.UniversalClient
	inspector *asynq.Inspector
}

// LettersOf returns the given-up tasks of the client's queues, in asynq's Redis. Of an
// asynq.RedisConnOpt the client is opt.MakeRedisClient().(redis.UniversalClient). It
// remains the caller's to close.
func LettersOf(client *Client, asynqs redis.UniversalClient) (*Letters, error) {
	if client == nil || typednil.Is(asynqs) {
		return nil, fmt.Errorf("priorityasynq: %w: LettersOf needs a client, and asynq's Redis", priority.ErrInvalidOption)
	}
	return &Letters{client, asynqs, asynq.NewInspectorFromRedisClient(asynqs)}, nil
}

// Dead returns all archived tasks of all levels. asynq keeps up to 10,000 of each, for 90
// days.
func (l *Letters) Dead(ctx context.Context) ([]Letter, error) {
	var dead []Letter
	for _, name := range queue.Names(l.client.name, l.client.store.Last()) {
		for page := 1; ; page++ {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("priorityasynq: list the archive of %s: %w", name, err)
			}
			tasks, err := l.inspector.ListArchivedTasks(name, asynq.PageSize(100), asynq.Page(page))
			if errors.Is(err, asynq.ErrQueueNotFound) || err == nil && len(tasks) == 0 {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("priorityasynq: list the archive of %s: %w", name, err)
			}
			for _, task := range tasks {
				of, _ := documentOf(task.Headers)
				dead = append(dead, Letter{of.customer, of.id, task.LastErr, task.Retried + 1, task.LastFailedAt, task})
			}
		}
	}
	return dead, nil
}

var errUnderWay = errors.New("a retry that began less than 30 s ago has not ended")

const (
	remembered = 24 * time.Hour // a retry
	patience   = 30 * time.Second
	sent       = "sent"
)

// Retry enqueues a task as a new one: in the queue of the level that its customer has now,
// with all its retries. It goes from the archive when the queue has it. If it is not
// there any more, because it was retried, the error is [asynq.ErrTaskNotFound]. While
// another operator is retrying it, and for half a minute after a retry that failed, that is
// an error too.
//
// The options Unique and ProcessAt are not repeated, nor is a deadline that is over. Of a
// task without a customer asynq's own RunTask has one more try made.
func (l *Letters) Retry(ctx context.Context, letter Letter) (err error) {
	if letter.Task == nil {
		return fmt.Errorf("priorityasynq: retry: %w", asynq.ErrTaskNotFound)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("priorityasynq: retry task %s of queue %s: %w", letter.Task.ID, letter.Task.Queue, err)
		}
	}()
	task, err := l.inspector.GetTaskInfo(letter.Task.Queue, letter.Task.ID)
	if err == nil && task.State != asynq.TaskStateArchived {
		err = asynq.ErrTaskNotFound
	}
	if err != nil {
		return err
	}
	of, ok := documentOf(task.Headers)
	if !ok {
		return l.inspector.RunTask(task.Queue, task.ID)
	}
	if err := l.sendOnce(ctx, task, of); err != nil {
		return err
	}
	if err := l.inspector.DeleteTask(task.Queue, task.ID); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
		return err
	}
	return nil
}

// sendOnce enqueues the task again. Where to, and under which id, is written down before:
// whoever repeats it after a crash sends the same, and asynq refuses a second one.
func (l *Letters) sendOnce(ctx context.Context, task *asynq.TaskInfo, of document) error {
	key := fmt.Sprintf("priorityasynq:{%s}:retry:%s", task.Queue, task.ID)
	note, err := l.redis.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil):
	case err != nil:
		return err
	case note == sent:
		return nil
	default:
		left, err := l.redis.PTTL(ctx, key).Result()
		if err != nil {
			return err
		}
		if remembered-left < patience {
			return errUnderWay
		}
	}
	decision, err := l.client.store.Submit(ctx, of.customer, of.id, of.cost)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSubmit, err)
	}
	if note == "" {
		note = queue.Name(l.client.name, decision.Level, l.client.store.Last()) + " " + rand.Text()
		first, err := l.redis.SetNX(ctx, key, note, remembered).Result()
		if err != nil {
			return err
		}
		if !first { // the Submit of the same document was theirs
			return errUnderWay
		}
	}
	level, id, _ := strings.Cut(note, " ")
	opts := []asynq.Option{asynq.Queue(level), asynq.TaskID(id), asynq.MaxRetry(task.MaxRetry), asynq.Retention(task.Retention)}
	if task.Timeout > 0 {
		opts = append(opts, asynq.Timeout(task.Timeout))
	}
	if task.Deadline.After(time.Now()) {
		opts = append(opts, asynq.Deadline(task.Deadline))
	}
	_, err = l.client.client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(task.Type, task.Payload, task.Headers), opts...)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return err
	}
	return l.redis.Set(ctx, key, sent, remembered).Err()
}

const (
	settleEvery = 10 * time.Second
	settleSince = 10 * time.Minute // before it was started
)

// Settle says Done, until the context ends, for documents whose tasks end without a
// worker: asynq archives a task whose worker was killed at the last retry, or whose handler
// does not return, and operators archive tasks. Run it in a goroutine of one process or
// of several. Without it, such documents count as pending until their leases end.
func (l *Letters) Settle(ctx context.Context) {
	since := time.Now().Add(-settleSince)
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for {
		now := time.Now()
		if err := l.settle(ctx, since); err == nil {
			since = now.Add(-time.Minute) // clocks differ; Done may be said twice
		} else if ctx.Err() == nil {
			slog.WarnContext(ctx, "priorityasynq: given-up documents may count as pending", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// settle says Done for the documents that were archived since then.
func (l *Letters) settle(ctx context.Context, since time.Time) error {
	for _, name := range queue.Names(l.client.name, l.client.store.Last()) {
		ids, err := l.redis.ZRangeByScore(ctx, "asynq:{"+name+"}:archived",
			&redis.ZRangeBy{Min: strconv.FormatInt(since.Unix(), 10), Max: "+inf"}).Result()
		if err != nil {
			return err
		}
		for _, id := range ids {
			task, err := l.inspector.GetTaskInfo(name, id)
			if errors.Is(err, asynq.ErrTaskNotFound) {
				continue // it was retried
			}
			if err != nil {
				return err
			}
			if of, ok := documentOf(task.Headers); ok && task.State == asynq.TaskStateArchived {
				if err := settled(ctx, l.client.store, of); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// settled says Done. It returns an error that may be gone the next time; one that is the
// document's own or its customer's must not stop the others.
func settled(ctx context.Context, store priority.Store, of document) error {
	err := done(ctx, store, of, 0)
	if errors.Is(err, priority.ErrNotCounted) || errors.Is(err, priority.ErrOutcomeUnknown) {
		return err
	}
	return nil
}
