package simulation

import (
	"fmt"
	"slices"
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
	Discipline string          // of the consumers that serve levels: Strict, Linear, Halving, Patience and a time, or weights
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
	SQSFair       = "sqs-fair=20s"   // fair queues of Amazon SQS; recent processing time halves in this time
	CapByKey      = "cap/4"          // a customer has at most a quarter of the servers
	Rule          = "rule"           // levels of Next
	Submit        = "submit"         // levels of Submit, with a Done at the end of each service
	SubmitTurns   = "submit/22"      // the same with 22 levels
	SubmitCosts   = "submit/22+cost" // the same, told what each document costs
	ownDiscipline = ":"              // between the name of levels and a discipline of their own
	sqsPrefix     = "sqs-fair="
	capPrefix     = "cap/"
)

// Schedulers are the names of all schedulers that do not follow a product's rule.
func Schedulers() []string {
	return append([]string{FirstCome, Rule, Submit}, Informed()...)
}

// MatrixSchedulers are the names of those that a matrix compares: Submit with fewer levels, with
// more, and with the cost on arrival, too.
func MatrixSchedulers() []string {
	return slices.Concat([]string{FirstCome, Rule, "submit/4", "submit/5", Submit, "submit+cost", SubmitTurns, SubmitCosts, "submit/22+guess"}, Informed(), Published())
}

// Informed are the names of the schedulers that know the queues of the customers,
// or what documents cost.
func Informed() []string { return []string{RoundRobin, Deficit, Stride, FairShare, LeastFlight} }

// Published are the names of the schedulers that follow what the documentation of a queue says
// of its fairness. Temporal's and BullMQ Pro's are Stride and RoundRobin.
func Published() []string { return []string{SQSFair, "sqs-fair=5m", CapByKey, "cap/8"} }

// NewScheduler returns a scheduler by its name. Rule and Submit have the policy of the
// options, or default tables of their own number of levels as in "submit/22"; the Submit of
// "submit+cost" gets each document's service time, the one of "submit+guess" an estimate. Those by
// level have the discipline of the options, or one of their own as in "submit:linear". The seed decides which Dones are lost, and how wrong a guess is. A scheduler that is an io.Closer
// is to be closed.
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
	if halfLife, ok := halfLifeOfSQS(name); ok {
		return newSQSFair(w, halfLife), nil
	}
	if parts, ok := shareOfCap(name); ok {
		return newCapped(w, o.Servers, parts), nil
	}
	name, discipline, own := strings.Cut(name, ownDiscipline)
	giver, last, err := newLevelGiver(name, w, o, seed)
	if err != nil {
		return nil, err
	}
	if !own {
		discipline = o.Discipline
	}
	consumers, err := newConsumers(discipline, last)
	if err != nil {
		return nil, err
	}
	return newByLevel(giver, consumers, w, last), nil
}

// newLevelGiver returns what gives levels, and the last of them.
func newLevelGiver(name string, w *Workload, o Options, seed uint64) (giver levelGiver, last priority.Level, err error) {
	if counting, ok := newCounting(name); ok {
		o.Policy = counting.policy(o.Policy)
		giver, err = newCounted(counting, w, o, seed)
		return giver, o.Policy.Last(), err
	}
	return nil, 0, fmt.Errorf("there is no scheduler %q; there are %s", name, strings.Join(slices.Concat(Schedulers(), Published()), ", "))
}
