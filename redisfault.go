package priority

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// verdict is what an error means for the document.
type verdict struct {
	class    error // ErrNotCounted, ErrOutcomeUnknown or ErrCorruptCount
	err      error // nil: it was counted, and there is a reply
	again    bool  // not counted, and another try may do better
	noScript bool  // not counted: the node does not know the script
	pending  bool  // it is about the pending documents, not about the count
}

// after adds to the cause why there was no further try, and how an earlier one
// ended.
func (v verdict) after(before, ended error) verdict {
	if ended != nil && !errors.Is(v.err, ended) {
		v.err = fmt.Errorf("%w (%w)", v.err, ended)
	}
	if before != nil && before.Error() != v.err.Error() {
		v.err = fmt.Errorf("%w; before that: %w", v.err, before)
	}
	return v
}

// judge says what a command's error means, where sent tells whether the command
// may have reached Redis.
func judge(err error, sent bool) verdict {
	if err == nil {
		return verdict{}
	}
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		return judgeReply(err, reply.Error())
	case errors.Is(err, redis.ErrClosed):
		return verdict{class: ErrNotCounted, err: err}
	case neverSent(err):
		return verdict{class: ErrNotCounted, err: err, again: true}
	case sent:
		return verdict{class: ErrOutcomeUnknown, err: err}
	}
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return verdict{class: ErrNotCounted, err: err, again: !ended}
}

// neverSent recognizes what go-redis reports when it found no way to send a
// command.
func neverSent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted) ||
		errors.Is(err, redis.ErrAutoPipelineQueueFull) ||
		errors.Is(err, redis.ErrAutoPipelineTimeout)
}

// Beginnings of Redis's answers when it did not run a script, or when the
// script's first command that writes was refused and so nothing was written.
var (
	refusedForNow = []string{
		"LOADING ", "READONLY ", "CLUSTERDOWN ", "TRYAGAIN ", "MASTERDOWN ", "BUSY ",
		"ERR max number of clients reached",
	}
	refused = []string{
		"NOAUTH ", "WRONGPASS ", "NOPERM ", "OOM ", "MISCONF ", "NOREPLICAS ",
		"MOVED ", "ASK ", "CROSSSLOT ", "ERR unknown command", "ERR the number of documents",
	}
	// Redis before 7.0 gives a refusal within a script after words of its own.
	refusedForNowWithin = []string{"-READONLY ", "READONLY You can't write"}
	refusedWithin       = []string{"-OOM ", "OOM command not allowed", "-MISCONF ", "-NOREPLICAS "}
)

func judgeReply(err error, reply string) verdict {
	begins := func(prefix string) bool { return strings.HasPrefix(reply, prefix) }
	holds := func(part string) bool { return strings.Contains(reply, part) }
	switch {
	case begins("NOSCRIPT "):
		return verdict{class: ErrNotCounted, err: err, noScript: true}
	case begins("CORRUPTCOUNT "):
		return verdict{class: ErrCorruptCount, err: err}
	case begins("CORRUPTPENDING "):
		return verdict{class: ErrCorruptCount, err: err, pending: true}
	case slices.ContainsFunc(refusedForNow, begins), slices.ContainsFunc(refusedForNowWithin, holds):
		return verdict{class: ErrNotCounted, err: err, again: true}
	case slices.ContainsFunc(refused, begins), slices.ContainsFunc(refusedWithin, holds):
		return verdict{class: ErrNotCounted, err: err}
	}
	return verdict{class: ErrOutcomeUnknown, err: err}
}
