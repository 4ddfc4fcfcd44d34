package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

func TestTheSecondaryAnswersForWhatThePrimaryDidNot(t *testing.T) {
	for _, err := range []error{
		priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorruptCount, errors.New("odd"),
		fmt.Errorf("%w: %w", priority.ErrOutcomeUnknown, context.DeadlineExceeded),
	} {
		var told atomic.Int64
		opts := &fallback.Options{OnError: func(e error) {
			if errors.Is(e, err) {
				told.Add(1)
			}
		}}
		test(t, opts, func(t *testing.T, f *fallback.Store, p *primary) {
			ctx := t.Context()
			p.fail(only("", "acme", with(err)), nil)
			one, err1 := f.Next(ctx, "acme")
			two, err2 := f.NextN(ctx, "acme", 2)
			three, err3 := f.Submit(ctx, "acme", "one", 0)
			four, err4 := f.SubmitN(ctx, "acme", []string{"one", "two"}, nil)
			err5 := errors.Join(f.Done(ctx, "acme", "one", 0), f.DoneN(ctx, "acme", []string{"three"}, 0))
			five, err6 := f.Peek(ctx, "acme")
			if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
				t.Fatal(err)
			}
			for i, d := range []priority.Decision{one, two[1], three, four[0], four[1]} {
				if d.Count != []int64{0, -2, 0, 0, 0}[i] || !d.Degraded || d.Pending != []int64{0, 0, 1, 1, 2}[i] || d.Load != []float64{0, 0, 1, 1, 4}[i] {
					t.Errorf("%v: [%d] = %+v", err, i, d)
				}
			}
			if !five.Degraded || five.Rule != priority.ByLoad || five.Count != -2 || five.Pending != 1 || five.Lately != 2 || five.NextLevel != 2 {
				t.Errorf("%v: %+v", err, five)
			}
			if told.Load() != 7 {
				t.Errorf("%v: OnError was told %d times of 7", err, told.Load())
			}
			if d, err := f.Next(ctx, "globex"); err != nil || d.Degraded {
				t.Errorf("globex: %+v, %v", d, err)
			}
			if err := f.Reset(ctx, "acme"); err == nil || len(classes(err)) > 1 {
				t.Errorf("Reset: %v", err)
			}
			if d, err := f.Next(ctx, "acme"); err != nil || d.Count != 0 {
				t.Errorf("after a Reset: %+v, %v", d, err)
			}
		})
	}
}

func TestTheSecondaryAnswersForTheEntriesThatFailed(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		p.fail(func(_ context.Context, c call) error {
			if c.operation == "entry" && c.documents[0] == "bad" {
				return priority.ErrNotCounted
			}
			return nil
		}, nil)
		each, err1 := f.NextEach(t.Context(), []string{"good", "bad", "good", "bad"})
		many, err2 := f.SubmitN(t.Context(), "acme", []string{"bad", "good"}, nil)
		err3 := f.DoneN(t.Context(), "acme", []string{"bad", "good"}, 0)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		for i, want := range []priority.Decision{{Count: 0}, {Count: 0, Degraded: true}, {Count: -1}, {Count: -1, Degraded: true}} {
			if each[i].Count != want.Count || each[i].Degraded != want.Degraded {
				t.Errorf("[%d] = %+v", i, each[i])
			}
		}
		if !many[0].Degraded || many[1].Degraded || many[1].Pending != 1 {
			t.Errorf("%+v", many)
		}
		pending(t, p, 0)
	})
}

func TestAWrongCallStaysAnErrorWhileTheCircuitIsOpen(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		outage(t, f, p)
		ctx := t.Context()
		_, err1 := f.Next(ctx, "")
		_, err2 := f.NextN(ctx, "acme", -1)
		_, err3 := f.NextEach(ctx, []string{"acme", ""})
		_, err4 := f.Submit(ctx, "acme", "", 0)
		_, err5 := f.SubmitN(ctx, "acme", []string{"one", ""}, nil)
		_, err6 := f.Peek(ctx, "")
		for i, err := range []error{err1, err2, err3, err4, err5, err6, f.Reset(ctx, ""), f.Done(ctx, "acme", "one", -1),
			f.Done(ctx, "", "one", 0), f.DoneN(ctx, "acme", []string{"one", ""}, 0), f.DoneN(ctx, "acme", []string{"one"}, -1)} {
			if got := classes(err); len(got) != 1 || got[0] != priority.ErrInvalid {
				t.Fatalf("[%d]: %v", i, err)
			}
		}
		p.take("")
		back(t, f, p)
		if calls := p.take("Done"); len(calls) > 0 {
			t.Errorf("the primary was sent %+v", calls)
		}
	})
}

// What the secondary counted is neither owed to the primary nor remembered.
func TestAnOutageIsForgotten(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		if _, err := f.NextN(t.Context(), "acme", 5); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			outage(t, f, p)
			for want := range int64(30) {
				if d, err := f.Submit(t.Context(), "acme", fmt.Sprint(want), 0); err != nil || d.Pending != want+1 {
					t.Fatalf("%+v, %v; want %d pending", d, err, want+1)
				}
				if d, err := f.Next(t.Context(), "acme"); err != nil || d.Count != -want {
					t.Fatalf("%+v, %v; want count %d", d, err, -want)
				}
			}
			back(t, f, p)
			if d, err := p.Store.Peek(t.Context(), "acme"); err != nil || d.Count != -4 || d.Rule != priority.ByCount {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		outage(t, f, p)
		if err := p.Store.Reset(t.Context(), "acme"); err != nil { // as another process
			t.Fatal(err)
		}
		_, _ = f.NextN(t.Context(), "acme", 30)
		back(t, f, p)
		if d, err := f.Next(t.Context(), "acme"); err != nil || d.Count != 0 || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// A process that only submits sees no Done in an outage: what it has submitted counts as
// pending for a lease, for all customers alike, and is forgotten with the outage.
func TestInAnOutageEachProcessCountsForItself(t *testing.T) {
	test(t, nil, func(t *testing.T, producer *fallback.Store, p *primary) {
		whole := newPrimary(t) // what Redis would know if there were no outage
		worker := open(t, p, nil, nil)
		outage(t, producer, p)
		outage(t, worker, p)
		for i := range 200 {
			document, levels := fmt.Sprint(i), [2]priority.Level{}
			for at, customer := range []string{"acme", "bakery"} {
				submit(t, whole, customer, document)
				d, err := producer.Submit(t.Context(), customer, document, 0)
				if err != nil {
					t.Fatal(err)
				}
				levels[at] = d.Level
				time.Sleep(150 * ms)
				done(t, worker, customer, document)
				done(t, whole, customer, document)
			}
			if levels[0] != levels[1] {
				t.Fatalf("document %d has level %d or %d", i, levels[0], levels[1])
			}
		}
		next := func(s priority.Store) priority.Level {
			t.Helper()
			state, err := s.Peek(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			return state.NextLevel
		}
		full := next(whole)
		if during := next(producer); during != 9 || full > 5 {
			t.Errorf("in the outage the level is %d, and would be %d", during, full)
		}
		back(t, producer, p)
		back(t, worker, p)
		if after := next(producer); after > full {
			t.Errorf("after the outage the level is %d, and would be %d", after, full)
		}
		if err := worker.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestASecondaryOfTheCallersKeepsItsCounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, own := newPrimary(t), new(memory.Store)
		f := open(t, p, own, nil)
		for i := range int64(3) {
			outage(t, f, p)
			if d, err := f.Next(t.Context(), "acme"); err != nil || d.Count != -i || !d.Degraded {
				t.Errorf("%+v, %v", d, err)
			}
			back(t, f, p)
		}
		if err := f.Reset(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		if d, _ := own.Peek(t.Context(), "acme"); d.Count != 0 {
			t.Errorf("%+v after a Reset", d)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// uncomparable is a store that == panics for.
type uncomparable struct {
	*memory.Store
	_ func()
}

func TestAnyKindOfStoreWorks(t *testing.T) {
	f := open(t, uncomparable{Store: new(memory.Store)}, uncomparable{Store: new(memory.Store)}, nil)
	_, err1 := f.NextEach(t.Context(), []string{"acme", "globex"})
	_, err2 := f.SubmitN(t.Context(), "acme", []string{"one", "two"}, nil)
	if err := errors.Join(err1, err2, f.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

// Both stores fail: the error is of one class, the one that lets nobody count twice.
func TestAnErrorIsOfOneClass(t *testing.T) {
	notCounted, unknown, corrupt := priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorruptCount
	for _, first := range []error{notCounted, unknown, corrupt} {
		for _, second := range []error{notCounted, unknown, corrupt} {
			bubble.Test(t, func(t *testing.T) {
				p, s := newPrimary(t), newPrimary(t)
				f := open(t, p, s, nil)
				p.fail(with(first), nil)
				s.fail(with(second), nil)
				for range 15 { // also with an open circuit
					isOpen := f.Open()
					_, err1 := f.Next(t.Context(), "acme")
					_, err2 := f.NextN(t.Context(), "acme", 2)
					_, err3 := f.NextEach(t.Context(), []string{"acme", "globex"})
					_, err4 := f.Submit(t.Context(), "acme", "one", 0)
					_, err5 := f.SubmitN(t.Context(), "acme", []string{"one", "two"}, nil)
					for i, err := range []error{err1, err2, err3, err4, err5} {
						got := classes(err)
						if len(got) != 1 || got[0] == notCounted && (!isOpen && first == unknown || second == unknown) {
							t.Fatalf("%v and %v: [%d] is %v", first, second, i, err)
						}
					}
				}
				p.fail(nil, nil)
				if err := f.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestNestedFallbacksCountOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var stores [4]*primary
		for i := range stores {
			stores[i] = newPrimary(t)
		}
		near, far := open(t, stores[0], stores[1], nil), open(t, stores[2], stores[3], nil)
		f := open(t, near, far, nil)
		random := rand.New(rand.NewPCG(1, 1))
		counted, unknown := 0, 0
		for range 500 {
			for _, s := range stores {
				s.fail([]failure{nil, down}[random.IntN(2)], nil)
			}
			d, err := f.Next(t.Context(), "acme")
			switch {
			case err == nil:
				counted++
			case !errors.Is(err, priority.ErrNotCounted):
				unknown++
			}
			_ = d
			time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		}
		total := 0
		for _, s := range stores {
			s.fail(nil, nil)
			if d, _ := s.Store.Peek(t.Context(), "acme"); d.ResetIn > 0 {
				total += int(1 - d.Count)
			}
		}
		if total != counted || unknown > 0 {
			t.Errorf("%d documents were counted, %d were answered, %d unknown", total, counted, unknown)
		}
		for _, f := range []*fallback.Store{f, near, far} {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// mine is a wrapper as a user writes one.
type mine struct{ priority.Store }

func TestTheLeaseOfThePrimaryHoldsInAnOutage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, wrap := range []func(p *primary) priority.Store{
			func(p *primary) priority.Store { return p },
			func(p *primary) priority.Store { return mine{p} },
			func(p *primary) priority.Store { return &mine{observe.New(mine{p})} },
		} {
			store, err := memory.New(&memory.Options{Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			p := &primary{Store: store}
			f, err := fallback.New(wrap(p), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			p.fail(down, nil)
			for i, want := range []int64{1, 2, 2} {
				if got, err := f.Submit(t.Context(), "acme", fmt.Sprint(i), 0); err != nil || got.Pending != want {
					t.Errorf("document %d: %+v, %v, want %d pending", i, got, err, want)
				}
				time.Sleep(40*time.Second + time.Millisecond)
			}
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestNewRefusesWhatItCannotTake(t *testing.T) {
	for i, refused := range []struct {
		primary, secondary priority.Store
		opts               fallback.Options
	}{
		{nil, nil, fallback.Options{}},
		{(*priority.RedisStore)(nil), nil, fallback.Options{}},
		{(*fallback.Store)(nil), nil, fallback.Options{}},
		{nil, new(memory.Store), fallback.Options{}},
		{new(memory.Store), (*memory.Store)(nil), fallback.Options{}},
		{new(memory.Store), nil, fallback.Options{MaxFailures: -1}},
		{new(memory.Store), nil, fallback.Options{RetryAfter: -1}},
		{new(memory.Store), nil, fallback.Options{MaxDones: -1}},
	} {
		if f, err := fallback.New(refused.primary, refused.secondary, &refused.opts); !errors.Is(err, priority.ErrInvalidOption) || f != nil {
			t.Errorf("[%d]: %v, %v", i, f, err)
		}
	}
}
