package vectors_test

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/redistest"
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
		all = append(all, [2]int64{left, fair.History{Fades: now.Add(milliseconds(left))}.Lately(now)})
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

// load.json is what package fair comes to, and what the scripts' expressions come to on a
// server.
func TestLoadVectors(t *testing.T) {
	t.Parallel()
	compare(t, "load.json", asFile(t, "lately", fades(), "left", lasts(), "loads", loads(), "turns", turns()))
	client := redistest.Start(t).Client()
	of := func(expression string, numbers []int64) int64 {
		args := make([]any, len(numbers))
		for i, number := range numbers {
			args[i] = number
		}
		return must(redis.NewScript("local a, b, c = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])\n"+
			"local day, floor = 86400000, math.floor\nreturn "+expression).Run(t.Context(), client, nil, args...).Int64())(t)
	}
	check := func(expression string, numbers []int64) {
		want := numbers[len(numbers)-1]
		if got := of(expression, numbers[:len(numbers)-1]); got != want {
			t.Errorf("%s of %v is %d on a server", expression, numbers, got)
		}
	}
	for _, fade := range fades() {
		check("math.min(floor(1000 * 2 ^ (a / day - 1) + 0.5), 512000)", fade[:])
	}
	for _, last := range lasts() {
		check("floor(day * (1 + math.log(a / 1000) / math.log(2)) + 0.5)", last[:])
	}
	for _, load := range loads() {
		check("math.min(math.min(a, 512000) * b * c, 1e15)", load[:])
	}
	for _, turn := range turns() {
		check("math.min(select(2, math.frexp(a)) - 1, b)", turn[:])
	}
}

// Numbers are rounded to whole ones after a power and a logarithm, whose last bits differ
// from one language to the next. No number that there can be is so near to the half that
// they decide. A TTL of which one thousandth more or less was submitted lately is between
// two whole milliseconds, and one for each number of thousandths is not near to a half.
func TestNoLastBitDecides(t *testing.T) {
	t.Parallel()
	const near = 5e-7 // of a millisecond: four times the last bit of ten days
	for thousandths := int64(500); thousandths <= 512_000; thousandths++ {
		turns := float64(day) * (1 + math.Log2((float64(thousandths)-0.5)/1000))
		if away := math.Abs(turns - math.Round(turns)); away < near {
			t.Errorf("at a TTL of %v ms it is nearly %v thousandths", turns, float64(thousandths)-0.5)
		}
		last := float64(day) * (1 + math.Log2(float64(thousandths)/1000))
		if away := math.Abs(last - math.Floor(last) - 0.5); away < near && thousandths >= 1000 {
			t.Errorf("the TTL of %d thousandths is %v ms", thousandths, last)
		}
	}
}
