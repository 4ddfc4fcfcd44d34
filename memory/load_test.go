package memory_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/named"
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
	decisions, err := s.SubmitN(s.t.Context(), "acme", named.Documents(names...))
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
func TestSubmit_Load(t *testing.T) {
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
		{nine, 2, 2, 9, 2},
		{nine, 511, 0, 512, 3},
		{nine, 600, 15, 8192, 4},
		{nine, 600, 16, 8704, 5},
		{nine, 600, 64, 33280, 6},
		{nine, 600, 79, 33280, 7},
		{nine, 600, 500, 70656, 8}, // 137 of the 500 are not beyond: the 138th had 238 × 138
		{five, 2, 2, 9, 2},
		{five, 600, 64, 33280, 5},
		{four, 127, 0, 128, 1},
		{four, 600, 64, 33280, 4},
		{priority.Policy{Thresholds: []int64{}}, 600, 500, 512, 1},
		{priority.Policy{Thresholds: []int64{-1}}, 600, 64, 33280, 2},
		{own, 1, 0, 2, 3},
		{own, 6, 0, 7, 4},
	} {
		s := openLoads(t, test.policy, 0)
		names, _ := s.submit(test.recent - test.pending)
		s.done(0, names...)
		s.submit(test.pending)
		state := s.state()
		d, err := s.Submit(t.Context(), "acme", priority.Document{ID: "one more"})
		if want := (priority.Decision{Level: test.level, RuleLevel: test.level, Load: test.load, Pending: int64(test.pending) + 1}); err != nil || d != want {
			t.Errorf("%v recent and %v pending by %v: %+v, %v, want %+v", test.recent, test.pending, s.PolicyOf("acme").Loads, d, err, want)
		}
		if test.recent > 0 && (state.Load != test.load || state.NextLevel != test.level) {
			t.Errorf("%v recent and %v pending by %v: %+v, want load %v", test.recent, test.pending, s.PolicyOf("acme").Loads, state, test.load)
		}
	}
}

// Each document counts 1 when it comes, and half as much each day later.
func TestSubmit_Fades(t *testing.T) {
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

// What was done a while ago was late by less.
func TestDoneLate_Latency(t *testing.T) {
	s := openLoads(t, priority.Policy{}, 0)
	names, _ := s.submit(1)
	s.now = s.now.Add(time.Hour)
	late := []priority.Late{{ID: names[0], Since: time.Now().Add(-50 * time.Minute)}}
	ended, err := s.DoneLate(t.Context(), "acme", late, 0)
	if err != nil || ended[0].Latency.Round(time.Minute) != 10*time.Minute {
		t.Errorf("%v, %v", ended, err)
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
