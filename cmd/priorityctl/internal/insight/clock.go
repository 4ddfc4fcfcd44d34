package insight

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// clocksDiffer is by how much clocks may differ.
const clocksDiffer = time.Minute

// clockChecks compare Redis's clock with this machine's and the workers', and look for documents
// that only a clock that went back can have made due later.
func (s *Snapshot) clockChecks(ctx context.Context, top *Top) (checks []Check) {
	var workers Check
	withRedis, withUs, furthest := int64(0), int64(0), time.Duration(0)
	for _, w := range s.Workers {
		switch {
		case !w.Here || !w.counts:
		case w.ahead.Abs() <= clocksDiffer:
			withRedis++
		case (w.ahead + s.ahead).Abs() <= clocksDiffer:
			withUs++
		default:
			workers.processes = append(workers.processes, w)
			if w.ahead.Abs() > furthest.Abs() {
				furthest = w.ahead
			}
		}
	}
	if s.ahead.Abs() > clocksDiffer {
		agreed := ""
		switch {
		case withUs > 0:
			agreed = " and of " + Plural(withUs, "worker")
		case withRedis > 0:
			agreed = ", which is wrong: Redis agrees with " + Plural(withRedis, "worker")
		}
		checks = append(checks, finding("clock.redis", "off", off(s.ahead), "agreed", agreed))
	}
	if workers.processes != nil {
		checks = append(checks, workers.as("clock.workers", "off", off(furthest)))
	}
	if step := s.steppedBack(ctx, top.Busiest); step.Documents > 0 {
		checks = append(checks, step.as("clock.step"))
	}
	if checks == nil {
		checks = append(checks, finding("clock"))
	}
	return checks
}

// ClockOff says how far Redis's clock is from this machine's; empty: they agree.
func (s *Snapshot) ClockOff() string {
	if s.ahead.Abs() <= clocksDiffer {
		return ""
	}
	return finding("clock.redis", "off", off(s.ahead), "agreed", "").Found
}

// off says how far a clock is from another.
func off(ahead time.Duration) string {
	if ahead > 0 {
		return ago(ahead) + " ahead of"
	}
	return ago(-ahead) + " behind"
}

// steppedBack finds customers with documents that are due later, though none had a delay: a set
// that ever had such a document has a member for that.
func (s *Snapshot) steppedBack(ctx context.Context, all []Busy) (step Check) {
	pipe := s.Client.Pipeline()
	var later []Busy
	var delayed []*redis.FloatSliceCmd
	for _, b := range all {
		if b.State != nil && b.State.Rule == priority.ByLoad && b.State.Scheduled > 0 {
			later = append(later, b)
			delayed = append(delayed, pipe.ZMScore(ctx, s.Store.Keys(b.Exact()).Pending, ":counted"))
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, b := range later {
		if scores, err := delayed[i].Result(); err == nil && scores[0] == 0 {
			step.Customers, step.Documents = append(step.Customers, b.Name), step.Documents+b.State.Scheduled
		}
	}
	return step
}
