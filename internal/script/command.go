package script

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is an EVALSHA, or an EVAL, that go-redis does not send twice, and that knows
// whether it was sent at all.
type command struct {
	redis.Cmder // integers or values

	integers redis.IntSliceCmd
	values   *redis.SliceCmd
	argv     [8]any // what most commands need
	body     body
	within   lasting
}

// prepare makes the command of a call. deadline is what a timed call sends.
func (c *command) prepare(ctx context.Context, call *Call, withText bool, deadline int64) {
	c.body.bytes, c.body.nothing = call.Script.digest, noDigest
	c.argv = [8]any{"evalsha", &c.body, 1 + len(call.OtherKeys), call.Key}
	if withText {
		c.argv[0], c.body.bytes, c.body.nothing = "eval", call.Script.text, noText
	}
	args := c.argv[:4]
	for _, key := range call.OtherKeys {
		args = append(args, key)
	}
	args = append(args, call.Args...)
	if call.Timed {
		args = append(args, deadline)
	}
	if call.Integers > 0 {
		c.integers = *redis.NewIntSliceCmd(ctx, args...)
		c.Cmder = &c.integers
	} else {
		c.values = redis.NewSliceCmd(ctx, args...)
		c.Cmder = c.values
	}
	c.SetFirstKeyPos(3)
}

// reply returns what the script replied.
func (c *command) reply() Reply {
	if c.values != nil {
		return Reply{Values: c.values.Val()}
	}
	return Reply{Integers: c.integers.Val()}
}

// NoRetry keeps go-redis from sending the command again after a lost answer.
func (c *command) NoRetry() bool { return true }

func (c *command) send(ctx context.Context, client Client) {
	_ = client.Process(ctx, c)
	_ = c.Err() // a deferred AutoPipeliner waits only here
}

func (c *command) context() *lasting { return &c.within }

func (c *command) written() bool { return c.body.state.Load()&^canceled > 0 }

// result says what became of the command after do returned late.
func (c *command) result(call *Call, late *overdue, client habits) result {
	if late != nil { // It may still be in flight: do not read what it holds.
		if c.body.cancel() == 0 {
			return result{unsent: true, Failure: Failure{NotCounted, late.unsent}}
		}
		return lost(call, late.unanswered)
	}
	err := c.Err()
	if err == nil && len(c.integers.Val()) < call.Integers {
		err = errOddReply
	}
	if err == nil {
		return result{answered: true, reply: c.reply()}
	}
	asked := c.body.cancel()
	if asked > 1 && !client.resends && !isNoScript(err) {
		// A hook sent it again, and the error is of the latest try only. Or a hook has written its
		// arguments down: of what Redis then answers, only NOSCRIPT says that nothing ever ran.
		return lost(call, err)
	}
	return classify(call, err, asked > 0 && !(asked == 1 && client.sizes && neverQueued(err)))
}

// habits are the reasons, besides sending it, for which a client asks for a command's bytes.
type habits struct {
	resends bool // it follows redirects, and then sends the command again
	sizes   bool // it wants to know the size, once, before it queues the command
}

func habitsOf(client Client) habits {
	switch client.(type) {
	case *redis.Client, *redis.Ring:
		return habits{}
	case interface{ IsBlocking() bool }: // *redis.AutoPipeliner, which the oldest go-redis does not have
		return habits{resends: true, sizes: true}
	}
	return habits{resends: true} // a ClusterClient, or one that is not known
}

// overdue is why a command was not waited for any longer, in the words for one
// that was not sent and for one that was.
type overdue struct{ unsent, unanswered error }

func newOverdue(err error) *overdue {
	return &overdue{fmt.Errorf("not sent: %w", err), fmt.Errorf("no answer came: %w", err)}
}

var errOddReply = errors.New("unexpected reply")

// body is the argument that is the script's digest, or its text. go-redis asks for its bytes
// when it writes the command, which is how a command knows that it was sent. (An
// AutoPipeliner also asks for their number before; there, more counts as sent than was.)
type body struct {
	bytes, nothing []byte       // nothing: a script that does nothing, or that no node knows
	state          atomic.Int32 // how often the bytes were asked for, and the bit of canceled
}

const canceled = 1 << 16

var (
	noText   = []byte("return 0")
	noDigest = []byte("0000000000000000000000000000000000000000")
)

// MarshalBinary returns what go-redis writes. A command that was canceled may be written
// all the same, so that the order of commands and answers stays intact.
func (b *body) MarshalBinary() ([]byte, error) {
	if b.state.Add(1)&canceled != 0 {
		return b.nothing, nil
	}
	return b.bytes, nil
}

// String is what tracing hooks print.
func (b *body) String() string { return string(b.bytes) }

// cancel makes sure that a command which was not sent never will be, and returns
// how often it was sent.
func (b *body) cancel() int {
	return int(b.state.Or(canceled) &^ canceled)
}

// load is a SCRIPT LOAD on the node of a key.
type load struct {
	redis.StringCmd
	key string
}

func newLoad(ctx context.Context, call *Call) *load {
	l := &load{*redis.NewStringCmd(ctx, "script", "load", text{call}), call.Key}
	l.SetFirstKeyPos(2)
	return l
}

// NoRetry is for the commands in the same pipeline.
func (*load) NoRetry() bool { return true }

// text is an argument that is written as the text of a call's script. A client that looks
// for the node sees the call's key in it.
type text struct{ call *Call }

func (t text) MarshalBinary() ([]byte, error) { return t.call.Script.text, nil }
func (t text) String() string                 { return t.call.Key }
