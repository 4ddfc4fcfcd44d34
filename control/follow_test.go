package control_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
	"github.com/docpriority/priority/prioritytest"
)

// within is how late a worker of the default Interval notices a change.
const within = 600 * time.Millisecond

func TestAWorkerFollowsWithinAnInterval(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
		level := func(customer string) priority.Level { return must(store.Next(ctx, customer))(t).Level }
		level("acme")
		version := must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(0)))(t)
		time.Sleep(within)
		if got := level("acme"); got != 5 {
			t.Errorf("after an override: %d", got)
		}
		must(admin.EndOverride(ctx, "acme", demo(version)))(t)
		time.Sleep(within)
		if got := level("acme"); got != 1 {
			t.Errorf("after its end: %d", got)
		}
		version = must(admin.Apply(ctx, strict(), demo(0)))(t)
		time.Sleep(within)
		if got := level("acme"); got != 3 {
			t.Errorf("with other rules: %d", got)
		}
		must(admin.Withdraw(ctx, demo(version)))(t)
		time.Sleep(within)
		if got := must(store.Peek(ctx, "acme"))(t); got.Level != 2 || got.Count != -3 {
			t.Errorf("without rules: %+v", got)
		}
	})
}

// Where nothing was changed a worker sends one command about the document an
// interval, and nothing else.
func TestNoChangeCostsOneCommandAnInterval(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
		time.Sleep(10 * time.Second)
		if got := v.sent.take(); len(got) != 0 {
			t.Errorf("before the first call: %v", got)
		}
		must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(0)))(t)
		must(store.Next(ctx, "acme"))(t)
		time.Sleep(10 * time.Second)
		v.sent.take()
		time.Sleep(100 * time.Second)
		for range 1000 {
			must(store.Next(ctx, "acme"))(t)
		}
		got := v.sent.take()
		n := got["evalsha"] + got["hmget"]
		if n < 180 || n > 225 || len(got) != 1 {
			t.Errorf("in 200 intervals: %v", got)
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

// A change is read by itself, and not all that was ever set.
func TestAChangeIsReadByItself(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, seldom), v.admin(), t.Context()
		for i := range 30 {
			must(admin.SetOverride(ctx, fmt.Sprint(i), control.Pin(5), time.Hour, demo(0)))(t)
		}
		check(t, store.Refresh(ctx))
		synctest.Wait() // for the store's own first reading
		v.sent.take()
		must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(0)))(t)
		check(t, store.Refresh(ctx))
		if got := v.sent.take(); got["xrange"] < 1 || got["hscan"] != 0 {
			t.Errorf("for one change: %v", got)
		}
		if got := asked(store, "acme"); got != 5 {
			t.Errorf("acme has %d", got)
		}
	})
}

// No call waits for the document: not the first, and not one while it cannot be read.
func TestNoCallWaitsForTheDocument(t *testing.T) {
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
			check(t, store.Done(ctx, "acme", "a", 0))
			store.Override("acme", priority.Decision{Level: 1})
			store.Status()
			if took := time.Since(began); took > 0 {
				t.Errorf("calls took %v", took)
			}
			time.Sleep(time.Second)
		}
		if store.Status().Err == nil {
			t.Error("no word of the document that cannot be read")
		}
	})
}

// While the document cannot be read the last one holds. OnError is told once of a
// reason.
func TestTheLastDocumentHolds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		told := new(failures)
		store, admin, ctx := v.worker(nil, &control.Options{OnError: told.note}), v.admin(), t.Context()
		first := must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(0)))(t)
		check(t, store.Refresh(ctx))
		for round := range 3 {
			readAt := store.Status().ReadAt
			v.Faults.Fail(prioritytest.Fault{Customer: "control"})
			time.Sleep(10 * time.Second)
			first = must(admin.SetOverride(ctx, "acme", control.Pin(priority.Level(6+round)), time.Hour, demo(first)))(t)
			time.Sleep(10 * time.Second)
			if got := asked(store, "acme"); got != priority.Level(5+round) {
				t.Errorf("round %d: acme has %d", round, got)
			}
			status := store.Status()
			if status.Err == nil || status.Document == nil || status.Document.Version != first-1 || status.ReadAt.After(readAt.Add(within)) {
				t.Errorf("round %d: %+v", round, status)
			}
			if got := told.take(); len(got) != 1 {
				t.Errorf("round %d: told %v", round, got)
			}
			v.Faults.Heal()
			time.Sleep(within)
			if got, status := asked(store, "acme"), store.Status(); got != priority.Level(6+round) || status.Err != nil || status.Document.Version != first {
				t.Errorf("round %d: acme has %d when healed; %+v", round, got, status)
			}
			if got := told.take(); len(got) != 0 {
				t.Errorf("round %d: told %v when healed", round, got)
			}
		}
	})
}

// failures is what OnError was told.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *failures) take() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := f.errs
	f.errs = nil
	return errs
}

// A worker that begins while the document cannot be read decides by its own options.
func TestWithoutADocumentTheOptionsHold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		admin, ctx := v.admin(), t.Context()
		must(admin.Apply(ctx, control.Rules{Policy: priority.Policy{Thresholds: []int64{-1}}}, demo(0)))(t)
		v.Faults.Fail(prioritytest.Fault{Customer: "control"})
		own := &priority.RedisOptions{
			Policy: strict().Policy,
			Tiers:  map[string]priority.Policy{"gold": only().Policy},
			TierOf: func(customer string) string { return customer },
		}
		store := v.worker(own, nil)
		if err := store.Refresh(ctx); err == nil {
			t.Error("Refresh worked")
		}
		for _, want := range []priority.Level{1, 2, 3, 3} {
			if got := must(store.Next(ctx, "acme"))(t); got.Level != want {
				t.Errorf("%+v, want level %d", got, want)
			}
		}
		must(store.NextN(ctx, "gold", 30))(t)
		if got := must(store.Next(ctx, "gold"))(t); got.Level != 1 || store.PolicyOf("gold").Last() != 1 {
			t.Errorf("gold has %+v by %v", got, store.PolicyOf("gold"))
		}
		if status := store.Status(); status.Document != nil || !status.ReadAt.IsZero() || status.Err == nil {
			t.Errorf("%+v", status)
		}
		v.Faults.Heal()
		time.Sleep(within)
		if got := must(store.Next(ctx, "acme"))(t); got.Level != 2 || store.Last() != 3 {
			t.Errorf("%+v of %d", got, store.Last())
		}
	})
}

// Where nothing was ever set, all is as without this package.
func TestNothingWasEverSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refresh()
	for i := range 25 {
		got := must(w.store.Next(t.Context(), "acme"))(t)
		want := must(w.own.Next(t.Context(), "bolt"))(t)
		got.ResetIn, want.ResetIn = 0, 0
		if got != want {
			t.Errorf("document %d: %+v, want %+v", i, got, want)
		}
	}
	status := w.store.Status()
	if status.Document == nil || !reflect.DeepEqual(*status.Document, control.Document{}) || status.Err != nil || status.ReadAt.IsZero() {
		t.Errorf("%+v", status)
	}
	if n := must(w.client.Exists(t.Context(), documentKey, endsKey, logKey).Result())(t); n != 0 {
		t.Errorf("%d keys", n)
	}
}

// A worker's clock may be wrong by years, and Redis's may be moved.
func TestEndsAreByRedissClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"right": 0, "slow": 400 * 24 * time.Hour, "fast": -400 * 24 * time.Hour} {
		t.Run("the worker's clock is "+name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				v := newVirtual(t)
				v.SetAhead(ahead)
				store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
				must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(0)))(t)
				must(admin.SetOverride(ctx, "bolt", control.Pin(5), 3*time.Hour, demo(0)))(t)
				check(t, store.Refresh(ctx))
				time.Sleep(time.Hour - 10*time.Second)
				v.Faults.Fail(prioritytest.Fault{}) // it ends while Redis is away
				time.Sleep(9 * time.Second)
				if got := asked(store, "acme"); got != 5 {
					t.Errorf("a second before its end acme has %d", got)
				}
				time.Sleep(2 * time.Second)
				if got := asked(store, "acme"); got != 9 {
					t.Errorf("a second after its end acme has %d", got)
				}
				v.Faults.Heal()
				time.Sleep(within)
				if a, b := asked(store, "acme"), asked(store, "bolt"); a != 9 || b != 5 {
					t.Errorf("when Redis is back acme has %d and bolt %d", a, b)
				}
				v.SetAhead(ahead + 2*time.Hour) // while the worker's clock stands still
				check(t, store.Refresh(ctx))
				if got := asked(store, "bolt"); got != 9 {
					t.Errorf("when Redis's clock was moved bolt has %d", got)
				}
				if got, _, err := admin.Document(ctx); err != nil || len(got.Overrides) != 0 {
					t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

// An override holds up to the millisecond of its end, and not in it.
func TestTheEndIsExact(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, seldom), v.admin(), t.Context()
		must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Second, demo(0)))(t)
		check(t, store.Refresh(ctx))
		time.Sleep(999 * time.Millisecond)
		if got := asked(store, "acme"); got != 5 {
			t.Errorf("a millisecond before its end: %d", got)
		}
		time.Sleep(time.Millisecond)
		if got := asked(store, "acme"); got != 9 {
			t.Errorf("at its end: %d", got)
		}
	})
}

// What is over is not kept: a worker may live for years.
func TestOverridesThatAreOverAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, seldom), v.admin(), t.Context()
		var known *control.Document
		for i := range 60 {
			must(admin.SetOverride(ctx, fmt.Sprint("customer ", i), control.Pin(5), time.Second, demo(0)))(t)
			check(t, store.Refresh(ctx))
			known = must(since(admin.DocumentSince(ctx, known)))(t)
			time.Sleep(time.Second)
		}
		must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(0)))(t)
		check(t, store.Refresh(ctx))
		if got := len(store.Status().Document.Overrides); got > 10 {
			t.Errorf("the worker holds %d overrides, all but one of which are over", got)
		}
		if got := len(must(since(admin.DocumentSince(ctx, known)))(t).Overrides); got != 1 {
			t.Errorf("an Admin holds %d overrides", got)
		}
	})
}

// since drops the time of a document.
func since(document *control.Document, _ time.Time, err error) (*control.Document, error) {
	return document, err
}

// A command that hangs, of whatever kind, holds up the following for a time only.
func TestAReadThatHangsEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
		v.Faults.Fail(prioritytest.Fault{Customer: "control", Class: priority.ErrOutcomeUnknown, Delay: time.Hour, Calls: 1})
		must(store.Next(ctx, "acme"))(t) // it asks for the version
		time.Sleep(5 * time.Second)
		if status := store.Status(); status.Err != nil || status.ReadAt.IsZero() {
			t.Errorf("5 s after a version that hung: %+v", status)
		}
		for name, skip := range map[string]int{"the changes": 1, "the version after them": 2} {
			for range skip {
				v.Faults.Fail(prioritytest.Fault{Customer: "control", Slow: true, Calls: 1})
			}
			v.Faults.Fail(prioritytest.Fault{Customer: "control", Class: priority.ErrOutcomeUnknown, Delay: time.Hour, Calls: 1})
			document := must(since(admin.Document(ctx)))(t)
			version := must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(document.Overrides["acme"].Version)))(t)
			time.Sleep(time.Minute)
			if status := store.Status(); status.Err != nil || status.Document == nil || status.Document.Version != version {
				t.Errorf("a minute after %s hung: %+v", name, status)
			}
			v.Faults.Heal()
			time.Sleep(within)
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

// One outage is one reason, though each connection that is lost has a port of its own.
func TestAnOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, fault := range map[string]redistest.Fault{"swallowed": redistest.Swallow, "cut": redistest.Cut, "black hole": redistest.Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.StartProxy(t, server.Addr)
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: 200 * time.Millisecond})
			t.Cleanup(func() { _ = client.Close() })
			told := new(failures)
			store := openControl(t, client, nil, &control.Options{Interval: time.Minute, OnError: told.note})
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

// What Refresh has read holds when it returns, whoever else was reading.
func TestRefreshBesideAnotherReading(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, MinIdleConns: 4})
	t.Cleanup(func() { _ = client.Close() })
	admin, ctx := openAdmin(t, server.Client(), nil), t.Context()
	store := openControl(t, client, nil, seldom)
	must(admin.SetOverride(ctx, "acme", control.Pin(4), time.Hour, demo(0)))(t)
	check(t, store.Refresh(ctx))
	proxy.Set(redistest.Delay) // replies come a second late
	var both sync.WaitGroup
	both.Go(func() { _ = store.Refresh(ctx) })
	time.Sleep(100 * time.Millisecond) // which has asked, and read nothing yet
	must(admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(1)))(t)
	if err := store.Refresh(ctx); err == nil && asked(store, "acme") != 5 {
		t.Errorf("after Refresh acme has %d", asked(store, "acme"))
	}
	both.Wait()
	proxy.Set(redistest.None)
}

// late is a hook by which the first reply with the document's version comes late.
type late struct {
	delay time.Duration
	met   atomic.Bool
}

func (l *late) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (l *late) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l *late) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if cmds[0].Name() == "hmget" && !l.met.Swap(true) {
			time.Sleep(l.delay)
		}
		return err
	}
}

// What a reading found long ago says nothing of the document that a later one has read.
func TestAReadingThatIsLateTellsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		client, ctx := v.Client(v.Faults), t.Context()
		client.AddHook(&late{delay: time.Second})
		store := openControl(t, client, nil, seldom)
		must(store.Next(ctx, "acme"))(t) // begins a reading, of a document that is right
		time.Sleep(time.Millisecond)
		check(t, client.HSet(ctx, documentKey, "format", 2).Err())
		if err := store.Refresh(ctx); !errors.Is(err, control.ErrNewerDocument) {
			t.Errorf("Refresh = %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := store.Status().Err; !errors.Is(err, control.ErrNewerDocument) {
			t.Errorf("the status is %v", err)
		}
	})
}

// As after NTP or a failover: what is new does not depend on whose clock is ahead.
func TestAClockOfRedisThatStepsBackStopsNoWorker(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
		version := must(admin.SetOverride(ctx, "acme", control.Pin(5), 10*time.Hour, demo(0)))(t)
		check(t, store.Refresh(ctx))
		v.SetAhead(-time.Hour)
		must(admin.SetOverride(ctx, "acme", control.Pin(7), time.Minute, demo(version)))(t)
		time.Sleep(within)
		if got := must(store.Next(ctx, "acme"))(t); got.Level != 7 {
			t.Errorf("%+v, status %+v", got, store.Status())
		}
		time.Sleep(time.Minute)
		if got := must(store.Next(ctx, "acme"))(t); got.Ruled != 0 {
			t.Errorf("after its end by that clock: %+v", got)
		}
	})
}

// A document that a worker cannot use is read again when it has changed, and not twice
// a second by every worker.
func TestADocumentThatCannotBeUsedIsReadOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		admin, ctx := v.admin(), t.Context()
		for i := range 20 {
			must(admin.SetOverride(ctx, fmt.Sprint("customer ", i), control.Pin(2), time.Hour, demo(0)))(t)
		}
		version := must(admin.Apply(ctx, control.Rules{}, demo(0)))(t) // of nine levels
		store := v.worker(&priority.RedisOptions{Policy: priority.Policy{Thresholds: []int64{-2, -4}}}, nil)
		must(store.Next(ctx, "acme"))(t)
		time.Sleep(10 * time.Second)
		if got := v.sent.take(); got["hscan"] != 1 || got["hmget"] < 15 {
			t.Errorf("it sent %v", got)
		}
		if status := store.Status(); !errors.Is(status.Err, priority.ErrInvalidPolicy) {
			t.Errorf("%+v", status)
		}
		must(admin.Apply(ctx, strict(), demo(version)))(t)
		time.Sleep(within)
		if status := store.Status(); status.Err != nil || store.PolicyOf("acme").Last() != 3 {
			t.Errorf("%+v, %v", status, store.PolicyOf("acme"))
		}
	})
}
