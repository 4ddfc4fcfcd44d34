package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/bubble"
)

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}

// Of some documents it is known how long they took, of others not.
func TestClosePaysDonesWithAndWithoutATime(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		documents := numbered(40)
		submit(t, f, "acme", documents...)
		outage(t, f, p)
		for i, document := range documents {
			if err := f.Done(t.Context(), "acme", document, time.Duration(i%2)*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		p.fail(nil, nil)
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		pending(t, p, 0)
	})
}

// A Submit cancels the Done that is owed only if it counted the document, or may have.
func TestASubmitThatDoesNotCountLeavesTheDone(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, submit2 := range map[string]func(f *fallback.Store) error{
		"Submit": func(f *fallback.Store) error { _, err := f.Submit(canceled, "acme", "one", 0); return err },
		"SubmitN": func(f *fallback.Store) error {
			_, err := f.SubmitN(canceled, "acme", []string{"two", "one"}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
				submit(t, f, "acme", "one", "two")
				outage(t, f, p)
				done(t, f, "acme", "one", "two")
				if err := submit2(f); !errors.Is(err, priority.ErrNotCounted) {
					t.Fatal(err)
				}
				back(t, f, p)
				pending(t, p, 0)
			})
		})
	}
	// It is canceled while it is under way, and another one counts the document.
	for _, another := range []bool{false, true} {
		test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
			submit(t, f, "acme", "one")
			p.fail(only("Done", "acme", down), nil)
			done(t, f, "acme", "one")
			p.fail(only("Submit", "acme", func(ctx context.Context, _ call) error {
				<-ctx.Done()
				return fmt.Errorf("%w: %w", priority.ErrNotCounted, ctx.Err())
			}), nil)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*ms, cancel)
			var wait sync.WaitGroup
			wait.Go(func() {
				if _, err := f.Submit(ctx, "acme", "one", 0); !errors.Is(err, priority.ErrNotCounted) {
					t.Error(err)
				}
			})
			time.Sleep(50 * ms)
			if p.fail(nil, nil); another {
				submit(t, f, "acme", "one")
			}
			wait.Wait()
			back(t, f, p)
			if another {
				pending(t, p, 1)
			} else {
				pending(t, p, 0)
			}
		})
	}
	// Nobody knows whether it counted.
	bubble.Test(t, func(t *testing.T) {
		p, second := newPrimary(t), newPrimary(t)
		f := open(t, p, second, nil)
		submit(t, f, "acme", "one")
		p.fail(only("Done", "acme", down), nil)
		done(t, f, "acme", "one")
		p.fail(nil, only("Submit", "", with(priority.ErrOutcomeUnknown)))
		second.fail(down, nil)
		if _, err := f.Submit(t.Context(), "acme", "one", 0); !errors.Is(err, priority.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		second.fail(nil, nil)
		back(t, f, p)
		pending(t, p, 1)
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// While a Done is on its way, it must not end a Submit, however many there are.
func TestNoSubmitOvertakesADoneOnItsWay(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		submit(t, f, "acme", "one")
		p.fail(only("Done", "acme", down), nil)
		done(t, f, "acme", "one")
		p.fail(only("Done", "acme", func(context.Context, call) error { time.Sleep(200 * ms); return nil }), nil)
		time.Sleep(600 * ms)
		for range 3 {
			if d, err := f.Submit(t.Context(), "acme", "one", 0); err != nil || !d.Degraded {
				t.Errorf("%+v, %v", d, err)
			}
		}
		time.Sleep(200 * ms)
		submit(t, f, "acme", "one")
		back(t, f, p)
		pending(t, p, 1)
	})
}

// A Done that ends late says nothing about the next one of the same document.
func TestADoneOutlivesAnEarlierOne(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		submit(t, f, "acme", "one")
		p.fail(nil, only("Done", "acme", func(context.Context, call) error { time.Sleep(200 * ms); return nil }))
		var wait sync.WaitGroup
		wait.Go(func() { done(t, f, "acme", "one") })
		time.Sleep(50 * ms)
		submit(t, f, "acme", "one")
		p.fail(only("Done", "acme", func(context.Context, call) error {
			time.Sleep(200 * ms)
			return priority.ErrNotCounted
		}), nil)
		done(t, f, "acme", "one")
		wait.Wait()
		back(t, f, p)
		pending(t, p, 0)
	})
}

// A secondary of the caller's own, as a second Redis, may hold documents of an outage.
func TestACallersSecondaryGetsDonesAfterTheOutage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, second := newPrimary(t), newPrimary(t)
		f := open(t, p, second, nil)
		submit(t, f, "acme", "before")
		done(t, f, "acme", "before")
		if calls := second.take(""); len(calls) > 0 {
			t.Errorf("%+v before any outage", calls)
		}
		outage(t, f, p)
		submit(t, f, "acme", "one", "two")
		submit(t, second.Store, "acme", "another process's")
		back(t, f, p)
		second.fail(down, nil)
		done(t, f, "acme", "one", "another process's")
		time.Sleep(time.Minute)
		if n := len(second.take("")); n == 0 || n > 500 {
			t.Errorf("the secondary was called %d times", n)
		}
		second.fail(nil, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		pending(t, second, 1)
		second.fail(down, nil)
		done(t, f, "acme", "two")
		if err := f.Close(t.Context()); !errors.Is(err, priority.ErrNotCounted) || !strings.Contains(err.Error(), "owed: 1") {
			t.Errorf("Close: %v", err)
		}
		second.fail(nil, nil)
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		pending(t, second, 0)
		time.Sleep(priority.DefaultLease)
		second.take("")
		done(t, f, "acme", "three")
		if err := f.Close(t.Context()); err != nil || len(second.take("")) > 0 {
			t.Errorf("%v; the secondary was called a day after the outage", err)
		}
	})
}

// One customer's Dones do not push out another's.
func TestTheDonesThatAreRememberedAreShared(t *testing.T) {
	test(t, &fallback.Options{MaxDones: 1000}, func(t *testing.T, f *fallback.Store, p *primary) {
		many := numbered(10_000)
		submit(t, f, "acme", many[:100]...)
		submit(t, f, "flood", many...)
		outage(t, f, p)
		if err := f.DoneN(t.Context(), "flood", many, 0); err != nil {
			t.Fatal(err)
		}
		done(t, f, "acme", many[:100]...)
		back(t, f, p)
		pending(t, p, 0)
		if state, err := p.Store.Peek(t.Context(), "flood"); err != nil || state.Pending != int64(len(many)-900) {
			t.Errorf("%+v, %v", state, err)
		}
	})
}

// Documents whose Done comes to another process do not pile up in this one.
func TestWhatIsRememberedOfAnOutageHasABound(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		outage(t, f, p)
		documents := numbered(150_000)
		decisions, err := f.SubmitN(t.Context(), "acme", documents, nil)
		if last := decisions[len(documents)-1]; err != nil || last.Pending > 100_000 {
			t.Errorf("%+v, %v", last, err)
		}
	})
}

// Callers who wait for less than the primary's timeout also find out that it hangs.
func TestShortDeadlinesOpenTheCircuit(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		next := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 40*ms)
			defer cancel()
			if d, err := f.Next(ctx, "acme"); err != nil || !d.Degraded || !f.Degraded() {
				t.Fatalf("%+v, %v; Degraded is %v", d, err, f.Degraded())
			}
		}
		p.fail(hang, nil)
		for range 40 {
			next()
		}
		if !f.Open() {
			t.Error("the circuit is not open")
		}
		back(t, f, p)

		// Nothing is wrong with a primary that only needs longer than they wait.
		p.fail(func(context.Context, call) error { time.Sleep(100 * ms); return nil }, nil)
		p.fail(func(ctx context.Context, _ call) error {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", priority.ErrOutcomeUnknown, ctx.Err())
			case <-time.After(100 * ms):
				return nil
			}
		}, nil)
		for range 40 {
			if next(); f.Open() {
				t.Fatal("callers without patience opened the circuit for others")
			}
		}
		if d, err := f.Next(t.Context(), "globex"); err != nil || d.Degraded || f.Degraded() {
			t.Errorf("a caller with patience: %+v, %v; Degraded is %v", d, err, f.Degraded())
		}
	})
}

// The primary is not asked for no documents.
func TestANextNOfNothingIsNoSuccess(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		p.fail(down, nil)
		p.fail(only("Next", "", func(_ context.Context, c call) error {
			if c.operation == "NextN" {
				return nil
			}
			return priority.ErrNotCounted
		}), nil)
		for range 9 {
			if _, err := f.Next(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			if ds, err := f.NextN(t.Context(), "acme", 0); err != nil || len(ds) > 0 {
				t.Fatal(ds, err)
			}
		}
		if _, err := f.Next(t.Context(), "acme"); err != nil || !f.Open() {
			t.Errorf("%v, Open is %v after ten failures in a row", err, f.Open())
		}
		back(t, f, p)
	})
}

// shards is a primary of which those customers hang whose names begin so.
func shards(hanging string) failure {
	return func(ctx context.Context, c call) error {
		switch {
		case !strings.HasPrefix(c.customer, hanging) && c.operation != "entry", c.operation == "NextEach":
			return nil
		case c.operation == "entry":
			if name := c.documents[0]; !strings.HasPrefix(name, hanging) {
				return nil
			}
			return fmt.Errorf("%w: the node hangs", priority.ErrNotCounted)
		}
		return hang(ctx, c)
	}
}

// One shard of a Ring hangs. Each of its customers waits once or twice, and nobody else
// notices.
func TestASlowShardIsTheTroubleOfItsOwnCustomers(t *testing.T) {
	const customers = 200
	var changes []bool
	opts := &fallback.Options{OnChange: func(open bool, _ error) { changes = append(changes, open) }}
	for _, afterOutage := range []bool{false, true} {
		test(t, opts, func(t *testing.T, f *fallback.Store, p *primary) {
			if changes = nil; afterOutage {
				outage(t, f, p)
			}
			p.fail(shards("slow"), nil)
			if afterOutage {
				time.Sleep(time.Second)
			}
			synctest.Wait()
			p.take("")
			var wait sync.WaitGroup
			for i := range customers {
				wait.Go(func() {
					for range 100 {
						if d, err := f.Next(t.Context(), fmt.Sprint("slow", i)); err != nil || !d.Degraded {
							t.Errorf("slow%d: %+v, %v", i, d, err)
						}
						time.Sleep(100 * ms)
					}
				})
				wait.Go(func() {
					time.Sleep(time.Duration(i) * ms)
					for n := range 100 {
						if d, err := f.Next(t.Context(), fmt.Sprint("fast", i)); err != nil || d.Degraded && (n > 10 || !afterOutage) {
							t.Errorf("fast%d: call %d: %+v, %v", i, n, d, err)
							return
						}
						time.Sleep(100 * ms)
					}
				})
			}
			wait.Wait()
			asked := map[string]int{}
			for _, c := range p.take("Next") {
				asked[c.customer]++
			}
			for i := range customers {
				if name := fmt.Sprint("slow", i); asked[name] > 4 {
					t.Errorf("%s waited %d times", name, asked[name])
				}
			}
			if !f.Degraded() || f.Open() || len(changes) > 2 {
				t.Errorf("Degraded is %v, Open is %v, OnChange was told %v", f.Degraded(), f.Open(), changes)
			}
			back(t, f, p)
			for i := range customers {
				if d, err := f.Next(t.Context(), fmt.Sprint("slow", i)); err != nil || d.Degraded {
					t.Fatalf("slow%d: %+v, %v", i, d, err)
				}
			}
		})
	}
}

// A NextEach asks the primary for the customers who do not hang, and not for the others.
func TestANextEachDoesNotWaitForThoseWhoHang(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		p.fail(shards("slow"), nil)
		for range 5 {
			_, _ = f.Next(t.Context(), "slow")
			_, _ = f.Next(t.Context(), "fast")
			time.Sleep(time.Second)
		}
		p.take("")
		for _, customers := range [][]string{{"slow", "fast", "slow", "other"}, {"slow"}} {
			decisions, err := f.NextEach(t.Context(), customers)
			if err != nil {
				t.Fatal(err)
			}
			for i, customer := range customers {
				if d := decisions[i]; d.Degraded != (customer == "slow") || d.ResetIn == 0 {
					t.Errorf("%q of %q: %+v", customer, customers, d)
				}
			}
		}
		if calls := p.take("NextEach"); len(calls) != 1 || len(calls[0].documents) != 2 {
			t.Errorf("the primary was asked %+v", calls)
		}
		back(t, f, p)
	})
}

// A call that began before the outage and ends after the circuit opened closes nothing.
func TestALateFailureClosesNothing(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		p.fail(only("", "slow", hang), nil)
		var wait sync.WaitGroup
		wait.Go(func() { _, _ = f.Next(t.Context(), "slow") })
		time.Sleep(ms)
		if d, err := f.Next(t.Context(), "fast"); err != nil || d.Degraded {
			t.Fatal(d, err)
		}
		outage(t, f, p)
		wait.Wait()
		p.take("")
		for range 100 {
			if _, err := f.Next(t.Context(), "fast"); err != nil || !f.Open() {
				t.Fatalf("%v, Open is %v", err, f.Open())
			}
			time.Sleep(50 * ms)
		}
		if calls := p.take("Next"); len(calls) > 0 {
			t.Errorf("the primary was asked %+v", calls)
		}
		back(t, f, p)
	})
}

// Redis comes and goes. What is answered is answered by one of the two, soon, and in the
// end all is as it was.
func TestAFlappingPrimary(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		var wait sync.WaitGroup
		ended := make(chan struct{})
		for i := range 16 {
			wait.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-ended:
						return
					default:
					}
					customer, document := fmt.Sprint(i), fmt.Sprint(n)
					_, err1 := f.Submit(t.Context(), customer, document, 0)
					time.Sleep(10 * ms)
					if err := errors.Join(err1, f.Done(t.Context(), customer, document, 0)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 30 {
			p.fail(hang, nil)
			time.Sleep(300 * ms)
			p.fail(nil, nil)
			time.Sleep(300 * ms)
		}
		close(ended)
		wait.Wait()
		back(t, f, p)
		for i := range 16 {
			if d, err := p.Store.Peek(t.Context(), fmt.Sprint(i)); err != nil || d.Pending > 0 {
				t.Errorf("customer %d: %+v, %v", i, d, err)
			}
		}
	})
}

// A process that calls NextEach only finds out too who hangs.
func TestANextEachFindsOutWhoHangs(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		p.fail(shards("slow"), nil)
		var customers []string
		for i := range 200 {
			customers = append(customers, fmt.Sprint("slow", i), fmt.Sprint("fast", i))
		}
		asked := 0
		for range 20 {
			decisions, err := f.NextEach(t.Context(), customers)
			for i, d := range decisions {
				if err != nil || d.Degraded != (i%2 == 0) {
					t.Fatalf("%s: %+v, %v", customers[i], d, err)
				}
			}
			for _, c := range p.take("NextEach") {
				asked += len(c.documents) - 200
			}
			time.Sleep(time.Second)
		}
		if asked > 3*200 || f.Open() {
			t.Errorf("the primary was asked %d times for 200 customers who hang; Open is %v", asked, f.Open())
		}
		back(t, f, p)
		if decisions, err := f.NextEach(t.Context(), customers); err != nil || decisions[0].Degraded {
			t.Errorf("%+v, %v", decisions[0], err)
		}
	})
}

// A process with many customers ends in time, though one payment needs a while.
func TestCloseHasTimeForManyCustomers(t *testing.T) {
	test(t, &fallback.Options{RetryAfter: time.Hour}, func(t *testing.T, f *fallback.Store, p *primary) {
		outage(t, f, p)
		for i := range 10_000 {
			done(t, f, fmt.Sprint(i), "one")
		}
		p.fail(func(context.Context, call) error { time.Sleep(5 * ms); return nil }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// slowPolicy is a primary whose policies take a while to find.
type slowPolicy struct {
	*primary
	wait time.Duration
}

func (s *slowPolicy) PolicyOf(customer string) priority.Policy {
	time.Sleep(s.wait)
	return s.primary.PolicyOf(customer)
}

// What the secondary counts while the circuit closes is forgotten too.
func TestALateAnswerOfAnOutageIsForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		slow := &slowPolicy{primary: p}
		f := open(t, slow, nil, nil)
		outage(t, f, p)
		slow.wait = 10 * time.Second
		var wait sync.WaitGroup
		wait.Go(func() {
			if d, err := f.Next(t.Context(), "acme"); err != nil || !d.Degraded {
				t.Errorf("%+v, %v", d, err)
			}
		})
		back(t, f, p)
		wait.Wait()
		slow.wait = 0
		if d, err := f.Next(t.Context(), "acme"); err != nil || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
		outage(t, f, p)
		if d, err := f.Next(t.Context(), "acme"); err != nil || d.Count != 0 {
			t.Errorf("in the next outage: %+v, %v", d, err)
		}
		back(t, f, p)
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
