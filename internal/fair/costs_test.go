package fair

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// costsOf returns costs of so many customers, each of whom has one document of each cost.
func costsOf(customers int, each ...float64) *Costs {
	c := new(Costs)
	for i := range customers {
		for _, cost := range each {
			c.Add(fmt.Sprint(i), cost)
		}
	}
	return c
}

func TestCosts_Known(t *testing.T) {
	t.Parallel()
	c := costsOf(enough-1, 2, 2, 2)
	c.Add("free", 0)
	c.Add("wrong", -1)
	if got := c.Relative(2); got != 0 {
		t.Errorf("with %d customers a cost is %d", enough-1, got)
	}
	c.Add("one more", 2)
	for cost, want := range map[float64]int64{
		-1: 0, 0: 0, math.SmallestNonzeroFloat64: 1, 0.001: 1, 0.0029: 1, 0.0031: 2, 1: 500, 2: 1000, 3: 1500,
		199: 99_500, 200: MaxCost, 201: MaxCost, math.MaxFloat64: MaxCost,
	} {
		if got := c.Relative(cost); got != want {
			t.Errorf("%v costs %d, want %d", cost, got, want)
		}
	}
}

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

func TestCosts_NoLeverOnTwoKinds(t *testing.T) {
	t.Parallel()
	for _, cost := range []float64{1e-300, 1, 100, 1e300} {
		c := costsOf(100, 1)
		for i := range 100 {
			c.Add(fmt.Sprint("dear ", i), 100)
		}
		before := float64(c.Relative(100))
		c.Add("new", cost)
		if factor := before / float64(c.Relative(100)); math.Abs(math.Log(factor)) > math.Log1p(4./201) {
			t.Errorf("a document of %v moves the usual cost by a factor of %v", cost, factor)
		}
	}
}

func TestCosts_Bounded(t *testing.T) {
	t.Parallel()
	c := costsOf(mostCustomers, 5)
	c.Add("0", 5) // the oldest, though it has just sent something
	for i := range mostCustomers / 2 {
		c.Add(fmt.Sprint("new ", i), 10)
	}
	if c.customers["0"] != nil || c.customers["499"] != nil || c.customers["500"] == nil || c.customers["new 499"] == nil {
		t.Error("others than the oldest customers were replaced")
	}
	if got := c.Relative(5); got != 707 {
		t.Errorf("with half of the customers at 10 a document of 5 costs %d", got)
	}
	for i := range 3 * mostCustomers {
		c.Add(fmt.Sprint("newer ", i), 20)
	}
	if len(c.customers) != mostCustomers || len(c.names) != mostCustomers || len(c.medians) != mostCustomers || c.medians[0] != logarithm(20) {
		t.Errorf("%d customers, %d names, %d medians", len(c.customers), len(c.names), len(c.medians))
	}
}

func TestCosts_Each(t *testing.T) {
	t.Parallel()
	if got := Each(20*time.Second, 10); got != 2 || Each(time.Second, 0) != 1 || Each(100*Day, 1) != 86_400 {
		t.Errorf("of ten each took %v", got)
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

// BenchmarkCosts has a thousand customers, and a document compared and added.
func BenchmarkCosts(b *testing.B) {
	c := costsOf(mostCustomers, 1, 2, 3)
	customers := slices.Collect(maps.Keys(c.customers))
	for i := 0; b.Loop(); i++ {
		c.Relative(2)
		c.Add(customers[i%len(customers)], float64(1+i%100))
	}
}
