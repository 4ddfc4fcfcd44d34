package priority

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
}

// scriptCall is one call of one script.
type scriptCall struct {
	operation string // for messages
	key       string // KEYS[1], for messages
	script    *script
	args      []any // numkeys, keys and arguments
	readOnly  bool  // harmless when it is run twice
}

// failed says what became of the call, and why.
func (c *scriptCall) failed(v verdict) error {
	return fmt.Errorf("%w: %s %s: %w", v.class, c.operation, quote(c.key), v.err)
}

// call runs one script and returns its reply.
func (c *caller) call(ctx context.Context, call *scriptCall) ([]int64, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	withText := false
	var before error
	for try := 1; ; try++ {
		cmd := newCommand(ctx, call, withText)
		err := c.wait(ctx, func() {
			_ = c.client.Process(ctx, cmd)
			_ = cmd.Err() // a deferred AutoPipeliner waits only here
		})
		v := cmd.verdict(err)
		c.notice(v)
		switch {
		case v.err == nil:
			return cmd.Val(), nil
		case v.noScript:
			withText = true
		case v.again && pause(ctx, try):
			before = v.err
		default:
			return nil, call.failed(v.after(before, ctx.Err()))
		}
	}
}

// callEach runs one script for each of calls, which are of different customers,
// in one round trip to each node unless something has to be tried again. It
// returns a reply or an error for each.
func (c *caller) callEach(ctx context.Context, calls []scriptCall) ([][]int64, []error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
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
			cmds := newCommands(ctx, calls, part, texts)
			err := c.wait(ctx, func() {
				pipe := c.client.Pipeline()
				for _, cmd := range cmds {
					_ = pipe.Process(ctx, cmd)
				}
				_, _ = pipe.Exec(ctx)
			})
			unknown := false
			for at, i := range part {
				v := cmds[at].verdict(err)
				c.notice(v)
				if v.err == nil {
					replies[i], errs[i] = cmds[at].Val(), nil
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
			if !pause(ctx, try) {
				break
			}
			try++
		}
	}
	return replies, errs
}

// bound adds the timeout to a context.
func (c *caller) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// wait runs send until it is done or the context has ended, whichever is first,
// and returns the context's error if that is what ended first. What send writes
// may then not be read: it goes on by itself, for as long as the client's own
// timeouts let it.
func (c *caller) wait(ctx context.Context, send func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() == nil {
		send()
		return nil
	}
	if c.unanswered.Load() >= maxUnanswered {
		return errManyUnanswered
	}
	done := make(chan struct{})
	go func() {
		send()
		select {
		case done <- struct{}{}:
		case <-ctx.Done():
			c.unanswered.Add(-1)
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		c.unanswered.Add(1)
		return ctx.Err()
	}
}

// notice makes a cluster client look where the slots are now when a node fails.
// It would by itself when it tries again, which is not its business here.
func (c *caller) notice(v verdict) {
	var reply redis.Error
	if v.err == nil || errors.As(v.err, &reply) {
		return
	}
	if cluster, ok := c.client.(interface{ ReloadState(context.Context) }); ok {
		cluster.ReloadState(context.Background())
	}
}

var errManyUnanswered = fmt.Errorf("%d earlier calls are without an answer still", maxUnanswered)

// pause waits before a further try. It returns false if there shall be none: the
// context ends first, or it has no deadline and these were enough.
func pause(ctx context.Context, try int) bool {
	if _, bounded := ctx.Deadline(); !bounded && try >= maxTries {
		return false
	}
	long := min(firstPause<<min(try-1, 10), longestPause)
	timer := time.NewTimer(long/2 + rand.N(long/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// command is an EVALSHA or EVAL that go-redis does not send twice, and that
// knows whether it was sent at all.
type command struct {
	*redis.IntSliceCmd
	call     *scriptCall
	withText bool
	fate     atomic.Int32
}

const (
	waiting int32 = iota
	written
	withdrawn
)

// noScript is the digest of no script.
const noScript = "0000000000000000000000000000000000000000"

func newCommand(ctx context.Context, call *scriptCall, withText bool) *command {
	args := make([]any, 0, 2+len(call.args))
	if withText {
		args = append(args, "eval", call.script.text)
	} else {
		args = append(args, "evalsha", call.script.digest)
	}
	args = append(args, call.args...)
	cmd := &command{IntSliceCmd: redis.NewIntSliceCmd(ctx, args...), call: call, withText: withText}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// newCommands makes the commands of some of the calls. Up to texts commands of
// each script carry its text; a node that runs one of these knows the script
// when it comes to the others.
func newCommands(ctx context.Context, calls []scriptCall, which []int, texts int) []*command {
	cmds := make([]*command, len(which))
	given := make(map[*script]int)
	for at, i := range which {
		script := calls[i].script
		withText := given[script] < texts
		if withText {
			given[script]++
		}
		cmds[at] = newCommand(ctx, &calls[i], withText)
	}
	return cmds
}

// NoRetry keeps go-redis from sending the command again after a lost answer.
func (c *command) NoRetry() bool { return true }

// Args is what go-redis writes. From the first call on, the command counts as
// sent. One that was withdrawn before is written, if at all, as a call of no
// script, which leaves the order of commands and answers intact.
func (c *command) Args() []any {
	args := c.IntSliceCmd.Args()
	if !c.fate.CompareAndSwap(waiting, written) && c.fate.Load() == withdrawn {
		args = slices.Clone(args)
		args[0], args[1] = "evalsha", noScript
	}
	return args
}

// withdraw makes sure that a command which was not sent never will be. It
// returns false if the command was sent.
func (c *command) withdraw() bool {
	return c.fate.CompareAndSwap(waiting, withdrawn)
}

// verdict says what became of the command after wait returned err.
func (c *command) verdict(err error) verdict {
	if err != nil { // The command may be under way still: what it holds may not be read.
		switch {
		case c.withdraw():
			return verdict{class: ErrNotCounted, err: fmt.Errorf("it could not be sent: %w", err)}
		case c.call.readOnly:
			return verdict{class: ErrNotCounted, err: fmt.Errorf("no answer came: %w", err)}
		}
		return verdict{class: ErrOutcomeUnknown, err: fmt.Errorf("no answer came: %w", err)}
	}
	err = c.Err()
	if err == nil && len(c.Val()) != c.call.script.integers {
		err = errOddReply
	}
	v := judge(err, c.fate.Load() == written && !c.call.readOnly)
	v.noScript = v.noScript && !c.withText
	return v
}

var errOddReply = errors.New("the reply is not that of the script")
