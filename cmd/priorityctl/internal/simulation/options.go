package simulation

import (
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// Options says by what the documents are served.
type Options struct {
	Servers    int             // at least 1
	Policy     priority.Policy // of Rule and Submit
	Lease      time.Duration   // of a submitted document; 0: the module's default
	LostDone   float64         // the share of submitted documents whose Done is lost
	Discipline string          // of the consumers that serve levels: Strict, Linear, Halving or weights
	Schedulers []string        // names; see NewScheduler
}

// Validate returns an error that says what is wrong, or nil.
func (o Options) Validate() error {
	if o.Servers < 1 || o.Servers > 1_000_000 {
		return fmt.Errorf("%d servers are not from 1 to 1,000,000", o.Servers)
	}
	if !(o.LostDone >= 0 && o.LostDone <= 1) {
		return fmt.Errorf("the rate of lost Dones, %v, is not from 0 to 1", o.LostDone)
	}
	if len(o.Schedulers) == 0 {
		return fmt.Errorf("no scheduler")
	}
	for _, name := range o.Schedulers {
		if _, err := NewScheduler(name, newWorkload(nil), o, 0); err != nil {
			return err
		}
	}
	return nil
}

// Names of schedulers.
const (
	FirstCome     = "first-come"
	RoundRobin    = "round-robin"
	Deficit       = "deficit"
	Stride        = "stride"
	FairShare     = "fair-share"
	LeastFlight   = "least-in-flight"
	Rule          = "rule"   // levels of Next
	Submit        = "submit" // levels of Submit, with a Done at the end of each service
	ownDiscipline = ":"      // between Rule or Submit and a discipline of its own
)

// Schedulers are the names of all schedulers.
func Schedulers() []string {
	return []string{FirstCome, Rule, Submit, RoundRobin, Deficit, Stride, FairShare, LeastFlight}
}

// NewScheduler returns a scheduler by its name. "rule" and "submit" have the
// discipline of the options, or one of their own as in "submit:linear". The
// seed decides which Dones are lost.
func NewScheduler(name string, w *Workload, o Options, seed uint64) (Scheduler, error) {
	switch name {
	case FirstCome:
		return newFirstCome(w), nil
	case RoundRobin:
		return newRoundRobin(w), nil
	case Deficit:
		return newDeficitRoundRobin(w), nil
	case Stride:
		return newStride(w), nil
	case FairShare:
		return newFairShare(w), nil
	case LeastFlight:
		return newLeastInFlight(w), nil
	}
	counting, discipline, own := strings.Cut(name, ownDiscipline)
	if counting != Rule && counting != Submit {
		return nil, fmt.Errorf("there is no scheduler %q; there are %s", name, strings.Join(Schedulers(), ", "))
	}
	if !own {
		discipline = o.Discipline
	}
	picker, err := newPicker(discipline, o.Policy)
	if err != nil {
		return nil, err
	}
	return newByLevel(counting, w, o, picker, seed)
}
