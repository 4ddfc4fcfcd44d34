package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

// An answer of Redis that is not a reply of the script says whether the script
// has run.
func TestClassify_Reply(t *testing.T) {
	for text, want := range map[string]result{
		"NOSCRIPT No matching script. Please use EVAL.":    {noScript: true},
		"LOADING Redis is loading the dataset in memory":   {again: true},
		"READONLY You can't write against a read only r":   {again: true},
		"CLUSTERDOWN The cluster is down":                  {again: true},
		"TRYAGAIN Multiple keys request during rehashing":  {again: true},
		"MASTERDOWN Link with MASTER is down":              {again: true},
		"BUSY Redis is busy running a script":              {again: true},
		"ERR max number of clients reached":                {again: true},
		"NOAUTH Authentication required.":                  {},
		"WRONGPASS invalid username-password pair":         {},
		"NOPERM User x has no permissions to run this":     {},
		"OOM command not allowed when used memory > 'm'":   {},
		"MISCONF Redis is configured to save RDB":          {},
		"NOREPLICAS Not enough good replicas to write":     {},
		"MOVED 5 127.0.0.1:7000":                           {},
		"CROSSSLOT Keys in request don't hash to the same": {},
		"ERR unknown command 'EVALSHA'":                    {},
		"ERR the number of documents is not 1 to 1000000":  {},
		"CORRUPTCOUNT the key holds something else":        {Failure: Failure{Outcome: CorruptCount}},
		"CORRUPTPENDING the key holds something else":      {Failure: Failure{Outcome: CorruptPending}},
		// Redis 6.2 speaks so of what a script's command was refused.
		"ERR Error running script (call to f_0): @user_script: 9: -READONLY You can't write": {again: true},
		"ERR Error running script (call to f_0): @user_script: 9: -OOM command not allowed":  {},
		"ERR Error running script (call to f_0): @user_script: 9: -MISCONF Redis is":         {},
		// Who knows what was done before that.
		"ERR Error running script (call to f_0): @user_script:9: attempt to index": {Failure: Failure{Outcome: Unknown}},
		"ERR something new": {Failure: Failure{Outcome: Unknown}},
	} {
		want.Err = reply(text)
		if got := classify(&Call{}, want.Err, true); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
		// What was never sent was never run, whatever Redis says to the client.
		if got := classify(&Call{}, want.Err, false); got.Outcome == Unknown {
			t.Errorf("%q: %+v for a command that was not sent", text, got)
		}
		if got := classify(&Call{ReadOnly: true}, want.Err, true); got.Outcome == Unknown {
			t.Errorf("%q: %+v for a command that writes nothing", text, got)
		}
	}
}

// An error that is no answer is of unknown outcome if the command may have been
// sent, and else of a command that was not counted.
func TestClassify_Error(t *testing.T) {
	timeout := fmt.Errorf("read: %w", context.DeadlineExceeded)
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, errRefused, timeout, context.Canceled, redis.ErrPoolTimeout, redis.ErrClosed} {
		over := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed)
		for _, test := range []struct {
			name string
			call Call
			sent bool
			want result
		}{
			{"not sent", Call{}, false, result{Failure: Failure{NotCounted, err}, again: !over, unsent: true}},
			{"sent", Call{}, true, result{Failure: Failure{Unknown, err}}},
			{"sent, repeatable", Call{Repeatable: true}, true, result{Failure: Failure{Unknown, err}, again: true}},
			{"sent, read only", Call{ReadOnly: true}, true, result{Failure: Failure{NotCounted, err}, again: true}},
		} {
			if got := classify(&test.call, err, test.sent); got != test.want {
				t.Errorf("%v, %s: %+v, want %+v", err, test.name, got, test.want)
			}
		}
	}
}
