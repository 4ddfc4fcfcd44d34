//go:build !race

package simulation

import (
	"math"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	// Two servers, first come: a's two documents are served from 0 to 6 s, b's
	// three from 6, 6 and 8 s on.
	w := made(twoCustomers...)
	w.Groups, w.GroupOf, w.Apart = []string{Others, Flooder}, []uint8{1, 0}, []bool{false, true}
	w.To = 7 * time.Second
	starts, err := Run(w, 2, newCapped(w, 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	got := measure(w, 2, starts)
	for name, want := range map[string]float64{
		"others_wait_mean_s":       20. / 3,
		"others_wait_p50_s":        6,
		"others_wait_p99_s":        8,
		"others_wait_max_s":        8,
		"flooder_wait_max_s":       0,
		"lightest_half_wait_max_s": 8, // b, the only customer who is not apart
		"worst_tenth_wait_s":       20. / 3,
		// 14 s of service are for 12 s of a's and 6 s of b's: 8 s and 6 s. a got 12,
		// b 2. So the shares are 3/2 and 1/3.
		"jain":           (11. / 6) * (11. / 6) / (2 * (9./4 + 1./9)),
		"smallest_share": 1. / 3,
	} {
		if value, ok := got[name]; !ok || math.Abs(value-want) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", name, value, ok, want)
		}
	}
}

func TestMeasure_Order(t *testing.T) {
	// a's first document begins last, and after 3 s nothing counts as served.
	w := made([3]int{a, 0, 1}, [3]int{b, 0, 1}, [3]int{a, 0, 1}, [3]int{a, 0, 1})
	w.Groups, w.Apart, w.GroupOf, w.To = []string{Flooder, Second}, []bool{true, true}, []uint8{0, 1}, 3*time.Second
	got := measure(w, 1, []time.Duration{4 * time.Second, time.Second, 2 * time.Second, 2 * time.Second})
	for name, want := range map[string]float64{
		"flooder_overtaken": 1. / 3, "second_overtaken": 0, "flooder_served": 2. / 3, "second_served": 1, finishedRatio: 1. / 4,
	} {
		if value, ok := got[name]; !ok || math.Abs(value-want) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", name, value, ok, want)
		}
	}
}

func TestMaxMinFair(t *testing.T) {
	for _, test := range []struct {
		demands, weights []float64
		capacity         float64
		want             []float64
	}{
		{[]float64{4, 2, 10, 0}, nil, 10, []float64{4, 2, 4, 0}},
		{[]float64{4, 2}, nil, 10, []float64{4, 2}},
		{[]float64{9, 9, 9}, nil, 6, []float64{2, 2, 2}},
		{[]float64{9, 9, 1}, []float64{3, 1, 10}, 6, []float64{3.75, 1.25, 1}},
	} {
		got := maxMinFair(test.demands, test.weights, test.capacity)
		for i := range got {
			if math.Abs(got[i]-test.want[i]) > 1e-9 {
				t.Errorf("maxMinFair(%v, %v) = %v, want %v", test.demands, test.capacity, got, test.want)
				break
			}
		}
	}
}

func TestEstimate(t *testing.T) {
	// The t of 2 degrees of freedom is 4.3027 at 97.5 %; the deviation is 1.
	got := estimate([]float64{1, 2, 3})
	if got.Mean != 2 || math.Abs(got.Within-4.3027/math.Sqrt(3)) > 1e-4 {
		t.Errorf("got %+v", got)
	}
	if got := estimate([]float64{7}); got != (Estimate{Mean: 7}) {
		t.Errorf("got %+v", got)
	}
}
