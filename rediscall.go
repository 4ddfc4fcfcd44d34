package priority

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxTries bounds how often a call without a deadline is tried.
	maxTries = 8
	// The pause before a further try doubles from firstPause to longestPause.
	firstPause, longestPause = 4 * time.Millisecond, 64 * time.Millisecond

	// maxUnanswered bounds the goroutines that wait for answers which no caller
	// waits for any more.
	maxUnanswered = 1024

	// maxPipeline bounds the commands that are sent before their answers are
	// read, and so the memory that they take at either end.
	maxPipeline = 10_000

	// firstTexts is how many commands of a script carry its text when some node
	// did not know it: likely one for every node.
	firstTexts = 64
)

// caller runs scripts on Redis: within the timeout, whatever the client's own
// settings are, and each at most once.
type caller struct {
	client     RedisClient
	timeout    time.Duration // negative: the context's alone
	unanswered atomic.Int64
	timers     sync.Pool // of *time.Timer
}

// scriptCall is one call of one script.
type scriptCall struct {
	operation string // for messages
	script    *script
	key       string   // KEYS[1]
	pending   string   // KEYS[2]; empty: none
	count     int      // ARGV[1], a number of documents; 0: none
	documents []string // ARGV, their ids
	readOnly  bool     // harmless when it is run twice
}

// failed says what became of the call, and why.
func (c *scriptCall) failed(v verdict) error {
	return fmt.Errorf("%w: %s %s: %w", v.class, c.operation, quote(c.key), v.err)
}

// call runs one script and returns its reply.
func (c *caller) call(ctx context.Context, call *scriptCall) ([]int64, error) {
	limit := c.newLimit(ctx)
	defer c.release(limit)
	withText := false
	var before error
	for try := 1; ; try++ {
		cmd := new(command)
		cmd.prepare(limit.context(ctx), call, withText)
		err := c.run(ctx, limit, cmd)
		v := cmd.verdict(call, err)
		c.notice(v)
		switch {
		case v.err == nil:
			return cmd.Val(), nil
		case v.noScript:
			withText = true
		case v.again && pause(limit, try):
			before = v.err
		default:
			return nil, call.failed(v.after(before, limit.reason()))
		}
	}
}

// callEach runs one script for each of calls, which are of different customers,
// in one round trip to each node unless something has to be tried again. It
// returns a reply or an error for each.
func (c *caller) callEach(ctx context.Context, calls []scriptCall) ([][]int64, []error) {
	limit := c.newLimit(ctx)
	defer c.release(limit)
	replies, errs := make([][]int64, len(calls)), make([]error, len(calls))
	left := make([]int, len(calls))
	for i := range left {
		left[i] = i
	}
	texts := 0
	for try := 1; len(left) > 0; {
		var again []int
		refused := false
		for part := range slices.Chunk(left, maxPipeline) {
			pipe := newPipeline(limit.context(ctx), calls, part, texts)
			err := c.run(ctx, limit, pipe)
			unknown := false
			for at, i := range part {
				v := pipe[at].verdict(&calls[i], err)
				c.notice(v)
				if v.err == nil {
					replies[i], errs[i] = pipe[at].Val(), nil
					continue
				}
				errs[i] = calls[i].failed(v)
				if v.noScript || v.again {
					again = append(again, i)
					unknown = unknown || v.noScript
					refused = refused || v.again
				}
			}
			if unknown {
				texts = max(firstTexts, 2*texts)
			}
		}
		left = again
		if refused {
			if !pause(limit, try) {
				break
			}
			try++
		}
	}
	return replies, errs
}

// run sends a job and waits until it is answered or the limit has ended, whichever
// is first. It returns an error if that is the limit. What the job holds may then
// not be read: it goes on by itself, for as long as the client's own timeouts let
// it.
func (c *caller) run(ctx context.Context, limit *limit, job job) error {
	if limit == nil {
		job.send(ctx, c.client)
		return nil
	}
	if limit.over() {
		return limit.reason()
	}
	if c.unanswered.Load() >= maxUnanswered {
		return errManyUnanswered
	}
	go func() {
		job.send(limit, c.client)
		select {
		case limit.answered <- struct{}{}:
		case <-limit.done:
			c.unanswered.Add(-1)
		}
	}()
	if await(limit, limit.answered) {
		return nil
	}
	c.unanswered.Add(1)
	return limit.reason()
}

// job is what a caller sends: a command, or a pipeline of them.
type job interface {
	send(ctx context.Context, client RedisClient)
}

// notice makes a cluster client look where the slots are now when a node fails.
// It would by itself when it tries again, which is not its business here.
func (c *caller) notice(v verdict) {
	if v.err == nil {
		return
	}
	if reply := redis.Error(nil); errors.As(v.err, &reply) {
		return
	}
	if cluster, ok := c.client.(interface{ ReloadState(context.Context) }); ok {
		cluster.ReloadState(context.Background())
	}
}

var errManyUnanswered = fmt.Errorf("%d earlier calls are without an answer still", maxUnanswered)

// pause waits before a further try. It returns false if there shall be none: the
// limit has ended, or there is no deadline and these were enough.
func pause(limit *limit, try int) bool {
	if !limit.hasDeadline() && try >= maxTries {
		return false
	}
	long := min(firstPause<<min(try-1, 10), longestPause)
	timer := time.NewTimer(long/2 + rand.N(long/2))
	defer timer.Stop()
	return await(limit, timer.C)
}
