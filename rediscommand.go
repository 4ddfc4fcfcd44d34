package priority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is an EVALSHA or EVAL that go-redis does not send twice, and that
// knows whether it was sent at all.
type command struct {
	redis.IntSliceCmd
	argv     [4]any // what most commands need
	fate     atomic.Int32
	withText bool
}

const (
	waiting int32 = iota
	written
	withdrawn
)

// noScript is the digest of no script.
const noScript = "0000000000000000000000000000000000000000"

func (c *command) prepare(ctx context.Context, call *scriptCall, withText bool) {
	c.withText = withText
	c.argv = [4]any{"evalsha", call.script.digest, 1, call.key}
	if withText {
		c.argv[0], c.argv[1] = "eval", call.script.text
	}
	args := c.argv[:]
	if call.pending != "" {
		c.argv[2] = 2
		args = append(args, call.pending)
	}
	if call.count > 0 {
		args = append(args, call.count)
	}
	for _, document := range call.documents {
		args = append(args, document)
	}
	c.IntSliceCmd = *redis.NewIntSliceCmd(ctx, args...)
	c.SetFirstKeyPos(3)
}

func (c *command) send(ctx context.Context, client RedisClient) {
	_ = client.Process(ctx, c)
	_ = c.Err() // a deferred AutoPipeliner waits only here
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

// verdict says what became of the command after run returned err.
func (c *command) verdict(call *scriptCall, err error) verdict {
	if err != nil { // The command may be under way still: what it holds may not be read.
		switch {
		case c.withdraw():
			return verdict{class: ErrNotCounted, err: fmt.Errorf("it could not be sent: %w", err)}
		case call.readOnly:
			return verdict{class: ErrNotCounted, err: fmt.Errorf("no answer came: %w", err)}
		}
		return verdict{class: ErrOutcomeUnknown, err: fmt.Errorf("no answer came: %w", err)}
	}
	err = c.Err()
	if err == nil && len(c.Val()) < call.script.integers {
		err = errOddReply
	}
	v := judge(err, c.fate.Load() == written && !call.readOnly)
	v.noScript = v.noScript && !c.withText
	return v
}

var errOddReply = errors.New("the reply is not that of the script")

// pipeline is commands that are sent together.
type pipeline []command

// newPipeline makes the commands of some of the calls. Up to texts commands of
// each script carry its text; a node that runs one of these knows the script
// when it comes to the others.
func newPipeline(ctx context.Context, calls []scriptCall, which []int, texts int) pipeline {
	p := make(pipeline, len(which))
	given := make(map[*script]int)
	for at, i := range which {
		script := calls[i].script
		withText := given[script] < texts
		if withText {
			given[script]++
		}
		p[at].prepare(ctx, &calls[i], withText)
	}
	return p
}

func (p pipeline) send(ctx context.Context, client RedisClient) {
	pipe := client.Pipeline()
	for i := range p {
		_ = pipe.Process(ctx, &p[i])
	}
	_, _ = pipe.Exec(ctx)
}
