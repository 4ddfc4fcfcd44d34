package fallback

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// mostHung bounds the customers whose calls are known to hang. Calls for others wait
// for the primary.
const mostHung = 10_000

// hung are customers for whom the primary fails while it works for others, for instance
// because their node hangs. Only their calls go to the secondary at once. Probes find
// them, and find out when the primary works for them again.
type hung struct {
	n         atomic.Int32
	mu        sync.RWMutex
	customers map[string]bool
}

func (h *hung) any() bool { return h.n.Load() > 0 }

func (h *hung) has(customer string) bool {
	if !h.any() {
		return false
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.customers[customer]
}

func (h *hung) add(customer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.customers == nil {
		h.customers = make(map[string]bool)
	}
	if len(h.customers) < mostHung {
		h.customers[customer] = true
	}
	h.n.Store(int32(len(h.customers)))
}

func (h *hung) remove(customer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.customers, customer)
	h.n.Store(int32(len(h.customers)))
}

// all returns the customers, in no order.
func (h *hung) all() []string {
	if !h.any() {
		return nil
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Keys(h.customers))
}
