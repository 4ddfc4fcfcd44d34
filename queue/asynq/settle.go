package priorityasynq

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	settleEvery = 10 * time.Second
	settleSince = 10 * time.Minute // before it was started
)

// Settle says Done, until the context ends, for documents whose tasks end without a
// worker: asynq archives a task whose worker was killed at the last retry, or whose handler
// does not return, and operators archive tasks. Run it in a goroutine of one process or
// of several. Without it, such documents count as pending until their leases end.
//
// It takes asynq's Redis. Of an asynq.RedisConnOpt that is
// opt.MakeRedisClient().(redis.UniversalClient).
func (c *Client) Settle(ctx context.Context, asynqs redis.UniversalClient) {
	since := time.Now().Add(-settleSince)
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for {
		now := time.Now()
		if err := c.settle(ctx, asynqs, since); err == nil {
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
func (c *Client) settle(ctx context.Context, asynqs redis.UniversalClient, since time.Time) error {
	inspector := asynq.NewInspectorFromRedisClient(asynqs)
	for _, name := range queue.Names(c.name, c.store.Last()) {
		ids, err := asynqs.ZRangeByScore(ctx, "asynq:{"+name+"}:archived",
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
			of, ok := documentOf(task.Headers)
			if !ok || task.State != asynq.TaskStateArchived {
				continue
			}
			err = done(ctx, c.store, of, 0)
			if errors.Is(err, priority.ErrNotCounted) || errors.Is(err, priority.ErrOutcomeUnknown) {
				return err // it may be gone the next time; others are the document's own, and stop no others
			}
		}
	}
	return nil
}
