package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// ServiceTime is a lognormal distribution of service times.
type ServiceTime struct {
	Mean time.Duration // 1 ms to 10 h
	CV   float64       // the standard deviation divided by the mean; 0: all are alike
}

// Validate returns an error that says what is wrong, or nil.
func (s ServiceTime) Validate() error {
	switch {
	case s.Mean < time.Millisecond || s.Mean > 10*time.Hour:
		return fmt.Errorf("the mean service time %v is not from 1 ms to 10 h", s.Mean)
	case !(s.CV >= 0 && s.CV <= 100):
		return fmt.Errorf("the coefficient of variation %v is not from 0 to 100", s.CV)
	}
	return nil
}

func (s ServiceTime) String() string {
	return fmt.Sprintf("lognormal service, mean %v, CV %v", s.Mean, s.CV)
}

// drawer returns a function that draws service times.
func (s ServiceTime) drawer(source rand.Source) func() time.Duration {
	if s.CV == 0 {
		return func() time.Duration { return s.Mean }
	}
	variance := math.Log1p(s.CV * s.CV)
	lognormal := distuv.LogNormal{Mu: math.Log(s.Mean.Seconds()) - variance/2, Sigma: math.Sqrt(variance), Src: source}
	return func() time.Duration { return seconds(lognormal.Rand()) }
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
