package memory_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

const day = 24 * time.Hour

// loads is a store on a clock that stands still.
type loads struct {
	*memory.Store
	t    *testing.T
	now  time.Time
	next int // the number of the next document
}

func openLoads(t *testing.T, policy priority.Policy, lease time.Duration) *loads {
	t.Helper()
	s := &loads{t: t, now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.Store = open(t, &memory.Options{Policy: policy, Lease: lease, Now: func() time.Time { return s.now }})
	return s
}

// submit submits n new documents of acme.
func (s *loads) submit(n int) (names []string, decisions []priority.Decision) {
	s.t.Helper()
	for range n {
		names = append(names, fmt.Sprint(s.next))
		s.next++
	}
	decisions, err := s.SubmitN(s.t.Context(), "acme", names, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return names, decisions
}

func (s *loads) done(took time.Duration, names ...string) {
	s.t.Helper()
	if _, err := s.DoneN(s.t.Context(), "acme", names, took); err != nil {
		s.t.Fatal(err)
	}
}

func (s *loads) state() priority.State {
	s.t.Helper()
	state, err := s.Peek(s.t.Context(), "acme")
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// With so many submitted recently and so many of them pending, the next document has this
// load and level; Peek knows both before.
func TestALevelFollowsFromTheLoad(t *testing.T) {
	nine, five := priority.Policy{}, priority.Policy{Thresholds: []int64{-1, -2, -3, -4}}
	four := priority.Policy{Thresholds: []int64{-1, -2, -3}}
	own := priority.Policy{Loads: []float64{1, 1.5, 6}}
	for _, test := range []struct {
		policy          priority.Policy
		recent, pending int // before the document
		load            float64
		level           priority.Level
	}{
		{nine, 0, 0, 1, 1},
		{nine, 3, 1, 8, 1},
		{nine, 2, 2, 9, 2},
		{nine, 7, 7, 64, 2},
		{nine, 11, 5, 72, 3},
		{nine, 511, 0, 512, 3},
		{nine, 600, 1, 1024, 4},
		{nine, 600, 15, 8192, 4},
		{nine, 600, 16, 8704, 5},
		{nine, 600, 63, 32768, 5},
		{nine, 600, 64, 33280, 6},
		{nine, 600, 78, 33280, 6}, // the 15th beyond the last load
		{nine, 600, 79, 33280, 7},
		{nine, 600, 500, 70656, 8}, // 137 of the 500 are not beyond: the 138th had 238 × 138
		{five, 7, 0, 8, 1},
		{five, 2, 2, 9, 2},
		{five, 511, 0, 512, 2},
		{five, 600, 1, 1024, 3},
		{five, 600, 63, 32768, 4},
		{five, 600, 64, 33280, 5},
		{four, 127, 0, 128, 1},
		{four, 128, 0, 129, 2},
		{four, 600, 16, 8704, 3},
		{four, 600, 64, 33280, 4},
		{priority.Policy{Thresholds: []int64{}}, 600, 500, 512, 1},
		{priority.Policy{Thresholds: []int64{-1}}, 600, 64, 33280, 2},
		{own, 0, 0, 1, 1},
		{own, 1, 0, 2, 3},
		{own, 2, 1, 6, 3},
		{own, 6, 0, 7, 4},
	} {
		s := openLoads(t, test.policy, 0)
		names, _ := s.submit(test.recent - test.pending)
		s.done(0, names...)
		s.submit(test.pending)
		state := s.state()
		d, err := s.Submit(t.Context(), "acme", "one more", 0)
		if want := (priority.Decision{Level: test.level, RuleLevel: test.level, Load: test.load, Pending: int64(test.pending) + 1}); err != nil || d != want {
			t.Errorf("%v recent and %v pending by %v: %+v, %v, want %+v", test.recent, test.pending, s.PolicyOf("acme").Loads, d, err, want)
		}
		if test.recent > 0 && (state.Load != test.load || state.NextLevel != test.level) {
			t.Errorf("%v recent and %v pending by %v: %+v, want load %v", test.recent, test.pending, s.PolicyOf("acme").Loads, state, test.load)
		}
	}
}

// Each turn begins at its number of documents beyond the last load.
func TestSubmit_Turns(t *testing.T) {
	for _, begins := range [][]int{{}, {4096}, {64, 4096}, {16, 256, 4096}, {4, 16, 64, 256, 1024, 4096}} {
		turns := len(begins)
		s := openLoads(t, priority.Policy{Loads: []float64{1}, Turns: turns}, 0)
		names, decisions := s.submit(1 + 5000)
		if decisions[0].Level != 1 {
			t.Fatalf("the first document: %+v", decisions[0])
		}
		turn := 0
		for i, d := range decisions[1:] {
			if turn < turns && i+1 == begins[turn] {
				turn++
			}
			if d.Level != priority.Level(2+turn) || d.Pending != int64(i+2) || d.Load != 2*min(float64(i+2), 512) {
				t.Fatalf("with %d turns document %d behind the last load: %+v, want level %d", turns, i+1, d, 2+turn)
			}
		}
		if state := s.state(); state.Pending != 5001 || state.PendingLast != 5000 || state.NextLevel != priority.Level(2+turns) || state.Level != state.NextLevel {
			t.Errorf("with %d turns: %+v", turns, state)
		}
		// With three left, the next one takes the fourth place, whichever they are.
		s.done(0, names[1:4998]...)
		want := priority.Level(2)
		if turns > 0 && begins[0] <= 4 {
			want++
		}
		if d, err := s.Submit(t.Context(), "acme", "next", 0); err != nil || d.Level != want {
			t.Errorf("with %d turns and three documents there: %+v, %v", turns, d, err)
		}
	}
}

func TestOfManyDocuments512AreRemembered(t *testing.T) {
	s := openLoads(t, priority.Policy{}, time.Minute)
	for n := 1; n <= 600; n++ {
		s.submit(1)
		if state := s.state(); state.Recent != float64(min(n, 512)) || state.Pending != int64(n) {
			t.Fatalf("after %d documents: %+v", n, state)
		}
	}
	s.submit(5000)
	if state := s.state(); state.Recent != 512 {
		t.Errorf("after 5600 documents: %+v", state)
	}
	s.now = s.now.Add(time.Hour) // what is pending is over
	for left, hours := 512.0, 1; hours < 10*24; hours++ {
		left = 512 * math.Exp2(-float64(hours)/24)
		if state := s.state(); math.Abs(state.Recent-left) > .001 || state.Rule != priority.ByLoad || state.Pending != 0 {
			t.Fatalf("after %d hours: %+v, want %v", hours, state, left)
		}
		s.now = s.now.Add(time.Hour)
	}
	// Ten days after the last Submit half a document is left, and that is forgotten.
	s.now = s.now.Add(-time.Millisecond)
	if state := s.state(); state.Recent != .5 {
		t.Errorf("a moment before ten days: %+v", state)
	}
	s.now = s.now.Add(2 * time.Millisecond) // what is over is over a millisecond later, as in Redis
	if state := s.state(); state != (priority.State{NextLevel: 1, RuleLevel: 1}) {
		t.Errorf("after ten days: %+v", state)
	}
}

// Each document counts 1 when it comes, and half as much each day later.
func TestWhatWasSubmittedFadesBetween(t *testing.T) {
	s := openLoads(t, priority.Policy{}, time.Minute)
	for _, test := range []struct {
		wait   time.Duration
		n      int
		recent float64
	}{
		{0, 8, 8},
		{day, 1, 5},
		{day / 2, 1, 4.536}, // 5 / √2 and 1
		{day, 2, 4.268},
		{2 * day, 1, 2.067},
		{day + time.Hour, 2, 3.004},
		{0, 1, 4.004},
		{3 * day, 1, 1.501}, // half a document was left, and a little
		{2 * day, 1, 1},     // less than half
	} {
		s.now = s.now.Add(test.wait)
		_, decisions := s.submit(test.n)
		want := math.Round(1e6*test.recent*float64(test.n)) / 1e6
		if d := decisions[test.n-1]; test.wait > 0 && d.Load != want {
			t.Errorf("%d documents after %v: %+v, want load %v", test.n, test.wait, d, want)
		}
		if state := s.state(); state.Recent != test.recent {
			t.Errorf("%d documents after %v: %+v, want %v recent", test.n, test.wait, state, test.recent)
		}
	}
}

// The queue delivers a document again: it is decided about as if it were new, and counts
// once. After its lease it is new.
func TestADocumentCountsOnceHoweverOftenItIsSubmitted(t *testing.T) {
	ctx := t.Context()
	s := openLoads(t, priority.Policy{Loads: []float64{3, 10}, Turns: 12}, time.Hour) // the 2nd takes turn 1
	names, first := s.submit(4)                                                       // loads 1, 4, 9 and 16
	for range 3 {
		again, err := s.SubmitN(ctx, "acme", names, nil)
		for i := range first {
			first[i].Pending = 4 // all of them are there already
		}
		if err != nil || !reflect.DeepEqual(again, first) {
			t.Fatalf("%+v, %v, want %+v", again, err, first)
		}
	}
	for i, want := range []priority.Decision{
		{Level: 4, Load: 12, Pending: 4}, // of the other three one is beyond, and so is this
		{Level: 2, Load: 8, Pending: 4},  // two of them are
		{Level: 2, Load: 8, Pending: 4},
		{Level: 4, Load: 12, Pending: 4},
	} {
		want.RuleLevel = want.Level
		if d, err := s.Submit(ctx, "acme", names[i], 0); err != nil || d != want {
			t.Errorf("document %d again: %+v, %v, want %+v", i, d, err, want)
		}
	}
	mixed, err := s.SubmitN(ctx, "acme", []string{names[0], "new", "new", names[0]}, nil)
	if err != nil || mixed[1].Pending != 5 || mixed[3].Pending != 5 || s.state().Recent != 5 {
		t.Errorf("one that is there and a new one, twice each: %+v, %v, %+v", mixed, err, s.state())
	}
	s.now = s.now.Add(time.Hour)
	if state := s.state(); state.Pending != 5 || state.Oldest != time.Hour {
		t.Errorf("when the lease ends: %+v", state)
	}
	s.now = s.now.Add(time.Millisecond)
	if state := s.state(); state.Pending != 0 || state.Level != 0 || state.Oldest != 0 || state.Recent < 4.8 {
		t.Errorf("after the lease: %+v", state)
	}
	if d, err := s.Submit(ctx, "acme", "new", 0); err != nil || d.Pending != 1 || d.Load != s.state().Recent || d.Load < 5.8 {
		t.Errorf("after its lease a document is: %+v, %v", d, err)
	}
}

// A lease is 20 times as long as documents take, at least 3 minutes, and at most what
// the option says.
func TestLease(t *testing.T) {
	for _, test := range []struct{ latency, bound, want time.Duration }{
		{time.Second, day, 3 * time.Minute},
		{9 * time.Second, day, 3 * time.Minute},
		{12 * time.Second, day, 4 * time.Minute},
		{12 * time.Second, 200 * time.Second, 200 * time.Second},
		{time.Second, time.Minute, time.Minute},
		{20 * time.Hour, day, day},
	} {
		s := openLoads(t, priority.Policy{}, test.bound)
		if state := s.state(); state.Lease != 0 {
			t.Errorf("before anything was submitted: %+v", state)
		}
		names, _ := s.submit(1)
		if state := s.state(); state.Lease != test.bound || state.Latency != 0 {
			t.Errorf("while it is not known how long documents take: %+v, want %v", state, test.bound)
		}
		s.now = s.now.Add(test.latency)
		s.done(0, names...)
		s.submit(1)
		if state := s.state(); state.Lease != test.want || state.Latency != test.latency {
			t.Errorf("latency %v, at most %v: %+v, want %v", test.latency, test.bound, state, test.want)
		}
		s.now = s.now.Add(test.want)
		if state := s.state(); state.Pending != 1 || state.Level == 0 {
			t.Errorf("latency %v, at most %v: %+v at the end of its lease", test.latency, test.bound, state)
		}
		s.now = s.now.Add(time.Millisecond)
		if state := s.state(); state.Pending != 0 {
			t.Errorf("latency %v, at most %v: %+v after its lease", test.latency, test.bound, state)
		}
	}
}

// A Done says what ended, how long that was there, and which level it had; within a day,
// whether the lease is over or not.
func TestDoneReportsWhatEnded(t *testing.T) {
	s := openLoads(t, priority.Policy{Loads: []float64{3}, Turns: 2}, 10*time.Minute)
	names, _ := s.submit(3) // levels 1, 2 and 3
	for _, test := range []struct {
		wait      time.Duration
		documents []string
		want      string
	}{
		{0, []string{"unknown"}, "[{0s 0}]"},
		{1500*time.Millisecond + 7*time.Microsecond, []string{names[1], "unknown", names[1]}, "[{1.5s 2} {0s 0} {0s 0}]"},
		{0, []string{names[1]}, "[{0s 0}]"},
		{11 * time.Minute, []string{names[0]}, "[{11m1.5s 1}]"},
		{day, []string{names[2]}, "[{0s 0}]"},
	} {
		s.now = s.now.Add(test.wait)
		if ended, err := s.DoneN(t.Context(), "acme", test.documents, 0); err != nil || fmt.Sprint(ended) != test.want {
			t.Errorf("Done of %q: %v, %v, want %s", test.documents, ended, err, test.want)
		}
	}
}

// The cost that Submit gets is compared with the customers', if three have one.
func TestSubmit_Costs(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		cost, load float64
		level      priority.Level
	}{
		{20, 1, 1}, {0, 1, 1}, {40, 2, 1}, {40.0098, 2, 1}, {40.0102, 2.001, 1}, {2e-9, .001, 1},
		{180, 9, 2}, {1999, 99.95, 3}, {2001, 100, 3}, {50_000, 100, 3}, {math.MaxFloat64, 100, 3},
	} {
		s := openLoads(t, priority.Policy{}, 0)
		for customer, cost := range map[string]float64{"a": 5, "b": 20, "c": 80} {
			loaded(t, 1, 1, 1)(s.Submit(ctx, customer, "one", cost)) // not known yet
		}
		loaded(t, test.level, test.load, 1)(s.Submit(ctx, "acme", "one", test.cost))
	}
	s := openLoads(t, priority.Policy{}, 0)
	for _, wrong := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := s.Submit(ctx, "acme", "one", wrong); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("a cost of %v: %v", wrong, err)
		}
	}
	if state := s.state(); state != (priority.State{NextLevel: 1, RuleLevel: 1}) {
		t.Errorf("after wrong calls: %+v", state)
	}
}

// A document of unknown cost costs what its customer's documents took, compared with others'.
func TestDone_Costs(t *testing.T) {
	ctx := t.Context()
	s := openLoads(t, priority.Policy{}, 0)
	names, _ := s.submit(1)
	s.done(6*time.Second, names...) // with nothing to compare it to
	for _, customer := range []string{"a", "b"} {
		if _, err := s.Submit(ctx, customer, "one", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Store.Done(ctx, customer, "one", 2*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	loaded(t, 1, 2, 1)(s.Submit(ctx, "acme", "one", 0))
	s.done(6*time.Second, "one")
	if state := s.state(); state.Cost != 1.2 || state.Load != 3*1.2 {
		t.Errorf("after one that took three times as long: %+v", state)
	}
	loaded(t, 1, 3*1.2, 1)(s.Submit(ctx, "acme", "one", 0))
	s.done(0, "one")
	if state := s.state(); state.Cost != 1.2 {
		t.Errorf("after one of an unknown time: %+v", state)
	}
}
