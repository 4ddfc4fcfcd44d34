package insight

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// clocksDiffer is by how much clocks may differ.
const clocksDiffer = time.Minute

// clockChecks compare Redis's clock with this machine's, then the workers' with both, and look for
// documents that only a clock that went back can have made due later.
func (s *Snapshot) clockChecks(ctx context.Context, top *Top) (checks []Check) {
	var workers Check
	furthest := time.Duration(0)
	for _, w := range s.Workers {
		if w.Here && w.counts && w.ahead.Abs() > clocksDiffer && (w.ahead+s.ahead).Abs() > clocksDiffer {
			workers.processes = append(workers.processes, w)
			if w.ahead.Abs() > furthest.Abs() {
				furthest = w.ahead
			}
		}
	}
	if s.ahead.Abs() > clocksDiffer {
		checks = append(checks, finding("clock.redis", "off", off(s.ahead)))
	}
	if workers.processes != nil {
		checks = append(checks, workers.as("clock.workers", "off", off(furthest)))
	}
	if back := s.wentBack(ctx, top.Busiest); back.Documents > 0 {
		checks = append(checks, back.as("clock.back"))
	}
	if checks == nil {
		checks = append(checks, finding("clock"))
	}
	return checks
}

// off says how far a clock is from another.
func off(ahead time.Duration) string {
	if ahead > 0 {
		return ago(ahead) + " ahead of"
	}
	return ago(-ahead) + " behind"
}

// wentBack finds customers with documents that are due later, though none had a delay: a set that
// ever had such a document has a member for that.
func (s *Snapshot) wentBack(ctx context.Context, all []Busy) (back Check) {
	pipe, delayed := s.Client.Pipeline(), make([]*redis.FloatSliceCmd, len(all))
	for i, b := range all {
		if b.State != nil && b.State.Scheduled > 0 {
			delayed[i] = pipe.ZMScore(ctx, s.Store.Keys(b.Exact()).Pending, ":counted")
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, b := range all {
		if delayed[i] != nil && delayed[i].Err() == nil && delayed[i].Val()[0] == 0 {
			back.Customers, back.Documents = append(back.Customers, b.Name), back.Documents+b.State.Scheduled
		}
	}
	return back
}
