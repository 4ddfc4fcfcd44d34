package control_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/prioritytest"
)

// A bubble ends when all of its goroutines have: that none is left is tested by it.

func TestCloseBeforeAnyCallAndTwice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, ctx := v.worker(nil, nil), t.Context()
		check(t, store.Close(ctx))
		check(t, store.Close(ctx))
		for range 30 {
			must(store.Next(ctx, "acme"))(t)
		}
		time.Sleep(time.Minute)
		if got := v.sent.take(); len(got) != 0 {
			t.Errorf("after Close: %v", got)
		}
		if got := must(store.Next(ctx, "acme"))(t); got.Level != 9 {
			t.Errorf("%+v", got)
		}
		check(t, store.Close(ctx))
	})
}

// After Close calls go by the rules that were known last.
func TestAfterCloseTheLastRulesHold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, admin, ctx := v.worker(nil, nil), v.admin(), t.Context()
		version := must(admin.Apply(ctx, strict(), demo(0)))(t)
		check(t, store.Refresh(ctx))
		check(t, store.Close(ctx))
		must(admin.Withdraw(ctx, demo(version)))(t)
		time.Sleep(time.Minute)
		must(store.Next(ctx, "acme"))(t)
		if got := must(store.Next(ctx, "acme"))(t); got.Level != 2 {
			t.Errorf("%+v", got)
		}
	})
}

func TestCloseIsInTimeWhileRedisHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store := v.worker(nil, nil)
		check(t, store.Refresh(t.Context()))
		must(store.Next(t.Context(), "acme"))(t)
		v.Faults.Fail(prioritytest.Fault{Customer: "control", Class: priority.ErrOutcomeUnknown, Delay: time.Hour})
		time.Sleep(700 * time.Millisecond) // it is being read
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_ = store.Close(ctx)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		if got := must(store.Next(t.Context(), "acme"))(t); got.Count != -1 {
			t.Errorf("%+v", got)
		}
		v.Faults.Heal()
		time.Sleep(5 * time.Second)
		check(t, store.Close(t.Context()))
	})
}

func TestCloseBesideCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		store, ctx := v.worker(nil, &control.Options{Interval: 10 * time.Millisecond}), t.Context()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					if _, err := store.Next(ctx, "acme"); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
				_ = store.Refresh(ctx)
				if err := store.Close(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := must(store.Peek(ctx, "acme"))(t); got.Count != -159 {
			t.Errorf("%+v", got)
		}
	})
}

// Nothing is sent by the constructors, and no goroutine begins: the bubble would not
// end.
func TestConstructorsSendNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		must(control.New(v.Client(v.Faults), nil))(t)
		must(control.NewAdmin(v.Client(v.Faults), nil))(t)
		time.Sleep(time.Minute)
		if got := v.sent.take(); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

// A caller who gives up reading the rules says nothing about Redis.
func TestAReadingThatIsGivenUpIsNoFailure(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	store := must(control.New(client, &control.Options{Interval: time.Minute, OnChange: func(status control.Status) {
		if status.Err != nil {
			t.Errorf("OnChange: %v", status.Err)
		}
	}}))(t)
	t.Cleanup(func() { check(t, store.Close(context.WithoutCancel(t.Context()))) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := store.Refresh(ctx); err == nil {
			t.Error("a reading that was given up has no error")
		}
	}
	if err := store.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
}
