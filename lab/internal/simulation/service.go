package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// ServiceTime is a distribution of service times.
type ServiceTime struct {
	Shape string        // Lognormal, Exponential or Fixed
	Mean  time.Duration // 1 ms to 10 h
	// CV is the coefficient of variation, the standard deviation divided by the
	// mean. Only Lognormal uses it.
	CV float64
}

// Shapes of a ServiceTime.
const (
	Lognormal   = "lognormal"
	Exponential = "exponential"
	Fixed       = "fixed"
)

// Validate returns an error that says what is wrong, or nil.
func (s ServiceTime) Validate() error {
	switch {
	case s.Shape != Lognormal && s.Shape != Exponential && s.Shape != Fixed:
		return fmt.Errorf("service times are %s, %s or %s, not %q", Lognormal, Exponential, Fixed, s.Shape)
	case s.Mean < time.Millisecond || s.Mean > 10*time.Hour:
		return fmt.Errorf("the mean service time %v is not from 1 ms to 10 h", s.Mean)
	case s.Shape == Lognormal && !(s.CV > 0 && s.CV <= 100):
		return fmt.Errorf("the coefficient of variation %v is not more than 0 and at most 100", s.CV)
	}
	return nil
}

func (s ServiceTime) String() string {
	if s.Shape == Lognormal {
		return fmt.Sprintf("%s service, mean %v, CV %v", s.Shape, s.Mean, s.CV)
	}
	return fmt.Sprintf("%s service, mean %v", s.Shape, s.Mean)
}

// drawer returns a function that draws service times.
func (s ServiceTime) drawer(source rand.Source) func() time.Duration {
	mean := s.Mean.Seconds()
	var draw func() float64
	switch s.Shape {
	case Fixed:
		return func() time.Duration { return s.Mean }
	case Exponential:
		draw = distuv.Exponential{Rate: 1 / mean, Src: source}.Rand
	default:
		variance := math.Log1p(s.CV * s.CV)
		draw = distuv.LogNormal{Mu: math.Log(mean) - variance/2, Sigma: math.Sqrt(variance), Src: source}.Rand
	}
	return func() time.Duration { return seconds(draw()) }
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
