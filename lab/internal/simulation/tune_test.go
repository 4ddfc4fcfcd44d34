//go:build !race

package simulation

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"
)

// traffic is a workload in the making.
type traffic struct {
	*Workload
	random *rand.Rand
}

func newTraffic(seed uint64, length time.Duration) traffic {
	w := &Workload{Groups: []string{Light, Heavy}, Apart: []bool{false, false}, To: length}
	return traffic{w, rand.New(rand.NewPCG(seed, 77))}
}

const (
	light = 0
	heavy = 1
)

// send adds customers who send so many documents at a time, about once in every.
func (t traffic) send(group uint8, customers, documents int, every, service time.Duration) {
	for range customers {
		customer := int32(len(t.Customers))
		t.Customers = append(t.Customers, "c"+strconv.Itoa(int(customer)))
		t.GroupOf = append(t.GroupOf, group)
		for at := t.random.Float64() * float64(every); at < float64(t.To); at += float64(every) * (0.8 + 0.4*t.random.Float64()) {
			for range documents {
				length := time.Duration(float64(service) * (0.5 + t.random.Float64()))
				t.Documents = append(t.Documents, Document{customer, time.Duration(at), length, 0})
			}
		}
	}
	t.sort()
}

// steadyAndFloods are customers with short documents who send all the time, some with long
// ones, and one who floods.
func steadyAndFloods(seed uint64) *Workload {
	t := newTraffic(seed, 12*time.Hour)
	t.send(light, 20, 3, 12*time.Minute, 4*time.Second)
	t.send(heavy, 6, 5, 31*time.Minute, 100*time.Second)
	t.send(heavy, 1, 200, 90*time.Minute, 4*time.Second)
	return t.Workload
}

func tuned(t *testing.T, w *Workload, servers int) Advice {
	t.Helper()
	advice, err := Tuning{w, servers}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return advice
}

// What comes later changes no choice, only its judgement.
func TestTuning_HoldsBack(t *testing.T) {
	w := steadyAndFloods(1)
	before := tuned(t, w, 3)
	for i := range w.Documents {
		if d := &w.Documents[i]; d.Submitted >= before.Split {
			d.Customer, d.Service = 0, 3*d.Service
		}
	}
	w.Documents[len(w.Documents)-1].Customer = 1
	after := tuned(t, w, 3)
	for _, pair := range [][2]*Choice{
		{before.Next.Present, after.Next.Present}, {before.Next.Best, after.Next.Best},
		{before.Submit.Present, after.Submit.Present}, {before.Submit.Best, after.Submit.Best},
	} {
		if !reflect.DeepEqual(pair[0].Chosen, pair[1].Chosen) || !reflect.DeepEqual(pair[0].Policy, pair[1].Policy) {
			t.Errorf("%s: another policy is chosen: %+v, %+v", pair[0].Counting, pair[0].Policy, pair[1].Policy)
		}
		if reflect.DeepEqual(pair[0].Judged, pair[1].Judged) {
			t.Errorf("%s: the judgement is the same", pair[0].Counting)
		}
	}
}

// A policy is found if it makes the waits shorter, none longer, and costs the heavy
// customers no more than allowed.
func TestTuning_Search(t *testing.T) {
	choice := func(light, worst, heavy float64) *Choice {
		return &Choice{Chosen: Measures{lightP99: light, worstTenth: worst, heavyMean: heavy}}
	}
	now := choice(100, 100, 100)
	for _, test := range []struct {
		name  string
		other *Choice
		found bool
	}{
		{"shorter", choice(50, 100, 250), true},
		{"too dear", choice(50, 100, 350), false},
		{"shorter for some, longer for others", choice(10, 150, 100), false},
		{"longer by what nobody feels", choice(50, 101, 100), true},
		{"longer", choice(101, 101, 100), false},
	} {
		found := search([]*Choice{now, test.other}, now, 10)
		if (found.Best == test.other) != test.found || found.Present != now {
			t.Errorf("%s: found is %v", test.name, !test.found)
		}
	}
}

func TestTuning_Judge(t *testing.T) {
	// choice has the same waits in both halves.
	choice := func(counting string, light, worst, heavy float64) *Choice {
		c := &Choice{Counting: counting, Judged: Measures{lightP99: light, worstTenth: worst, heavyMean: heavy}}
		c.halves = [2]Measures{c.Judged, c.Judged}
		return c
	}
	next := choice(Rule, 100, 100, 100)
	for _, test := range []struct {
		name         string
		submit, best *Choice // by Submit now, and the best by Next
		take         string
		holds        bool
		reason       Reason
	}{
		{"equal", choice(Submit, 100, 100, 100), next, Rule, false, NoDifference},
		{"too little to be felt", choice(Submit, 95, 95, 100), next, Rule, false, NoDifference},
		{"better", choice(Submit, 90, 100, 100), next, Submit, false, SubmitBetter},
		{"worse", choice(Submit, 100, 120, 100), next, Rule, false, NextBetter},
		{"both", choice(Submit, 120, 50, 100), next, Rule, false, Mixed},
		{"too dear", choice(Submit, 50, 50, 400), next, Rule, false, SubmitTooDear},
		{"found", choice(Submit, 90, 90, 100), choice(Rule, 80, 80, 100), Rule, true, NextBetter},
		{"found, too dear", choice(Submit, 90, 90, 100), choice(Rule, 80, 80, 400), Submit, false, SubmitBetter},
		{"idle", choice(Submit, 0.1, 0, 100), choice(Rule, 0, 0.1, 100), Rule, false, NobodyWaits},
	} {
		a := &Advice{
			Division: Division{Light: 10},
			Next:     Found{Present: next, Best: test.best},
			Submit:   Found{Present: test.submit, Best: test.submit},
		}
		if test.reason == NobodyWaits {
			a.Next.Present = test.best
		}
		a.judge(10)
		if a.Reason != test.reason || a.Take.Counting != test.take || a.Next.Holds != test.holds {
			t.Errorf("%s: %s, %s is taken, the policy found holds: %v", test.name, a.Reason, a.Take.Counting, a.Next.Holds)
		}
	}
}
