package vectors_test

import (
	"context"
	"encoding"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/vectors"
)

const (
	notCounted     = "not_counted"
	outcomeUnknown = "outcome_unknown"
	corrupt        = "corrupt"
	answered       = "answered"
	lost           = "lost"
)

const (
	within6 = "ERR Error running script (call to f_c9ffaddfaf8f1a345ccfa8b2f13c5d7edeabe697): @user_script:54: @user_script: 54: "
	within7 = " script: c9ffaddfaf8f1a345ccfa8b2f13c5d7edeabe697, on @user_script:54."

	noScript = "NOSCRIPT No matching script. Please use EVAL."
	loading  = "LOADING Redis is loading the dataset in memory"
	readOnly = "READONLY You can't write against a read only replica."
	full     = "OOM command not allowed when used memory > 'maxmemory'."
)

func answerCases() []vectors.Answer {
	return []vectors.Answer{
		{Answer: noScript, Class: notCounted, Then: "text"},
		// The script was not run, or its first command that writes was refused: for a moment …
		{Answer: loading, Class: notCounted, Then: "again"},
		{Answer: readOnly, Class: notCounted, Then: "again"},
		{Answer: readOnly + within7, Class: notCounted, Then: "again"},
		{Answer: within6 + "-" + readOnly, Class: notCounted, Then: "again"},
		{Answer: within6 + readOnly, Class: notCounted, Then: "again"},
		{Answer: "CLUSTERDOWN The cluster is down", Class: notCounted, Then: "again"},
		{Answer: "CLUSTERDOWN Hash slot not served", Class: notCounted, Then: "again"},
		{Answer: "TRYAGAIN Multiple keys request during rehashing of slot", Class: notCounted, Then: "again"},
		{Answer: "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Class: notCounted, Then: "again"},
		{Answer: "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", Class: notCounted, Then: "again"},
		{Answer: "ERR max number of clients reached", Class: notCounted, Then: "again"},
		// … or until somebody changes something.
		{Answer: "NOAUTH Authentication required.", Class: notCounted},
		{Answer: "WRONGPASS invalid username-password pair or user is disabled.", Class: notCounted},
		{Answer: "NOPERM this user has no permissions to run the 'evalsha' command", Class: notCounted},
		{Answer: "NOPERM this user has no permissions to access one of the keys used as arguments", Class: notCounted},
		{Answer: full, Class: notCounted},
		{Answer: full + within7, Class: notCounted},
		{Answer: within6 + "-" + full, Class: notCounted},
		{Answer: within6 + full, Class: notCounted},
		{Answer: "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", Class: notCounted},
		{Answer: within6 + "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", Class: notCounted},
		{Answer: "NOREPLICAS Not enough good replicas to write.", Class: notCounted},
		{Answer: within6 + "-NOREPLICAS Not enough good replicas to write.", Class: notCounted},
		{Answer: "MOVED 3999 127.0.0.1:6381", Class: notCounted},
		{Answer: "ASK 3999 127.0.0.1:6381", Class: notCounted},
		{Answer: "CROSSSLOT Keys in request don't hash to the same slot", Class: notCounted},
		{Answer: "ERR unknown command 'EVALSHA', with args beginning with: 'c9ffaddf' '1'", Class: notCounted},
		// The scripts' own.
		{Answer: "ERR the number of documents is not 1 to 1000000", Class: notCounted},
		{Answer: "ERR the number of documents is not 1 to 100", Class: notCounted},
		{Answer: "ERR the cost is not 0 to 999999", Class: notCounted},
		{Answer: "CORRUPTCOUNT the key holds something other than a count", Class: corrupt},
		{Answer: "CORRUPTPENDING the key holds something other than pending documents", Class: corrupt},
		{Answer: "CORRUPTUSAGE the key holds something other than a usage", Class: corrupt},
		{Answer: "CORRUPTUSAGE a later version wrote the key", Class: corrupt},
		// From the middle of a script, or unheard of: who knows what was done before.
		{Answer: "ERR Error running script (call to f_c9ffaddfaf8f1a345ccfa8b2f13c5d7edeabe697): @user_script:54: attempt to index a nil value", Class: outcomeUnknown},
		{Answer: "ERR The user executing the script can't run this command or subcommand" + within7, Class: outcomeUnknown},
		{Answer: "ERR Error running script (call to f_c9ffaddfaf8f1a345ccfa8b2f13c5d7edeabe697): @user_script: 54: Unknown Redis command called from Lua script", Class: outcomeUnknown},
		{Answer: "WRONGTYPE Operation against a key holding the wrong kind of value" + within7, Class: outcomeUnknown},
		{Answer: "ERR something that nobody has seen yet", Class: outcomeUnknown},
		{Answer: "NEWCODE of a server that is younger than this file", Class: outcomeUnknown},
		{Answer: "ERR a proxy heard READONLY, LOADING, OOM and CORRUPTCOUNT", Class: outcomeUnknown},
	}
}

// Replies of next.lua that are not its own. As answers they are lost.
func replyCases() []vectors.Reply {
	return []vectors.Reply{
		{Why: "no reply of a script", Reply: "+OK\r\n"},
		{Why: "nothing", Reply: "$-1\r\n"},
		{Why: "an integer", Reply: ":1\r\n"},
		{Why: "no integers", Reply: "*0\r\n"},
		{Why: "too few integers", Reply: "*1\r\n:1\r\n"},
		{Why: "text between them", Reply: "*2\r\n:1\r\n$2\r\nno\r\n"},
	}
}

func lossCases() []vectors.Loss {
	return []vectors.Loss{
		{Name: "a count is not repeated", Do: "next", Tries: []string{lost}, Class: outcomeUnknown, Sent: 1},
		{Name: "neither is a reset, which would forget what came since", Do: "reset", Tries: []string{lost}, Class: outcomeUnknown, Sent: 1},
		{Name: "a submit is sent again: a document is counted once", Do: "submit", Tries: []string{lost, answered}, Class: answered, Sent: 2},
		{Name: "a done is sent again: the second one does nothing", Do: "done", Tries: []string{lost, answered}, Class: answered, Sent: 2},
		{Name: "a peek is sent again: it changes nothing", Do: "peek", Tries: []string{lost, answered}, Class: answered, Sent: 2},
		{Name: "no answer comes to any try of a submit", Do: "submit", Tries: []string{lost}, Class: outcomeUnknown},
		{Name: "no answer comes to any try of a done", Do: "done", Tries: []string{lost}, Class: outcomeUnknown},
		{Name: "no answer comes to any try of a peek, which counts nothing", Do: "peek", Tries: []string{lost}, Class: notCounted},
		{Name: "a refusal after a lost answer does not undo it", Do: "submit", Tries: []string{lost, full}, Class: outcomeUnknown, Sent: 2},
		{Name: "nor does one for a moment", Do: "submit", Tries: []string{lost, readOnly}, Class: outcomeUnknown},
		{Name: "nor that of a done", Do: "done", Tries: []string{lost, readOnly}, Class: outcomeUnknown},
		{Name: "a peek has nothing to undo", Do: "peek", Tries: []string{lost, full}, Class: notCounted, Sent: 2},
		{Name: "the script is not known: it is sent with its text, at once", Do: "next", Tries: []string{noScript, answered}, Class: answered, Sent: 2},
		{Name: "the same, of a reset", Do: "reset", Tries: []string{noScript, answered}, Class: answered, Sent: 2},
		{Name: "the text may have been run too", Do: "next", Tries: []string{noScript, lost}, Class: outcomeUnknown, Sent: 2},
		{Name: "the same, of a submit, which is sent again", Do: "submit", Tries: []string{noScript, lost, answered}, Class: answered},
		{Name: "what is refused is not sent again", Do: "next", Tries: []string{full}, Class: notCounted, Sent: 1},
		{Name: "what is of unknown outcome is not either", Do: "next", Tries: []string{"ERR something that nobody has seen yet"}, Class: outcomeUnknown, Sent: 1},
	}
}

// errors.json is what a RedisStore makes of each answer.
func TestErrorVectors(t *testing.T) {
	t.Parallel()
	for _, answer := range answerCases() {
		for _, do := range []string{"next", "submit", "done", "reset", "peek"} {
			want := answer.Class
			if do == "peek" && want == outcomeUnknown {
				want = notCounted
			}
			// What is final is not sent again; what is not gets another answer.
			server := &told{tries: []string{answer.Answer, answered}}
			wantAfter, sent := want, 1
			if answer.Then != "" {
				wantAfter, sent = answered, 2
			}
			if got := server.call(t, do, 10*time.Second); got != wantAfter || server.sent != sent {
				t.Errorf("%s answered with %q is sent %d times, and %s; want %d and %s", do, answer.Answer, server.sent, got, sent, wantAfter)
			}
			if answer.Then == "" {
				continue
			}
			server = &told{tries: []string{answer.Answer, full}}
			if got := server.call(t, do, 10*time.Second); got != want || server.sent != 2 {
				t.Errorf("%s answered with %q and then refused is sent %d times, and %s", do, answer.Answer, server.sent, got)
			}
		}
	}
	compare(t, "errors.json", asFile(t, "answers", answerCases(), "replies", replyCases()))
}

// lost.json is what a RedisStore does.
func TestLostVectors(t *testing.T) {
	t.Parallel()
	for _, loss := range lossCases() {
		server := &told{tries: loss.Tries}
		timeout := 10 * time.Second
		if loss.Sent == 0 && loss.Tries[len(loss.Tries)-1] != answered { // it ends with its time
			timeout = time.Second
		}
		if got := server.call(t, loss.Do, timeout); got != loss.Class || loss.Sent > 0 && server.sent != loss.Sent {
			t.Errorf("%s: %s was sent %d times, and %s", loss.Name, loss.Do, server.sent, got)
		}
	}
	compare(t, "lost.json", asFile(t, "cases", lossCases()))
}

// told is a server that answers each try of a call as it is told; the last stays.
type told struct {
	tries []string

	mu   sync.Mutex
	sent int
}

// call makes one call of a store on the server and returns what became of it.
func (s *told) call(t *testing.T, do string, timeout time.Duration) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Ping(t.Context()).Err(); err != nil { // who connects first may run out of time
		t.Fatal(err)
	}
	client.AddHook(s)
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	switch do {
	case "next":
		_, err = store.Next(ctx, "acme")
	case "submit":
		_, err = store.Submit(ctx, "acme", "invoice", 0)
	case "done":
		err = store.Done(ctx, "acme", "invoice", 0)
	case "peek":
		_, err = store.Peek(ctx, "acme")
	case "reset":
		err = store.Reset(ctx, "acme")
	}
	for class, is := range map[string]error{
		notCounted: priority.ErrNotCounted, outcomeUnknown: priority.ErrOutcomeUnknown, corrupt: priority.ErrCorruptCount,
	} {
		if errors.Is(err, is) {
			return class
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return answered
}

func (s *told) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *told) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *told) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := strings.ToLower(cmd.Name()); name != "eval" && name != "evalsha" {
			return next(ctx, cmd)
		}
		s.mu.Lock()
		try := s.tries[min(s.sent, len(s.tries)-1)]
		s.sent++
		s.mu.Unlock()
		switch try {
		case answered:
			err := next(ctx, cmd)
			if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") { // this server truly does not know it
				s.mu.Lock()
				s.sent--
				s.mu.Unlock()
			}
			return err
		case lost:
			_ = next(ctx, cmd)
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		// The store takes a command for sent when its bytes are asked for.
		if _, err := cmd.Args()[1].(encoding.BinaryMarshaler).MarshalBinary(); err != nil {
			return err
		}
		cmd.SetErr(errorReply(try))
		return errorReply(try)
	}
}

// errorReply is an error that Redis answers.
type errorReply string

func (e errorReply) Error() string { return string(e) }
func (errorReply) RedisError()     {}
