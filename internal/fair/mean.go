package fair

import (
	"sync"
	"time"
)

const (
	// enough is how many documents a Mean must have seen to be known, and what a batch
	// counts as at most; memory is of about how many it is the mean.
	enough, memory = 100, 1000

	// MaxCost is the greatest relative cost, in thousandths.
	MaxCost = 999_999
)

// Mean is how long a process's documents take, those of all customers, the latest
// about a thousand. It is safe for concurrent use. The zero Mean is ready to use.
type Mean struct {
	mu   sync.Mutex
	seen float64
	mean float64 // seconds
}

// Relative adds n documents that took a time together, and returns how long each of
// them took, in thousandths of the mean, from 1 to MaxCost; 0: the time or the mean
// is not known.
func (m *Mean) Relative(took time.Duration, n int) int64 {
	if took <= 0 || n < 1 {
		return 0
	}
	each := took.Seconds() / float64(n)
	weight := float64(min(n, enough))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = min(m.seen+weight, memory)
	m.mean += (each - m.mean) * weight / m.seen
	if m.seen < enough {
		return 0
	}
	return min(max(int64(1000*each/m.mean+0.5), 1), MaxCost)
}
