package fair

import (
	"fmt"
	"math"
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
	if got := c.Relative(5); got != 500 {
		t.Errorf("with half of the customers at 10 a document of 5 costs %d", got)
	}
	for i := range 3 * mostCustomers {
		c.Add(fmt.Sprint("newer ", i), 20)
	}
	if len(c.customers) != mostCustomers || len(c.names) != mostCustomers || len(c.medians) != mostCustomers || c.medians[0] != 20 {
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
