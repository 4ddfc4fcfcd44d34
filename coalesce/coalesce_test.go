package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

func TestLevelsAreThoseOfTheStore(t *testing.T) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(mode, " ", seed), func(t *testing.T) { compare(t, mode, rand.New(rand.NewPCG(seed, 1))) })
		}
	}
}

// compare gives a coalesced and a plain store the same random calls.
func compare(t *testing.T, mode priority.ResetMode, random *rand.Rand) {
	const interval = time.Minute
	opts := &memory.Options{
		Policy: priority.Policy{ResetInterval: interval, ResetMode: mode},
		Tiers: map[string]priority.Policy{
			"one":   {Thresholds: []int64{}, ResetInterval: interval, ResetMode: mode},
			"three": {Thresholds: []int64{-4, -9}, ResetInterval: interval / 2, ResetMode: mode},
			"short": {ResetInterval: 2 * time.Second, ResetMode: mode},
		},
		TierOf: func(customer string) string { return customer[1:] },
	}
	customers := []string{"a", "b", "c", "done", "eone", "fthree", "gthree", "hshort"}
	test(t, opts, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		plain, err := memory.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, last, total, estimated := t.Context(), make(map[string]time.Time), 0, 0
		// both makes a call of both stores.
		both := func(call func(s priority.Store) ([]priority.Decision, error)) {
			t.Helper()
			got, err := call(s)
			want, _ := call(plain)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%+v, %v; without coalesce %+v", got, err, want)
			}
			for i := range want {
				total++
				if got[i].Estimated {
					estimated++
				}
				if got[i].Level != want[i].Level || got[i].ResetIn < 0 || !got[i].Estimated && got[i].Count < want[i].Count {
					t.Fatalf("[%d] = %+v; without coalesce %+v", i, got[i], want[i])
				}
			}
		}
		single := func(d priority.Decision, err error) ([]priority.Decision, error) { return []priority.Decision{d}, err }
		// late is the second by which an interval may begin late: nothing comes in it.
		late := func(customer string) bool {
			quiet := time.Since(last[customer]) - s.PolicyOf(customer).ResetInterval
			return mode == priority.SinceLastUpdate && quiet > 0 && quiet <= time.Second
		}
		for range 3000 {
			customer, document := customers[min(int(random.ExpFloat64()*3), len(customers)-1)], fmt.Sprint(random.IntN(5))
			n, each := random.IntN(20), []string{customer, customers[random.IntN(8)], customer, customers[random.IntN(8)]}
			if slices.ContainsFunc(each, late) {
				continue
			}
			counted := []string{customer}
			switch op := random.IntN(100); {
			case op < 45:
				both(func(s priority.Store) ([]priority.Decision, error) { return single(s.Next(ctx, customer)) })
			case op < 60:
				both(func(s priority.Store) ([]priority.Decision, error) { return s.NextN(ctx, customer, n+1) })
			case op < 75:
				both(func(s priority.Store) ([]priority.Decision, error) { return s.NextEach(ctx, each) })
				counted = each
			case op < 80:
				both(func(s priority.Store) ([]priority.Decision, error) { return single(s.Submit(ctx, customer, document)) })
			case op < 85:
				both(func(s priority.Store) ([]priority.Decision, error) { return nil, s.Done(ctx, customer, document, 0) })
				counted = nil
			case op < 88:
				both(func(s priority.Store) ([]priority.Decision, error) { return single(s.Peek(ctx, customer)) })
				counted = nil
			case op < 89:
				both(func(s priority.Store) ([]priority.Decision, error) { return nil, s.Reset(ctx, customer) })
				counted = nil
			case op < 99:
				time.Sleep(time.Duration(random.Int64N(int64(600 * ms))))
				counted = nil
			default:
				time.Sleep(time.Duration(random.Int64N(int64(2 * interval))))
				counted = nil
			}
			for _, customer := range counted {
				last[customer] = time.Now()
			}
		}
		shut(t, s)
		for _, customer := range customers {
			want, _ := plain.Peek(ctx, customer)
			if time.Since(last[customer]) <= s.PolicyOf(customer).ResetInterval {
				held(t, in, customer, want.Count)
			}
		}
		if estimated < total/5 {
			t.Errorf("%d of %d documents were answered from memory: the test tests nothing", estimated, total)
		}
	})
}

// A store that hangs costs a NextEach one timeout, not one for each customer.
func TestNextEachAsksTheStoreOnce(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		customers := make([]string, 1000)
		for i := range customers {
			customers[i] = fmt.Sprint("customer ", i)
		}
		heat(t, s, customers...)
		for _, fail := range []error{priority.ErrNotCounted, priority.ErrOutcomeUnknown} {
			in.fail(func(context.Context, call) error { time.Sleep(250 * ms); return fail }, nil)
			for range 40 {
				in.take("")
				start := time.Now()
				ds, err := s.NextEach(t.Context(), customers)
				if took := time.Since(start); took > 250*ms {
					t.Fatalf("NextEach took %v", took)
				}
				if n := len(in.take("NextEach")); n > 1 {
					t.Fatalf("NextEach asked the store %d times", n)
				}
				for i, err := range priority.ItemErrors(err, len(customers)) {
					if err != nil && !errors.Is(err, fail) || err == nil && ds[i].Level != 9 {
						t.Fatalf("%+v, %v", ds[i], err)
					}
				}
				time.Sleep(130 * ms)
			}
		}
		in.fail(nil, nil)
		_ = s.Close(t.Context())
	})
}

func TestPeekIncludesWhatIsOwed(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		heat(t, s, "acme")
		answer(t, s, "acme", 7)
		peek := func(level priority.Level, count int64) {
			t.Helper()
			if d, err := s.Peek(t.Context(), "acme"); err != nil || d.Level != level || d.Count != count {
				t.Errorf("Peek = %+v, %v; want level %d, count %d", d, err, level, count)
			}
		}
		peek(9, -36)
		until := make(chan struct{})
		in.fail(hold("Settle", until), nil)
		time.Sleep(1100 * ms)
		peek(9, -36)
		close(until)
		synctest.Wait()
		peek(9, -36)
		answer(t, s, "acme", 1)
		if err := in.Store.Reset(t.Context(), "acme"); err != nil { // as another process
			t.Fatal(err)
		}
		peek(1, 0)
		shut(t, s)
	})
}

// A policy whose interval is shorter than three of coalesce's is asked of the store.
// A slow settlement does not keep a customer at the last level beyond the reset.
func TestNothingIsAnsweredFromMemoryBeyondTheReset(t *testing.T) {
	policy := priority.Policy{ResetInterval: 200 * ms, ResetMode: priority.SinceLastReset}
	test(t, &memory.Options{Policy: policy}, &coalesce.Options{Interval: 10 * ms}, func(t *testing.T, s *coalesce.Store, in *inner) {
		heat(t, s, "acme")
		in.fail(func(_ context.Context, c call) error {
			if c.operation == "Settle" {
				time.Sleep(600 * ms)
			}
			return nil
		}, nil)
		for range 40 {
			if _, err := s.Next(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * ms)
		}
		time.Sleep(ms)
		ask(t, s, "acme")
		in.fail(nil, nil)
		shut(t, s)
	})
}

func TestWhatMayExpireSoonIsAsked(t *testing.T) {
	short := priority.Policy{ResetInterval: 3*time.Second - ms}
	test(t, &memory.Options{Policy: short}, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		for range 200 {
			ask(t, s, "acme")
			time.Sleep(20 * ms)
		}
		shut(t, s)
	})
}

func TestATierThatChangesIsNoticedAndLosesNothing(t *testing.T) {
	for _, quiet := range []time.Duration{0, 300 * ms, 600 * ms, 900 * ms} { // before it is asked again
		var tier atomic.Value
		opts := &memory.Options{
			Tiers:  map[string]priority.Policy{"large": {Thresholds: []int64{-100, -300}}, "one": {Thresholds: []int64{}}},
			TierOf: func(customer string) string { tier, _ := tier.Load().(string); return tier },
		}
		test(t, opts, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
			plain, err := memory.New(opts)
			if err != nil {
				t.Fatal(err)
			}
			heat(t, s, "globex")
			time.Sleep(500 * ms)
			heat(t, s, "acme")
			heat(t, plain, "acme")
			for i, next := range []string{"large", "one", "large", ""} {
				tier.Store(next)
				time.Sleep(quiet)
				for n := range 100 {
					got, err := s.Next(t.Context(), "acme")
					want, _ := plain.Next(t.Context(), "acme")
					if err != nil || n > 2*20 && got.Level != want.Level {
						t.Fatalf("%d: %+v, %v after %d documents in tier %q; want %+v", i, got, err, n, next, want)
					}
					time.Sleep(50 * ms)
				}
			}
			shut(t, s)
			want, _ := plain.Peek(t.Context(), "acme")
			held(t, in, "acme", want.Count)
		})
	}
}

func TestMaxCustomersBoundsWhoIsKept(t *testing.T) {
	test(t, nil, &coalesce.Options{MaxCustomers: 10}, func(t *testing.T, s *coalesce.Store, in *inner) {
		round := func(name string) (kept int) {
			for i := range 100 {
				customer := fmt.Sprint(name, i)
				heat(t, s, customer)
				d, err := s.Next(t.Context(), customer)
				if err != nil || d.Level != 9 {
					t.Fatalf("%+v, %v", d, err)
				}
				if d.Estimated {
					kept++
				}
			}
			return kept
		}
		if kept := round("first"); kept != 10 {
			t.Errorf("%d were kept", kept)
		}
		time.Sleep(3 * time.Second) // they went quiet, and make room
		if kept := round("second"); kept != 10 {
			t.Errorf("%d were kept", kept)
		}
		shut(t, s)
		for i := range 100 {
			held(t, in, fmt.Sprint("second", i), -30)
		}
	})
}

// full is a store in which everybody is at the last level, and which keeps nothing.
type full struct{ *memory.Store }

func (full) Next(context.Context, string) (priority.Decision, error) {
	return priority.Decision{Level: 9, Count: -30, ResetIn: time.Hour}, nil
}

func (full) Settle(_ context.Context, owed []priority.Owed) ([]priority.Decision, error) {
	decisions := make([]priority.Decision, len(owed))
	for i, o := range owed {
		decisions[i] = priority.Decision{Level: 9, Count: o.Known - int64(o.Documents), ResetIn: time.Hour}
	}
	return decisions, nil
}

func TestCustomersWhoWentQuietAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := open(t, full{new(memory.Store)}, nil)
		heap := func() int {
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			return int(stats.HeapAlloc)
		}
		empty := heap()
		for i := range 40_000 {
			customer := fmt.Sprint(i, strings.Repeat("x", 300))
			for range 2 {
				if _, err := s.Next(t.Context(), customer); err != nil {
					t.Fatal(err)
				}
			}
		}
		kept := heap() - empty
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if left := heap() - empty; kept < 10<<20 || left > kept/10 {
			t.Errorf("%d bytes while in use, %d bytes when all are quiet", kept, left)
		}
		shut(t, s)
	})
}

func TestAnAnswerFromMemoryAllocatesNothing(t *testing.T) {
	s := open(t, newInner(t, nil), &coalesce.Options{Interval: 5 * time.Minute})
	heat(t, s, "acme")
	answer(t, s, "acme", 1)
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() { _, _ = s.Next(ctx, "acme") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	shut(t, s)
}

func TestNewRefusesWhatItCannotTake(t *testing.T) {
	in := newInner(t, nil)
	onFallback, err := fallback.New(new(memory.Store), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, refused := range []struct {
		store coalesce.Inner
		opts  coalesce.Options
	}{
		{nil, coalesce.Options{}},
		{(*priority.RedisStore)(nil), coalesce.Options{}},
		{(*memory.Store)(nil), coalesce.Options{}},
		{(*observe.Store)(nil), coalesce.Options{}},
		{observe.New(onFallback), coalesce.Options{}},
		{observe.New(observe.New(onFallback)), coalesce.Options{}},
		{observe.New(open(t, in, nil)), coalesce.Options{}},
		{observe.New(nil), coalesce.Options{}},
		{new(priority.RedisStore), coalesce.Options{}},
		{in, coalesce.Options{Interval: -1}},
		{in, coalesce.Options{Interval: ms - 1}},
		{in, coalesce.Options{MaxCustomers: -1}},
	} {
		if s, err := coalesce.New(refused.store, &refused.opts); !errors.Is(err, priority.ErrInvalidOption) || s != nil {
			t.Errorf("[%d]: %v, %v", i, s, err)
		}
	}
	for name, store := range map[string]any{"fallback": onFallback, "coalesce": open(t, in, nil)} {
		if _, ok := store.(coalesce.Inner); ok {
			t.Errorf("coalesce around %s compiles", name)
		}
	}
	if err := onFallback.Close(t.Context()); err != nil {
		t.Error(err)
	}
	called := false
	watched := observe.New(in, func(context.Context, observe.Call) { called = true })
	if _, err := coalesce.New(watched, nil); err != nil || called {
		t.Errorf("%v; New called the store: %v", err, called)
	}
}
