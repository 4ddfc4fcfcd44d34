package fair

import (
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var usual = ScaleOf([]int64{-2, -4, -6, -8, -10, -12, -14, -20})

func TestALevelIsTheMeanOfTwo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		usage         float64
		pending, cost int64
		want          int
	}{
		{1, 1, 1000, 1},
		{2, 4, 1000, 1},
		{3, 4, 1000, 2},   // 2 and 1
		{4, 5, 1000, 2},   // 2 and 2
		{5, 5, 1000, 3},   // 3 and 2
		{256, 1, 1000, 5}, // 8 and 1
		{257, 1, 1000, 5}, // 9 and 1
		{1e9, 4, 1000, 5},
		{1e9, 9, 1000, 6},
		{1e9, 256, 1000, 8},
		{1e9, 257, 1000, 9}, // 9 and 8
		{1, 1_000_000, 1000, 5},
		{1e9, 1, 4000, 5}, // as 4 pending ones
		{1e9, 1, 4001, 6},
		{1e9, 4, 500, 5},
		{1e9, 8, 500, 5},
		{1e9, 1, MaxCost, 8},
		{1e9, 3, MaxCost, 9},
	} {
		level, last := usual.Level(test.usage, test.pending, test.cost)
		if level != test.want || last != (test.want == 9) {
			t.Errorf("usage %v, %d pending at %d: level %d (last: %t), want %d", test.usage, test.pending, test.cost, level, last, test.want)
		}
	}
}

// A policy's first threshold is its scale, and its levels are those of nine that it
// has.
func TestAPolicyHasItsOwnScale(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		thresholds []int64
		first      int64
		want       []int // for the levels 1 to 9
	}{
		{[]int64{}, 1, []int{1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{[]int64{-7}, 7, []int{1, 1, 1, 1, 1, 1, 1, 1, 2}},
		{[]int64{-20, -30}, 20, []int{1, 1, 1, 1, 1, 1, 2, 2, 3}},
		{[]int64{5, 0, -1, -2}, 1, []int{1, 1, 2, 2, 3, 3, 4, 4, 5}},
		{make([]int64, 3), 1, []int{1, 1, 1, 2, 2, 2, 3, 3, 4}},
		{make([]int64, 7), 1, []int{1, 2, 3, 4, 5, 6, 7, 7, 8}},
		{make([]int64, 8), 1, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{make([]int64, 254), 1, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		scale := ScaleOf(test.thresholds)
		if scale.First != test.first {
			t.Errorf("%v: the first is %d, want %d", test.thresholds, scale.First, test.first)
		}
		for i, want := range test.want {
			// Usage and what is pending on the same level.
			many := test.first << i
			level, last := scale.Level(float64(many), 2*many, 1000)
			if level != want || last != (i == 8) || last && level != scale.Last() {
				t.Errorf("%d thresholds: level %d for %d of 9, want %d", len(test.thresholds), level, i+1, want)
			}
		}
	}
}

func TestMoreIsNeverBetter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scale := Scale{First: rapid.Int64Range(1, 1<<53).Draw(t, "first"), Levels: rapid.IntRange(1, 255).Draw(t, "levels")}
		usage := rapid.Float64Range(0, 1e15).Draw(t, "usage")
		pending := rapid.Int64Range(1, 1e6).Draw(t, "pending")
		cost := rapid.Int64Range(1, MaxCost).Draw(t, "cost")
		level, _ := scale.Level(usage, pending, cost)
		if level < 1 || level > scale.Last() || scale.Last() > scale.Levels {
			t.Fatalf("level %d of %d, the last is %d", level, scale.Levels, scale.Last())
		}
		for _, more := range []func() (int, bool){
			func() (int, bool) { return scale.Level(2*usage+1, pending, cost) },
			func() (int, bool) { return scale.Level(usage, pending+1, cost) },
			func() (int, bool) { return scale.Level(usage, pending, cost+1) },
		} {
			if worse, _ := more(); worse < level {
				t.Fatalf("more of it is level %d, and less is %d", worse, level)
			}
		}
	})
}

// What is written and read again many times is still what was submitted.
func TestUsageIsWhatWasSubmitted(t *testing.T) {
	t.Parallel()
	now, scale := time.UnixMilli(1_700_000_000_123), Scale{First: 1 << 20, Levels: 9}
	var h History
	for n := 1.0; n <= 10_000; n++ {
		h.Used(h.Usage(now)+1, now, scale)
		if got := h.Usage(now); math.Abs(got-n) > n*tolerance {
			t.Fatalf("after %v documents the usage is %.9f", n, got)
		}
	}
}

func TestUsageHalvesEachDay(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_123)
	var h History
	h.Used(64, now, usual)
	for day := range 8 {
		if want := 64 / math.Exp2(float64(day)); h.At(now) == (History{}) || math.Abs(h.Usage(now)-want) > want*tolerance && day < 7 {
			t.Errorf("after %d days: %v, want %v", day, h.Usage(now), want)
		}
		now = now.Add(Day)
		if day == 6 {
			now = now.Add(-time.Millisecond) // the last moment
		}
	}
	if now = now.Add(-Day + time.Millisecond); h.At(now) != (History{}) || h.Usage(now) != 0 {
		t.Errorf("after 7 days: %+v, %v", h, h.Usage(now))
	}
	h.Used(1e9, now, usual)
	if got := h.Usage(now); math.Abs(got-512) > 512*tolerance {
		t.Errorf("of a billion documents %v are remembered", got)
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
		if m.Add(2*time.Second, 1, 1); m.Relative(2*time.Second, 1) != 0 {
			t.Fatalf("after %d documents the mean is known", i+1)
		}
	}
	m.Add(0, 1, 1)
	m.Add(-1, 1, 1)
	m.Add(time.Hour, 10, 0) // none of them was pending
	if got := m.Relative(2*time.Second, 1); got != 0 {
		t.Errorf("after 99 documents of a known length the mean is known: %d", got)
	}
	m.Add(2*time.Second, 1, 1)
	for took, want := range map[time.Duration]int64{
		-1: 0, 0: 0, 1: 1, 2 * time.Second: 1000, 3 * time.Second: 1500, time.Hour: MaxCost, math.MaxInt64: MaxCost,
	} {
		if got := m.Relative(took, 1); got != want {
			t.Errorf("%v costs %d, want %d", took, got, want)
		}
	}
	if got := m.Relative(20*time.Second, 10); got != 1000 {
		t.Errorf("ten alike cost %d each, want 1000", got)
	}
}

// A Mean follows what documents take now.
func TestAMeanForgets(t *testing.T) {
	t.Parallel()
	var m Mean
	m.Add(10_000*time.Second, 1000, 1000)
	for range 10_000 {
		m.Add(time.Second, 1, 1)
	}
	if got := m.Relative(time.Second, 1); got < 990 || got > 1000 {
		t.Errorf("ten thousand documents later one of a second costs %d", got)
	}
}

// One mistake, such as the time since the beginning of time, or a worker that stood
// still for hours, does not make all other documents cheap.
func TestAMeanStandsMistakes(t *testing.T) {
	t.Parallel()
	var first, later Mean
	first.Add(math.MaxInt64, 1, 1)
	for range 1000 {
		first.Add(time.Second, 1, 1)
		later.Add(time.Second, 1, 1)
	}
	for range 12 {
		later.Add(2*time.Hour, 1, 1)
		later.Add(math.MaxInt64, 1, 1)
	}
	if got := later.Relative(time.Second, 1); got < 600 {
		t.Errorf("a document as usual costs %d after some mistakes", got)
	}
	for range 9000 {
		first.Add(time.Second, 1, 1)
	}
	if got := first.Relative(time.Second, 1); got < 900 {
		t.Errorf("a document as usual costs %d long after a mistake in the beginning", got)
	}
}

func TestAMeanIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var m Mean
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 1000 {
				m.Add(time.Second, 2, 2)
				m.Relative(time.Second, 2)
			}
		})
	}
	running.Wait()
	if got := m.Relative(time.Second, 1); got != 2000 {
		t.Errorf("got %d thousandths of half a second", got)
	}
}
