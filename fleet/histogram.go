package fleet

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Histogram counts documents by how long they waited. Bucket i, 0 to 107, counts waits of
// at most 2^(i/4) milliseconds that are too long for bucket i-1; bucket 107 counts 31 hours
// and more.
type Histogram map[int]int64

const lastBucket = 107

// bucketOf returns the bucket of a wait.
func bucketOf(wait time.Duration) int {
	ms := wait.Milliseconds()
	if ms <= 1 {
		return 0
	}
	return min(int(math.Ceil(4*math.Log2(float64(ms)))), lastBucket)
}

// isCredible reports whether a process could have counted so.
func (h Histogram) isCredible() bool {
	for i, n := range h {
		if i < 0 || i > lastBucket || !isNumber(n) {
			return false
		}
	}
	return true
}

// Count returns the number of documents.
func (h Histogram) Count() int64 {
	var all int64
	for _, n := range h {
		all += n
	}
	return all
}

// Quantile returns the time within which the share q of the documents ended, for
// example .95. It is at most 19 % too long, and 0 if there are no documents.
func (h Histogram) Quantile(q float64) time.Duration {
	left := max(int64(math.Ceil(q*float64(h.Count()))), 1)
	for _, i := range slices.Sorted(maps.Keys(h)) {
		if left -= h[i]; left <= 0 {
			return time.Duration(math.Pow(2, float64(i)/4) * float64(time.Millisecond))
		}
	}
	return 0
}

// Median returns Quantile(.5).
func (h Histogram) Median() time.Duration { return h.Quantile(.5) }

// P95 returns Quantile(.95).
func (h Histogram) P95() time.Duration { return h.Quantile(.95) }

// coarser returns the histogram with every n buckets merged into the last.
func (h Histogram) coarser(n int) Histogram {
	c := make(Histogram)
	for i, documents := range h {
		c[min((i+n-1)/n*n, lastBucket)] += documents
	}
	return c
}
