package vectors_test

import (
	"context"
	"encoding"
	"errors"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// The format of errors.json and lost.json; README.md describes it.
type (
	answerOf struct {
		Answer string `json:"answer"`
		Class  string `json:"class"`
		Then   string `json:"then,omitempty"`
	}
	replyOf struct {
		Why   string `json:"why"`
		Reply string `json:"reply"`
	}
	lossOf struct {
		Name  string   `json:"name"`
		Do    string   `json:"do"`
		Tries []string `json:"tries"`
		Class string   `json:"class"`
		Sent  int      `json:"sent,omitempty"`
	}
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

func answerCases() []answerOf {
	return []answerOf{
		{noScript, notCounted, "text"},
		// The script was not run, or its first command that writes was refused: for a moment …
		{loading, notCounted, "again"},
		{readOnly, notCounted, "again"},
		{readOnly + within7, notCounted, "again"},
		{within6 + "-" + readOnly, notCounted, "again"},
		{within6 + readOnly, notCounted, "again"},
		{"CLUSTERDOWN The cluster is down", notCounted, "again"},
		{"CLUSTERDOWN Hash slot not served", notCounted, "again"},
		{"TRYAGAIN Multiple keys request during rehashing of slot", notCounted, "again"},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", notCounted, "again"},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", notCounted, "again"},
		{"ERR max number of clients reached", notCounted, "again"},
		// … or until somebody changes something.
		{"NOAUTH Authentication required.", notCounted, ""},
		{"WRONGPASS invalid username-password pair or user is disabled.", notCounted, ""},
		{"NOPERM this user has no permissions to run the 'evalsha' command", notCounted, ""},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", notCounted, ""},
		{full, notCounted, ""},
		{full + within7, notCounted, ""},
		{within6 + "-" + full, notCounted, ""},
		{within6 + full, notCounted, ""},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", notCounted, ""},
		{within6 + "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", notCounted, ""},
		{"NOREPLICAS Not enough good replicas to write.", notCounted, ""},
		{within6 + "-NOREPLICAS Not enough good replicas to write.", notCounted, ""},
		{"MOVED 3999 127.0.0.1:6381", notCounted, ""},
		{"ASK 3999 127.0.0.1:6381", notCounted, ""},
		{"CROSSSLOT Keys in request don't hash to the same slot", notCounted, ""},
		{"ERR unknown command 'EVALSHA', with args beginning with: 'c9ffaddf' '1'", notCounted, ""},
		// The scripts' own.
		{"ERR the number of documents is not 1 to 1000000", notCounted, ""},
		{"ERR the number of documents is not 1 to 100", notCounted, ""},
		{"ERR the cost is not 0 to 999999", notCounted, ""},
		{"CORRUPTCOUNT the key holds something other than a count", corrupt, ""},
		{"CORRUPTPENDING the key holds something other than pending documents", corrupt, ""},
		{"CORRUPTUSAGE the key holds something other than a usage", corrupt, ""},
		{"CORRUPTUSAGE a later version wrote the key", corrupt, ""},
		// From the middle of a script, or unheard of: who knows what was done before.
		{"ERR Error running script (call to f_c9ffaddfaf8f1a345ccfa8b2f13c5d7edeabe697): @user_script:54: attempt to index a nil value", outcomeUnknown, ""},
		{"ERR The user executing the script can't run this command or subcommand" + within7, outcomeUnknown, ""},
		{"ERR Error running script (call to f_c9ffaddfaf8f1a345ccfa8b2f13c5d7edeabe697): @user_script: 54: Unknown Redis command called from Lua script", outcomeUnknown, ""},
		{"WRONGTYPE Operation against a key holding the wrong kind of value" + within7, outcomeUnknown, ""},
		{"ERR something that nobody has seen yet", outcomeUnknown, ""},
		{"NEWCODE of a server that is younger than this file", outcomeUnknown, ""},
		{"ERR a proxy heard READONLY, LOADING, OOM and CORRUPTCOUNT", outcomeUnknown, ""},
	}
}

// Replies of next.lua that are not its own. As answers they are lost.
func replyCases() []replyOf {
	return []replyOf{
		{"no reply of a script", "+OK\r\n"},
		{"nothing", "$-1\r\n"},
		{"an integer", ":1\r\n"},
		{"no integers", "*0\r\n"},
		{"too few integers", "*1\r\n:1\r\n"},
		{"text between them", "*2\r\n:1\r\n$2\r\nno\r\n"},
	}
}

func lossCases() []lossOf {
	return []lossOf{
		{"a count is not repeated", "next", []string{lost}, outcomeUnknown, 1},
		{"neither is a reset, which would forget what came since", "reset", []string{lost}, outcomeUnknown, 1},
		{"a submit is sent again: a document is counted once", "submit", []string{lost, answered}, answered, 2},
		{"a done is sent again: the second one does nothing", "done", []string{lost, answered}, answered, 2},
		{"a peek is sent again: it changes nothing", "peek", []string{lost, answered}, answered, 2},
		{"no answer comes to any try of a submit", "submit", []string{lost}, outcomeUnknown, 0},
		{"no answer comes to any try of a done", "done", []string{lost}, outcomeUnknown, 0},
		{"no answer comes to any try of a peek, which counts nothing", "peek", []string{lost}, notCounted, 0},
		{"a refusal after a lost answer does not undo it", "submit", []string{lost, full}, outcomeUnknown, 2},
		{"nor does one for a moment", "submit", []string{lost, readOnly}, outcomeUnknown, 0},
		{"nor that of a done", "done", []string{lost, readOnly}, outcomeUnknown, 0},
		{"a peek has nothing to undo", "peek", []string{lost, full}, notCounted, 2},
		{"the script is not known: it is sent with its text, at once", "next", []string{noScript, answered}, answered, 2},
		{"the same, of a reset", "reset", []string{noScript, answered}, answered, 2},
		{"the text may have been run too", "next", []string{noScript, lost}, outcomeUnknown, 2},
		{"the same, of a submit, which is sent again", "submit", []string{noScript, lost, answered}, answered, 0},
		{"what is refused is not sent again", "next", []string{full}, notCounted, 1},
		{"what is of unknown outcome is not either", "next", []string{"ERR something that nobody has seen yet"}, outcomeUnknown, 1},
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

// Every answer that the module knows, and that a port's scripts can have, is there.
func TestTheErrorVectorsAreComplete(t *testing.T) {
	known := regexp.MustCompile(`(?s)var \(\n(.*?)\n\)\n`).FindStringSubmatch(text(t, "../internal/script/classify.go"))
	if known == nil {
		t.Fatal("classify.go has no list of answers")
	}
	beginnings := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(known[1], -1)
	if len(beginnings) < 20 {
		t.Fatalf("classify.go has only %q", beginnings)
	}
	for _, beginning := range beginnings {
		switch beginning[1] {
		case "ERR the change", "CORRUPT ", "NEWER ", "TOOMANY ":
			continue // of the scripts of package control
		}
		found := false
		for _, answer := range answerCases() {
			found = found || strings.Contains(answer.Answer, beginning[1])
		}
		if !found {
			t.Errorf("errors.json has no answer with %q", beginning[1])
		}
	}
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
