package fair

import (
	"sync"
	"time"
)

const (
	// enough is how many documents a Mean must have seen to be known; memory is of about
	// how many it is the mean.
	enough, memory = 100, 1000

	// MaxCost is the greatest relative cost, in thousandths. What is more is likely a
	// mistake, or others' documents are so cheap for a while.
	MaxCost = 100_000

	// outlier is how many times as much as the mean a document may cost to be counted as
	// it is: one that cost more, such as one whose worker stood still, would change what
	// all customers' documents cost.
	outlier = 20
)

// Mean is what a process's documents cost, of all customers, the latest about a thousand:
// the time that they took, or what Submit was told. It is safe for concurrent use. The
// zero Mean is ready to use.
type Mean struct {
	mu   sync.Mutex
	seen float64
	mean float64
}

// Relative returns a cost in thousandths of the mean, from 1 to MaxCost; 0: the cost or
// the mean is not known.
func (m *Mean) Relative(cost float64) int64 {
	if cost <= 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen < enough {
		return 0
	}
	thousandths := float64(1000 * (cost / m.mean)) // rounded, as other languages do: no fused multiply-add
	return int64(min(max(thousandths+0.5, 1), MaxCost))
}

// Add adds a document; 0: its cost is not known.
func (m *Mean) Add(cost float64) {
	if cost <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen >= enough {
		cost = min(cost, outlier*m.mean)
	}
	m.seen = min(m.seen+1, memory)
	m.mean += (cost - m.mean) / m.seen
}

// Each returns the seconds that each of n documents took which took a time together.
func Each(took time.Duration, n int) float64 { return min(took, Day).Seconds() / float64(max(n, 1)) }
