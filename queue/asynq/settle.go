package priorityasynq

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
)

const (
	settleEvery = 10 * time.Second
	settleSince = 10 * time.Minute // what ended before Settle was started
)

// Settle calls Done, until the context ends, for documents whose tasks end without a
// worker: asynq archives a task whose worker was killed at the last retry, or whose handler
// does not return, and operators archive tasks. Run it in a goroutine of one or more
// processes. Without it, such documents stay pending until their leases expire.
//
// It takes a client of asynq's Redis; for an asynq.RedisConnOpt,
// opt.MakeRedisClient().(redis.UniversalClient).
func (c *Client) Settle(ctx context.Context, redisClient redis.UniversalClient) {
	since := time.Now().Add(-settleSince)
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for {
		now := time.Now()
		if err := c.settle(ctx, redisClient, since); err == nil {
			since = now.Add(-time.Minute) // clocks differ; Done may be called twice
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
			err = done(ctx, c.store, d, 0)
			if errors.Is(err, priority.ErrNotCounted) || errors.Is(err, priority.ErrOutcomeUnknown) {
				return err // retry later; other errors concern only this document
			}
		}
	}
	return nil
}
