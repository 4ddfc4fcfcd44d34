//go:build !race

package simulation

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// crowd is a workload in which the i-th customer sends i%50+1 documents of a
// second, one after the other. The last is in a group apart.
func crowd(customers int) *Workload {
	w := newWorkload(nil)
	for i := range customers {
		w.Customers = append(w.Customers, fmt.Sprint("c", i))
		w.GroupOf = append(w.GroupOf, 0)
	}
	last := w.addApart(Flooder)
	for customer := range last + 1 {
		for range customer%50 + 1 {
			w.Documents = append(w.Documents, Document{Customer: customer, Submitted: time.Duration(customer) * time.Second, Service: time.Second})
		}
	}
	w.sort()
	w.To = time.Duration(last+1) * time.Second
	return w
}

func TestSeriesHaveAFewDotsForManyCustomers(t *testing.T) {
	for _, customers := range []int{0, 1, maxDots - 1, maxDots, 100_000} {
		w := crowd(customers)
		starts, err := Run(w, 20, newFirstCome(w))
		if err != nil {
			t.Fatal(err)
		}
		dots := newSeries(w, starts, newFirstCome(w)).Dots
		if len(dots) > maxDots || customers < maxDots && len(dots) != customers+1 {
			t.Errorf("%d dots for %d customers", len(dots), customers+1)
		}
		stoodFor := 0
		for _, dot := range dots {
			stoodFor += dot.Customers
			alone := dot.Customers == 1
			if alone != (dot.Customer != "") || alone && (dot.Sent.Least != dot.Sent.Most || dot.Waited.Least != dot.Waited.Most) {
				t.Errorf("%d customers are %+v", dot.Customers, dot)
			}
			if dot.Group == Flooder && dot.Customer != Flooder {
				t.Errorf("the flooder shares a dot: %+v", dot)
			}
		}
		if stoodFor != customers+1 {
			t.Errorf("the dots stand for %d of %d customers", stoodFor, customers+1)
		}
	}
}

// However differently they send and wait.
func TestSeriesHaveAFewDotsForUnlikeCustomers(t *testing.T) {
	const each = 300
	w := newWorkload(nil)
	var customers []measuredCustomer
	for sent := range each {
		for waited := range each {
			w.Customers = append(w.Customers, "c")
			documents := int(math.Pow(1e6, float64(sent)/each))
			mean := 0.001 * math.Pow(1e9, float64(waited)/each)
			customers = append(customers, measuredCustomer{int32(len(customers)), documents, mean * float64(documents)})
		}
	}
	dots := newDots(w, customers, []string{Others}, make([]uint8, len(customers)))
	if len(dots) < maxDots/8 || len(dots) > maxDots {
		t.Errorf("%d dots", len(dots))
	}
}

func TestADotHasWhatItsCustomerSentAndWaited(t *testing.T) {
	w := newWorkload([]string{"a", "b"})
	w.Documents = []Document{{0, 0, time.Second}, {0, 0, 3 * time.Second}, {1, 0, time.Second}}
	w.To = 1
	starts, err := Run(w, 1, newFirstCome(w))
	if err != nil {
		t.Fatal(err)
	}
	series := newSeries(w, starts, newFirstCome(w))
	want := []Dot{
		{HeaviestHalf, 1, "a", Spread{2, 2}, Spread{0.5, 0.5}},
		{LightestHalf, 1, "b", Spread{1, 1}, Spread{4, 4}},
	}
	if fmt.Sprint(series.Dots) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", series.Dots, want)
	}
	if got := fmt.Sprint(series.Groups); got != "[lightest_half heaviest_half]" {
		t.Errorf("one group is taken apart into %s", got)
	}
}
