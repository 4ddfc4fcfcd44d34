package script

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is an EVALSHA or EVAL that go-redis does not send twice, and that
// knows whether it was sent at all.
type command struct {
	redis.IntSliceCmd
	argv [8]any // what most commands need
	body body
}

func (c *command) prepare(ctx context.Context, call *Call, withText bool) {
	c.body.script, c.body.withText = call.Script, withText
	c.argv = [8]any{"evalsha", &c.body, 1, call.Key}
	if withText {
		c.argv[0] = "eval"
	}
	args := c.argv[:4]
	for _, key := range call.Others {
		if key != "" {
			args = append(args, key)
		}
	}
	c.argv[2] = len(args) - 3
	for _, number := range call.Numbers {
		args = append(args, number)
	}
	for i, id := range call.IDs {
		args = append(args, id)
		if call.Costs != nil {
			args = append(args, call.Costs[i])
		}
	}
	c.IntSliceCmd = *redis.NewIntSliceCmd(ctx, args...)
	c.SetFirstKeyPos(3)
}

// NoRetry keeps go-redis from sending the command again after a lost answer.
func (c *command) NoRetry() bool { return true }

func (c *command) send(ctx context.Context, client Client) {
	_ = client.Process(ctx, c)
	_ = c.Err() // a deferred AutoPipeliner waits only here
}

// result says what became of the command after do returned over.
func (c *command) result(call *Call, over *overdue, client habits) result {
	if over != nil { // It may be under way still: what it holds may not be read.
		if c.body.cancel() == 0 {
			return result{unsent: true, Failure: Failure{NotCounted, over.unsent}}
		}
		return lost(call, over.unanswered)
	}
	err := c.Err()
	if err == nil && len(c.Val()) < call.Script.integers+call.Script.perID*len(call.IDs) {
		err = errOddReply
	}
	if err == nil {
		return result{answered: true}
	}
	asked := c.body.cancel()
	if asked > 1 && !client.resends { // A hook sent it again: the error is the last try's only.
		return lost(call, err)
	}
	r := classify(call, err, asked > 0 && !(asked == 1 && client.sizes && neverQueued(err)))
	r.noScript = r.noScript && !c.body.withText
	return r
}

// habits are for what reasons of its own a client asks for a command's bytes.
type habits struct {
	resends bool // to send it again: it follows redirects
	sizes   bool // to know its size, once before it queues it
}

func habitsOf(client Client) habits {
	switch client.(type) {
	case *redis.Client, *redis.Ring:
		return habits{}
	case autoPipeliner:
		return habits{resends: true, sizes: true}
	}
	return habits{resends: true} // a ClusterClient, or one that is not known
}

// autoPipeliner is a *redis.AutoPipeliner, a type that the oldest go-redis that the
// module supports does not have. No other client has the method.
type autoPipeliner interface{ IsBlocking() bool }

// overdue is why a command was not waited for any longer, in the words for one
// that was not sent and for one that was.
type overdue struct{ unsent, unanswered error }

func newOverdue(err error) *overdue {
	return &overdue{fmt.Errorf("it could not be sent: %w", err), fmt.Errorf("no answer came: %w", err)}
}

var errOddReply = errors.New("the reply is not the script's")

// body is the argument that makes a command run its script: the text, or its
// digest. go-redis asks for its bytes when it writes the command, which is how a
// command knows that it was sent. (An AutoPipeliner also asks for their number
// before; there, more counts as sent than was.)
type body struct {
	script   *Script
	withText bool
	state    atomic.Int32 // how often the bytes were asked for, and the bit of canceled
}

const canceled = 1 << 16

var (
	noText   = []byte("return 0")
	noDigest = []byte("0000000000000000000000000000000000000000")
)

// MarshalBinary returns what go-redis writes. Of a command that was canceled, it
// is a script that does nothing: the order of commands and answers stays intact.
func (b *body) MarshalBinary() ([]byte, error) {
	switch isCanceled := b.state.Add(1)&canceled != 0; {
	case isCanceled && b.withText:
		return noText, nil
	case isCanceled:
		return noDigest, nil
	case b.withText:
		return b.script.text, nil
	}
	return b.script.digest, nil
}

// String is what tracing hooks print.
func (b *body) String() string {
	if b.withText {
		return b.script.Text
	}
	return string(b.script.digest)
}

// cancel makes sure that a command which was not sent never will be, and returns
// how often it was sent.
func (b *body) cancel() int {
	return int(b.state.Or(canceled) &^ canceled)
}
