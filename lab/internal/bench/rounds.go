package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// lap is one contender's turn in a round. It returns a figure.
type lap func(ctx context.Context) (float64, error)

// takeTurns runs every lap once a round, in random order, so that what disturbs
// the machine disturbs all alike. The first round warms up and is discarded. It
// returns the figures of each lap.
func (b *bench) takeTurns(ctx context.Context, what string, laps []lap) ([]samples, error) {
	all := make([]samples, len(laps))
	for round := range b.rounds + 1 {
		fmt.Fprintf(b.progress, "%s: round %d of %d\n", what, round, b.rounds)
		for _, i := range rand.Perm(len(laps)) {
			figure, err := laps[i](ctx)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				all[i] = append(all[i], figure)
			}
		}
	}
	return all, nil
}

// samples are the figures of one contender, one a round.
type samples []float64

// over returns the ratio to the base within each round.
func (s samples) over(base samples) samples {
	ratios := make(samples, len(s))
	for i := range s {
		ratios[i] = s[i] / base[i]
	}
	return ratios
}

func (s samples) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func (s samples) least() float64 { return slices.Min(s) }
func (s samples) most() float64  { return slices.Max(s) }

// String returns the median and the spread.
func (s samples) String() string {
	return fmt.Sprintf("%s (%s–%s)", ratio(s.median()), ratio(s.least()), ratio(s.most()))
}
