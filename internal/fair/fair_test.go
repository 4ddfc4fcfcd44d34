package fair

import (
	"math"
	"math/big"
	"testing"
	"time"
)

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

// The begin of each turn is the least n with n^turns ≥ 4096^turn.
func TestTurns_Exact(t *testing.T) {
	t.Parallel()
	power := func(n int64, turns int) *big.Int {
		return new(big.Int).Exp(big.NewInt(n), big.NewInt(int64(turns)), nil)
	}
	for turns := 1; turns <= 254; turns++ {
		for i, begin := range Turns(turns) {
			bound := power(4096, i+1)
			if power(begin, turns).Cmp(bound) < 0 || power(begin-1, turns).Cmp(bound) >= 0 {
				t.Errorf("turn %d of %d begins at %d", i+1, turns, begin)
			}
		}
	}
}

func TestRecent_HalvesEachDay(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_123)
	var h History
	h.Submitted(64_000, now)
	for day := range 7 {
		if want := int64(64_000 >> day); h.At(now) != h || h.Recent(now) != want {
			t.Errorf("after %d days: %v, want %v", day, h.Recent(now), want)
		}
		now = now.Add(Day)
	}
	// The end belongs to it, as in Redis, but nothing is left then.
	if h.At(now) != h || h.Recent(now) != 0 || h.Recent(now.Add(-time.Millisecond)) != 500 {
		t.Errorf("after 7 days: %d, a millisecond before %d", h.Recent(now), h.Recent(now.Add(-time.Millisecond)))
	}
	if now = now.Add(time.Millisecond); h.At(now) != (History{}) || h.Recent(now) != 0 {
		t.Errorf("a millisecond later: %+v, %d", h.At(now), h.Recent(now))
	}
	h.Submitted(1e12, now)
	if got := h.Recent(now); got != 512_000 || h.Fades.Sub(now) != 10*Day {
		t.Errorf("of a billion documents %d are remembered, for %v", got, h.Fades.Sub(now))
	}
	if h.Fades = now.Add(1000 * Day); h.Recent(now) != 512_000 {
		t.Errorf("of a history that somebody set, %d are remembered", h.Recent(now))
	}
}

func TestAveragesMoveByATenth(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_123)
	var h History
	h.Done(now, 50*time.Second, true, 0)
	if h != (History{}) {
		t.Fatalf("from a document at the last level %+v is learned", h)
	}
	h.Done(now, 50*time.Second, false, 0)
	if want := (History{Latency: 500}); h != want {
		t.Fatalf("after the first: %+v, want %+v", h, want)
	}
	h.Done(now, 150*time.Second, false, 11_000) // three times as long; it counts as 8000
	if want := (History{Latency: 600, Cost: 1700, Lost: now.Add(-1000 * time.Second)}); h != want {
		t.Fatalf("after the second: %+v, want %+v", h, want)
	}
	h.Done(now, 0, true, 1)
	if want := (History{Latency: 600, Cost: 1530, Lost: now.Add(-1000 * time.Second)}); h != want {
		t.Fatalf("after one at the last level: %+v, want %+v", h, want)
	}
	late := h
	if late.Done(now, time.Hour, false, 0); late.Latency != 720 {
		t.Errorf("one that was an hour late moves %d to %d", h.Latency, late.Latency)
	}
	short := History{Latency: 1}
	if short.Done(now, 23*time.Hour, false, 0); short.Lease(Day) != 3*time.Minute {
		t.Errorf("one that was a day late makes the lease %v", short.Lease(Day))
	}
	for range 200 {
		h.Done(now, 0, false, 1)
	}
	if h.Latency < 1 || h.Cost < 1 || h.Latency > 6 || h.Cost > 6 {
		t.Errorf("after many that took no time: %+v", h)
	}
}
