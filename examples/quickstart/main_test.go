package main

import (
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

func Example() {
	main()
	// Output:
	// Three customers send 69 documents to one worker, who takes 1 s for each.
	//
	// customer  documents  from second  level×documents
	// archive          60            0  1×3 2×2 3×2 4×2 5×2 6×2 7×2 8×6 9×39
	// bakery            3            3  1×3
	// clinic            6            5  1×3 2×2 3×1
	//
	//           with the module: by level     without it: by arrival
	// customer  served as no.   mean wait     served as no.   mean wait
	// archive         1 to 69      31.9 s           1 to 69      27.4 s
	// bakery          4 to  9       0.3 s          17 to 41      22.7 s
	// clinic          7 to 16       2.5 s          29 to 60      36.2 s
	//
	// 8×6 stands for six documents at level 8. With the module a document of level 1 is
	// served before one of level 2 and, within a level, what arrived first. "4 to 9": of all
	// documents, the customer's first was the 4th to be served, and the last the 9th.
}

func TestTheWorkerTakesWhatIsFirstOfWhatHasArrived(t *testing.T) {
	documents := []document{
		{"flood", 0, 1},
		{"flood", 0, 9},
		{"flood", time.Second, 9},
		{"small", 3 * time.Second / 2, 1},
		{"other", 10 * time.Second, 2},
	}
	byLevel := func(a, b document) int { return int(a.level - b.level) }
	anyOrder := func(a, b document) int { return 0 }
	for name, test := range map[string]struct {
		order func(a, b document) int
		want  []service
	}{
		"by level": {byLevel, []service{
			{"flood", 0}, {"flood", time.Second}, {"small", time.Second / 2}, {"flood", 2 * time.Second}, {"other", 0},
		}},
		"as they arrive": {anyOrder, []service{
			{"flood", 0}, {"flood", time.Second}, {"flood", time.Second}, {"small", 3 * time.Second / 2}, {"other", 0},
		}},
	} {
		if got := process(documents, test.order); !slices.Equal(got, test.want) {
			t.Errorf("%s: served %v, want %v", name, got, test.want)
		}
	}
}

func TestArrivalsAreInOrderAndLeaveTheFloodAhead(t *testing.T) {
	documents := arrivals()
	if !slices.IsSortedFunc(documents, func(a, b document) int { return int(a.arrived - b.arrived) }) {
		t.Error("the documents are not in the order of their arrival")
	}
	if got := customersOf(documents); !slices.Equal(got, []string{"archive", "bakery", "clinic"}) {
		t.Errorf("the customers arrive as %v; the flood has to be first", got)
	}
}

func TestTheSpreadCountsEachLevel(t *testing.T) {
	if got, want := spread([]priority.Level{9, 1, 1, 2, 9, 9}), "1×2 2×1 9×3"; got != want {
		t.Errorf("spread is %q, want %q", got, want)
	}
}
