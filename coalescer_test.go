package priority_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// watched is a store that tells of its calls, and fails as it is told.
type watched struct {
	*priority.MemoryStore
	mu     sync.Mutex
	calls  []storeCall
	before func(storeCall) error // fails a call that is not made
	after  func(storeCall) error // fails a call that was made
}

type storeCall struct {
	operation string
	customer  string
	documents int
	at        time.Time
}

func newWatched(t testing.TB, policy priority.Policy) *watched {
	return &watched{MemoryStore: must(priority.NewMemoryStore(&priority.MemoryOptions{Policy: policy}))(t)}
}

func (w *watched) call(operation, customer string, documents int, do func() error) error {
	call := storeCall{operation, customer, documents, time.Now()}
	w.mu.Lock()
	w.calls = append(w.calls, call)
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if err := before(call); err != nil {
			return err
		}
	}
	if err := do(); err != nil || after == nil {
		return err
	}
	return after(call)
}

// fail sets how calls fail.
func (w *watched) fail(before, after func(storeCall) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

// take returns the calls since the last take.
func (w *watched) take() []storeCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// operations returns the calls since the last take as one string.
func (w *watched) operations() string {
	var all []string
	for _, call := range w.take() {
		all = append(all, fmt.Sprint(call.operation, " ", call.documents))
	}
	return strings.Join(all, ", ")
}

func (w *watched) Next(ctx context.Context, customer string) (d priority.Decision, err error) {
	err = w.call("Next", customer, 1, func() (err error) {
		d, err = w.MemoryStore.Next(ctx, customer)
		return err
	})
	return d, err
}

func (w *watched) NextN(ctx context.Context, customer string, n int) (ds []priority.Decision, err error) {
	err = w.call("NextN", customer, n, func() (err error) {
		ds, err = w.MemoryStore.NextN(ctx, customer, n)
		return err
	})
	return ds, err
}

func (w *watched) NextEach(ctx context.Context, customers []string) (ds []priority.Decision, err error) {
	err = w.call("NextEach", strings.Join(customers, " "), len(customers), func() (err error) {
		ds, err = w.MemoryStore.NextEach(ctx, customers)
		return err
	})
	return ds, err
}

func (w *watched) Peek(ctx context.Context, customer string) (d priority.Decision, err error) {
	err = w.call("Peek", customer, 0, func() (err error) {
		d, err = w.MemoryStore.Peek(ctx, customer)
		return err
	})
	return d, err
}

func (w *watched) Reset(ctx context.Context, customer string) error {
	return w.call("Reset", customer, 0, func() error { return w.MemoryStore.Reset(ctx, customer) })
}

// only fails one kind of call.
func only(operation string, err error) func(storeCall) error {
	return func(call storeCall) error {
		if call.operation == operation {
			return err
		}
		return nil
	}
}

// coalesced is a Coalescer around a watched store, in a test whose time goes on
// when all is idle.
type coalesced struct {
	*world
	coalescer *priority.Coalescer
	store     *watched
	failures  []error // what OnError was told
}

// coalesce runs a test of a Coalescer. When it ends, nothing may be left running.
func coalesce(t *testing.T, policy priority.Policy, opts priority.CoalescerOptions, test func(t *testing.T, c *coalesced)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &coalesced{store: newWatched(t, policy)}
		opts.OnError = func(err error) {
			c.store.mu.Lock()
			defer c.store.mu.Unlock()
			c.failures = append(c.failures, err)
		}
		c.coalescer = must(priority.NewCoalescer(c.store, &opts))(t)
		c.world = &world{Store: c.coalescer, wait: time.Sleep}
		test(t, c)
	})
}

// flood brings a customer to count -29, at the lowest level, in one call.
func (c *coalesced) flood(t *testing.T, customer string) {
	t.Helper()
	if _, err := c.NextN(t.Context(), customer, 30); err != nil {
		t.Fatal(err)
	}
	c.store.take()
}

// held checks the count in the store.
func (c *coalesced) held(t *testing.T, customer string, want int64) {
	t.Helper()
	synctest.Wait()
	if got, err := c.store.MemoryStore.Peek(t.Context(), customer); err != nil || got.Count != want {
		t.Fatalf("the store holds %+v, %v; want count %d", got, err, want)
	}
}

// called checks what the store was asked since the last time.
func (c *coalesced) called(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := c.store.operations(); got != want {
		t.Fatalf("the store was asked %q; want %q", got, want)
	}
}

// told checks what OnError was told.
func (c *coalesced) told(t *testing.T, want ...error) {
	t.Helper()
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if !slices.EqualFunc(c.failures, want, errors.Is) {
		t.Errorf("OnError was told %v; want %v", c.failures, want)
	}
}

func (c *coalesced) close(t *testing.T) {
	t.Helper()
	if err := c.coalescer.Close(t.Context()); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// estimated is the decision of a document answered from memory.
func estimated(count int64) priority.Decision {
	decision := counted(count)
	decision.Estimated = true
	return decision
}

const ms = time.Millisecond

func TestCoalescerAnswersFromMemory(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
		for count := int64(0); count >= -21; count-- { // up to the first at the lowest level
			c.next(t, "acme", counted(count))
		}
		c.store.take()
		c.next(t, "acme", estimated(-22))
		c.nextN(t, "acme", 2, estimated(-23), estimated(-24))
		c.nextEach(t, []string{"acme", "globex", "acme"}, estimated(-25), counted(0), estimated(-26))
		c.peek(t, "acme", estimated(-26))
		c.called(t, "NextEach 1")
		c.held(t, "acme", -21)

		c.wait(time.Second - 1)
		c.next(t, "acme", estimated(-27)) // trusted for the last time
		c.called(t, "")
		c.wait(1)
		c.called(t, "Peek 0, NextN 6")
		c.held(t, "acme", -27)
		c.next(t, "acme", estimated(-28)) // what NextN said is news
		c.called(t, "")
		c.close(t)
		c.called(t, "Peek 0, NextN 1")
		c.held(t, "acme", -28)
	})
}

// A NextEach settles what it has to, side by side, and asks for the rest at once.
func TestCoalescerNextEach(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
		c.flood(t, "acme")
		c.flood(t, "globex")
		c.wait(time.Second / 2)
		c.next(t, "acme", estimated(-30))
		c.nextN(t, "globex", 2, estimated(-30), estimated(-31))
		c.wait(time.Second / 2)
		c.store.fail(func(storeCall) error { time.Sleep(100 * ms); return nil }, nil)
		began := time.Now()
		c.nextEach(t, []string{"acme", "initech", "globex", "acme", "umbrella", "initech"},
			estimated(-31), counted(0), estimated(-32), estimated(-32), counted(0), counted(-1))
		if took := time.Since(began); took != 300*ms {
			t.Errorf("it took %v", took)
		}
		var asked []string
		for _, call := range c.store.take() {
			asked = append(asked, fmt.Sprint(call.operation, " ", call.customer))
		}
		slices.Sort(asked)
		if want := []string{"NextEach initech umbrella initech", "NextN acme", "NextN globex", "Peek acme", "Peek globex"}; !slices.Equal(asked, want) {
			t.Errorf("the store was asked %q; want %q", asked, want)
		}

		// It learns from the answers.
		c.store.fail(nil, nil)
		for range 12 {
			if _, err := c.NextEach(t.Context(), []string{"initech", "initech"}); err != nil {
				t.Fatal(err)
			}
		}
		c.store.take()
		c.nextEach(t, []string{"initech"}, estimated(-26))
		c.called(t, "")
		c.close(t)
	})
}

// No more is owed than one NextN counts.
func TestCoalescerOwesWhatOneCallCounts(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
		c.flood(t, "acme")
		c.next(t, "acme", estimated(-30))
		c.nextN(t, "acme", priority.MaxDocuments-1, estimatedDown(-31, priority.MaxDocuments-1)...)
		c.called(t, "")
		c.next(t, "acme", estimated(-30-priority.MaxDocuments))
		c.called(t, fmt.Sprint("Peek 0, NextN ", priority.MaxDocuments))
		c.close(t)
		c.held(t, "acme", -30-priority.MaxDocuments)
	})
}

// estimatedDown is n decisions from memory, from a count down.
func estimatedDown(from int64, n int) []priority.Decision {
	decisions := countdown(from, n)
	for i := range decisions {
		decisions[i].Estimated = true
	}
	return decisions
}

// However many customers are due at once, the store gets some calls at a time.
func TestCoalescerFlushesSomeAtATime(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
		const customers = 200
		for i := range customers {
			c.flood(t, fmt.Sprint("customer ", i))
			c.next(t, fmt.Sprint("customer ", i), estimated(-30))
		}
		var now, most atomic.Int64
		c.store.fail(func(storeCall) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(ms)
			now.Add(-1)
			return nil
		}, nil)
		c.wait(time.Second + 2*customers/32*ms + 2*ms)
		if got := most.Load(); got != 32 {
			t.Errorf("%d calls at a time", got)
		}
		for i := range customers {
			c.held(t, fmt.Sprint("customer ", i), -30)
		}
	})
}

// Answers that come in another order than they were asked for are no news.
func TestCoalescerKeepsTheLatestAnswer(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
		c.nextN(t, "acme", 20, countdown(0, 20)...)
		c.store.fail(nil, func(call storeCall) error {
			if call.operation == "Next" {
				time.Sleep(100 * ms)
			}
			return nil
		})
		var calling sync.WaitGroup
		calling.Go(func() { c.next(t, "acme", counted(-20)) })
		c.wait(50 * ms)
		c.nextN(t, "acme", 2, counted(-21), counted(-22))
		calling.Wait() // at level 8, asked before the NextN
		c.next(t, "acme", estimated(-23))
		c.close(t)
	})
}

// However a customer's documents come, the store gets one NextN an interval, and
// nothing is owed for longer.
func TestCoalescerWritesOnceAnInterval(t *testing.T) {
	for name, interval := range map[string]time.Duration{"default": 0, "200 ms": 200 * ms, "7 s": 7 * time.Second} {
		t.Run(name, func(t *testing.T) {
			coalesce(t, priority.Policy{}, priority.CoalescerOptions{Interval: interval}, func(t *testing.T, c *coalesced) {
				if interval == 0 {
					interval = time.Second
				}
				random := rand.New(rand.NewPCG(1, 2))
				c.flood(t, "acme")
				flooded := time.Now()
				var answered []time.Time
				for range 2000 {
					c.wait(time.Duration(random.Int64N(int64(interval / 4))))
					if random.IntN(50) == 0 {
						c.wait(2 * interval)
					}
					decision, err := c.Next(t.Context(), "acme")
					if err != nil || decision.Level != 9 {
						t.Fatalf("got %+v, %v", decision, err)
					}
					answered = append(answered, time.Now())
				}
				c.close(t)
				last := flooded
				written := 0
				for _, call := range c.store.take() {
					switch call.operation {
					case "NextN":
						if call.at.Sub(last) < interval && written+call.documents < len(answered) { // Close need not wait
							t.Fatalf("NextN %v after the last", call.at.Sub(last))
						}
						if owed := call.at.Sub(answered[written]); owed > interval {
							t.Fatalf("a document was owed for %v", owed)
						}
						last = call.at
						written += call.documents
					case "Next":
						last = call.at
						written++
					}
				}
				if written != len(answered) {
					t.Errorf("%d of %d documents were written", written, len(answered))
				}
				c.held(t, "acme", -29-int64(len(answered)))
			})
		})
	}
}

func TestCoalescerKeepsTheContract(t *testing.T) {
	for _, test := range contract {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test.run(t, openCoalesced) })
		})
	}
}

// openCoalesced makes a Coalescer around a MemoryStore that writes before any time
// to speak of has passed, so that counts start afresh when they are to.
func openCoalesced(t *testing.T, r rule) *world {
	t.Helper()
	store := must(priority.NewMemoryStore(&priority.MemoryOptions{Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf}))(t)
	coalescer := must(priority.NewCoalescer(store, &priority.CoalescerOptions{Interval: time.Microsecond}))(t)
	t.Cleanup(func() {
		if err := coalescer.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &world{Store: plain{coalescer, t}, wait: time.Sleep, slack: 10 * time.Microsecond}
}

// plain is a Coalescer whose decisions are compared with those of other stores.
type plain struct {
	*priority.Coalescer
	t *testing.T
}

func (p plain) Next(ctx context.Context, customer string) (priority.Decision, error) {
	decision, err := p.Coalescer.Next(ctx, customer)
	return p.exact(customer, decision), err
}

func (p plain) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	decisions, err := p.Coalescer.NextN(ctx, customer, n)
	for i := range decisions {
		decisions[i] = p.exact(customer, decisions[i])
	}
	return decisions, err
}

func (p plain) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	decisions, err := p.Coalescer.NextEach(ctx, customers)
	for i := range decisions {
		decisions[i] = p.exact(customers[i], decisions[i])
	}
	return decisions, err
}

func (p plain) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	decision, err := p.Coalescer.Peek(ctx, customer)
	return p.exact(customer, decision), err
}

func (p plain) exact(customer string, decision priority.Decision) priority.Decision {
	if decision.Estimated && decision.Level != p.PolicyOf(customer).Lowest() {
		p.t.Errorf("%q: estimated %+v", customer, decision)
	}
	decision.Estimated = false
	return decision
}

// Somebody else's Reset is noticed within an interval, and its own at once.
func TestCoalescerNoticesResets(t *testing.T) {
	t.Run("somebody else's", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			if err := c.store.MemoryStore.Reset(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			c.next(t, "acme", estimated(-30))
			c.wait(time.Second - 1)
			c.next(t, "acme", estimated(-31))
			c.wait(1)
			c.next(t, "acme", counted(0))
			c.next(t, "acme", counted(-1))
			c.close(t)
			c.held(t, "acme", -1) // what was answered until then belonged to the old count
		})
	})
	t.Run("somebody else's, with nothing owed", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			if err := c.store.MemoryStore.Reset(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			c.wait(time.Second)
			c.next(t, "acme", counted(0))
		})
	})
	t.Run("somebody else's, while an answer was on its way", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.store.fail(nil, func(call storeCall) error {
				err := c.store.MemoryStore.Reset(t.Context(), "acme")
				time.Sleep(500 * ms)
				return err
			})
			c.nextN(t, "acme", 30, countdown(0, 30)...)
			c.store.fail(nil, nil)
			c.wait(500*ms - 1)
			c.next(t, "acme", estimated(-30))
			c.wait(1)
			c.next(t, "acme", counted(0))
		})
	})
	t.Run("its own", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.next(t, "acme", estimated(-30))
			c.reset(t, "acme")
			c.next(t, "acme", counted(0))
			c.close(t)
			c.held(t, "acme", 0)
		})
	})
	t.Run("its own that failed", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.next(t, "acme", estimated(-30))
			c.store.fail(only("Reset", errAway), nil)
			wantClass(t, c.Reset(t.Context(), "acme"), priority.ErrNotCounted)
			c.next(t, "acme", estimated(-31)) // but it looked
			c.called(t, "Reset 0, Peek 0, NextN 1")
			c.store.fail(nil, only("Reset", errLost))
			wantClass(t, c.Reset(t.Context(), "acme"), priority.ErrOutcomeUnknown)
			c.next(t, "acme", counted(0)) // for it was done
			c.close(t)
			c.held(t, "acme", 0)
		})
	})
	// The answer of a call that was under way when the count was reset is no news.
	t.Run("its own, with a call under way", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.wait(time.Second) // not trusted any more
			c.store.fail(nil, func(call storeCall) error {
				if call.operation == "Next" {
					time.Sleep(100 * ms)
				}
				return nil
			})
			var calling sync.WaitGroup
			calling.Go(func() { c.next(t, "acme", counted(-30)) })
			c.wait(50 * ms)
			c.reset(t, "acme")
			calling.Wait()
			c.next(t, "acme", counted(0))
		})
	})
	t.Run("its own, with a settlement under way", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.next(t, "acme", estimated(-30))
			c.store.fail(func(call storeCall) error {
				if call.operation == "NextN" {
					time.Sleep(100 * ms)
				}
				return nil
			}, nil)
			c.wait(time.Second + 50*ms)
			c.reset(t, "acme")
			c.called(t, "Peek 0, NextN 1, Reset 0")
			c.next(t, "acme", counted(0))
			c.close(t)
			c.held(t, "acme", 0)
		})
	})
	// A reset between the two calls of a settlement is done again.
	for name, failing := range map[string]int{"between Peek and NextN": 0, "between Peek and NextN, done again late": 3} {
		t.Run(name, func(t *testing.T) {
			coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
				c.flood(t, "acme")
				c.next(t, "acme", estimated(-30))
				left := failing
				c.store.fail(func(call storeCall) error {
					switch {
					case call.operation == "Reset" && left > 0:
						left--
						return errAway
					case call.operation == "NextN":
						return c.store.MemoryStore.Reset(t.Context(), "acme")
					}
					return nil
				}, nil)
				c.wait(time.Second)
				c.next(t, "acme", counted(0))
				if got, want := c.store.operations(), "Peek 0, NextN 1"+strings.Repeat(", Reset 0", 1+failing)+", Next 1"; got != want {
					t.Errorf("the store was asked %q; want %q", got, want)
				}
				c.close(t)
				c.held(t, "acme", 0)
			})
		})
	}
}

// A customer who is moved to another tier was not reset: what is owed is counted.
func TestCoalescerNoticesTiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paying atomic.Bool
		store := must(priority.NewMemoryStore(&priority.MemoryOptions{
			Tiers: map[string]priority.Policy{"paying": {Thresholds: []int64{-10, -1000}}},
			TierOf: func(string) string {
				if paying.Load() {
					return "paying"
				}
				return ""
			},
		}))(t)
		coalescer := must(priority.NewCoalescer(store, nil))(t)
		w := &world{Store: coalescer, wait: time.Sleep}
		w.nextN(t, "acme", 30, countdown(0, 30)...)
		w.next(t, "acme", estimated(-30))
		paying.Store(true)
		w.wait(time.Second)
		w.next(t, "acme", priority.Decision{Level: 2, Count: -31, ResetIn: quiet})
	})
}

// Nothing is answered from memory, or still owed, when the count may expire.
func TestCoalescerTrustsNothingThatMayExpire(t *testing.T) {
	t.Run("an interval too short", func(t *testing.T) {
		coalesce(t, priority.Policy{ResetInterval: 3*time.Second - ms}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.next(t, "acme", left(3*time.Second-ms, counted(-30)))
		})
	})
	t.Run("SinceLastUpdate", func(t *testing.T) {
		coalesce(t, priority.Policy{ResetInterval: 3 * time.Second}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.wait(time.Second - 1)
			c.next(t, "acme", left(3*time.Second, estimated(-30)))
			c.wait(3*time.Second + 1) // from the document on; written a second later
			c.next(t, "acme", left(3*time.Second, counted(-31)))
			c.wait(3*time.Second + 1)
			c.next(t, "acme", left(3*time.Second, counted(0)))
		})
	})
	t.Run("SinceLastReset", func(t *testing.T) {
		policy := priority.Policy{ResetInterval: 10 * time.Second, ResetMode: priority.SinceLastReset}
		coalesce(t, policy, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			began := time.Now()
			count := int64(-29)
			for {
				c.wait(100 * ms)
				decision, err := c.Next(t.Context(), "acme")
				into := time.Since(began)
				count--
				if into > 10*time.Second {
					if err != nil || decision.Count != 0 || decision.Level != 1 {
						t.Fatalf("%v after the reset: got %+v, %v", into, decision, err)
					}
					return
				}
				if err != nil || decision.Level != 9 || decision.Count != count || decision.ResetIn != 10*time.Second-into {
					t.Fatalf("%v after the reset: got %+v, %v; want count %d", into, decision, err, count)
				}
				if decision.Estimated && into > 8*time.Second {
					t.Fatalf("%v after the reset: answered from memory", into)
				}
			}
		})
	})
}

// A failed flush is tried again, and the calls that waited were not counted.
func TestCoalescerTriesAgain(t *testing.T) {
	for _, operation := range []string{"Peek", "NextN"} {
		for _, class := range []error{priority.ErrNotCounted, priority.ErrCorruptCount, priority.ErrInvalid} {
			cause := fmt.Errorf("%w: %s", class, operation)
			t.Run(cause.Error(), func(t *testing.T) {
				coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
					c.flood(t, "acme")
					c.nextN(t, "acme", 2, estimated(-30), estimated(-31))
					c.store.fail(only(operation, cause), nil)
					c.wait(2500 * ms)
					c.told(t, cause, cause)
					_, err := c.Next(t.Context(), "acme")
					wantClass(t, err, class)
					_, err = c.NextEach(t.Context(), []string{"globex", "acme", "acme"})
					var batch *priority.BatchError
					if !errors.As(err, &batch) || batch.Errs[0] != nil || !errors.Is(batch.Errs[1], cause) || !errors.Is(batch.Errs[2], cause) {
						t.Errorf("NextEach: %v", err)
					}
					c.held(t, "acme", -29)
					c.store.fail(nil, nil)
					c.wait(time.Second)
					c.held(t, "acme", -31)
					c.close(t)
				})
			})
		}
	}
	t.Run("a Peek of unknown outcome", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.next(t, "acme", estimated(-30))
			c.store.fail(only("Peek", errLost), nil)
			c.wait(1500 * ms)
			_, err := c.Next(t.Context(), "acme")
			wantClass(t, err, priority.ErrNotCounted)
			c.store.fail(nil, nil)
			c.close(t)
			c.held(t, "acme", -30)
		})
	})
}

// What may have been counted is not written again.
func TestCoalescerWritesNothingTwice(t *testing.T) {
	for name, cause := range map[string]error{
		"unknown outcome":                errLost,
		"an error of no class":           errors.New("boom"),
		"unknown, or not (a Fallback's)": fmt.Errorf("%w; the secondary store: %w", errLost, errAway),
	} {
		t.Run(name, func(t *testing.T) {
			coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
				c.flood(t, "acme")
				c.next(t, "acme", estimated(-30))
				c.store.fail(nil, only("NextN", cause)) // counted, and the reply is lost
				c.wait(time.Second)
				c.held(t, "acme", -30)
				c.told(t, cause)
				c.next(t, "acme", counted(-31)) // the caller goes on
				c.next(t, "acme", estimated(-32))
				if err := c.coalescer.Close(t.Context()); errors.Is(cause, errLost) && !errors.Is(err, priority.ErrOutcomeUnknown) {
					t.Errorf("Close: %v", err)
				}
				c.held(t, "acme", -32)
				c.close(t)
				c.held(t, "acme", -32)
			})
		})
	}
}

// A caller who leaves does not end a settlement, nor wait for it.
func TestCoalescerCallersMayLeave(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
		c.flood(t, "acme")
		c.wait(time.Second / 2)
		c.next(t, "acme", estimated(-30))
		c.wait(time.Second / 2)
		c.store.fail(func(storeCall) error { time.Sleep(100 * ms); return nil }, nil)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		_, err := c.Next(ctx, "acme")
		wantClass(t, err, priority.ErrNotCounted)
		wantClass(t, c.Reset(ctx, "acme"), priority.ErrNotCounted)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 50*ms {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		c.next(t, "acme", estimated(-31)) // waits for the same settlement
		if time.Since(began) != 200*ms {
			t.Errorf("it took %v", time.Since(began))
		}
		c.close(t)
		c.held(t, "acme", -31)
		_, err = c.Next(ctx, "globex")
		wantClass(t, err, priority.ErrNotCounted)
	})
}

// Peek sees what is owed, and changes nothing.
func TestCoalescerPeek(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{Interval: 10 * time.Second}, func(t *testing.T, c *coalesced) {
		c.flood(t, "acme")
		c.wait(9 * time.Second)
		c.nextN(t, "acme", 2, estimated(-30), estimated(-31))
		c.wait(2 * time.Second) // not trusted, and not due
		for range 2 {
			decision, err := c.Peek(t.Context(), "acme")
			if err != nil || decision.Count != -31 || decision.Level != 9 || !decision.Estimated {
				t.Errorf("got %+v, %v", decision, err)
			}
		}
		c.called(t, "Peek 0, Peek 0")
		if err := c.store.MemoryStore.Reset(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		c.peek(t, "acme", priority.Decision{Level: 1})
		c.close(t)
		c.held(t, "acme", 0)
	})
}

func TestCoalescerBoundsItsMemory(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{MaxCustomers: 2, Interval: time.Minute}, func(t *testing.T, c *coalesced) {
		c.flood(t, "acme")
		c.flood(t, "globex")
		c.next(t, "globex", estimated(-30))
		c.flood(t, "initech") // instead of acme, for whom nothing is owed
		c.next(t, "acme", counted(-30))
		c.called(t, "Next 1, Peek 0, NextN 1") // globex is the next to go, flushed first
		c.next(t, "initech", estimated(-30))
		c.next(t, "acme", counted(-31)) // instead of globex now
		c.next(t, "acme", estimated(-32))
		c.next(t, "globex", counted(-31))
		c.close(t)
		for customer, want := range map[string]int64{"acme": -32, "globex": -31, "initech": -30} {
			c.held(t, customer, want)
		}
	})
	// What is answered while it is flushed is written in its turn.
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{MaxCustomers: 1}, func(t *testing.T, c *coalesced) {
		c.flood(t, "acme")
		c.next(t, "acme", estimated(-30))
		c.store.fail(func(call storeCall) error {
			if call.operation == "NextN" && call.customer == "acme" {
				time.Sleep(100 * ms)
			}
			return nil
		}, nil)
		c.flood(t, "globex")
		c.wait(50 * ms)
		c.next(t, "acme", estimated(-31))
		c.wait(time.Second + 100*ms)
		c.held(t, "acme", -31)
	})
	// Whoever is in memory, and however many there are, nothing is lost.
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{MaxCustomers: 5}, func(t *testing.T, c *coalesced) {
		random := rand.New(rand.NewPCG(3, 4))
		zipf := rand.NewZipf(random, 1.1, 1, 49)
		sent := make(map[string]int64)
		fromMemory := 0
		for range 20_000 {
			customer := fmt.Sprint("customer ", zipf.Uint64())
			decision, err := c.Next(t.Context(), customer)
			if err != nil {
				t.Fatal(err)
			}
			if decision.Estimated {
				fromMemory++
			}
			sent[customer]++
			if random.IntN(20) == 0 {
				c.wait(100 * ms)
			}
		}
		c.close(t)
		for customer, documents := range sent {
			c.held(t, customer, 1-documents)
		}
		if fromMemory < 2000 {
			t.Errorf("only %d documents were answered from memory", fromMemory)
		}
	})
}

// Customers who are in memory do not take more of it than the option says.
// (Not parallel: it looks at the memory of the whole process.)
func TestCoalescerMemory(t *testing.T) {
	const most = 4096
	store := new(priority.MemoryStore)
	coalescer := must(priority.NewCoalescer(store, &priority.CoalescerOptions{MaxCustomers: most, Interval: 100 * time.Second}))(t)
	flood := func(from, to int) {
		for i := from; i < to; i++ {
			// A customer that is a part of something large.
			customer := (fmt.Sprintf("%08d", i) + strings.Repeat("x", 4096))[:8]
			if _, err := coalescer.NextN(t.Context(), customer, 30); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if _, err := coalescer.Next(t.Context(), customer); err != nil {
					t.Fatal(err)
				}
			}
			if err := store.Reset(t.Context(), customer); err != nil {
				t.Fatal(err)
			}
		}
	}
	empty := heap()
	flood(0, 10*most)
	if each := (heap() - empty) / most; each > 700 {
		t.Errorf("%d bytes a customer", each)
	} else {
		t.Logf("%d bytes a customer", each)
	}
	if err := coalescer.Close(t.Context()); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(coalescer)
}

func TestCoalescerClose(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	t.Run("never used", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.close(t)
			c.close(t)
			if err := c.coalescer.Close(ended); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	})
	t.Run("twice at once", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			for i := range 100 {
				c.flood(t, fmt.Sprint("customer ", i))
				c.next(t, fmt.Sprint("customer ", i), estimated(-30))
			}
			c.store.fail(func(storeCall) error { time.Sleep(ms); return nil }, nil)
			var closing sync.WaitGroup
			for range 2 {
				closing.Go(func() { c.close(t) })
			}
			closing.Wait()
			for i := range 100 {
				c.held(t, fmt.Sprint("customer ", i), -30)
			}
		})
	})
	t.Run("later calls", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.close(t)
			c.next(t, "acme", counted(-30))
			c.nextN(t, "acme", 1, counted(-31))
			c.nextEach(t, []string{"acme"}, counted(-32))
			c.peek(t, "acme", counted(-32))
			c.reset(t, "acme")
			c.called(t, "Next 1, NextN 1, NextEach 1, Peek 0, Reset 0")
		})
	})
	t.Run("a store that comes back", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.next(t, "acme", estimated(-30))
			back := time.Now().Add(5 * time.Second)
			c.store.fail(func(storeCall) error {
				if time.Now().Before(back) {
					return errAway
				}
				return nil
			}, nil)
			c.close(t)
			c.held(t, "acme", -30)
		})
	})
	t.Run("a store that stays away", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			for _, customer := range []string{"acme", "globex", "initech"} {
				c.flood(t, customer)
				c.nextN(t, customer, 2, estimated(-30), estimated(-31))
			}
			c.store.fail(func(storeCall) error { return errAway }, nil)
			err := c.coalescer.Close(ended)
			wantClass(t, err, priority.ErrNotCounted)
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "6 documents of 3 customers") {
				t.Errorf("Close: %v", err)
			}
			c.called(t, "")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			err = c.coalescer.Close(ctx)
			if !errors.Is(err, errAway) || !strings.Contains(err.Error(), "6 documents of 3 customers") || time.Since(began) != 10*time.Second {
				t.Errorf("Close after %v: %v", time.Since(began), err)
			}
			c.store.fail(nil, nil)
			c.close(t)
			c.held(t, "initech", -31)
		})
	})
	t.Run("a store that hangs", func(t *testing.T) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
			c.flood(t, "acme")
			c.next(t, "acme", estimated(-30))
			c.store.fail(func(storeCall) error { time.Sleep(time.Minute); return nil }, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := c.coalescer.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v", err)
			}
			c.close(t)
			c.held(t, "acme", -30)
		})
	})
	t.Run("leaves no goroutine", func(t *testing.T) {
		before := runtime.NumGoroutine()
		coalescer := must(priority.NewCoalescer(new(priority.MemoryStore), &priority.CoalescerOptions{Interval: ms}))(t)
		for i := range 200 {
			for range 2 {
				if _, err := coalescer.NextN(t.Context(), fmt.Sprint(i), 30); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := coalescer.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		redistest.Await(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	})
}

func TestNewCoalescer(t *testing.T) {
	store := new(priority.MemoryStore)
	for shown, make := range map[string]func() (*priority.Coalescer, error){
		"nil":    func() (*priority.Coalescer, error) { return priority.NewCoalescer(nil, nil) },
		"is nil": func() (*priority.Coalescer, error) { return priority.NewCoalescer((*priority.RedisStore)(nil), nil) },
		"method PolicyOf": func() (*priority.Coalescer, error) {
			return priority.NewCoalescer(struct{ priority.Store }{store}, nil)
		},
		"Interval": func() (*priority.Coalescer, error) {
			return priority.NewCoalescer(store, &priority.CoalescerOptions{Interval: -1})
		},
		"MaxCustomers": func() (*priority.Coalescer, error) {
			return priority.NewCoalescer(store, &priority.CoalescerOptions{MaxCustomers: -1})
		},
	} {
		coalescer, err := make()
		if wantInvalid(t, err, priority.ErrInvalidOption, shown); coalescer != nil {
			t.Errorf("%s: there is a Coalescer beside the error", shown)
		}
	}
}

// PolicyOf fills in the defaults, through stores around stores, and gives away
// nothing that could be changed.
func TestPolicyOf(t *testing.T) {
	opts := priority.MemoryOptions{
		Policy: priority.Policy{ResetMode: priority.SinceLastReset},
		Tiers:  map[string]priority.Policy{"one": {Thresholds: []int64{}, ResetInterval: time.Hour}},
		TierOf: func(customer string) string { return customer },
	}
	memory := must(priority.NewMemoryStore(&opts))(t)
	remote := openStore(t, connect(t, "localhost:0"), &priority.RedisOptions{Policy: opts.Policy, Tiers: opts.Tiers, TierOf: opts.TierOf})
	fallback := priority.NewFallback(remote, nil, nil)
	standard := priority.DefaultPolicy()
	standard.ResetMode = priority.SinceLastReset
	for _, store := range []interface {
		PolicyOf(string) priority.Policy
	}{memory, remote, fallback, must(priority.NewCoalescer(fallback, nil))(t)} {
		store.PolicyOf("acme").Thresholds[0] = 7
		for customer, want := range map[string]priority.Policy{"acme": standard, "one": opts.Tiers["one"]} {
			if got := store.PolicyOf(customer); fmt.Sprint(got) != fmt.Sprint(want) || got.Lowest() != want.Lowest() {
				t.Errorf("%T: the policy of %s is %+v; want %+v", store, customer, got, want)
			}
		}
	}
	if got := new(priority.MemoryStore).PolicyOf("acme"); got.Lowest() != 9 || got.ResetInterval != quiet {
		t.Errorf("the zero MemoryStore: %+v", got)
	}
}

// A Fallback under a Coalescer answers as ever: what it answers with another
// store's count is no news, and what is owed waits for the fleet's.
func TestCoalescerAroundAFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newWatched(t, priority.Policy{})
		fallback := priority.NewFallback(store, nil, nil)
		coalescer := must(priority.NewCoalescer(fallback, nil))(t)
		w := &world{Store: coalescer, wait: time.Sleep}
		w.nextN(t, "acme", 30, countdown(0, 30)...)
		w.next(t, "acme", estimated(-30))
		store.fail(func(storeCall) error { return errAway }, nil)
		w.wait(time.Second)
		degraded := counted(0)
		degraded.Degraded = true
		w.next(t, "acme", degraded)
		for range 40 {
			if decision, err := coalescer.Next(t.Context(), "globex"); err != nil || !decision.Degraded || decision.Estimated {
				t.Fatalf("got %+v, %v", decision, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantClass(t, coalescer.Close(ctx), priority.ErrNotCounted)

		// The fleet is back for the Peek, and not for the NextN: now the Fallback
		// owes it.
		store.fail(only("NextN", errAway), nil)
		if err := coalescer.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		store.fail(nil, nil)
		w.next(t, "acme", counted(-32)) // what the Fallback owed is counted with it
	})
}

// A Fallback around a Coalescer answers for what could not be settled.
func TestCoalescerUnderAFallback(t *testing.T) {
	coalesce(t, priority.Policy{}, priority.CoalescerOptions{}, func(t *testing.T, c *coalesced) {
		fallback := priority.NewFallback(c.coalescer, nil, nil)
		c.flood(t, "acme")
		c.store.fail(func(storeCall) error { return errAway }, nil)
		if decision, err := fallback.Next(t.Context(), "acme"); err != nil || decision.Degraded || !decision.Estimated {
			t.Errorf("got %+v, %v", decision, err)
		}
		c.wait(time.Second)
		for range 3 {
			if decision, err := fallback.Next(t.Context(), "acme"); err != nil || !decision.Degraded {
				t.Errorf("got %+v, %v", decision, err)
			}
		}
		c.store.fail(nil, nil)
		c.wait(time.Second)
		if decision, err := fallback.Next(t.Context(), "acme"); err != nil || decision.Degraded || decision.Count != -34 {
			t.Errorf("got %+v, %v", decision, err)
		}
		c.close(t)
		c.held(t, "acme", -34)
	})
}

// Whatever fails, no document is counted twice, and none is lost but for those of
// which nobody knows.
func TestCoalescerCountsAtMostOnce(t *testing.T) {
	for seed := range uint64(20) {
		coalesce(t, priority.Policy{}, priority.CoalescerOptions{MaxCustomers: 8}, func(t *testing.T, c *coalesced) {
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			unknown := make(map[string]int64) // documents that got an error and may have been counted
			lost := make(map[string]int64)    // and those of them that were not
			roll := func(one int) bool { return random.IntN(one) == 0 }
			c.store.fail(func(call storeCall) error {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case roll(10):
					return errAway
				case call.operation != "Peek" && roll(10):
					lost[call.customer] += int64(call.documents)
					unknown[call.customer] += int64(call.documents)
					return errLost
				}
				return nil
			}, func(call storeCall) error {
				mu.Lock()
				defer mu.Unlock()
				if call.operation != "Peek" && roll(10) {
					unknown[call.customer] += int64(call.documents)
					return errLost
				}
				return nil
			})
			zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), 1.1, 1, 19)
			sent := make(map[string]int64) // and answered, or of unknown outcome
			for i := range 3000 {
				customer := fmt.Sprint("customer ", zipf.Uint64())
				documents := 1 + i%3
				_, err := c.NextN(t.Context(), customer, documents)
				if err == nil || errors.Is(err, priority.ErrOutcomeUnknown) {
					sent[customer] += int64(documents)
				}
				if i%7 == 0 {
					c.wait(100 * ms)
				}
			}
			for range 10 { // once for each loss that is told
				if err := c.coalescer.Close(t.Context()); err != nil && !errors.Is(err, priority.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
			}
			c.close(t)
			for customer, documents := range sent {
				c.held(t, customer, 1-(documents-lost[customer]))
			}
		})
	}
}

// Many goroutines, and the garbage of time as it is: afterwards every document is
// counted.
func TestCoalescerConcurrency(t *testing.T) {
	test := func(t *testing.T, store priority.Store) {
		const callers, rounds, names = 16, 300, 30
		for range 3 { // one after another on the same counts
			coalescer := must(priority.NewCoalescer(store, &priority.CoalescerOptions{Interval: 2 * ms, MaxCustomers: 20}))(t)
			before := make(map[string]int64)
			for i := range names {
				before[fmt.Sprint("customer ", i)] = countOf(t, store, fmt.Sprint("customer ", i))
			}
			var fromMemory atomic.Int64
			var mu sync.Mutex
			sent := make(map[string]int64)
			var working sync.WaitGroup
			for caller := range callers {
				working.Go(func() {
					zipf := rand.NewZipf(rand.New(rand.NewPCG(uint64(caller), 5)), 1.1, 1, names-1)
					own := make(map[string]int64)
					note := func(err error, decisions []priority.Decision, customers ...string) {
						if err != nil {
							t.Errorf("%v", err)
							return
						}
						for i, customer := range customers {
							own[customer]++
							if decisions[i].Estimated {
								fromMemory.Add(1)
							}
						}
					}
					for i := range rounds {
						one, other := fmt.Sprint("customer ", zipf.Uint64()), fmt.Sprint("customer ", zipf.Uint64())
						switch i % 5 {
						case 0:
							decisions, err := coalescer.NextN(t.Context(), one, 5)
							note(err, decisions, one, one, one, one, one)
						case 1:
							decisions, err := coalescer.NextEach(t.Context(), []string{one, other, one})
							note(err, decisions, one, other, one)
						case 2:
							if _, err := coalescer.Peek(t.Context(), one); err != nil {
								t.Error(err)
							}
						default:
							decision, err := coalescer.Next(t.Context(), one)
							note(err, []priority.Decision{decision}, one)
						}
						if caller == 0 && i == rounds*9/10 { // with calls under way
							if err := coalescer.Close(t.Context()); err != nil {
								t.Error(err)
							}
						}
					}
					mu.Lock()
					defer mu.Unlock()
					for customer, documents := range own {
						sent[customer] += documents
					}
				})
			}
			working.Wait()
			for customer, documents := range sent {
				if got, want := countOf(t, store, customer), before[customer]-documents; got != want {
					t.Errorf("%s has count %d; want %d", customer, got, want)
				}
			}
			if fromMemory.Load() == 0 {
				t.Error("nothing was answered from memory")
			}
		}
	}
	t.Run("MemoryStore", func(t *testing.T) { test(t, new(priority.MemoryStore)) })
	t.Run("server", func(t *testing.T) { test(t, openStore(t, redistest.Start(t).Client(), patient)) })
}

// countOf is a customer's count, 1 where there is none.
func countOf(t *testing.T, store priority.Store, customer string) int64 {
	t.Helper()
	decision, err := store.Peek(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	if decision.ResetIn == 0 {
		return 1
	}
	return decision.Count
}
