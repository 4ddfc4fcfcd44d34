package simulation

import (
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// made returns a workload of whole seconds: for each document the customer, when
// it is submitted, and how long it is served.
func made(documents ...[3]int) *Workload {
	w := newWorkload([]string{"a", "b"})
	w.To = time.Hour
	for _, d := range documents {
		w.Documents = append(w.Documents, Document{
			Customer:  int32(d[0]),
			Submitted: time.Duration(d[1]) * time.Second,
			Service:   time.Duration(d[2]) * time.Second,
		})
	}
	return w
}

const a, b = 0, 1

// Customer a's two documents of 6 s arrive just before b's three of 2 s.
var twoCustomers = [][3]int{{a, 0, 6}, {a, 0, 6}, {b, 0, 2}, {b, 0, 2}, {b, 0, 2}}

// Customer a's second document is done when the third comes; b's are not.
var secondThoughts = [][3]int{{a, 0, 1}, {a, 0, 1}, {b, 2, 4}, {b, 2, 5}, {b, 3, 1}, {a, 4, 1}}

// Customer b comes later than a's four documents.
var latecomer = [][3]int{{a, 0, 2}, {a, 0, 2}, {a, 0, 2}, {a, 0, 2}, {b, 1, 2}, {b, 1, 2}}

// Served by two servers; computed by hand.
func TestEverySchedulerServesAsWorkedOutByHand(t *testing.T) {
	threeLevels := priority.Policy{Thresholds: []int64{0, -1}, ResetInterval: time.Hour}
	for _, test := range []struct {
		name, scheduler string
		documents       [][3]int
		options         Options
		want            []int // seconds at which the documents' service begins
	}{
		{"arrival", FirstCome, twoCustomers, Options{}, []int{0, 0, 6, 6, 8}},
		{"a, b, a, b, b", RoundRobin, twoCustomers, Options{}, []int{0, 2, 0, 6, 8}},
		// The quantum is 3.6 s. a has not enough for 6 s in the first turn; b has
		// 1.6 s left after its first document, which a's second turn comes before.
		{"costs", Deficit, twoCustomers, Options{}, []int{0, 6, 0, 2, 4}},
		{"places 0 1 0 1 2", Stride, twoCustomers, Options{}, []int{0, 2, 0, 6, 8}},
		{"places 0 1 2 3 1 2, for b has saved nothing", Stride, latecomer, Options{}, []int{0, 0, 2, 4, 2, 4}},
		{"6 s used against 2 s", FairShare, twoCustomers, Options{}, []int{0, 6, 0, 2, 4}},
		{"one against none", LeastFlight, twoCustomers, Options{}, []int{0, 6, 0, 2, 4}},
		{"all of level 1", Rule, twoCustomers, Options{}, []int{0, 0, 6, 6, 8}},
		{"levels 1 2 1 2 3", Rule, twoCustomers, Options{Policy: threeLevels}, []int{0, 2, 0, 6, 8}},
		{"levels 1 2 1 2 3", Submit, twoCustomers, Options{Policy: threeLevels}, []int{0, 2, 0, 6, 8}},
		// Alternately: a's first, at level 1; a's second, at 2; b's first; b's
		// second; and when nothing is left above it b's third.
		{"in turn", Rule, twoCustomers, Options{Policy: threeLevels, Discipline: "1,1,1"}, []int{0, 0, 6, 8, 6}},
		{"levels 1 2 1 2 3 3", Rule, secondThoughts, Options{Policy: threeLevels}, []int{0, 0, 2, 2, 6, 7}},
		{"levels 1 2 1 2 3 2", Submit, secondThoughts, Options{Policy: threeLevels}, []int{0, 0, 2, 2, 7, 6}},
		{"lost Dones", Submit, secondThoughts, Options{Policy: threeLevels, LostDone: 1}, []int{0, 0, 2, 2, 6, 7}},
		{"lost Dones, forgotten", Submit, secondThoughts, Options{Policy: threeLevels, LostDone: 1, Lease: time.Second}, []int{0, 0, 2, 2, 7, 6}},
	} {
		t.Run(test.scheduler+", "+test.name, func(t *testing.T) {
			w := made(test.documents...)
			scheduler, err := NewScheduler(test.scheduler, w, test.options, 1)
			if err != nil {
				t.Fatal(err)
			}
			starts, err := Run(w, 2, scheduler)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, start := range starts {
				got = append(got, int(start/time.Second))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("service begins at %v, want %v", got, test.want)
			}
		})
	}
}

func TestFairShareForgetsWhatIsLongAgo(t *testing.T) {
	// Until 300 s a has used 4 s and b 3 s, of which 2 s are left of a's. Then b's
	// second document waits longer than a's.
	w := made([3]int{a, 0, 4}, [3]int{b, 300, 3}, [3]int{b, 301, 1}, [3]int{a, 302, 1})
	starts, err := Run(w, 1, newFairShare(w))
	if err != nil {
		t.Fatal(err)
	}
	if starts[3] != 303*time.Second || starts[2] != 304*time.Second {
		t.Errorf("service begins at %v, want b's second document at 304 s after a's at 303 s", starts)
	}
}

// The levels of the rule are those of the module's store, document by document.
func TestTheRulesLevelsAreThoseOfTheStore(t *testing.T) {
	scenario, err := FindScenario("pauser")
	if err != nil {
		t.Fatal(err)
	}
	w := scenario.Workload(demand, 1)
	options := Options{Policy: priority.Policy{ResetInterval: 10 * time.Second}}
	scheduler, err := NewScheduler(Rule, w, options, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(w, 16, scheduler); err != nil {
		t.Fatal(err)
	}
	var now time.Duration
	store, err := memory.New(&memory.Options{
		Policy: options.Policy,
		Now:    func() time.Time { return time.Unix(1e9, 0).Add(now) },
	})
	if err != nil {
		t.Fatal(err)
	}
	met := make(map[priority.Level]bool)
	for i, d := range w.Documents {
		now = d.Submitted
		decision, err := store.Next(t.Context(), w.Customers[d.Customer])
		if err != nil {
			t.Fatal(err)
		}
		met[decision.Level] = true
		if got := priority.Level(scheduler.(*byLevel).levels[i]); got != decision.Level {
			t.Fatalf("document %d has level %d, want %d", i, got, decision.Level)
		}
	}
	if len(met) != 9 {
		t.Errorf("only %d levels were met", len(met))
	}
}

// Every document is served exactly once, no server stands idle while one waits,
// and no more are served at once than there are servers.
func TestNoServerIsIdleWhileADocumentWaits(t *testing.T) {
	const servers = 16
	scenario, err := FindScenario("cost-skew")
	if err != nil {
		t.Fatal(err)
	}
	w := scenario.Workload(demand, 1)
	for _, name := range append(Schedulers(), "rule:linear", "submit:halving") {
		given := make([]bool, len(w.Documents))
		scheduler, err := NewScheduler(name, w, Options{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		guard := &guarded{Scheduler: scheduler, given: given, t: t, servers: servers}
		if _, err := Run(w, servers, guard); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(given, false) {
			t.Errorf("%s: a document was never served", name)
		}
	}
}

type guarded struct {
	Scheduler
	given                     []bool
	t                         *testing.T
	waiting, serving, servers int
}

func (g *guarded) Submit(document int, now time.Duration) error {
	g.waiting++
	return g.Scheduler.Submit(document, now)
}

func (g *guarded) Next(now time.Duration) (int, bool) {
	document, ok := g.Scheduler.Next(now)
	switch {
	case ok && g.given[document]:
		g.t.Fatalf("document %d was given out twice", document)
	case ok:
		g.given[document] = true
		g.waiting--
		g.serving++
	case g.waiting > 0:
		g.t.Fatalf("%d documents wait and none was given out", g.waiting)
	}
	if g.serving > g.servers {
		g.t.Fatalf("%d documents are served by %d servers", g.serving, g.servers)
	}
	return document, ok
}

func (g *guarded) Done(document int, now time.Duration) error {
	g.serving--
	return g.Scheduler.Done(document, now)
}
