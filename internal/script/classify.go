package script

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/keys"
)

// result is what became of one try of a call.
type result struct {
	answered bool // there is a reply, and nothing below
	reply    Reply
	Failure
	again    bool // another try may do better, and cannot do harm
	broken   bool // the connection was found broken, and others may be, too
	noScript bool // not run: the node does not know the script; to be loaded
	astray   bool // not run: where it went, the script is not known, and loading it did not help
	unsent   bool // it never left the process
	late     bool // not run: its deadline was over, by Redis's clock
}

// lost is the result of a call that was sent and whose answer did not come.
func lost(call *Call, err error) result {
	var timeout interface{ Timeout() bool }
	result := result{Failure: Failure{Unknown, err}, again: call.Repeatable, broken: !(errors.As(err, &timeout) && timeout.Timeout())}
	if call.ReadOnly {
		result.Outcome, result.again = NotCounted, true
	}
	return result
}

// classify says what a command's error means; sent reports whether the command
// may have reached Redis.
func classify(call *Call, err error, sent bool) result {
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		return classifyReply(call, err, reply.Error(), sent)
	case sent:
		return lost(call, err)
	}
	over := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrClosed)
	return result{Failure: Failure{NotCounted, err}, again: !over, unsent: true}
}

// neverQueued recognizes what an AutoPipeliner, which asks for a command's bytes
// once before it queues it, reports of one that it never sent.
func neverQueued(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted) ||
		strings.HasPrefix(err.Error(), queueFull) ||
		strings.HasPrefix(err.Error(), noPermit)
}

// How ErrAutoPipelineQueueFull and ErrAutoPipelineTimeout begin, which the oldest go-redis
// that the module supports does not have.
const (
	queueFull = "redis: autopipeline: queue full"
	noPermit  = "redis: autopipeline: no batch permit"
)

// Beginnings of Redis's answers when it did not run a script, or when the
// script's first command that writes was refused and so nothing was written.
var (
	refusedForAMoment = []string{
		"LOADING ", "READONLY ", "CLUSTERDOWN ", "TRYAGAIN ", "MASTERDOWN ", "BUSY ",
		"ERR max number of clients reached",
	}
	refused = []string{
		"NOAUTH ", "WRONGPASS ", "NOPERM ", "OOM ", "MISCONF ", "NOREPLICAS ",
		"MOVED ", "ASK ", "CROSSSLOT ", "ERR unknown command", "ERR the number of documents", "ERR the cost", "ERR the delay",
	}
	// Redis before 7.0 puts other words before a refusal within a script.
	refusedForAMomentWithin = []string{"-READONLY ", "READONLY You can't write"}
	refusedWithin           = []string{"-OOM ", "OOM command not allowed", "-MISCONF ", "-NOREPLICAS "}
)

// What our scripts answer if a key holds something else.
var corrupt = []string{corruptCount, corruptPending, "CORRUPT "}

const corruptCount, corruptPending = "CORRUPTCOUNT ", "CORRUPTPENDING "

// isNamed reports whether a script's answer names the kind of a key.
func isNamed(err error, key string) bool {
	return strings.HasPrefix(err.Error(), corruptCount) && strings.HasSuffix(key, ":"+keys.Count) ||
		strings.HasPrefix(err.Error(), corruptPending) && strings.Contains(err.Error(), key)
}

// isNoScript reports whether Redis did not run a script because it does not know it.
func isNoScript(err error) bool {
	return isReply(err) && strings.HasPrefix(err.Error(), noScript)
}

const noScript = "NOSCRIPT "

func classifyReply(call *Call, err error, reply string, sent bool) result {
	begins := func(prefix string) bool { return strings.HasPrefix(reply, prefix) }
	holds := func(part string) bool { return strings.Contains(reply, part) }
	switch {
	case begins(noScript):
		return result{Failure: Failure{NotCounted, err}, noScript: true}
	case call.Timed && begins("LATE "):
		return result{Failure: Failure{NotCounted, err}, again: true, late: true}
	case slices.ContainsFunc(corrupt, begins):
		return result{Failure: Failure{Corrupt, err}}
	case begins("NEWER "):
		return result{Failure: Failure{Newer, err}}
	case slices.ContainsFunc(refusedForAMoment, begins), slices.ContainsFunc(refusedForAMomentWithin, holds):
		return result{Failure: Failure{NotCounted, err}, again: true}
	case slices.ContainsFunc(refused, begins), slices.ContainsFunc(refusedWithin, holds):
		return result{Failure: Failure{NotCounted, err}}
	case call.ReadOnly, !sent: // not sent: the answer is to what the client says when it connects
		return result{Failure: Failure{NotCounted, err}}
	}
	return result{Failure: Failure{Unknown, err}}
}
