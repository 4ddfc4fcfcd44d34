package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
)

func TestAPickerServesByWeightAndSmoothly(t *testing.T) {
	picker, err := queue.NewPicker(5, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	var picked []priority.Level
	for range 7 {
		level, _ := picker.Pick([]bool{true, true, true})
		picked = append(picked, level)
	}
	if want := []priority.Level{1, 1, 2, 1, 3, 1, 1}; !slices.Equal(picked, want) {
		t.Errorf("picked %v, want %v: smooth, not five in a row", picked, want)
	}
}

func TestAPickerSkipsLevelsWithoutWork(t *testing.T) {
	var strict queue.Picker
	weighted, err := queue.NewPicker(64, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, picker := range []*queue.Picker{&strict, weighted} {
		if level, ok := picker.Pick([]bool{false, false, true}); level != 3 || !ok {
			t.Errorf("picked %d, %t of level 3 alone", level, ok)
		}
		if level, ok := picker.Pick([]bool{false, false, false}); level != 0 || ok {
			t.Errorf("picked %d, %t of nothing", level, ok)
		}
		if level, ok := picker.Pick(nil); level != 0 || ok {
			t.Errorf("picked %d, %t of no level", level, ok)
		}
		// A policy with more levels than weights is served all the same.
		if level, ok := picker.Pick([]bool{4: true}); level != 5 || !ok {
			t.Errorf("picked %d, %t of level 5 alone", level, ok)
		}
	}
	for range 10 {
		if level, _ := strict.Pick([]bool{false, true, true}); level != 2 {
			t.Fatalf("the strict picker picked level %d while level 2 had work", level)
		}
	}
}

// Whatever has work when, no level waits for longer than promised, and in steady
// state each has its share.
func TestAPickerStarvesNoLevel(t *testing.T) {
	for range 100 {
		weights := make([]int64, 1+rand.IntN(9))
		var total int64
		for i := range weights {
			weights[i] = 1 + rand.Int64N(300)
			total += weights[i]
		}
		picker, err := queue.NewPicker(weights...)
		if err != nil {
			t.Fatal(err)
		}
		hasWork := make([]bool, len(weights))
		waited := make([]int64, len(weights))
		for range 30 {
			for i := range hasWork {
				hasWork[i] = rand.IntN(2) == 0
			}
			for range 1 + rand.IntN(400) {
				level, ok := picker.Pick(hasWork)
				if ok != slices.Contains(hasWork, true) || ok && !hasWork[level-1] {
					t.Fatalf("picked %d, %t of %v", level, ok, hasWork)
				}
				for i, has := range hasWork {
					if !has || level == priority.Level(i+1) {
						waited[i] = 0
					} else if waited[i]++; waited[i] > 2*total/weights[i] {
						t.Fatalf("level %d waits for %d picks, weights %v", i+1, waited[i], weights)
					}
				}
			}
		}
	}
}
