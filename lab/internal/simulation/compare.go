package simulation

import "math"

// Contrast is a wait compared with the same wait under another choice, in seconds.
type Contrast struct {
	Wait, Than float64
	Halves     [2]float64 // Wait ÷ Than in each half of the time held back
	Felt       bool       // the difference is large enough to matter
}

// Ratio returns Wait ÷ Than.
func (c Contrast) Ratio() float64 { return ratio(c.Wait, c.Than) }

// Shorter reports whether the wait is shorter, by so much that it is felt, and in both
// halves: what shows in one of them only may be luck.
func (c Contrast) Shorter() bool { return c.Felt && max(c.Ratio(), c.Halves[0], c.Halves[1]) < 1 }

// Longer is the opposite of Shorter.
func (c Contrast) Longer() bool { return c.Felt && min(c.Ratio(), c.Halves[0], c.Halves[1]) > 1 }

func ratio(wait, than float64) float64 {
	if wait == than {
		return 1 // also where nothing waits
	}
	return wait / than
}

// Comparison is one choice compared with another.
type Comparison struct{ LightP99, WorstTenth Contrast }

// Better reports whether a wait is shorter, and none longer.
func (c Comparison) Better() bool { return c.shorter() && !c.longer() }

// Worse is the opposite of Better.
func (c Comparison) Worse() bool { return c.longer() && !c.shorter() }

func (c Comparison) shorter() bool { return c.LightP99.Shorter() || c.WorstTenth.Shorter() }
func (c Comparison) longer() bool  { return c.LightP99.Longer() || c.WorstTenth.Longer() }

// idle reports whether no wait would be felt, beside a service of so many seconds.
func (c Comparison) idle(service float64) bool {
	return max(c.LightP99.Wait, c.LightP99.Than, c.WorstTenth.Wait, c.WorstTenth.Than) < felt(0, service)
}

// felt is the least difference that matters to who waits, and is served for so many
// seconds: a twentieth of both.
func felt(wait, service float64) float64 { return (wait + service) / 20 }

// compare compares two runs of the same workload, whose documents are served for so
// many seconds on average.
func compare(a, b *Choice, service float64) Comparison {
	contrast := func(measure string) Contrast {
		wait, than := a.Judged[measure], b.Judged[measure]
		c := Contrast{Wait: wait, Than: than, Felt: math.Abs(wait-than) >= felt(than, service)}
		for i := range c.Halves {
			c.Halves[i] = ratio(a.halves[i][measure], b.halves[i][measure])
		}
		return c
	}
	return Comparison{contrast(lightP99), contrast(worstTenth)}
}
