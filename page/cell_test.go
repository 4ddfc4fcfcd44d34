package page

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority/internal/bubble"
)

// counted is a cell whose lookups take a while each, and are counted.
func counted(t *testing.T, took time.Duration) (*cell[int], *background, *int) {
	t.Helper()
	all, lookups := newBackground(), new(int)
	t.Cleanup(func() { _ = all.close(context.Background()) })
	return newCell(all, 2*time.Second, func(context.Context) (int, error) {
		*lookups++
		n := *lookups
		time.Sleep(took)
		return n, nil
	}), all, lookups
}

func TestOneLookupIsUnderWayHoweverManyAsk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, lookups := counted(t, time.Second)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if found := c.get(t.Context()); found.value != 1 || found.late || found.err != nil {
					t.Errorf("found %+v", found)
				}
			})
		}
		all.Wait()
		for range 100 {
			c.get(t.Context())
		}
		if *lookups != 1 {
			t.Errorf("%d lookups", *lookups)
		}
		time.Sleep(2 * time.Second)
		if found := c.get(t.Context()); found.value != 2 {
			t.Errorf("after the interval: %+v", found)
		}
	})
}

func TestNothingIsLookedUpWhileNobodyAsks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, lookups := counted(t, time.Second)
		c.get(t.Context())
		time.Sleep(24 * time.Hour)
		if *lookups != 1 {
			t.Errorf("%d lookups", *lookups)
		}
	})
}

func TestNobodyWaitsLongForALookup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, _ := counted(t, time.Minute)
		began := time.Now()
		if found := c.get(t.Context()); !found.late || !found.at.IsZero() || time.Since(began) != patience {
			t.Errorf("after %v found %+v", time.Since(began), found)
		}
		time.Sleep(time.Minute)
		if found := c.get(t.Context()); found.value != 1 || !found.late {
			t.Errorf("while the next lookup is under way: %+v", found)
		}
	})
}

// What a lookup finds that began before a change may be of before.
func TestWhoAsksAfterAChangeSeesIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, lookups := counted(t, 500*time.Millisecond)
		go c.get(t.Context())
		synctest.Wait()
		c.expire()
		if found := c.get(t.Context()); found.value != 2 || *lookups != 2 {
			t.Errorf("found %+v", found)
		}
	})
}

func TestTheLastGoodValueStaysWhenALookupFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		all := newBackground()
		broken := errors.New("broken")
		var failure error
		c := newCell(all, time.Second, func(context.Context) (int, error) { return 7, failure })
		c.get(t.Context())
		at := time.Now()
		failure = broken
		time.Sleep(time.Minute)
		if found := c.get(t.Context()); found.value != 7 || !errors.Is(found.err, broken) || !found.at.Equal(at) {
			t.Errorf("found %+v", found)
		}
		_ = all.close(t.Context())
		time.Sleep(time.Minute)
		if found := c.get(t.Context()); !errors.Is(found.err, errClosed) {
			t.Errorf("after close: %+v", found)
		}
	})
}

func TestSoManyCellsAreKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		all := newBackground()
		lookups := 0
		c := newCells(all, time.Hour, 3, func(_ context.Context, key int) (int, error) { lookups++; return key, nil })
		for key := range 10 {
			time.Sleep(time.Second)
			if found := c.get(t.Context(), key); found.value != key {
				t.Errorf("%d: %+v", key, found)
			}
		}
		if len(c.all) != 3 {
			t.Errorf("%d are kept", len(c.all))
		}
		if c.get(t.Context(), 9); lookups != 10 {
			t.Error("the last one is not kept")
		}
		_ = all.close(t.Context())
	})
}

func TestALookupThatFailedIsRepeatedSooner(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		all := newBackground()
		failure := errors.New("broken")
		c := newCell(all, time.Hour, func(context.Context) (int, error) { return 7, failure })
		c.failed = time.Second
		c.get(t.Context())
		failure = nil
		time.Sleep(2 * time.Second)
		if found := c.get(t.Context()); found.err != nil || found.value != 7 {
			t.Errorf("found %+v", found)
		}
		_ = all.close(t.Context())
	})
}
