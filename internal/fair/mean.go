package fair

import (
	"sync"
	"time"
)

const (
	// enough is how many documents a Mean must have seen to be known, and what a batch
	// counts as at most; memory is of about how many it is the mean.
	enough, memory = 100, 1000

	// MaxCost is the greatest relative cost, in thousandths. What is longer is likely
	// a mistake, or others' documents are so short for a while.
	MaxCost = 100_000

	// outlier is how many times as long as the mean a document may take to be counted
	// as it is: one that took longer, such as one whose worker stood still, would
	// change what all customers' documents cost.
	outlier = 20
)

// Mean is how long a process's documents take, those of all customers, the latest
// about a thousand. It is safe for concurrent use. The zero Mean is ready to use.
type Mean struct {
	mu   sync.Mutex
	seen float64
	mean float64 // seconds
}

// Relative returns how long each of n documents took that took a time together, in
// thousandths of the mean, from 1 to MaxCost; 0: the time or the mean is not known.
func (m *Mean) Relative(took time.Duration, n int) int64 {
	if took <= 0 || n < 1 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen < enough {
		return 0
	}
	return int64(min(max(1000*took.Seconds()/float64(n)/m.mean+0.5, 1), MaxCost))
}

// Add adds some of n documents that took a time together.
func (m *Mean) Add(took time.Duration, n, some int) {
	if took <= 0 || n < 1 || some < 1 {
		return
	}
	each := min(took, Day).Seconds() / float64(n)
	weight := float64(min(some, enough))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen >= enough {
		each = min(each, outlier*m.mean)
	}
	m.seen = min(m.seen+weight, memory)
	m.mean += (each - m.mean) * weight / m.seen
}
