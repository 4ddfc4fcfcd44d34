package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Options of a queue. Producers and consumers have the same. Open refuses them without
// Name, Workers, Limit, Logger or Check. Without Backoff a document has one try.
type Options struct {
	Name    string          // the queues are name-1 for level 1, name-2, …
	Workers int             // documents at a time in this process
	Limit   time.Duration   // how long a document may take; then the context of process ends
	Backoff []time.Duration // how long a document waits after its first failure, after its second, …; then it is given up. asynq counts whole seconds
	Logger  *slog.Logger

	Strict bool          // level 1 while there is any, and the last level starves; else each level by its weight, level 1 most often
	Check  time.Duration // how often a process with a free worker looks for documents while there are none
}

// Documents are asynq queues, one for each level.
type Documents struct {
	redis     redis.UniversalClient
	store     priority.Store
	options   *Options
	client    *asynq.Client
	inspector *asynq.Inspector
	queues    []string // of level 1 first
}

// Open returns the queues on a Redis, which need not be there yet: Produce and Work
// wait for it. The client remains the caller's to close.
func Open(client redis.UniversalClient, store priority.Store, options *Options) (*Documents, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	return &Documents{
		redis:     client,
		store:     store,
		options:   options,
		client:    asynq.NewClientFromRedisClient(client),
		inspector: asynq.NewInspectorFromRedisClient(client),
		queues:    queue.Names(options.Name, store.Last()),
	}, nil
}

func (o *Options) check() error {
	wrong := ""
	switch {
	case o.Name == "":
		wrong = "Name is empty"
	case o.Workers < 1:
		wrong = fmt.Sprintf("Workers %d is below 1", o.Workers)
	case min(o.Limit, o.Limit+2*grace) <= 0: // the sum is below 0 where it is too large
		wrong = fmt.Sprintf("Limit %v is not above 0, or too long", o.Limit)
	case o.Check <= 0:
		wrong = fmt.Sprintf("Check %v is not above 0", o.Check)
	case o.Logger == nil:
		wrong = "Logger is nil"
	default:
		return nil
	}
	return fmt.Errorf("asynq: %w: %s", priority.ErrInvalidOption, wrong)
}

// Dead returns the documents that were given up.
func (d *Documents) Dead(context.Context) ([]string, error) {
	tasks, err := d.archived()
	var dead []string
	for _, task := range tasks {
		dead = append(dead, task.Headers[documentHeader])
	}
	return dead, err
}

// PutBack sends the documents that were given up again, as new ones: with the level
// that their customers have now, and all their tries. Those that it cannot send stay
// where they are, and their errors are returned together.
func (d *Documents) PutBack(ctx context.Context) error {
	tasks, err := d.archived()
	if err != nil {
		return err
	}
	var errs []error
	for _, task := range tasks {
		if ctx.Err() != nil {
			errs = append(errs, ctx.Err())
			break
		}
		errs = append(errs, d.putBack(ctx, task))
	}
	return errors.Join(errs...)
}

func (d *Documents) putBack(ctx context.Context, task *asynq.TaskInfo) error {
	if err := d.Produce(ctx, task.Headers[customerHeader], task.Headers[documentHeader], task.Payload); err != nil {
		return err
	}
	if err := d.inspector.DeleteTask(task.Queue, task.ID); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
		return fmt.Errorf("delete the document that was put back: %w", err)
	}
	return nil
}

// archived returns what is in asynq's archives, with the bodies: each queue has one.
func (d *Documents) archived() ([]*asynq.TaskInfo, error) {
	const size = 100 // of a page
	var all []*asynq.TaskInfo
	for _, name := range d.queues {
		for number, more := 1, true; more; number++ {
			page, err := d.inspector.ListArchivedTasks(name, asynq.PageSize(size), asynq.Page(number))
			if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) { // no document had this level yet
				return nil, err
			}
			all = append(all, page...)
			more = len(page) == size
		}
	}
	return all, nil
}

// Remove deletes the queues, all that is in them, and asynq's statistics of today
// and in total. Nobody may be working.
func (d *Documents) Remove(ctx context.Context) error {
	for _, name := range d.queues {
		if err := d.inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			return fmt.Errorf("remove queue %s: %w", name, err)
		}
		processed, failed := "asynq:{"+name+"}:processed", "asynq:{"+name+"}:failed"
		today := ":" + time.Now().UTC().Format(time.DateOnly)
		if err := d.redis.Del(ctx, processed, processed+today, failed, failed+today).Err(); err != nil {
			return fmt.Errorf("remove the statistics of queue %s: %w", name, err)
		}
	}
	return nil
}
