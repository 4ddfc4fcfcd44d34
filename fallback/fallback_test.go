package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

func TestFallback(t *testing.T) {
	for _, err := range []error{
		priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorrupt, errors.New("odd"),
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
			three, err3 := f.Submit(ctx, "acme", priority.Document{ID: "one"})
			four, err4 := f.SubmitN(ctx, "acme", named.Documents("one", "two"))
			_, err5 := f.Done(ctx, "acme", "one", 0)
			_, err6 := f.DoneN(ctx, "acme", []string{"three"}, 0)
			five, err7 := f.Peek(ctx, "acme")
			if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
				t.Fatal(err)
			}
			for i, d := range []priority.Decision{one, two[1], three, four[0], four[1]} {
				if d.Count != []int64{0, -2, 0, 0, 0}[i] || !d.Degraded || d.Pending != []int64{0, 0, 1, 1, 2}[i] || d.Load != []float64{0, 0, 1, 1, 4}[i] {
					t.Errorf("%v: [%d] = %+v", err, i, d)
				}
			}
			if !five.Degraded || five.Rule != priority.ByLoad || five.Count != -2 || five.Pending != 1 || five.Recent != 2 || five.Load != 6 || five.NextLevel != 1 {
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

func TestFallback_Entries(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		p.fail(func(_ context.Context, c call) error {
			if c.operation == "entry" && c.documents[0] == "bad" {
				return priority.ErrNotCounted
			}
			return nil
		}, nil)
		each, err1 := f.NextEach(t.Context(), []string{"good", "bad", "good", "bad"})
		many, err2 := f.SubmitN(t.Context(), "acme", named.Documents("bad", "good"))
		_, err3 := f.DoneN(t.Context(), "acme", []string{"bad", "good"}, 0)
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

// slow is a primary whose clock, which memory uses too, takes a while.
type slow struct{ *primary }

func (slow) Now() time.Time {
	time.Sleep(ms / 10)
	return time.Now()
}

// A call of many items takes no longer in memory than it may. What has no answer then is an error.
func TestFallback_InTime(t *testing.T) {
	for patience, want := range map[time.Duration]int{time.Hour: 2500, 150 * ms: 1500, 50 * ms: 1000} {
		bubble.Test(t, func(t *testing.T) {
			p := newPrimary(t)
			f := open(t, slow{p}, nil)
			outage(t, f, p)
			documents := make([]string, 10_000)
			for i := range documents {
				documents[i] = fmt.Sprint(i)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			decisions, err := f.SubmitN(ctx, "acme", named.Documents(documents...))
			answered := 0
			for i, err := range itemerrors.Of(err, len(documents)) {
				if decisions[i].Degraded {
					answered++
				} else if !errors.Is(err, priority.ErrNotCounted) {
					t.Fatalf("within %v, document %d: %+v, %v", patience, i, decisions[i], err)
				}
			}
			if answered < want || answered > want+1 {
				t.Errorf("within %v, %d documents have a level, want %d", patience, answered, want)
			}
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFallback_WrongCall(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		outage(t, f, p)
		ctx := t.Context()
		_, err1 := f.Next(ctx, "")
		_, err2 := f.NextN(ctx, "acme", -1)
		_, err3 := f.NextEach(ctx, []string{"acme", ""})
		_, err4 := f.Submit(ctx, "acme", priority.Document{ID: ""})
		_, err5 := f.SubmitN(ctx, "acme", named.Documents("one", ""))
		_, err6 := f.Peek(ctx, "")
		_, err7 := f.Done(ctx, "acme", "one", -1)
		_, err8 := f.Done(ctx, "", "one", 0)
		_, err9 := f.DoneN(ctx, "acme", []string{"one", ""}, 0)
		_, err10 := f.DoneN(ctx, "acme", []string{"one"}, -1)
		for i, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, f.Reset(ctx, "")} {
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

// A wrapper around the primary does not hide its lease.
func TestOutage_Lease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store, err := memory.New(&memory.Options{Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		p := &primary{Store: store}
		wrapped, err := observe.New(p)
		if err != nil {
			t.Fatal(err)
		}
		f := open(t, wrapped, nil)
		p.fail(down, nil)
		for i, want := range []int64{1, 2, 2} {
			if got, err := f.Submit(t.Context(), "acme", priority.Document{ID: fmt.Sprint(i)}); err != nil || got.Pending != want {
				t.Errorf("document %d: %+v, %v, want %d pending", i, got, err, want)
			}
			time.Sleep(40*time.Second + time.Millisecond)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestNew(t *testing.T) {
	for i, refused := range []struct {
		primary priority.Store
		opts    fallback.Options
	}{
		{nil, fallback.Options{}},
		{(*priority.RedisStore)(nil), fallback.Options{}},
		{(*fallback.Store)(nil), fallback.Options{}},
		{new(memory.Store), fallback.Options{MaxFailures: -1}},
		{new(memory.Store), fallback.Options{RetryAfter: -1}},
		{new(memory.Store), fallback.Options{MaxDones: -1}},
	} {
		if f, err := fallback.New(refused.primary, &refused.opts); !errors.Is(err, priority.ErrInvalid) || f != nil {
			t.Errorf("[%d]: %v, %v", i, f, err)
		}
	}
}
