package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/redistest"
)

func TestCircuit(t *testing.T) {
	var changes []string
	opts := &fallback.Options{OnChange: func(open bool, cause error) { changes = append(changes, fmt.Sprint(open, " ", cause)) }}
	test(t, opts, func(t *testing.T, f *fallback.Store, p *primary) {
		for range 3 {
			changes = nil
			p.fail(hang, nil)
			for n := range 100 {
				start := time.Now()
				d, err := f.Next(t.Context(), "acme")
				took := time.Since(start)
				if n == 9 { // a probe has to find out whether the primary works for others
					time.Sleep(2 * timeout)
				}
				if err != nil || !d.Degraded || f.Open() != (n >= 9) || !f.Degraded() {
					t.Fatalf("failure %d: %+v, %v; Open is %v, Degraded is %v", n+1, d, err, f.Open(), f.Degraded())
				}
				if n < 10 && took != timeout || n >= 10 && took != 0 {
					t.Fatalf("failure %d took %v", n+1, took)
				}
			}
			p.take("")
			time.Sleep(time.Minute)
			if n := len(p.take("")); n == 0 || n > 8*120 {
				t.Errorf("%d calls of probes in a minute", n)
			}
			if n := len(changes); n != 1 || !strings.Contains(changes[0], "true priority: outcome unknown") {
				t.Fatalf("%q", changes)
			}
			back(t, f, p)
			if len(changes) != 2 || changes[1] != "false <nil>" {
				t.Fatalf("%q", changes)
			}
			p.take("")
			time.Sleep(time.Minute)
			if n := len(p.take("")); n > 0 {
				t.Errorf("%d calls of a primary that works, and nobody calls", n)
			}
		}
	})
}

// A Redis that is full takes no documents, but Dones; a replica answers a Peek.
func TestCircuit_RedisFull(t *testing.T) {
	for _, full := range []bool{true, false} {
		server := redistest.Start(t)
		client := server.Client()
		store, err := priority.NewRedisStore(client, nil)
		if err != nil {
			t.Fatal(err)
		}
		var changes atomic.Int64
		f := open(t, store, &fallback.Options{RetryAfter: 50 * ms, OnChange: func(bool, error) { changes.Add(1) }})
		t.Cleanup(func() { _ = f.Close(context.Background()) })
		set := func(maxMemory, host, port string) {
			if err := client.ConfigSet(t.Context(), "maxmemory", maxMemory).Err(); err != nil {
				t.Fatal(err)
			}
			if err := client.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if full {
			set("1", "NO", "ONE")
		} else {
			set("0", "127.0.0.1", fmt.Sprint(redistest.FreePort(t)))
		}
		redistest.Await(t, "the circuit opens", func() bool { _, _ = f.Next(t.Context(), "acme"); return f.Open() })
		last := 0.0
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			d, err := f.Submit(t.Context(), "globex", priority.Document{ID: "one"})
			_, err2 := f.Done(t.Context(), "globex", "one", 0)
			err = errors.Join(err, err2)
			_, _ = f.Peek(t.Context(), "globex")
			if err != nil || !d.Degraded || d.Load < last-.1 {
				t.Fatalf("full %v: %+v, %v after load %v", full, d, err, last)
			}
			last = d.Load
		}
		if changes.Load() != 1 {
			t.Errorf("full %v: OnChange was told %d times", full, changes.Load())
		}
		set("0", "NO", "ONE")
		redistest.Await(t, "the circuit closes", func() bool { return !f.Open() && !f.Degraded() && changes.Load() == 2 })
	}
}

// A corrupt key is no outage: nothing is probed for ever.
func TestCircuit_CorruptKey(t *testing.T) {
	test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
		p.fail(only("", "acme", with(fmt.Errorf("%w: of acme", priority.ErrCorrupt))), nil)
		for i := range 50 {
			submit(t, f, "acme", fmt.Sprint(i))
			done(t, f, "acme", fmt.Sprint(i))
		}
		time.Sleep(10 * time.Second)
		p.take("")
		time.Sleep(time.Minute)
		if calls := p.take(""); len(calls) > 0 {
			t.Errorf("%d calls, such as %+v", len(calls), calls[0])
		}
		if f.Open() || f.Degraded() {
			t.Errorf("Open is %v, Degraded is %v", f.Open(), f.Degraded())
		}
	})
}

// A customer for whom the primary always fails does not keep others from it, however often that
// customer sends, also when an outage is over for the others.
func TestCircuit_OneCustomer(t *testing.T) {
	for _, rate := range []int{10, 100, 1000} { // documents of that customer for one of another
		test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
			outage(t, f, p)
			p.fail(only("", "acme", down), nil)
			acme := func(documents int) {
				for range documents {
					if d, err := f.Next(t.Context(), "acme"); err != nil || !d.Degraded {
						t.Fatalf("%+v, %v", d, err)
					}
					time.Sleep(time.Millisecond)
				}
			}
			acme(1000)
			for n := range 50 {
				if d, err := f.Next(t.Context(), "globex"); err != nil || d.Degraded {
					t.Fatalf("document %d: %+v, %v", n+1, d, err)
				}
				acme(rate)
			}
		})
	}
}

// OnChange may take its time, and may close the store.
func TestCircuit_OnChange(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var f *fallback.Store
		p, told := newPrimary(t), make(chan error, 1)
		f = open(t, p, &fallback.Options{OnChange: func(bool, error) {
			time.Sleep(time.Hour)
			told <- f.Close(t.Context())
		}})
		outage(t, f, p)
		done(t, f, "acme", "one")
		if err := <-told; !errors.Is(err, priority.ErrNotCounted) {
			t.Errorf("Close: %v", err)
		}
	})
}

// Callers with less time than the primary takes to fail do not open the circuit. But they make
// the store ask the primary, which decides.
func TestCircuit_ImpatientCallers(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		test(t, nil, func(t *testing.T, f *fallback.Store, p *primary) {
			if hangs {
				p.fail(hang, nil)
			} else { // the callers are just too impatient
				p.fail(only("Next", "", hang), nil)
			}
			for range 30 {
				ctx, cancel := context.WithTimeout(t.Context(), 200*ms)
				if d, err := f.Next(ctx, "acme"); err != nil || !d.Degraded {
					t.Fatalf("%+v, %v", d, err)
				}
				cancel()
				time.Sleep(100 * ms)
			}
			if f.Open() != hangs || f.Degraded() != hangs {
				t.Errorf("a primary that hangs: %t; Open is %t, Degraded is %t", hangs, f.Open(), f.Degraded())
			}
		})
	}
}
