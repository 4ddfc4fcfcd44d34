package fair

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestALoadIsLatelyTimesPendingTimesCost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ lately, pending, cost, want int64 }{
		{1000, 1, 1000, 1e6},
		{12_000, 6, 1000, 72e6},
		{1500, 3, 500, 2_250_000},
		{1, 1, 1, 1},
		{512_000, 1, 1000, 512e6},
		{512_001, 1, 1000, 512e6}, // more is not remembered
		{math.MaxInt64, 64, 1000, 32768e6},
		{512_000, 1_000_000, 1000, 512e12},
		{512_000, 1_000_000, 1953, 512e12 * 1.953},
		{512_000, 1_000_000, 1954, 1e15},
		{512_000, 1_000_000_000, MaxCost, 1e15},
	} {
		if got := Load(test.lately, test.pending, test.cost); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}

func TestMillionthsAreRounded(t *testing.T) {
	t.Parallel()
	for load, want := range map[float64]int64{
		0: 0, 1e-6: 1, 1.4e-6: 1, 1.5e-6: 2, 2: 2e6, 32768: 32768e6, 0.1 + 0.2: 300_000, MaxLoad: 1e15, 2 * MaxLoad: 1e15, math.MaxFloat64: 1e15,
	} {
		if got := Millionths(load); got != want {
			t.Errorf("%v: %d, want %d", load, got, want)
		}
	}
}

// The last two loads are always there, which keep floods from those who send all day.
func TestFewerLevelsJoinTheFirstOnes(t *testing.T) {
	t.Parallel()
	for levels, want := range [][]float64{
		{}, {}, {32768}, {8192, 32768}, {128, 8192, 32768}, {8, 512, 8192, 32768},
		{8, 128, 512, 8192, 32768}, {2, 32, 128, 2048, 8192, 32768}, {2, 8, 128, 512, 2048, 8192, 32768}, defaultLoads, defaultLoads, defaultLoads,
	} {
		got := Loads(levels)
		if len(got) != len(want) || !slices.Equal(got, want) {
			t.Errorf("%d levels: %v, want %v", levels, got, want)
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("%d levels: %v", levels, got)
		}
	}
	Loads(5)[0] = -1
	if defaultLoads[1] != 8 {
		t.Error("the default loads were changed")
	}
}

func TestATurnIsALogarithm(t *testing.T) {
	t.Parallel()
	for beyond, want := range map[int64]int{1: 0, 2: 1, 3: 1, 4: 2, 7: 2, 8: 3, 4095: 11, 4096: 12, 8191: 12, 8192: 13, 1 << 40: 13} {
		if got := Turn(beyond, 13); got != want {
			t.Errorf("the %d-th takes turn %d, want %d", beyond, got, want)
		}
		if got := Turn(beyond, 0); got != 0 {
			t.Errorf("without turns the %d-th takes turn %d", beyond, got)
		}
	}
}

func TestMoreIsNeverBetter(t *testing.T) {
	t.Parallel()
	for range 1000 {
		lately, pending, cost := rand.Int64N(600_001), 1+rand.Int64N(1e6), 1+rand.Int64N(MaxCost)
		load := Load(lately, pending, cost)
		for _, more := range []int64{Load(lately+1, pending, cost), Load(lately, pending+1, cost), Load(lately, pending, cost+1)} {
			if load < 0 || load > 1e15 || more < load {
				t.Fatalf("the load of %d, %d and %d is %d, and of more of it %d", lately, pending, cost, load, more)
			}
		}
	}
}

// What is written and read again many times is still what was submitted, to a thousandth.
func TestLatelyIsWhatWasSubmitted(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_123)
	var h History
	for n := int64(1000); n <= 600_000; n += 1000 {
		h.Submitted(h.Lately(now)+1000, now)
		if got := h.Lately(now); got != min(n, 512_000) {
			t.Fatalf("after %d thousandths it is %d", n, got)
		}
	}
}

func TestLatelyHalvesEachDay(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_123)
	var h History
	h.Submitted(64_000, now)
	for day := range 7 {
		if want := int64(64_000 >> day); h.At(now) != h || h.Lately(now) != want {
			t.Errorf("after %d days: %v, want %v", day, h.Lately(now), want)
		}
		now = now.Add(Day)
	}
	// The end belongs to it, as in Redis, but nothing is left then.
	if h.At(now) != h || h.Lately(now) != 0 || h.Lately(now.Add(-time.Millisecond)) != 500 {
		t.Errorf("after 7 days: %d, a millisecond before %d", h.Lately(now), h.Lately(now.Add(-time.Millisecond)))
	}
	if now = now.Add(time.Millisecond); h.At(now) != (History{}) || h.Lately(now) != 0 {
		t.Errorf("a millisecond later: %+v, %d", h.At(now), h.Lately(now))
	}
	h.Submitted(1e12, now)
	if got := h.Lately(now); got != 512_000 || h.Fades.Sub(now) != 10*Day {
		t.Errorf("of a billion documents %d are remembered, for %v", got, h.Fades.Sub(now))
	}
	if h.Fades = now.Add(1000 * Day); h.Lately(now) != 512_000 {
		t.Errorf("of a history that somebody set, %d are remembered", h.Lately(now))
	}
}

func TestALeaseIsTwentySojourns(t *testing.T) {
	t.Parallel()
	for sojourn, want := range map[int64]time.Duration{
		0:       Day, // not known
		1:       3 * time.Minute,
		90:      3 * time.Minute,
		91:      182 * time.Second,
		36_000:  20 * time.Hour,
		43_200:  Day,
		864_000: Day,
	} {
		if got := (History{Sojourn: sojourn}).Lease(Day); got != want {
			t.Errorf("sojourn %d: lease %v, want %v", sojourn, got, want)
		}
	}
	for _, sojourn := range []int64{0, 1, 36_000} {
		if got := (History{Sojourn: sojourn}).Lease(time.Minute); got != time.Minute {
			t.Errorf("sojourn %d: lease %v with a bound of a minute", sojourn, got)
		}
	}
}

func TestAveragesMoveByATenth(t *testing.T) {
	t.Parallel()
	var h History
	h.Done(50*time.Second, true, 0)
	if h != (History{}) {
		t.Fatalf("from a document at the last level %+v is learned", h)
	}
	h.Done(50*time.Second, false, 0)
	if want := (History{Sojourn: 500}); h != want {
		t.Fatalf("after the first: %+v, want %+v", h, want)
	}
	h.Done(150*time.Second, false, 11_000) // three times as long
	if want := (History{Sojourn: 600, Cost: 2000}); h != want {
		t.Fatalf("after the second: %+v, want %+v", h, want)
	}
	h.Done(0, true, 1)
	if want := (History{Sojourn: 600, Cost: 1800}); h != want {
		t.Fatalf("after one at the last level: %+v, want %+v", h, want)
	}
	late := h
	if late.Done(time.Hour, false, 0); late.Sojourn != 720 {
		t.Errorf("one that was an hour late moves %d to %d", h.Sojourn, late.Sojourn)
	}
	short := History{Sojourn: 1}
	if short.Done(23*time.Hour, false, 0); short.Lease(Day) != 3*time.Minute {
		t.Errorf("one that was a day late makes the lease %v", short.Lease(Day))
	}
	for range 200 {
		h.Done(0, false, 1)
	}
	if h.Sojourn < 1 || h.Cost < 1 || h.Sojourn > 6 || h.Cost > 6 {
		t.Errorf("after many that took no time: %+v", h)
	}
}

func TestAMeanIsKnownAfterAHundredDocuments(t *testing.T) {
	t.Parallel()
	var m Mean
	for i := range 99 {
		if m.Add(2); m.Relative(2) != 0 {
			t.Fatalf("after %d documents the mean is known", i+1)
		}
	}
	m.Add(0)
	m.Add(-1)
	if got := m.Relative(2); got != 0 {
		t.Errorf("after 99 documents of a known cost the mean is known: %d", got)
	}
	m.Add(2)
	for cost, want := range map[float64]int64{
		-1: 0, 0: 0, math.SmallestNonzeroFloat64: 1, 0.001: 1, 0.0029: 1, 0.0031: 2, 1: 500, 2: 1000, 3: 1500,
		199: 99_500, 200: MaxCost, 201: MaxCost, math.MaxFloat64: MaxCost,
	} {
		if got := m.Relative(cost); got != want {
			t.Errorf("%v costs %d, want %d", cost, got, want)
		}
	}
	if got := Each(20*time.Second, 10); got != 2 || Each(time.Second, 0) != 1 || Each(100*Day, 1) != 86_400 {
		t.Errorf("of ten each took %v", got)
	}
}

// A Mean follows what documents cost now.
func TestAMeanForgets(t *testing.T) {
	t.Parallel()
	var m Mean
	for range 1000 {
		m.Add(10)
	}
	for range 10_000 {
		m.Add(1)
	}
	if got := m.Relative(1); got < 990 || got > 1000 {
		t.Errorf("ten thousand documents later one of 1 costs %d", got)
	}
}

// One mistake, such as bytes for pages, or a worker that stood still for hours, does not
// make all other documents cheap.
func TestAMeanStandsMistakes(t *testing.T) {
	t.Parallel()
	var first, later Mean
	first.Add(Each(math.MaxInt64, 1))
	for range 1000 {
		first.Add(1)
		later.Add(1)
	}
	for range 12 {
		later.Add(7200)
		later.Add(math.MaxFloat64)
	}
	if got := later.Relative(1); got < 600 {
		t.Errorf("a document as usual costs %d after some mistakes", got)
	}
	for range 9000 {
		first.Add(1)
	}
	if got := first.Relative(1); got < 900 {
		t.Errorf("a document as usual costs %d long after a mistake in the beginning", got)
	}

	// However wild the first ones are, what follows is a number.
	var wild Mean
	for range 200 {
		wild.Add(math.MaxFloat64)
	}
	wild.Add(1)
	if got := wild.Relative(math.MaxFloat64); got < 1000 || got > 1200 {
		t.Errorf("a document like the others costs %d", got)
	}
}

func TestAMeanIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var m Mean
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 1000 {
				m.Add(.5)
				m.Relative(1)
			}
		})
	}
	running.Wait()
	if got := m.Relative(1); got != 2000 {
		t.Errorf("got %d thousandths of a half", got)
	}
}
