package priorityasynq

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ending"
	"github.com/docpriority/priority/queue"
)

// Settle calls Done, until the context ends, for documents whose tasks end without a
// worker: asynq archives a task whose worker was killed at the last retry, or whose handler
// does not return, and operators archive tasks. Run it in a goroutine of one or more
// processes. Without it, such documents stay pending until their leases expire. A document
// that is enqueued again within minutes of such an end may be ended, too.
//
// It takes a client of asynq's Redis; for an asynq.RedisConnOpt,
// opt.MakeRedisClient().(redis.UniversalClient).
func (c *Client) Settle(ctx context.Context, redisClient redis.UniversalClient) {
	ending.Settle(ctx, 10*time.Minute, func(since time.Time) error { return c.settle(ctx, redisClient, since) })
}

// settle calls Done for the documents that were archived since then.
func (c *Client) settle(ctx context.Context, redisClient redis.UniversalClient, since time.Time) error {
	inspector := asynq.NewInspectorFromRedisClient(redisClient)
	for _, name := range queue.Names(c.name, c.store.Last()) {
		ids, err := redisClient.ZRangeByScore(ctx, "asynq:{"+name+"}:archived",
			&redis.ZRangeBy{Min: strconv.FormatInt(since.Unix(), 10), Max: "+inf"}).Result()
		if err != nil {
			return err
		}
		for _, id := range ids {
			task, err := inspector.GetTaskInfo(name, id)
			if errors.Is(err, asynq.ErrTaskNotFound) {
				continue // it was retried
			}
			if err != nil {
				return err
			}
			d, ok := documentOf(task.Headers)
			if !ok || task.State != asynq.TaskStateArchived {
				continue
			}
			err = ending.Done(ctx, c.store, d.customer, d.id, 0)
			if errors.Is(err, priority.ErrNotCounted) || errors.Is(err, priority.ErrOutcomeUnknown) {
				return err // retry later; other errors concern only this document
			}
		}
	}
	return nil
}
