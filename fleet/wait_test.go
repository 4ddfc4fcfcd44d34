package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/prioritytest"
)

// However many ask, and while Redis hangs too, the reports are read once in five seconds, and
// callers are answered within two.
func TestWaitOf_SharesOneReading(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		member := v.member(nil)
		ask := func(patience time.Duration) (took time.Duration, err error) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err = member.WaitOf(ctx, 1)
			return time.Since(began), err
		}
		must(ask(time.Minute))(t) // Redis gets the scripts
		for _, hangs := range []bool{false, true, false} {
			time.Sleep(5 * time.Second)
			if hangs {
				v.Faults.Fail(prioritytest.Fault{Customer: "fleet", Class: priority.ErrOutcomeUnknown, Delay: time.Hour})
			}
			v.take()
			var callers sync.WaitGroup
			for n := range 100 {
				callers.Go(func() {
					time.Sleep(time.Duration(n/2) * 99 * time.Millisecond)
					patience := time.Duration(1+n%2*60) * time.Second
					if took, err := ask(patience); (err != nil) != hangs || took > min(patience, 2*time.Second) {
						t.Errorf("Redis hangs: %v; a caller with %v has %v after %v", hangs, patience, err, took)
					}
				})
			}
			callers.Wait()
			if n := strings.Count(strings.Join(v.take(), " "), "priority:{fleet}:members"); n != 1 {
				t.Errorf("Redis hangs: %v; the reports were read %d times", hangs, n)
			}
			v.Faults.Heal()
		}
	})
}

// What is told was measured, and not while documents wait for longer.
func TestWaitOf_Truth(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		worker, web, ctx := v.member(nil), v.member(nil), t.Context()
		submit := func(customer string, n int) {
			must(worker.SubmitN(ctx, customer, named.Documents(ids(n)...)))(t)
		}
		done := func(customer string, ids ...string) { must(worker.DoneN(ctx, customer, ids, 0))(t) }
		// told is the answer when all has been reported, and it is read again.
		told := func(level priority.Level, when string, least int64, longer bool) {
			t.Helper()
			time.Sleep(12 * time.Second)
			w := must(web.WaitOf(ctx, level))(t)
			if w.Documents < least || least == 0 && w != (fleet.Wait{}) || w.Longer != longer || least > 0 && (w.Median < 2*time.Second || w.P95 > 4*time.Second) {
				t.Errorf("of level %d %s: %+v", level, when, w)
			}
		}
		told(1, "before anything is done", 0, false)
		for i := range 30 {
			customer := fmt.Sprint("customer ", i)
			submit(customer, 1)
			time.Sleep(2 * time.Second)
			done(customer, "0")
		}
		told(1, "while documents are done", 20, false)
		time.Sleep(time.Minute)
		told(1, "after a quiet minute", 30, false)
		submit("acme", 1)
		told(1, "while a document waits for longer", 0, false)
		done("acme", "0")
		time.Sleep(time.Minute)

		submit("flood", 5000)
		time.Sleep(2 * time.Second)
		done("flood", "0")
		done("flood", ids(5000)[4990:]...)
		told(9, "with thousands to come", 10, true)
		told(1, "beside a flood", 1, false)
		time.Sleep(time.Minute)
		told(9, "when nothing is done", 0, false)
		told(1, "when nothing is done", 0, false)
	})
}

// A calm fleet does not work as slowly as it is asked to.
func TestWaitOf_Calm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		member, ctx := newVirtual(t).member(nil), t.Context()
		for i := range 40 {
			must(member.Submit(ctx, "acme", priority.Document{ID: fmt.Sprint(i)}))(t)
			time.Sleep(50 * time.Millisecond)
			must(member.Done(ctx, "acme", fmt.Sprint(i), 0))(t)
			time.Sleep(time.Second)
		}
		must(member.Submit(ctx, "bakery", priority.Document{ID: "0"}))(t)
		time.Sleep(6 * time.Second)
		if w := must(member.WaitOf(ctx, 2))(t); w.Documents < 20 || w.Longer {
			t.Errorf("with one document pending: %+v", w)
		}
	})
}

// ids are the ids of n documents.
func ids(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}
