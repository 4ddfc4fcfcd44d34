package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lua"
	"github.com/docpriority/priority/prioritytest"
)

// wantPolicy fails the test unless a store goes by so many levels by count.
func wantPolicy(t *testing.T, what string, store priority.Store, levels int) {
	t.Helper()
	if got := len(store.PolicyOf("acme").Thresholds) + 1; got != levels {
		t.Errorf("%s: the policy has %d levels, want %d", what, got, levels)
	}
}

func TestAWorkerFollowsInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
		must(store.Next(ctx, "acme"))(t)
		version := must(admin.Apply(ctx, strict(), demo(0)))(t)
		time.Sleep(control.FollowedWithin)
		wantPolicy(t, "with rules", store, 3)
		must(admin.Withdraw(ctx, demo(version)))(t)
		time.Sleep(control.FollowedWithin)
		wantPolicy(t, "without", store, 9)
		if status := store.Status(); status.Version != version+1 || status.Rules != nil || status.Err != nil {
			t.Errorf("%+v", status)
		}
	})
}

// Where nothing was changed a worker sends one command an interval, and its reply has no
// rules in it.
func TestNoChangeCostsOneCommandAnInterval(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
		time.Sleep(10 * time.Second)
		if got := v.sent.take(); len(got) != 0 {
			t.Errorf("before the first call: %v", got)
		}
		must(admin.Apply(ctx, strict(), demo(0)))(t)
		must(store.Next(ctx, "acme"))(t)
		time.Sleep(10 * time.Second)
		v.sent.take()
		time.Sleep(100 * time.Second)
		synctest.Wait()
		whole, all := 0, 0
		for _, cmd := range v.sent.all {
			if reply, ok := cmd.(*redis.SliceCmd); ok {
				all++
				if len(reply.Val()) > 1 {
					whole++
				}
			}
		}
		if got := v.sent.take(); got["evalsha"] < 180 || got["evalsha"] > 225 || len(got) != 1 {
			t.Errorf("in 200 intervals: %v", got)
		}
		if whole > 2 || all < 180 { // one a minute
			t.Errorf("%d of %d replies have the rules", whole, all)
		}
		check(t, store.Close(ctx))
		v.sent.take()
		time.Sleep(10 * time.Second)
		must(store.Next(ctx, "acme"))(t)
		if got := v.sent.take(); len(got) != 0 {
			t.Errorf("after Close: %v", got)
		}
	})
}

// No call waits for the rules: not the first, and not one while they cannot be read.
func TestNoCallWaitsForTheRules(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, ctx := v.worker(nil, nil), t.Context()
		v.Faults.Fail(prioritytest.Fault{Customer: "control", Class: priority.ErrOutcomeUnknown, Delay: time.Hour})
		for range 10 {
			began := time.Now()
			must(store.Next(ctx, "acme"))(t)
			must(store.NextEach(ctx, []string{"acme", "bolt"}))(t)
			must(store.Submit(ctx, "acme", "a", 0))(t)
			must(store.Peek(ctx, "acme"))(t)
			must(store.Done(ctx, "acme", "a", 0))(t)
			if took := time.Since(began); took > 0 {
				t.Errorf("calls took %v", took)
			}
			time.Sleep(time.Second)
		}
		if store.Status().Err == nil {
			t.Error("no word of the rules that cannot be read")
		}
		v.Faults.Heal()
		time.Sleep(5 * time.Second)
		check(t, store.Status().Err)
	})
}

// changes is what OnChange was called with.
type changes struct {
	mu  sync.Mutex
	all []control.Status
}

func (c *changes) note(status control.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, status)
}

func (c *changes) take() []control.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// want fails the test unless OnChange was called once, with an error of a kind or none.
func (c *changes) want(t *testing.T, what string, version int64, kind error) {
	t.Helper()
	got := c.take()
	if len(got) != 1 || got[0].Version != version || !errors.Is(got[0].Err, kind) {
		t.Errorf("%s: OnChange has %+v, want version %d and %v", what, got, version, kind)
	}
}

// While the rules cannot be read the last ones hold. OnChange is called once of a reason,
// and when it is gone.
func TestTheLastRulesHold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		told := new(changes)
		store, admin, ctx := v.worker(nil, &control.Options{OnChange: told.note}), v.admin(), t.Context()
		must(store.Next(ctx, "acme"))(t)
		version := must(admin.Apply(ctx, strict(), demo(0)))(t)
		time.Sleep(control.FollowedWithin)
		told.want(t, "rules", version, nil)
		readAt := store.Status().ReadAt
		v.Faults.Fail(prioritytest.Fault{Customer: "control"})
		time.Sleep(10 * time.Second)
		version = must(admin.Apply(ctx, only(), demo(version)))(t)
		time.Sleep(10 * time.Second)
		wantPolicy(t, "while away", store, 3)
		if status := store.Status(); status.Err == nil || status.Version != version-1 || status.ReadAt.After(readAt.Add(control.FollowedWithin)) {
			t.Errorf("%+v", status)
		}
		if got := told.take(); len(got) != 1 || got[0].Err == nil || got[0].Version != version-1 {
			t.Errorf("while away OnChange has %+v", got)
		}
		v.Faults.Heal()
		time.Sleep(control.FollowedWithin)
		told.want(t, "back", version, nil)
		wantPolicy(t, "back", store, 1)
	})
}

// A worker that begins while Redis is away decides by its own options.
func TestWithoutRulesTheOptionsHold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		admin, ctx := v.admin(), t.Context()
		must(admin.Apply(ctx, control.Rules{Policy: priority.Policy{Thresholds: []int64{-1}}}, demo(0)))(t)
		v.Faults.Fail(prioritytest.Fault{Customer: "control"})
		store := v.worker(&priority.RedisOptions{Policy: strict().Policy}, nil)
		if err := store.Refresh(ctx); err == nil {
			t.Error("Refresh worked")
		}
		wantPolicy(t, "without rules", store, 3)
		if status := store.Status(); status.Rules != nil || status.Version != 0 || !status.ReadAt.IsZero() || status.Err == nil {
			t.Errorf("%+v", status)
		}
		v.Faults.Heal()
		time.Sleep(control.FollowedWithin)
		wantPolicy(t, "with rules", store, 2)
		if store.Last() != 3 {
			t.Errorf("last level %d", store.Last())
		}
	})
}

// Redis that lost what operators set is an event. Workers keep the rules that they know,
// and say so, until an operator decides.
func TestLostRulesStayInForceUntilAnOperatorDecides(t *testing.T) {
	t.Parallel()
	flush := func(w *world, _ map[string]held) { check(w.t, w.client.FlushAll(w.t.Context()).Err()) }
	restore := func(w *world, before map[string]held) { w.restore(before) }
	apply := func(w *world) { must(w.admin.Apply(w.t.Context(), only(), demo(w.rulesVersion())))(w.t) }
	for name, test := range map[string]struct {
		lose   func(w *world, before map[string]held)
		decide func(w *world)
		levels int
		there  string // version
	}{
		"all is lost, others are applied":        {flush, apply, 1, "none are there"},
		"all is lost, and withdrawn":             {flush, func(w *world) { must(w.admin.Withdraw(w.t.Context(), demo(0)))(w.t) }, 9, "none are there"},
		"all is lost, and brought back":          {flush, func(w *world) { must(w.admin.Import(w.t.Context(), w.backup, demo(0)))(w.t) }, 3, "none are there"},
		"the last changes are lost":              {restore, apply, 1, "6 is there"},
		"the last changes are lost, rolled back": {restore, func(w *world) { must(w.admin.Rollback(w.t.Context(), 6, demo(6)))(w.t) }, 2, "6 is there"},
		"the rules alone":                        {func(w *world, _ map[string]held) { w.delete(rulesKey); w.override("x", pinned(1)) }, apply, 1, "none are there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			told := new(changes)
			w.store = openControl(t, w.client, nil, &control.Options{Interval: time.Minute, OnChange: told.note})
			for i := range 5 {
				w.override(fmt.Sprint(i), pinned(3))
			}
			w.apply(control.Rules{Policy: priority.Policy{Thresholds: []int64{-1}}})
			before := w.contents()
			version := w.apply(strict())
			w.backup = must(w.admin.Export(t.Context()))(t)
			told.take()
			test.lose(w, before)
			for range 3 {
				err := w.store.Refresh(t.Context())
				if !errors.Is(err, control.ErrLost) || !strings.Contains(err.Error(), "7 w") || !strings.Contains(err.Error(), test.there) {
					t.Fatalf("Refresh = %v", err)
				}
			}
			told.want(t, "lost", version, control.ErrLost)
			wantPolicy(t, "lost", w.store, 3)
			w.override("another", pinned(2)) // is no decision about rules
			if err := w.store.Refresh(t.Context()); !errors.Is(err, control.ErrLost) {
				t.Errorf("after another change: %v", err)
			}
			wantPolicy(t, "after another change", w.store, 3)
			test.decide(w)
			w.refresh()
			wantPolicy(t, "decided", w.store, test.levels)
			if status := w.store.Status(); status.Err != nil || (status.Rules == nil) != (test.levels == 9) {
				t.Errorf("%+v", status)
			}
			fresh := openControl(t, w.client, nil, seldom)
			check(t, fresh.Refresh(t.Context()))
			wantPolicy(t, "a worker that begins", fresh, test.levels)
		})
	}
}

// Without rules, a version that is gone says that overrides are lost.
func TestLostOverridesAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.override("acme", pinned(4))
	w.refresh()
	backup := must(w.admin.Export(ctx))(t)
	check(t, w.client.FlushAll(ctx).Err())
	err := w.store.Refresh(ctx)
	if !errors.Is(err, control.ErrLost) || !strings.Contains(err.Error(), "version 1 was known, 0 is there") {
		t.Errorf("Refresh = %v", err)
	}
	w.wantLevel(w.store, "acme", 1, 1)
	must(w.admin.Import(ctx, backup, demo(0)))(t)
	w.refresh()
	w.wantLevel(w.store, "acme", 4, 1)
}

// As after NTP or a failover: whose clock is ahead changes neither which rules hold nor
// whether an override does, and leaves no two workers different.
func TestClocksThatStep(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				v := newVirtual(t)
				admin, ctx := v.admin(), t.Context()
				one, two := v.worker(nil, nil), v.worker(nil, nil)
				version := must(admin.Apply(ctx, strict(), demo(0)))(t)
				check(t, one.Refresh(ctx))
				v.SetAhead(step)
				version = must(admin.Apply(ctx, only(), demo(version)))(t)
				v.SetAhead(0)
				check(t, one.Refresh(ctx))
				check(t, two.Refresh(ctx))
				wantPolicy(t, "one", one, 1)
				wantPolicy(t, "two", two, 1)
				must(admin.Apply(ctx, control.Rules{}, demo(version)))(t)
				check(t, one.Refresh(ctx))
				check(t, two.Refresh(ctx))
				wantPolicy(t, "one", one, 9)
				wantPolicy(t, "two", two, 9)
				v.SetAhead(400 * 24 * time.Hour) // against the workers' clocks
				must(admin.SetOverride(ctx, "acme", pinned(5), time.Hour, demo(0)))(t)
				for _, store := range []priority.Store{one, two} {
					if got := must(store.Next(ctx, "acme"))(t); got.Level != 5 {
						t.Errorf("%+v", got)
					}
				}
			})
		})
	}
}

// After a failover to a clock that is behind, the next change may have the version of the
// one that was lost, and an earlier time: it is followed.
func TestAnotherChangeOfTheSameVersionIsFollowed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		admin, store, ctx := v.admin(), v.worker(nil, seldom), t.Context()
		must(admin.Apply(ctx, strict(), demo(0)))(t)
		check(t, store.Refresh(ctx))
		check(t, v.Client(nil).FlushAll(ctx).Err())
		v.SetAhead(-time.Hour)
		must(admin.Apply(ctx, only(), demo(0)))(t)
		check(t, store.Refresh(ctx))
		wantPolicy(t, "another change", store, 1)
	})
}

// A command that hangs holds up the following for a time only.
func TestAReadThatHangsEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
		v.Faults.Fail(prioritytest.Fault{Customer: "control", Class: priority.ErrOutcomeUnknown, Delay: time.Hour, Calls: 3})
		must(store.Next(ctx, "acme"))(t)
		version := must(admin.Apply(ctx, strict(), demo(0)))(t)
		time.Sleep(10 * time.Second)
		if status := store.Status(); status.Err != nil || status.Version != version {
			t.Errorf("%+v", status)
		}
	})
}

func TestRefreshIsInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store := v.worker(nil, nil)
		v.Faults.Fail(prioritytest.Fault{Class: priority.ErrOutcomeUnknown, Delay: time.Hour})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			began := time.Now()
			err := store.Refresh(ctx)
			cancel()
			if took := time.Since(began); err == nil || took > 100*time.Millisecond {
				t.Errorf("Refresh = %v after %v", err, took)
			}
		}
		v.Faults.Heal()
		check(t, store.Refresh(t.Context()))
	})
}

// late is a hook by which the first reply comes late.
type late struct {
	noHook
	delay time.Duration
	met   atomic.Bool
}

func (l *late) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") && err == nil && !l.met.Swap(true) {
			time.Sleep(l.delay)
		}
		return err
	}
}

// What a reading found long ago says nothing of the rules that a later one has read.
func TestAReadingThatIsLateSaysNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		client, ctx := v.Client(v.Faults), t.Context()
		admin := v.admin()
		check(t, client.ScriptLoad(ctx, lua.Follow).Err())
		version := must(admin.Apply(ctx, strict(), demo(0)))(t)
		client.AddHook(&late{delay: time.Second})
		store := openControl(t, client, nil, seldom)
		var first sync.WaitGroup
		first.Go(func() { _ = store.Refresh(ctx) })
		time.Sleep(time.Millisecond)
		must(admin.Apply(ctx, only(), demo(version)))(t)
		check(t, store.Refresh(ctx))
		wantPolicy(t, "the later reading", store, 1)
		first.Wait()
		time.Sleep(2 * time.Second)
		wantPolicy(t, "after the late one", store, 1)
		check(t, store.Status().Err)
	})
}

// One outage is one reason, though each connection that is lost has a port of its own.
func TestAnOutageIsSaidOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, fault := range map[string]redistest.Fault{"swallowed": redistest.Swallow, "cut": redistest.Cut, "black hole": redistest.Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.StartProxy(t, server.Addr)
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: 200 * time.Millisecond})
			t.Cleanup(func() { _ = client.Close() })
			told := new(changes)
			store := openControl(t, client, nil, &control.Options{Interval: time.Minute, OnChange: told.note})
			check(t, store.Refresh(t.Context()))
			proxy.Set(fault)
			for range 4 {
				if err := store.Refresh(t.Context()); err == nil {
					t.Error("Refresh worked")
				}
			}
			if got := told.take(); len(got) != 1 {
				t.Errorf("told %d times: %v", len(got), got)
			}
		})
	}
}

// Where the worker's queue has fewer levels than the Admin was told, what held before
// holds on, and all is well when the rules are.
func TestRulesOfTooManyLevelsAreNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	told := new(changes)
	own := &priority.RedisOptions{Policy: priority.Policy{Thresholds: []int64{-2, -4}}}
	store := openControl(t, w.client, own, &control.Options{Interval: time.Minute, OnChange: told.note})
	good := w.apply(only())
	check(t, store.Refresh(ctx))
	told.take()
	w.apply(control.Rules{}) // nine levels
	for range 3 {
		if err := store.Refresh(ctx); !errors.Is(err, priority.ErrInvalid) || !strings.Contains(err.Error(), "its queue has 3 levels, the rules 9") {
			t.Errorf("Refresh = %v", err)
		}
	}
	told.want(t, "nine levels", good, priority.ErrInvalid)
	wantPolicy(t, "nine levels", store, 1)
	w.override("acme", pinned(2)) // holds all the same
	w.wantLevel(store, "acme", 2, 1)
	now := w.apply(strict())
	check(t, store.Refresh(ctx))
	told.want(t, "three levels", now, nil)
	wantPolicy(t, "three levels", store, 3)
}
