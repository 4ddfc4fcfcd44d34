package coalesce_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
)

// What another process does to the count stands, whenever it comes.
func TestTheResetOfAnotherProcessStands(t *testing.T) {
	for seed := range uint64(50) {
		test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
			random := rand.New(rand.NewPCG(seed, 5))
			pause := func() { time.Sleep(time.Duration(random.Int64N(int64(700 * ms)))) }
			heat(t, s, "acme")
			for range 1 + random.IntN(40) {
				if _, err := s.Next(t.Context(), "acme"); err != nil {
					t.Fatal(err)
				}
				pause()
			}
			if random.IntN(2) == 0 { // the settlement is under way when the Reset comes
				in.fail(func(_ context.Context, c call) error {
					if c.operation == "Settle" {
						time.Sleep(300 * ms)
					}
					return nil
				}, nil)
			}
			if err := in.Store.Reset(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			since, reset := 0, time.Now()
			for range random.IntN(10) { // the other process goes on
				if _, err := in.Store.Next(t.Context(), "acme"); err != nil {
					t.Fatal(err)
				}
				since++
				pause()
				if random.IntN(2) == 0 { // and so does this one
					d, err := s.Next(t.Context(), "acme")
					if err != nil {
						t.Fatal(err)
					}
					if !d.Estimated {
						since++
					} else if time.Since(reset) > 2*time.Second+600*ms {
						t.Fatalf("%v after the Reset: %+v", time.Since(reset), d)
					}
				}
			}
			shut(t, s)
			if since == 0 {
				held(t, in, "acme", 0)
			} else {
				held(t, in, "acme", int64(1-since))
			}
		})
	}
}

func TestItsOwnResetTakesEffectAtOnce(t *testing.T) {
	// reset resets while some call is under way, which then goes on.
	reset := func(t *testing.T, s *coalesce.Store, in *inner, goOn func()) {
		t.Helper()
		synctest.Wait()
		start := time.Now()
		if err := s.Reset(t.Context(), "acme"); err != nil || time.Since(start) != 0 {
			t.Fatalf("Reset: %v after %v", err, time.Since(start))
		}
		goOn()
		synctest.Wait()
		for want := range int64(3) {
			if count := ask(t, s, "acme"); count != -want {
				t.Fatalf("count %d after a Reset and %d documents", count, want+1)
			}
		}
		shut(t, s)
		held(t, in, "acme", -2)
	}
	for name, fail := range map[string]func(in *inner, until chan struct{}){
		"while a settlement is on its way":         func(in *inner, until chan struct{}) { in.fail(hold("Settle", until), nil) },
		"while a settlement returns":               func(in *inner, until chan struct{}) { in.fail(nil, hold("Settle", until)) },
		"while an entry of a settlement returns":   func(in *inner, until chan struct{}) { in.fail(nil, hold("entry", until)) },
		"while nothing else happens":               func(*inner, chan struct{}) {},
		"while a settlement meets an unknown fate": func(in *inner, until chan struct{}) { in.fail(nil, only("entry", "", priority.ErrOutcomeUnknown)) },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
				heat(t, s, "acme")
				answer(t, s, "acme", 5)
				until := make(chan struct{})
				fail(in, until)
				time.Sleep(1100 * ms)
				in.fail(nil, nil)
				reset(t, s, in, func() { close(until) })
			})
		})
	}
	for _, operation := range []string{"Next", "NextEach"} {
		t.Run("while a "+operation+" returns", func(t *testing.T) {
			test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
				heat(t, in, "acme") // as another process
				until := make(chan struct{})
				in.fail(nil, hold(operation, until))
				go func() {
					if operation == "Next" {
						_, _ = s.Next(t.Context(), "acme")
					} else {
						_, _ = s.NextEach(t.Context(), []string{"acme", "globex"})
					}
				}()
				synctest.Wait()
				in.fail(nil, nil)
				reset(t, s, in, func() { close(until) })
			})
		})
	}
	t.Run("with a lost reply, while a settlement returns", func(t *testing.T) {
		test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
			heat(t, s, "acme")
			answer(t, s, "acme", 5)
			until := make(chan struct{})
			in.fail(nil, hold("Settle", until))
			time.Sleep(1100 * ms)
			in.fail(nil, only("Reset", "", priority.ErrOutcomeUnknown))
			if err := s.Reset(t.Context(), "acme"); !errors.Is(err, priority.ErrOutcomeUnknown) {
				t.Fatal(err)
			}
			in.fail(nil, nil)
			close(until)
			synctest.Wait()
			if count := ask(t, s, "acme"); count != 0 {
				t.Fatalf("count %d", count)
			}
			shut(t, s)
			held(t, in, "acme", 0)
		})
	})
}

// A Reset that was refused has not happened: the documents before it count.
func TestAResetThatFailsLosesNothing(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		heat(t, s, "acme")
		answer(t, s, "acme", 5)
		in.fail(only("Reset", "", priority.ErrNotCounted), nil)
		if err := s.Reset(t.Context(), "acme"); !errors.Is(err, priority.ErrNotCounted) {
			t.Fatal(err)
		}
		if d, err := s.Next(t.Context(), "acme"); err != nil || d.Level != 9 {
			t.Fatalf("%+v, %v", d, err)
		}
		shut(t, s)
		held(t, in, "acme", -29-5-1)
	})
}

// Another process resets the count and brings it back to the last level before this
// one asks again: what was owed belonged to the old count.
func TestAResetIsNoticedAtTheLastLevelToo(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		heat(t, s, "globex") // from now on there are settlements
		time.Sleep(500 * ms)
		if _, err := s.NextN(t.Context(), "acme", 60); err != nil {
			t.Fatal(err)
		}
		time.Sleep(600 * ms) // past a settlement
		answer(t, s, "acme", 7)
		time.Sleep(500 * ms) // asked again before the next one
		if err := in.Store.Reset(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		heat(t, in, "acme")
		if count := ask(t, s, "acme"); count != -30 {
			t.Fatal(count)
		}
		shut(t, s)
		held(t, in, "acme", -30)
	})
}
