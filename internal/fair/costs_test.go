package fair

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// What costs come to vectors/costs.json says.

// TestCosts_NoLever has one customer send what they like, beside others of random kinds.
func TestCosts_NoLever(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	anyCost := func(most float64) float64 { return math.Exp(most * (2*random.Float64() - 1)) }
	for range 500 {
		others := 2 + random.IntN(20)
		if random.IntN(10) == 0 {
			others = 2 + random.IntN(300)
		}
		apart := 10 * random.Float64()
		kinds := []float64{anyCost(apart), anyCost(apart), anyCost(apart)}[:1+random.IntN(3)]
		var c Costs
		for i := range others {
			for range 1 + random.IntN(4) {
				c.Add(fmt.Sprint(i), kinds[random.IntN(len(kinds))])
			}
		}
		difference := float64(c.medians[others-1]-c.medians[0]) / 1e9
		inTheMiddle := others + 1 - 2*((others+3)/5)
		bound := math.Exp(difference / float64(inTheMiddle))
		least, most := math.Inf(1), 0.
		for sent := range 20 {
			if others+min(sent, 1) >= enough {
				c.Relative(1)
				least, most = min(least, c.usual), max(most, c.usual)
			}
			c.Add("one", anyCost([]float64{apart, 700}[random.IntN(2)]))
		}
		if most > least*bound*(1+1e-8) {
			t.Fatalf("seed %d: one customer beside %d, who are e^%.2f apart, moves the usual cost by a factor of %v, more than %v",
				seed, others, difference, most/least, bound)
		}
	}
}

func TestCosts_Concurrent(t *testing.T) {
	t.Parallel()
	var c Costs
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for n := range 1000 {
				c.Add(fmt.Sprint(i, n%300), .5)
				c.Relative(1)
			}
		})
	}
	running.Wait()
	if got := c.Relative(1); got != 2000 || !slices.IsSorted(c.medians) || len(c.medians) != mostCustomers {
		t.Errorf("got %d thousandths of a half", got)
	}
}
