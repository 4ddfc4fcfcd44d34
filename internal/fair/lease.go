package fair

import (
	"fmt"
	"time"
)

const (
	// leases is how many average latencies a lease lasts, and shortest the shortest lease.
	leases   = 20
	shortest = 3 * time.Minute
)

// LeaseOf returns the lease of an option: Day for 0.
func LeaseOf(option time.Duration) (time.Duration, error) {
	switch {
	case option == 0:
		return Day, nil
	case option < time.Second || option%time.Millisecond != 0 || option > Day:
		return 0, fmt.Errorf("Lease %v is not a whole number of milliseconds from 1 s to %v", option, Day)
	}
	return option, nil
}

// Since returns when a document was due at the latest that is presumed lost now.
func (h History) Since(now time.Time, bound time.Duration) time.Time {
	if since := now.Add(-h.Lease(bound)); since.After(h.Lost) {
		return since
	}
	return h.Lost
}

// Lease returns how long a document counts as pending, where bound is the longest.
func (h History) Lease(bound time.Duration) time.Duration {
	if h.Latency == 0 {
		return bound
	}
	return min(max(leases*time.Duration(h.Latency)*100*time.Millisecond, shortest), bound)
}
