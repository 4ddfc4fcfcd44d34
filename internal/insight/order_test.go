package insight

import (
	"cmp"
	"math/rand/v2"
	"testing"

	"github.com/docpriority/priority"
)

// Compared pair by pair, the order changes as shifts says.
func TestShiftsAreWhatEveryPairOfCustomersComesTo(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 2))
	for range 50 {
		customers, last := random.IntN(40), 1+random.IntN(9)
		levels := make([][2]priority.Level, customers)
		var o order
		for i := range levels {
			levels[i] = [2]priority.Level{priority.Level(1 + random.IntN(last)), priority.Level(1 + random.IntN(4))}
			o.add(levels[i][0], levels[i][1])
		}
		var want Pairs
		before, after := make(map[[2]priority.Level]int64), make(map[[2]priority.Level]int64)
		for i, x := range levels {
			for j, y := range levels {
				if i == j {
					continue
				}
				a, b := cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])
				if b < 0 && a >= 0 {
					before[x]++
				}
				if b > 0 && a <= 0 {
					after[x]++
				}
				if i > j {
					continue // a pair counts once
				}
				want.All++
				switch {
				case a == b:
				case a == 0:
					want.Split++
				case b == 0:
					want.Merged++
				default:
					want.Reversed++
				}
			}
		}
		shifts, pairs := o.shifts()
		if pairs != want {
			t.Fatalf("%v: got %+v, not %+v", levels, pairs, want)
		}
		var seen int64
		for _, s := range shifts {
			key := [2]priority.Level{s.From, s.To}
			if s.Before*s.Customers != before[key] || s.After*s.Customers != after[key] {
				t.Fatalf("%v: got %+v, not %d and %d of all", levels, s, before[key], after[key])
			}
			seen += s.Customers
		}
		if seen != int64(customers) {
			t.Fatalf("%d customers of %d", seen, customers)
		}
	}
}

// 255 levels by both, and every pair of them in use.
func BenchmarkShifts(b *testing.B) {
	var o order
	for from := range priority.Level(255) {
		for to := range priority.Level(255) {
			o.add(from+1, to+1)
		}
	}
	for b.Loop() {
		o.shifts()
	}
}
