package fleet_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/prioritytest"
)

var demo = control.Change{By: "mary", Why: "a demo"}

// Operators see within a moment who follows their rules, and why somebody does not.
func TestAChangeOfTheRulesIsReportedAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		ctx, reader := t.Context(), v.Client(nil)
		v.member(&fleet.Options{Name: "nine levels"})
		v.member(&fleet.Options{Name: "three levels", Store: priority.RedisOptions{Policy: priority.Policy{Thresholds: []int64{-1, -2}, Loads: []float64{1, 2}}}})
		time.Sleep(12 * time.Second)
		admin := must(control.NewAdmin(reader, nil))(t)
		version := must(admin.Apply(ctx, control.Rules{Policy: priority.Policy{ResetInterval: time.Hour}}, demo))(t)
		time.Sleep(control.FollowedWithin)
		reports := byName(t, reader)
		if r := reports["nine levels"]; !r.Follows(version) || r.Rules.Version != version {
			t.Errorf("nine levels: %+v", r.Rules)
		}
		if r := reports["three levels"]; r.Follows(version) || r.Rules.Version != 0 || !strings.Contains(r.Rules.Error, "3") || strings.Contains(r.Rules.Error, "priority:") {
			t.Errorf("three levels: %+v", r.Rules)
		}
		v.Server.FlushAll()
		time.Sleep(control.FollowedWithin)
		if r := byName(t, reader)["nine levels"]; r.Follows(version) || r.Rules.Version != version || !strings.Contains(r.Rules.Error, "lost") {
			t.Errorf("when Redis was emptied: %+v", r.Rules)
		}
	})
}

// When Redis is emptied the fleet is there again with the next reports.
func TestAMemberIsListedAgainWhenRedisWasEmptied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		v.member(nil)
		time.Sleep(30 * time.Second)
		v.Server.FlushAll()
		time.Sleep(6 * time.Second)
		if n := len(byName(t, v.Client(nil))); n != 1 {
			t.Errorf("%d reports", n)
		}
		v.Server.Del("priority:{fleet}:members")
		time.Sleep(time.Minute + 6*time.Second)
		if n := len(byName(t, v.Client(nil))); n != 1 {
			t.Errorf("%d reports, a minute after the list was lost", n)
		}
	})
}

func TestDocumentsWithAnOverrideAreReported(t *testing.T) {
	client, ctx := redistest.Start(t).Client(), t.Context()
	member := join(t, client, nil)
	admin := must(control.NewAdmin(client, &control.AdminOptions{Timeout: time.Minute}))(t)
	must(admin.SetOverride(ctx, "acme", priority.Override{Earliest: 7, Latest: 7}, time.Hour, demo))(t)
	must(member.NextN(ctx, "acme", 3))(t)
	must(member.Submit(ctx, "acme", "d", 0))(t)
	must(member.Next(ctx, "globex"))(t)
	r := member.Report()
	if r.Overridden != 4 || r.ByCount[7] != 3 || r.ByCount[1] != 1 || r.ByLoad[7] != 1 || !r.Overrides || r.Busiest[0].Level != 7 {
		t.Errorf("%+v", r)
	}
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

func TestTheLogHasWhatOperatorsShouldKnow(t *testing.T) {
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
		version := must(admin.Apply(ctx, control.Rules{Policy: priority.Policy{ResetInterval: time.Hour}}, demo))(t)
		says("rules", "INFO", "rules are followed")
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
		says("lost rules", "ERROR", "the known rules stay in force")
		mu.Lock()
		defer mu.Unlock()
		if len(changes) != 2 || !changes[0] || changes[1] || version != 1 {
			t.Errorf("the caller's own OnChange: %v", changes)
		}
	})
}

// The rights of docs/redis.md are what a member needs, and a reader of reports needs no
// more.
func TestTheDocumentedRightsAreEnough(t *testing.T) {
	page := string(must(os.ReadFile("../docs/redis.md"))(t))
	line := regexp.MustCompile("ACL SETUSER .*").FindString(page)
	more := regexp.MustCompile(`(?s)A member of the fleet \([^)]*\)\sneeds\s(.*?) too\.`).FindStringSubmatch(page)
	if line == "" || more == nil {
		t.Fatal("docs/redis.md does not say what a member needs")
	}
	var rule []any
	for word := range strings.FieldsSeq(line + " " + more[1]) {
		if word != "and" {
			rule = append(rule, strings.Trim(word, "`',"))
		}
	}
	server := redistest.Start(t)
	check(t, server.Client().Do(t.Context(), rule...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "documents", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	member := join(t, client, &fleet.Options{Name: "of few rights"})
	must(member.Submit(t.Context(), "acme", "d", 0))(t)
	must(member.Next(t.Context(), "acme"))(t)
	await(t, "its report, without errors", func() bool {
		r, ok := byName(t, client)["of few rights"]
		return ok && r.Rules.Error == ""
	})
	if reply, err := client.Set(t.Context(), "other:{fleet}:x", "x", 0).Result(); err == nil {
		t.Errorf("it may write other keys: %v", reply)
	}
	check(t, member.Close(context.Background()))
	if n := len(byName(t, client)); n != 0 {
		t.Errorf("%d reports after Close", n)
	}
}
