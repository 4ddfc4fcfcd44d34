package insight

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Latency is the latency of many round trips, in microseconds.
type Latency struct {
	MedianUS int64 `json:"median_us"`
	MaxUS    int64 `json:"max_us"`
}

// String is what a person reads.
func (l Latency) String() string {
	return fmt.Sprintf("median %s, at most %s", Span(time.Duration(l.MedianUS)*time.Microsecond), Span(time.Duration(l.MaxUS)*time.Microsecond))
}

// measure times calls, but not the first, which may connect or load a script.
func (e *examination) measure(ctx context.Context, call func() error) (Latency, error) {
	took := make([]time.Duration, 0, e.count)
	for i := range e.count + 1 {
		if err := ctx.Err(); err != nil {
			return Latency{}, err
		}
		start := time.Now()
		if err := call(); err != nil {
			return Latency{}, err
		}
		if i > 0 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return Latency{took[len(took)/2].Microseconds(), took[len(took)-1].Microseconds()}, nil
}
