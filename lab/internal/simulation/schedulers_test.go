//go:build !race

package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
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

// Customer a comes back while b is served.
var fifth = [][3]int{{a, 0, 1}, {a, 0, 1}, {a, 0, 1}, {a, 0, 1}, {b, 4, 2}, {b, 4, 3}, {a, 5, 1}, {b, 5, 1}}

// The same more than ten minutes later.
var fifthLater = [][3]int{{a, 0, 1}, {a, 0, 1}, {a, 0, 1}, {a, 0, 1}, {b, 700, 2}, {b, 700, 3}, {a, 701, 1}, {b, 701, 1}}

// As latecomer, with more documents of both.
var noisyBoth = [][3]int{
	{a, 0, 2}, {a, 0, 2}, {a, 0, 2}, {a, 0, 2}, {a, 0, 2}, {a, 0, 2},
	{b, 1, 2}, {b, 1, 2}, {b, 1, 2}, {b, 1, 2},
}

// Customer a pauses for more than 3 s while a document of theirs waits.
var afresh = [][3]int{{b, 0, 8}, {a, 0, 6}, {a, 1, 1}, {a, 5, 1}}

// Served by two servers; computed by hand.
func TestSchedulers(t *testing.T) {
	threeLevels := priority.Policy{Thresholds: []int64{0, -1}, ResetInterval: time.Hour}
	twoLevels := priority.Policy{Thresholds: []int64{0}, ResetInterval: 3 * time.Second}
	for _, test := range []struct {
		name, scheduler string
		documents       [][3]int
		options         Options
		want            []int // seconds at which the documents' service begins
	}{
		{"arrival", FirstCome, twoCustomers, Options{}, []int{0, 0, 6, 6, 8}},
		{"a, b, a, b, b", RoundRobin, twoCustomers, Options{}, []int{0, 2, 0, 6, 8}},
		{"places 0 1 0 1 2", Stride, twoCustomers, Options{}, []int{0, 2, 0, 6, 8}},
		{"places 0 1 2 3 1 2, for b has saved nothing", Stride, latecomer, Options{}, []int{0, 0, 2, 4, 2, 4}},
		{"6 s used against 2 s", FairShare, twoCustomers, Options{}, []int{0, 6, 0, 2, 4}},
		{"one against none", LeastFlight, twoCustomers, Options{}, []int{0, 6, 0, 2, 4}},
		// At 2 s all processing time is a's: b goes first. At 4 s both are noisy.
		{"a is noisy, then both are", SQSFair, noisyBoth, Options{}, []int{0, 0, 4, 6, 8, 8, 2, 2, 4, 6}},
		{"a fourth of two servers is one", CapByKey, latecomer, Options{}, []int{0, 2, 4, 6, 1, 3}},
		{"all of level 1", Rule, twoCustomers, Options{}, []int{0, 0, 6, 6, 8}},
		{"levels 1 2 1 2 3", Rule, twoCustomers, Options{Policy: threeLevels}, []int{0, 2, 0, 6, 8}},
		// Alternately: a's first, at level 1; a's second, at 2; b's first; b's
		// second; and when nothing is left above it b's third.
		{"in turn", Rule + ":1:1:1", twoCustomers, Options{Policy: threeLevels}, []int{0, 0, 6, 8, 6}},
		{"classes 1 2 1 2 2, in turn", Rule + "@1:1:1", twoCustomers, Options{Policy: threeLevels}, []int{0, 0, 6, 6, 8}},
		{"levels 1 1 2 2 1 1, by powers of 2", ByHand, latecomer, Options{}, []int{0, 0, 4, 4, 2, 2}},
		{"levels 1 1 1 1 2 1, for a has none pending", ByHand, secondThoughts, Options{}, []int{0, 0, 2, 2, 7, 6}},
		{"a's fifth has level 2, by powers of 3", byHandRecent, fifth, Options{}, []int{0, 0, 1, 1, 4, 4, 7, 6}},
		{"a's fifth is the only one in the window", byHandRecent, fifthLater, Options{}, []int{0, 0, 1, 1, 700, 700, 702, 703}},
		{"levels 1 2 1 2 3 3", Rule, secondThoughts, Options{Policy: threeLevels}, []int{0, 0, 2, 2, 6, 7}},
		// At 5 s a starts afresh, at level 1, while a document of level 2 waits.
		{"levels 1 1 2 1", Rule, afresh, Options{Policy: twoLevels}, []int{0, 0, 7, 6}},
	} {
		t.Run(test.scheduler+", "+test.name, func(t *testing.T) {
			test.options.Servers = 2
			if got := begins(t, test.scheduler, made(test.documents...), test.options); !slices.Equal(got, test.want) {
				t.Errorf("service begins at %v, want %v", got, test.want)
			}
		})
	}
}

// Three documents of a are due in 10 s, and one, before b's second one, now. Queues do not know
// the three before they are due; levels count them, but for a Submit that is told when they are.
func TestSchedulers_DueLater(t *testing.T) {
	for scheduler, want := range map[string][]int{
		FirstCome: {0, 2, 3, 10, 11, 12}, Stride: {0, 2, 3, 10, 11, 12}, "submit+delay": {0, 2, 3, 10, 11, 12},
		ByHand: {0, 3, 2, 10, 11, 12}, Submit: {0, 3, 2, 10, 11, 12},
	} {
		w := made([3]int{b, 0, 2}, [3]int{a, 1, 1}, [3]int{b, 1, 1}, [3]int{a, 10, 1}, [3]int{a, 10, 1}, [3]int{a, 10, 1})
		for i := 3; i < 6; i++ {
			w.Documents[i].Ahead = 10 * time.Second
		}
		if got := begins(t, scheduler, w, Options{Servers: 1}); !slices.Equal(got, want) {
			t.Errorf("%s: service begins at %v, want %v", scheduler, got, want)
		}
	}
}

// begins returns when the service of each document begins, in seconds.
func begins(t *testing.T, scheduler string, w *Workload, o Options) (begins []int) {
	t.Helper()
	by, err := NewScheduler(scheduler, w, o, 1)
	if err != nil {
		t.Fatal(err)
	}
	starts, err := Run(w, o.Servers, by)
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range starts {
		begins = append(begins, int(start/time.Second))
	}
	return begins
}

func TestSQSFair_InFlight(t *testing.T) {
	var documents [][3]int
	for range 100 {
		documents = append(documents, [3]int{a, 0, 10})
	}
	documents = append(documents, [3]int{b, 0, 1})
	for servers, want := range map[int]time.Duration{30: 10 * time.Second, 31: 0} {
		w := made(documents...)
		starts, err := Run(w, servers, newSQSFair(w, false))
		if err != nil {
			t.Fatal(err)
		}
		if got := starts[100]; got != want {
			t.Errorf("%d servers: b's document begins at %v, want %v", servers, got, want)
		}
	}
}

// River's four priorities are the classes that package queue makes of nine levels.
func TestFourClasses(t *testing.T) {
	ends, err := foldsOf(strings.TrimPrefix(fourClasses, Submit+ownFolds), 9)
	if err != nil {
		t.Fatal(err)
	}
	for level := priority.First; level <= 9; level++ {
		if class, _ := slices.BinarySearch(ends, level); priority.Level(class+1) != queue.Class(level, 9, 4) {
			t.Errorf("level %d is in class %d", level, class+1)
		}
	}
}

func TestFairShare_Forgets(t *testing.T) {
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

// Every document is served exactly once, no server stands idle while one waits,
// and no more are served at once than there are servers.
func TestSchedulers_NoIdleServer(t *testing.T) {
	const servers = 16
	w := experiment(t, "cost-skew", 1).Workload(1)
	w.Documents = w.Documents[len(w.Documents)-5000:] // the end, when the documents that take long are there
	shared := slices.DeleteFunc(MatrixSchedulers(), func(name string) bool { return name == CapByKey })
	for _, name := range slices.Concat(shared, []string{"submit:8:4:2:1"}) {
		given := make([]bool, len(w.Documents))
		scheduler, err := NewScheduler(name, w, Options{Servers: servers}, 1)
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
