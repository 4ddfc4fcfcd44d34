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
	// 69 documents of three customers, and one worker who takes 1 s for each: archive
	// sends 60 in 12 s, bakery 3 from second 3 on, clinic 6 from second 5 on.
	//
	// mean wait   first come   by count (Next)   by load (Submit and Done)
	// archive         27.4 s            31.9 s                      31.8 s
	// bakery          22.7 s             0.3 s                       0.3 s
	// clinic          36.2 s             2.5 s                       4.3 s
	//
	// levels    by count                               by load
	// archive   1×3 2×2 3×2 4×2 5×2 6×2 7×2 8×6 9×39   1×2 2×6 3×16 4×36
	// bakery    1×3                                    1×3
	// clinic    1×3 2×2 3×1                            1×2 2×4
	//
	// 8×6: six documents at level 8. The worker takes level 1 first, 9 last.
}

func TestTheWorkerTakesWhatIsFirstOfWhatHasArrived(t *testing.T) {
	documents := []document{
		{"flood", "1", 0},
		{"flood", "2", 0},
		{"flood", "3", time.Second},
		{"small", "1", 3 * time.Second / 2},
		{"other", "1", 10 * time.Second},
	}
	byCustomer := func(d document) priority.Level {
		return map[string]priority.Level{"flood": 9, "small": 1, "other": 2}[d.customer]
	}
	sameLevel := func(document) priority.Level { return priority.First }
	for name, test := range map[string]struct {
		level func(document) priority.Level
		want  []service
	}{
		"by level": {byCustomer, []service{
			{"flood", 9, 0}, {"flood", 9, time.Second}, {"small", 1, time.Second / 2}, {"flood", 9, 2 * time.Second}, {"other", 2, 0},
		}},
		"as they arrive": {sameLevel, []service{
			{"flood", 1, 0}, {"flood", 1, time.Second}, {"flood", 1, time.Second}, {"small", 1, 3 * time.Second / 2}, {"other", 1, 0},
		}},
	} {
		var done []string
		got, err := process(documents, rule{
			arrive: func(d document) (priority.Level, error) { return test.level(d), nil },
			done:   func(d document) error { done = append(done, d.customer); return nil },
		})
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: served %v, want %v (%v)", name, got, test.want, err)
		}
		for i, d := range done {
			if d != got[i].customer {
				t.Errorf("%s: done are %v, of %v", name, done, got)
			}
		}
		if len(done) != len(documents) {
			t.Errorf("%s: %d of %d documents are done", name, len(done), len(documents))
		}
	}
}

func TestADocumentIsPendingWhileItIsWorkedOn(t *testing.T) {
	var events []string
	_, err := process([]document{{"a", "1", 0}, {"a", "2", time.Second / 2}, {"a", "3", 3 * time.Second / 2}}, rule{
		arrive: func(d document) (priority.Level, error) { events = append(events, "arrive "+d.id); return 1, nil },
		done:   func(d document) error { events = append(events, "done "+d.id); return nil },
	})
	want := []string{"arrive 1", "arrive 2", "done 1", "arrive 3", "done 2", "done 3"}
	if err != nil || !slices.Equal(events, want) {
		t.Errorf("happened %v, want %v (%v)", events, want, err)
	}
}
