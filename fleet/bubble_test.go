package fleet_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/virtualredis"
	"github.com/docpriority/priority/prioritytest"
)

// A bubble ends when all of its goroutines have: that none is left is tested by it.

// virtual is a Redis in virtual time, and what was sent to it.
type virtual struct {
	*virtualredis.Redis
	t *testing.T

	mu   sync.Mutex
	sent []string // the keys of commands
}

func newVirtual(t *testing.T) *virtual {
	v := &virtual{Redis: virtualredis.Start(t), t: t}
	v.Sent = func(cmds []redis.Cmder) {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, cmd := range cmds {
			if key := virtualredis.KeyOf(cmd); key != "" {
				v.sent = append(v.sent, key)
			}
		}
	}
	return v
}

// take returns the keys of the commands that were sent since the last take.
func (v *virtual) take() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	sent := v.sent
	v.sent = nil
	return sent
}

// member returns a member whose commands meet faults.
func (v *virtual) member(opts *fleet.Options) *fleet.Member {
	v.t.Helper()
	return join(v.t, v.Client(v.Faults), opts)
}

// Join waits for nothing, not even for a Redis that hangs; what it starts reports by itself.
func TestJoin_WaitsForNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		v.Faults.Fail(prioritytest.Fault{Delay: time.Hour})
		begun := time.Now()
		member := must(fleet.Join(v.Client(v.Faults), nil))(t)
		if took := time.Since(begun); took != 0 {
			t.Errorf("Join waited for %v", took)
		}
		v.Faults.Heal()
		time.Sleep(10 * time.Second)
		if n := len(byName(t, v.Client(nil))); n != 1 {
			t.Errorf("%d reports, before any call", n)
		}
		check(t, member.Close(t.Context()))
	})
}

// A process that is killed is gone after half a minute, and read, by name, for an hour.
func TestRead_Gone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		killed := must(fleet.Join(v.Client(v.Faults), &fleet.Options{Name: "killed", Interval: time.Minute}))(t)
		join(t, v.Client(nil), &fleet.Options{Name: "left", Interval: time.Minute})
		must(killed.Next(t.Context(), "acme"))(t)
		time.Sleep(50 * time.Second)
		v.Faults.Fail(prioritytest.Fault{}) // from now on, nothing of it arrives
		reader := v.Client(nil)
		for _, test := range []struct {
			sleep             time.Duration
			reports, gone     int
			inWindow, members int64
		}{{24 * time.Second, 2, 0, 1, 2}, {12 * time.Second, 2, 1, 0, 2}, {59 * time.Minute, 2, 1, 0, 2}, {time.Minute, 1, 0, 0, 2}, {5 * time.Minute, 1, 0, 0, 1}} {
			time.Sleep(test.sleep)
			reports := byName(t, reader)
			total := fleet.Add(slices.Collect(maps.Values(reports)))
			if len(reports) != test.reports || total.Gone != test.gone || total.Documents() != test.inWindow || reports["killed"].Here() != (total.Gone == 0) || !reports["left"].Here() {
				t.Errorf("after another %v: %+v", test.sleep, total)
			}
			key := "priority:{fleet}:members"
			if n, ttl := reader.ZCard(t.Context(), key).Val(), reader.PTTL(t.Context(), key).Val(); n != test.members || ttl > 62*time.Minute || ttl < time.Hour {
				t.Errorf("after another %v %d ids are listed, for %v", test.sleep, n, ttl)
			}
		}
		check(t, killed.Close(t.Context()))
	})
}

// Whatever becomes of a report, callers are answered as without it.
func TestReport_DelaysNoCaller(t *testing.T) {
	for name, fault := range map[string]prioritytest.Fault{
		"hanging":  {Customer: "fleet", Class: priority.ErrOutcomeUnknown, Delay: time.Hour},
		"refused":  {Customer: "fleet"},
		"slow":     {Customer: "fleet", Slow: true, Delay: 3 * time.Second},
		"not sent": {Customer: "fleet", Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				v := newVirtual(t)
				member, ctx := v.member(nil), t.Context()
				must(member.Next(ctx, "acme"))(t)
				v.Faults.Fail(fault)
				for range 100 {
					began := time.Now()
					must(member.Next(ctx, "acme"))(t)
					must(member.Submit(ctx, "globex", priority.Document{ID: "d"}))(t)
					must(member.Done(ctx, "globex", "d", 0))(t)
					if r := member.Report(); r.Degraded || r.Fallback > 0 {
						t.Fatalf("%+v", r)
					}
					if took := time.Since(began); took > 0 {
						t.Fatalf("the calls took %v", took)
					}
					time.Sleep(100 * time.Millisecond)
				}
				v.Faults.Heal()
				time.Sleep(10 * time.Second)
				for _, r := range byName(t, v.Client(nil)) {
					if r.Age > 6*time.Second {
						t.Errorf("after it is over: %+v", r)
					}
				}
			})
		})
	}
}

// Close pays first, for that takes longest; the report goes next, and then nothing is
// sent any more.
func TestClose_Order(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		member, ctx := v.member(&fleet.Options{Fallback: fallback.Options{RetryAfter: time.Hour}}), t.Context()
		must(member.Submit(ctx, "acme", priority.Document{ID: "d"}))(t)
		v.Faults.Fail(prioritytest.Fault{Customer: "acme"})
		must(member.Done(ctx, "acme", "d", 0))(t)
		v.Faults.Heal()
		time.Sleep(time.Second)
		v.take()
		check(t, member.Close(ctx))
		sent := slices.DeleteFunc(v.take(), func(key string) bool { return strings.Contains(key, "{control}") })
		sent = slices.Compact(sent) // the server had to be sent a script
		if len(sent) != 2 || sent[0] != "priority:{acme}:pending" || !strings.HasPrefix(sent[1], "priority:{fleet}:") {
			t.Errorf("Close sent %q", sent)
		}
		time.Sleep(time.Hour)
		if sent := v.take(); len(sent) != 0 {
			t.Errorf("after Close: %q", sent)
		}
		if n := len(byName(t, v.Client(nil))); n != 0 {
			t.Errorf("%d reports", n)
		}
		check(t, member.Close(ctx))
		if d := must(member.Next(ctx, "acme"))(t); d.Level != 1 || member.Report().Documents() != 1 {
			t.Errorf("after Close: %+v", d)
		}
	})
}

// Reports count what a fallback decides apart from what Redis decides.
func TestReport_Outage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		member, ctx := v.member(&fleet.Options{Store: priority.RedisOptions{Timeout: 250 * time.Millisecond}}), t.Context()
		must(member.Next(ctx, "acme"))(t)
		v.Faults.Fail(prioritytest.Fault{})
		must(member.NextN(ctx, "acme", 3))(t)
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := member.NextEach(canceled, []string{"acme", "globex"}); err == nil {
			t.Error("a call that was canceled has no error")
		}
		r := member.Report()
		if !r.Degraded || r.Fallback != 3 || r.Documents() != 4 || r.Errors["not_counted"] != 2 {
			t.Errorf("while Redis is down: %+v", r)
		}
		time.Sleep(5 * time.Second)
		if r := member.Report(); r.Following.Code != control.Unreachable {
			t.Errorf("of the policies: %+v", r.Following)
		}
		v.Faults.Heal()
		time.Sleep(time.Minute)
		if r := member.Report(); r.Degraded || r.Fallback != 0 || r.Following.Code != "" {
			t.Errorf("a minute later: %+v", r)
		}
	})
}
