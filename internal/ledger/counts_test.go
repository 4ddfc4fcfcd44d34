package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCountsAgreeWithAMap adds counts in any order and more than once.
func TestCountsAgreeWithAMap(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		width := 1 + random.IntN(60)
		var c counts
		times := make(map[int64]int)
		for range random.IntN(120) {
			count := -int64(random.IntN(width))
			c.add(count)
			times[count]++

			repeated := 0
			for _, n := range times {
				repeated += n - 1
			}
			if c.repeated != repeated {
				t.Fatalf("seed %d: %d repeated, want %d", seed, c.repeated, repeated)
			}
			if want := spansOf(times); !slices.Equal(c.spans, want) {
				t.Fatalf("seed %d: after %d the spans are %v, want %v", seed, count, c.spans, want)
			}
		}
	}
}

// TestCountsStaySmall adds a million counts as concurrent callers do: nearly in
// order, some missing.
func TestCountsStaySmall(t *testing.T) {
	const documents, callers, gaps = 1_000_000, 64, 10
	random := rand.New(rand.NewPCG(1, 2))
	var c counts
	for first := 0; first < documents; first += callers {
		for _, i := range random.Perm(callers) {
			if n := first + i; n%(documents/gaps) != 1 {
				c.add(-int64(n))
			}
		}
		if len(c.spans) > gaps+callers {
			t.Fatalf("%d spans after %d documents", len(c.spans), first)
		}
	}
	if len(c.spans) != gaps+1 || c.repeated != 0 {
		t.Fatalf("%d spans, %d repeated, want %d and 0", len(c.spans), c.repeated, gaps+1)
	}
	if cap(c.spans) > 4*callers {
		t.Fatalf("the spans have room for %d", cap(c.spans))
	}
}

// spansOf returns the spans of a map's keys.
func spansOf(times map[int64]int) []span {
	var all []int64
	for count := range times {
		all = append(all, count)
	}
	slices.Sort(all)
	slices.Reverse(all)
	var spans []span
	for _, count := range all {
		if n := len(spans); n > 0 && spans[n-1].last == count+1 {
			spans[n-1].last = count
		} else {
			spans = append(spans, span{count, count})
		}
	}
	return spans
}
