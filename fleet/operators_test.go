package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/markdown"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/prioritytest"
)

var demo = control.Change{By: "mary", Why: "a demo"}

// When Redis was emptied, a member notices it with its next report. A report or a list alone
// that is lost is no sign of that.
func TestMember_RedisEmptied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		v.member(&fleet.Options{Name: "one", Interval: time.Minute})
		want := func(what string, emptied bool) {
			t.Helper()
			_, here := byName(t, v.Client(nil))["one"]
			if at := must(fleet.Emptied(context.Background(), v.Client(nil), ""))(t); !here || at.IsZero() == emptied {
				t.Errorf("%s: it is here: %v, Redis was emptied at %v", what, here, at)
			}
		}
		time.Sleep(30 * time.Second)
		want("at first", false)
		for _, key := range v.Server.Keys() {
			v.Server.Del(key)
			time.Sleep(70 * time.Second)
			want("without "+key, false)
		}
		v.Server.FlushAll()
		time.Sleep(12 * time.Second)
		want("emptied", true)
	})
}

// lines is where a log is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was logged since the last take.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func TestLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v, log := newVirtual(t), new(lines)
		ctx, reader := t.Context(), v.Client(nil)
		var mu sync.Mutex
		var changes []bool
		opts := &fleet.Options{
			Logger: slog.New(slog.NewTextHandler(log, nil)),
			Store:  priority.RedisOptions{Timeout: 250 * time.Millisecond},
		}
		opts.Fallback.OnChange = func(open bool, _ error) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, open)
		}
		member := v.member(opts)
		says := func(what, level, text string) {
			t.Helper()
			time.Sleep(6 * time.Second)
			logged := log.take()
			if n := strings.Count(logged, text); n != 1 || !strings.Contains(logged, "level="+level) {
				t.Errorf("%s: %d times %q at %s in:\n%s", what, n, text, level, logged)
			}
		}
		must(member.Next(ctx, "acme"))(t)
		time.Sleep(10 * time.Second)
		if logged := log.take(); logged != "" {
			t.Errorf("at first: %s", logged)
		}
		admin := must(control.NewAdmin(reader, nil))(t)
		version := must(admin.Apply(ctx, 0, priority.Policies{Policy: priority.Policy{ResetInterval: time.Hour}}, demo))(t)
		says("policies", "INFO", "policies are followed")
		check(t, reader.LPush(ctx, "priority:{globex}:count", "x").Err())
		must(member.NextEach(ctx, []string{"acme"}))(t)
		for range 3 {
			if _, err := member.Next(ctx, "globex"); err != nil {
				t.Log(err)
			}
		}
		says("a corrupt key", "ERROR", "priority:{globex}:count")
		v.Faults.Fail(prioritytest.Fault{Customer: "fleet"})
		time.Sleep(12 * time.Second)
		says("reports", "WARN", "reports cannot be written")
		v.Faults.Heal()
		time.Sleep(12 * time.Second)
		v.Faults.Fail(prioritytest.Fault{})
		must(member.Next(ctx, "acme"))(t)
		must(member.Next(ctx, "acme"))(t)
		says("calls that fail", "WARN", "Redis did not decide; this process does")
		v.Faults.Heal()
		says("the end of few failures", "INFO", "Redis decides levels again")
		v.Faults.Fail(prioritytest.Fault{})
		for range 20 {
			must(member.Next(ctx, "acme"))(t)
		}
		says("an outage", "WARN", "Redis cannot be reached; levels are decided without it")
		v.Faults.Heal()
		for range 10 {
			time.Sleep(time.Second)
			must(member.Next(ctx, "acme"))(t)
		}
		says("its end", "INFO", "Redis decides levels again")
		v.Server.FlushAll()
		says("lost policies", "ERROR", "the known policies stay in force")
		mu.Lock()
		defer mu.Unlock()
		if len(changes) != 2 || !changes[0] || changes[1] || version != 1 {
			t.Errorf("the caller's own OnChange: %v", changes)
		}
	})
}

// One line says soon where Redis was looked for, and why it was not found, even without a call.
func TestLog_WrongAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log, client := new(lines), redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		defer client.Close()
		member := join(t, client, &fleet.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(time.Second)
		if logged := log.take(); strings.Count(logged, "\n") != 1 || !strings.Contains(logged, "dial tcp 127.0.0.1:1: connect: connection refused") {
			t.Errorf("within a second:\n%s", logged)
		}
		_ = member.Close(t.Context())
		time.Sleep(time.Minute) // until go-redis gives up
	})
}

// The rights of docs/redis.md are what a member needs, and without any one of them
// something fails.
func TestMember_Rights(t *testing.T) {
	keys, commands := markdown.Read(t, "../docs/redis.md").Rights(t, "worker")
	server := redistest.Start(t)
	if err := asMember(t, server, slices.Concat(keys, commands)); err != nil {
		t.Error(err)
	}
	for _, right := range slices.Concat(keys, commands) {
		others := slices.DeleteFunc(slices.Concat(keys, commands), func(other string) bool { return other == right })
		if err := asMember(t, server, others); err == nil {
			t.Errorf("everything works without %s", right)
		}
	}
	if err := asMember(t, server, slices.Concat(keys, commands)); err != nil {
		t.Errorf("at last: %v", err)
	}
}

// asMember does what a member of a fleet with operators and tools does, as a user of these
// rights, and returns what Redis refused.
func asMember(t *testing.T, server *redistest.Server, rights []string) error {
	t.Helper()
	ctx, admin := t.Context(), server.Client()
	check(t, admin.FlushAll(ctx).Err())
	check(t, admin.ScriptFlush(ctx).Err())
	check(t, admin.ACLLogReset(ctx).Err())
	args := []any{"ACL", "SETUSER", "worker", "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	check(t, admin.Do(ctx, args...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "worker", Password: "secret"})
	defer client.Close()
	operator := must(control.NewAdmin(admin, &control.AdminOptions{Timeout: time.Minute}))(t)
	must(operator.Apply(ctx, 0, priority.Policies{Policy: priority.Policy{ResetInterval: time.Hour}}, demo))(t)
	must(operator.SetOverride(ctx, "acme", priority.Bounds{Earliest: 7, Latest: 7}, time.Hour, demo))(t)
	check(t, admin.ZAdd(ctx, "priority:{fleet}:members", redis.Z{Score: 1, Member: "killed"}).Err())
	member := join(t, client, &fleet.Options{Name: "of few rights", Store: priority.RedisOptions{Timeout: 10 * time.Second}})
	redistest.Await(t, "the policies are read, or refused", func() bool { s := member.Status(); return !s.ReadAt.IsZero() || s.Err != nil })
	errs := []error{member.Status().Err}
	_, err := member.NextN(ctx, "acme", 2)
	errs = append(errs, err)
	_, err = member.Next(ctx, "acme")
	errs = append(errs, err)
	// A document that is over is cleared away by the next Submit, a count without room is
	// put back.
	over := []redis.Z{{Score: 1, Member: "over"}, {Score: 1, Member: ":fades"}, {Score: 1000, Member: ":averages"}}
	check(t, admin.ZAdd(ctx, "priority:{acme}:pending", over...).Err())
	check(t, admin.Set(ctx, "priority:{full}:count", "-999999999999999", time.Minute).Err())
	_, _ = member.Next(ctx, "full")
	_, err = member.SubmitN(ctx, "acme", named.Documents("a", "b"))
	errs = append(errs, err)
	_, err = member.Peek(ctx, "acme")
	errs = append(errs, err)
	_, err = member.Done(ctx, "acme", "a", 0)
	errs = append(errs, err)
	_, err = member.DoneN(ctx, "acme", []string{"a", "b"}, 0)
	errs = append(errs, err, member.Reset(ctx, "acme"))
	if member.Report().Fallback > 1 { // full's
		errs = append(errs, errors.New("documents are degraded"))
	}
	refused := func() (errs []error) {
		for _, denied := range must(admin.ACLLog(ctx, 100).Result())(t) {
			if denied.Object != "client" && !strings.HasPrefix(denied.Object, "client|") { // go-redis tries some for each connection
				errs = append(errs, fmt.Errorf("Redis refused %s", denied.Object))
			}
		}
		return errs
	}
	await(t, "its report, or a refusal", func() bool {
		_, reported := byName(t, admin)["of few rights"]
		return reported || len(refused()) > 0
	})
	_, err = fleet.Read(ctx, client, "") // of a report at least
	errs = append(errs, err)
	errs = append(errs, member.Close(context.Background()))
	return errors.Join(append(errs, refused()...)...)
}
