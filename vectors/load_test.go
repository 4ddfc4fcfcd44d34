package vectors_test

import (
	"testing"
	"time"

	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/vectors"
)

// The lists of load.json; README.md describes them.

// fades returns TTLs, in milliseconds, with what was submitted lately, in thousandths.
func fades() (all [][2]int64) {
	const most = 10 * day // of 512 documents
	next := numbers(3)
	lefts := []int64{1, 2, 1000, day / 3, day / 2, day - 1, day, day + 1, 3 * day / 2, 2 * day, 9*day + 1, most - 1, most, most + 1, 20 * day}
	for range 60 {
		lefts = append(lefts, 1+next(2*most/3)+next(most/3))
	}
	now := time.UnixMilli(0)
	for _, left := range lefts {
		all = append(all, [2]int64{left, fair.History{Fades: now.Add(vectors.Milliseconds(left))}.Lately(now)})
	}
	return all
}

// lasts returns what was submitted lately, in thousandths, with the TTLs, in milliseconds.
func lasts() (all [][2]int64) {
	next := numbers(4)
	latelies := []int64{1000, 1001, 1499, 1500, 1707, 2000, 3000, 7999, 8000, 511_999, 512_000}
	for range 60 {
		latelies = append(latelies, 1000+next(511_001))
	}
	now := time.UnixMilli(0)
	for _, lately := range latelies {
		var h fair.History
		h.Submitted(lately, now)
		all = append(all, [2]int64{lately, h.Fades.Sub(now).Milliseconds()})
	}
	return all
}

// loads returns what was submitted lately, pending and cost, with the load.
func loads() (all [][4]int64) {
	next := numbers(5)
	of := func(lately, pending, cost int64) {
		all = append(all, [4]int64{lately, pending, cost, fair.Load(lately, pending, cost)})
	}
	of(1000, 1, 1000)
	of(12_000, 6, 1000) // 72
	of(1000, 1, 1)
	of(512_000, 1, 1000)
	of(512_001, 1, 1000)
	of(900_000, 1, 1000)
	of(512_000, 100_000, 1)
	of(512_000, 19_531, 100_000) // just below a billion
	of(512_000, 19_532, 100_000) // just above
	of(512_000, 1_000_000_000, 999_999)
	for range 60 {
		of(1000+next(600_000), 1+next(1+next(100_000)), 1+next(1+next(100_000)))
	}
	return all
}

// turns returns how many are beyond, and the policy's turns, with the turn that one takes.
func turns() (all [][3]int64) {
	for _, turns := range []int64{0, 1, 3, 13, 62} {
		for _, beyond := range []int64{1, 2, 3, 4, 7, 8, 15, 16, 8191, 8192, 16_383, 1_000_000} {
			all = append(all, [3]int64{beyond, turns, int64(fair.Turn(beyond, int(turns)))})
		}
	}
	return all
}

// load.json is what package fair comes to.
func TestLoadVectors(t *testing.T) {
	t.Parallel()
	compare(t, "load.json", asFile(t, "lately", fades(), "left", lasts(), "loads", loads(), "turns", turns()))
}
