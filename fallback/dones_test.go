package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/testing/bubble"
)

func TestDones(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		documents := make([]string, 1000)
		for i := range documents {
			documents[i] = fmt.Sprint(i)
		}
		submit(t, f, "acme", documents...)
		submit(t, f, "globex", documents[:10]...)
		outage(t, f, p)
		for _, document := range documents[:500] {
			if _, err := f.Done(t.Context(), "acme", document, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.DoneN(t.Context(), "acme", documents[500:], 500*time.Second); err != nil {
			t.Fatal(err)
		}
		for _, document := range documents[:10] {
			if _, err := f.Done(t.Context(), "globex", document, 3*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		p.take("")
		back(t, f, p)
		calls, took, sent := p.take("Done"), map[string]time.Duration{}, map[string]int{}
		for _, c := range calls {
			took[c.customer] += c.took
			sent[c.customer] += len(c.documents)
		}
		if len(calls) > 5 || took["acme"] != 1000*time.Second || took["globex"] != 30*time.Second || sent["acme"] != 1000 || sent["globex"] != 10 {
			t.Errorf("%d calls: %v, %v", len(calls), sent, took)
		}
		pending(t, p, 0)
	})
}

// What is too much is the Dones of who has the most.
func TestDones_Bound(t *testing.T) {
	test(t, &fallback.Options{MaxDones: 500}, func(t *testing.T, f *fallback.Store, p *primary) {
		outage(t, f, p)
		documents := make([]string, 1000)
		for i := range documents {
			documents[i] = fmt.Sprint(i)
			if i < 200 {
				done(t, f, fmt.Sprint("small ", i), "one")
			}
		}
		done(t, f, "acme", documents[:500]...)
		if _, err := f.DoneN(t.Context(), "acme", documents[500:], 0); err != nil {
			t.Fatal(err)
		}
		p.take("")
		back(t, f, p)
		sent := map[bool]int{}
		for _, c := range p.take("DoneN") {
			sent[c.customer == "acme"] += len(c.documents)
		}
		if sent[true] != 300 || sent[false] != 200 {
			t.Errorf("%d of acme and %d of others", sent[true], sent[false])
		}
	})
}

// Thousands of customers on a part of the primary that hangs do not keep the Dones of others back.
func TestDones_PartHangs(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		outage(t, f, p)
		for i := range 2010 {
			done(t, f, fmt.Sprint(i), "one")
		}
		var good atomic.Int64
		p.fail(func(ctx context.Context, c call) error {
			if _, err := strconv.Atoi(c.customer); err != nil || strings.HasSuffix(c.customer, "00") {
				if c.operation == "DoneN" {
					good.Add(1)
				}
				return nil
			}
			return hang(ctx, c)
		}, nil)
		time.Sleep(10 * time.Second)
		if good.Load() != 20 {
			t.Errorf("the Dones of %d of 20 have arrived", good.Load())
		}
	})
}

// A Submit that comes while the Done of the document is in flight is not ended by it. The laws
// have those that come later.
func TestDones_Submit(t *testing.T) {
	for _, applied := range []bool{false, true} {
		test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
			submit(t, f, "acme", "one", "two")
			if hanging := only("Done", "acme", hang); applied {
				p.fail(nil, hanging)
			} else {
				p.fail(hanging, nil)
			}
			go func() { _, _ = f.Done(context.Background(), "acme", "one", 0) }()
			go func() { _, _ = f.DoneN(context.Background(), "acme", []string{"two"}, 0) }()
			time.Sleep(100 * ms)
			submit(t, f, "acme", "one", "two")
			p.fail(nil, nil)
			time.Sleep(10 * time.Second)
			pending(t, p, 2)
		})
	}
}

func TestClose(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		f := open(t, p, nil)
		submit(t, f, "acme", "one", "two", "three")
		outage(t, f, p)
		done(t, f, "acme", "one", "two")
		if err := f.Close(t.Context()); !errors.Is(err, priority.ErrNotCounted) || !strings.Contains(err.Error(), "2") {
			t.Errorf("Close in an outage: %v", err)
		}
		for _, patience := range []time.Duration{-1, 0, 10 * ms, 100 * ms} {
			p.fail(hang, nil)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			start := time.Now()
			if err := f.Close(ctx); !errors.Is(err, priority.ErrNotCounted) || len(classes(err)) != 1 || time.Since(start) > max(0, patience) {
				t.Errorf("Close with %v: %v after %v", patience, err, time.Since(start))
			}
			cancel()
		}
		p.take("")
		done(t, f, "acme", "three") // calls still work
		time.Sleep(time.Minute)
		if calls := p.take("")[1:]; len(calls) > 0 { // but for the Done above
			t.Errorf("%+v long after Close", calls)
		}
		p.fail(nil, nil)
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				if err := f.Close(t.Context()); err != nil {
					t.Errorf("Close, again: %v", err)
				}
			})
		}
		wait.Wait()
		pending(t, p, 0)
		if d, err := f.Next(t.Context(), "acme"); err != nil || d.Degraded || f.Degraded() {
			t.Errorf("after Close: %+v, %v, and the store is degraded: %v", d, err, f.Degraded())
		}
		p.fail(down, nil)
		for range 20 {
			if d, err := f.Next(t.Context(), "acme"); err != nil || !d.Degraded {
				t.Errorf("after Close: %+v, %v", d, err)
			}
		}
	})
}

// An end is reported by the store that had the document.
func TestDone_Ended(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		end := func(want string, documents ...string) {
			t.Helper()
			ended, err := f.DoneN(t.Context(), "acme", documents, 0)
			if got := fmt.Sprint(ended); err != nil || got != want {
				t.Errorf("the end of %q is reported as %s, %v, want %s", documents, got, err, want)
			}
		}
		submit(t, f, "acme", "both", "primary", "kept")
		time.Sleep(time.Second)
		p.fail(only("", "acme", down), nil)
		submit(t, f, "acme", "both", "secondary", "kept")
		time.Sleep(time.Second)
		end("[{1s 1} {0s 0} {0s 0}]", "secondary", "secondary", "unknown")
		p.fail(func(_ context.Context, c call) error {
			if c.operation == "entry" && c.documents[0] == "kept" {
				return priority.ErrNotCounted
			}
			return nil
		}, nil)
		end("[{2s 1} {2s 1} {1s 2}]", "both", "primary", "kept")
		end("[{0s 0} {0s 0}]", "both", "primary")
		p.fail(nil, nil)
		submit(t, f, "acme", "one")
		end("[{0s 1} {0s 0}]", "one", "one")
	})
}
