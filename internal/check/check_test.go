package check

import (
	"math"
	"testing"
)

func TestSubmit_Cost(t *testing.T) {
	for cost, shown := range map[float64]string{-1: "-1", math.NaN(): "NaN"} {
		err := Submit("acme", []string{"a"}, []float64{cost})
		if want := "priority: invalid cost: " + shown + ` is not 0 (unknown) or a positive finite number (document "a")`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
