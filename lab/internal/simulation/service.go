package simulation

import (
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// Service times are lognormal, with a standard deviation that equals the mean.
const usualService = 2 * time.Second

// ServiceTimes says what service times are drawn from.
const ServiceTimes = "lognormal service, mean 2s, CV 1"

// serviceTimes returns a function that draws service times.
func serviceTimes(seed uint64) func() time.Duration {
	lognormal := distuv.LogNormal{
		Mu: math.Log(usualService.Seconds()) - math.Ln2/2, Sigma: math.Sqrt(math.Ln2), Src: rand.NewPCG(seed, streamOfServices),
	}
	return func() time.Duration { return seconds(lognormal.Rand()) }
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
