package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
)

// Two processes count the same customers, the store fails now and then, and one of
// the two is closed while its callers go on.
func TestEveryDocumentIsCountedOnce(t *testing.T) {
	in := newInner(t, nil)
	var n atomic.Int64
	in.fail(func(_ context.Context, c call) error {
		if c.operation != "Peek" && n.Add(1)%7 == 0 {
			return fmt.Errorf("%w: out of order", priority.ErrNotCounted)
		}
		return nil
	}, nil)
	opts := &coalesce.Options{Interval: 2 * ms}
	processes := []*coalesce.Store{open(t, in, opts), open(t, in, opts)}
	customers := []string{"a", "b", "c", "d"}
	var counted [4]atomic.Int64
	var wait sync.WaitGroup
	for g := range 16 {
		wait.Go(func() {
			random, s := rand.New(rand.NewPCG(uint64(g), 2)), processes[g%2]
			for range 1500 {
				i := random.IntN(len(customers))
				switch random.IntN(12) {
				case 0:
					if ds, err := s.NextN(t.Context(), customers[i], random.IntN(40)); err == nil {
						counted[i].Add(int64(len(ds)))
					}
				case 1:
					_, err := s.NextEach(t.Context(), []string{customers[i], customers[i], "other"})
					for _, err := range priority.ItemErrors(err, 3)[:2] {
						if err == nil {
							counted[i].Add(1)
						}
					}
				case 2:
					_, _ = s.Peek(t.Context(), customers[i])
				case 3: // let an interval pass now and then
					time.Sleep(time.Duration(random.IntN(int(ms))))
				default:
					if _, err := s.Next(t.Context(), customers[i]); err == nil {
						counted[i].Add(1)
					}
				}
			}
		})
	}
	redistest.Await(t, "many are counted", func() bool { return counted[0].Load() > 5000 })
	for _, s := range processes { // others go on while the first is closed
		shut(t, s)
		wait.Wait()
	}
	for i, customer := range customers {
		held(t, in, customer, 1-counted[i].Load())
	}
}

func TestASettlementIsOneCallAnIntervalForAll(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		customers := make([]string, 300)
		for i := range customers {
			customers[i] = fmt.Sprint("customer ", i)
		}
		heat(t, s, customers...)
		in.take("")
		random := rand.New(rand.NewPCG(3, 3))
		const seconds = 30
		for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
			for range 50 {
				if _, err := s.Next(t.Context(), customers[random.IntN(len(customers))]); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Duration(random.Int64N(int64(50 * ms))))
		}
		shut(t, s)
		var settles []call
		for _, c := range in.take("") {
			switch c.operation {
			case "Settle":
				settles = append(settles, c)
			case "Peek", "Reset", "NextN", "NextEach":
				t.Fatalf("the store was asked %+v, which no caller asked", c)
			}
		}
		if len(settles) < seconds/2 || len(settles) > seconds+1 {
			t.Errorf("%d calls in %d s; want one a second", len(settles), seconds)
		}
		for i := range settles[1:] {
			if gap := settles[i+1].at.Sub(settles[i].at); gap < time.Second && i+2 < len(settles) { // the last is Close's
				t.Errorf("a settlement %v after another one", gap)
			}
		}
	})
}

func TestNoCallWaitsForASettlement(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		heat(t, s, "acme", "globex")
		answer(t, s, "acme", 3)
		until := make(chan struct{})
		in.fail(hold("Settle", until), nil)
		before := runtime.NumGoroutine()
		documents := 0
		for range 100 {
			time.Sleep(100 * ms)
			start := time.Now()
			_, err1 := s.Next(t.Context(), "acme")
			_, err2 := s.NextN(t.Context(), "acme", 2)
			_, err3 := s.NextEach(t.Context(), []string{"acme", "globex"})
			_, err4 := s.Submit(t.Context(), "acme", "one")
			_, err5 := s.Peek(t.Context(), "acme")
			documents += 4
			if err := errors.Join(err1, err2, err3, err4, err5); err != nil || time.Since(start) != 0 {
				t.Fatalf("after %v: %v", time.Since(start), err)
			}
		}
		if err := s.Reset(t.Context(), "globex"); err != nil {
			t.Fatal(err)
		}
		if n := runtime.NumGoroutine(); n > before+3 {
			t.Errorf("%d goroutines wait for a settlement", n-before)
		}
		close(until)
		in.fail(nil, nil)
		shut(t, s)
		held(t, in, "acme", -29-3-int64(documents)-1) // one was submitted, and nine times again
		held(t, in, "globex", 0)
	})
}

func TestACrashLosesAtMostAnInterval(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		customers := []string{"a", "b", "c", "d"}
		heat(t, s, customers...)
		answered := make(map[string][]time.Time)
		random := rand.New(rand.NewPCG(4, 4))
		for range 2000 {
			customer := customers[random.IntN(len(customers))]
			if random.IntN(20) == 0 {
				time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
			}
			if _, err := s.Next(t.Context(), customer); err != nil {
				t.Fatal(err)
			}
			answered[customer] = append(answered[customer], time.Now())
			time.Sleep(time.Duration(random.Int64N(int64(60 * ms))))
			synctest.Wait()
			for customer, times := range answered {
				old := 0
				for old < len(times) && time.Since(times[old]) > time.Second {
					old++
				}
				if d, _ := in.Store.Peek(t.Context(), customer); -d.Count < int64(29+old) {
					t.Fatalf("%d documents of %q were answered more than a second ago; the store holds %+v", 30+old, customer, d)
				}
			}
		}
		shut(t, s)
	})
}

// What fails for one customer touches nobody else, and Close says what it was.
func TestOneCustomersTroubleIsTheirs(t *testing.T) {
	for _, c := range []struct {
		name  string
		fail  func(in *inner)
		count int64 // the customer's in the end
		err   error // of Close
	}{
		{"corrupt", func(in *inner) { in.fail(only("entry", "acme", priority.ErrCorruptCount), nil) }, -29, priority.ErrCorruptCount},
		{"not counted", func(in *inner) { in.fail(only("entry", "acme", priority.ErrNotCounted), nil) }, -29, priority.ErrNotCounted},
		{"unknown, not counted", func(in *inner) { in.fail(only("entry", "acme", priority.ErrOutcomeUnknown), nil) }, -29, priority.ErrOutcomeUnknown},
		{"unknown, counted", func(in *inner) { in.fail(nil, only("entry", "acme", priority.ErrOutcomeUnknown)) }, -36, priority.ErrOutcomeUnknown},
		{"reset", func(in *inner) { _ = in.Store.Reset(context.Background(), "acme") }, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
				heat(t, s, "acme", "globex")
				answer(t, s, "acme", 7)
				answer(t, s, "globex", 7)
				c.fail(in)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				err := s.Close(ctx)
				if !errors.Is(err, c.err) || err == nil != (c.err == nil) || err != nil && !strings.Contains(err.Error(), "7") {
					t.Errorf("Close: %v; want 7 documents with %v", err, c.err)
				}
				held(t, in, "acme", c.count)
				held(t, in, "globex", -36)
				in.fail(nil, nil)
				if err := s.Close(t.Context()); c.err == priority.ErrNotCounted {
					if c.count -= 7; err != nil {
						t.Errorf("Close, again: %v", err)
					}
				}
				held(t, in, "acme", c.count) // and nothing was written twice
			})
		})
	}
}

func TestWhatWasNotCountedIsWrittenLater(t *testing.T) {
	for _, err := range []error{priority.ErrNotCounted, &priority.BatchError{Errs: []error{priority.ErrNotCounted}}} {
		var told atomic.Value
		opts := &coalesce.Options{OnError: func(err error) { told.Store(err) }}
		test(t, nil, opts, func(t *testing.T, s *coalesce.Store, in *inner) {
			heat(t, s, "acme")
			answer(t, s, "acme", 7)
			in.fail(only("Settle", "", err), nil)
			time.Sleep(time.Minute)
			if n := len(in.take("Settle")); n < 2 || n > 60 {
				t.Errorf("tried %d times in a minute", n)
			}
			if err, _ := told.Load().(error); !errors.Is(err, priority.ErrNotCounted) || !strings.Contains(err.Error(), "7 documents") {
				t.Errorf("OnError was told %v", err)
			}
			held(t, in, "acme", -29)
			in.fail(nil, nil)
			time.Sleep(10 * time.Second)
			held(t, in, "acme", -36)
			shut(t, s)
			held(t, in, "acme", -36)
		})
	}
}

// Documents of a count that is over are not counted in the next one, how low that
// may be.
func TestADocumentIsCountedInItsOwnPeriod(t *testing.T) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		policy := priority.Policy{ResetMode: mode, ResetInterval: time.Minute, Thresholds: []int64{-2}}
		test(t, &memory.Options{Policy: policy}, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
			heat(t, s, "acme")
			answer(t, s, "acme", 7)
			in.fail(only("entry", "", priority.ErrNotCounted), nil)
			time.Sleep(time.Minute + time.Second)
			if _, err := in.Store.NextN(t.Context(), "acme", 100); err != nil { // as another process
				t.Fatal(err)
			}
			in.fail(nil, nil)
			time.Sleep(10 * time.Second)
			held(t, in, "acme", -99)
			_ = s.Close(t.Context())
			held(t, in, "acme", -99)
		})
	}
}

// One call of Settle takes a million documents of a customer. More are never owed,
// even if a settlement under way brings them back.
func TestMoreIsOwedThanOneCallCounts(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		heat(t, s, "acme", "globex")
		answer(t, s, "globex", 7)
		in.fail(func(_ context.Context, c call) error {
			if c.operation == "Settle" {
				time.Sleep(500 * ms)
				return priority.ErrNotCounted
			}
			return nil
		}, nil)
		for range 2 {
			if _, err := s.NextN(t.Context(), "acme", priority.MaxDocuments-9); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * ms)
		}
		in.fail(nil, nil)
		shut(t, s)
		held(t, in, "acme", -29-2*(priority.MaxDocuments-9))
		held(t, in, "globex", -36)
	})
}

// The reply of an earlier document comes after that of a later one: this is no Reset.
func TestRepliesThatOvertakeEachOtherLoseNothing(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		for range 20 { // up to the last of level 8 but one
			ask(t, s, "acme")
		}
		first, second := make(chan struct{}), make(chan struct{})
		in.fail(hold("Next", first), nil)
		go func() { _, _ = s.Next(t.Context(), "acme") }() // asked first, counted second: level 9
		time.Sleep(ms)
		in.fail(nil, hold("Next", second))
		go func() { _, _ = s.Next(t.Context(), "acme") }() // asked second, counted first: level 8
		time.Sleep(ms)
		in.fail(nil, nil)
		close(first)
		time.Sleep(ms)
		answer(t, s, "acme", 7)
		close(second)
		time.Sleep(ms)
		answer(t, s, "acme", 7)
		shut(t, s)
		held(t, in, "acme", 1-20-2-14)
	})
}

func TestCloseReturnsWhenItsContextEnds(t *testing.T) {
	for _, underWay := range []bool{false, true} {
		for _, patience := range []time.Duration{-1, 0, 10 * ms, 500 * ms} {
			test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
				heat(t, s, "acme")
				answer(t, s, "acme", 7)
				hang := func(ctx context.Context, c call) error {
					if c.operation != "Settle" {
						return nil
					}
					if <-ctx.Done(); underWay {
						return fmt.Errorf("%w: %w", priority.ErrNotCounted, ctx.Err())
					}
					return fmt.Errorf("%w: %w", priority.ErrOutcomeUnknown, ctx.Err())
				}
				in.fail(hang, nil)
				if underWay {
					time.Sleep(1100 * ms)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				start := time.Now()
				if err := s.Close(ctx); err == nil || !strings.Contains(err.Error(), "7 documents") || time.Since(start) != max(0, patience) {
					t.Errorf("Close with %v: %v after %v", patience, err, time.Since(start))
				}
				in.fail(nil, nil)
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if underWay {
					held(t, in, "acme", -36)
				}
			})
		}
	}
}

// Close waits for the store to come back, but not for a count that has expired.
func TestCloseWaitsWhileThereIsSomethingToWrite(t *testing.T) {
	for _, outage := range []time.Duration{time.Minute, time.Hour} {
		opts := &memory.Options{Policy: priority.Policy{ResetInterval: 2 * time.Minute}}
		test(t, opts, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
			heat(t, s, "acme")
			answer(t, s, "acme", 7)
			in.fail(only("Settle", "", priority.ErrNotCounted), nil)
			time.AfterFunc(outage, func() { in.fail(nil, nil) })
			start := time.Now()
			shut(t, s)
			if waited := time.Since(start); waited < time.Minute || waited > 3*time.Minute {
				t.Errorf("Close returned after %v", waited)
			}
			held(t, in, "acme", map[time.Duration]int64{time.Minute: -36, time.Hour: 0}[outage])
		})
	}
}

func TestCloseTellsWhatMayBeLostWhateverComesAfter(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		heat(t, s, "acme", "globex")
		answer(t, s, "acme", 7)
		answer(t, s, "globex", 5)
		tries := 0
		in.fail(func(_ context.Context, c call) error {
			switch {
			case c.operation == "entry" && c.customer == "acme":
				return priority.ErrOutcomeUnknown
			case c.operation == "entry":
				if tries++; tries < 3 {
					return priority.ErrNotCounted
				}
			}
			return nil
		}, nil)
		if err := s.Close(t.Context()); !errors.Is(err, priority.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "7 documents") {
			t.Errorf("Close: %v", err)
		}
		held(t, in, "globex", -34)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			if err := s.Close(ended); err != nil { // nothing is owed
				t.Fatalf("Close, again: %v", err)
			}
		}
	})
}

func TestAfterCloseCallsGoToTheStore(t *testing.T) {
	test(t, nil, nil, func(t *testing.T, s *coalesce.Store, in *inner) {
		heat(t, s, "acme", "globex")
		answer(t, s, "acme", 7)
		until := make(chan struct{})
		in.fail(nil, hold("Next", until))
		go func() { _, _ = s.Next(t.Context(), "initech") }() // under way during Close
		go func() { _, _ = s.NextN(t.Context(), "globex", 1) }()
		synctest.Wait()
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() { shut(t, s) })
		}
		wait.Wait()
		in.fail(nil, nil)
		close(until)
		synctest.Wait()
		if count := ask(t, s, "acme"); count != -37 {
			t.Errorf("count %d", count)
		}
		heat(t, s, "initech")
		for range 3 {
			ask(t, s, "initech")
		}
		if ds, err := s.NextEach(t.Context(), []string{"acme", "acme"}); err != nil || ds[0].Estimated || ds[1].Estimated {
			t.Errorf("%+v, %v", ds, err)
		}
		in.take("")
		time.Sleep(time.Hour)
		if calls := in.take(""); len(calls) > 0 {
			t.Errorf("the store was asked %+v long after Close", calls)
		}
		held(t, in, "initech", 0) // it expired
	})
}

// While a server hangs answers go on; what another process did then stands, and a
// corrupt key delays nobody.
func TestAServerThatHangsForAWhile(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	redisStore, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, redisStore, &coalesce.Options{Interval: 20 * ms})
	heat(t, s, "acme", "globex", "initech")
	customers := []string{"acme", "globex", "initech"}
	server.Signal(syscall.SIGSTOP)
	for failed := false; !failed; { // until nobody is answered from memory any more
		_, err := s.NextEach(t.Context(), customers)
		errs := priority.ItemErrors(err, len(customers))
		failed = errs[0] != nil && errs[1] != nil && errs[2] != nil
	}
	server.Signal(syscall.SIGCONT)
	if err := client.Set(t.Context(), redisStore.Key("globex"), "what is this?", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if err := redisStore.Reset(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for answered := int64(0); answered < 3; { // from memory at first, and then afresh
		if d, err := s.Next(t.Context(), "acme"); err == nil && !d.Estimated {
			if d.Count != -answered {
				t.Fatalf("document %d since the Reset: %+v", answered+1, d)
			}
			answered++
		}
	}
	_ = s.Close(t.Context())
	for customer, level := range map[string]priority.Level{"acme": 1, "initech": 9} {
		if d, err := redisStore.Peek(t.Context(), customer); err != nil || d.Level != level {
			t.Errorf("%s: %+v, %v", customer, d, err)
		}
	}
	if value := client.Get(t.Context(), redisStore.Key("globex")).Val(); value != "what is this?" {
		t.Errorf("the corrupt key holds %q", value)
	}
}
