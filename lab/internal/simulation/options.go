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
	LostDone   float64         // the share of submitted documents whose Done is lost
	Schedulers []string        // names; see NewScheduler
}

// Validate returns an error that says what is wrong, or nil.
func (o Options) Validate() error {
	if o.Servers < 1 {
		return fmt.Errorf("%d servers, not 1 at least", o.Servers)
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
	Stride        = "stride"
	FairShare     = "fair-share"
	LeastFlight   = "least-in-flight"
	SQSFair       = "sqs-fair"        // fair queues of Amazon SQS
	SQSShares     = "sqs-fair-shares" // the other reading of their page
	CapByKey      = "cap/4"           // a customer has at most a quarter of the servers
	Rule          = "rule"            // levels of Next
	Submit        = "submit"          // levels of Submit, with a Done at the end of each service
	SubmitTurns   = "submit/22"       // the same with 22 levels
	SubmitCosts   = "submit/22+cost"  // the same, told what each document costs
	ByHand        = "by-hand"         // levels by the number of documents pending
	ownDiscipline = ":"               // between the name of levels and a discipline of their own
	ownFolds      = "@"               // before the levels behind which levels are folded
)

// Order is a scheduler of the matrix, and whose order it is.
type Order struct{ Scheduler, Of string }

// Orders that the module ships, and those of others.
const (
	byHandRecent = "by-hand/10m"
	fourClasses  = "submit@345" // as queue.Class folds nine levels
	weighted     = "submit:16777216:2097152:262144:32768:4096:512:64:8:1"
)

// Orders are what a matrix compares.
func Orders() []Order {
	return []Order{
		{FirstCome, "a queue without levels"},
		{Rule, "Next: levels by count"},
		{ByHand, "twenty lines of a team: level l ends at 2^l documents pending"},
		{byHandRecent, "level l up to 3^l documents of the last ten minutes, as sidekiq-fair_tenant counts"},
		{Submit, "nine strict levels: asynq with StrictPriority, RabbitMQ classic, BullMQ, Celery, SQL, a sorted set"},
		{"submit+order", "the same, each customer's documents in order"},
		{"submit/32", "32 strict levels: RabbitMQ quorum queues from 4.3"},
		{fourClasses, "four priorities: River"},
		{weighted, "weights, each eight times the next one: the best for nine levels"},
		{"submit@8:2:1", "two classes of 2:1: RabbitMQ quorum queues 4.0 to 4.2"},
		{SubmitTurns, "16 turns"},
		{SubmitCosts, "16 turns, and the cost on arrival"},
		{RoundRobin, "groups of BullMQ Pro"},
		{Stride, "fairness keys of Temporal"},
		{FairShare, ""},
		{LeastFlight, ""},
		{SQSFair, "fair queues of SQS; noisy until the backlog is gone"},
		{SQSShares, "fair queues of SQS; noisy while a share is large"},
		{CapByKey, "a cap by key: River Pro, Inngest"},
	}
}

// MatrixSchedulers are the names of those that a matrix compares.
func MatrixSchedulers() (names []string) {
	for _, order := range Orders() {
		names = append(names, order.Scheduler)
	}
	return names
}

// Informed are the names of the schedulers that know the queues of the customers,
// or what documents cost.
func Informed() []string { return []string{RoundRobin, Stride, FairShare, LeastFlight} }

// NewScheduler returns a scheduler by its name. Rule and Submit have the policy of the
// options, or default tables of their own number of levels as in "submit/22". The Submit of
// "submit+cost" gets each document's service time, that of "submit+delay" when it is due; those of
// "submit+accounts" and "submit+order" have an option of the module. Those by level are served strictly, or by
// weights as in "submit:8:4:2:1", of classes of levels as in "submit@345". The seed decides which
// Dones are lost, and what is picked at random.
func NewScheduler(name string, w *Workload, o Options, seed uint64) (Scheduler, error) {
	switch name {
	case FirstCome:
		return newCapped(w, o.Servers, 1), nil
	case CapByKey:
		return newCapped(w, o.Servers, 4), nil
	case RoundRobin:
		return newRoundRobin(w), nil
	case Stride:
		return newStride(w), nil
	case FairShare:
		return newFairShare(w), nil
	case LeastFlight:
		return newLeastInFlight(w), nil
	case SQSFair, SQSShares:
		return newSQSFair(w, name == SQSShares), nil
	}
	name, discipline, _ := strings.Cut(name, ownDiscipline)
	name, folds, folded := strings.Cut(name, ownFolds)
	giver, last, err := newLevelGiver(name, w, o, seed)
	if err != nil {
		return nil, err
	}
	var ends []priority.Level
	if folded {
		if ends, err = foldsOf(folds, last); err != nil {
			return nil, err
		}
	}
	consumers, err := newConsumers(discipline, seed)
	if err != nil {
		return nil, err
	}
	return newByLevel(giver, consumers, w, last, ends), nil
}

// foldsOf reads the last levels of all classes but the last, a digit each.
func foldsOf(digits string, last priority.Level) (ends []priority.Level, err error) {
	for _, digit := range digits {
		ends = append(ends, priority.Level(digit-'0'))
	}
	if len(ends) == 0 || !slices.IsSorted(ends) || ends[0] < 1 || ends[len(ends)-1] >= last {
		return nil, fmt.Errorf("levels are joined up to some before the last, as in @345, not %q", digits)
	}
	return ends, nil
}

// newLevelGiver returns what gives levels, and the last of them.
func newLevelGiver(name string, w *Workload, o Options, seed uint64) (giver levelGiver, last priority.Level, err error) {
	if counting, ok := newCounting(name); ok {
		o.Policy = counting.policy(o.Policy)
		giver, err = newCounted(counting, w, o, seed)
		return giver, o.Policy.Last(), err
	}
	switch name {
	case ByHand:
		return newByHand(w, o, seed, 0), byHandLevels, nil
	case byHandRecent:
		return newByHand(w, o, seed, 10*time.Minute), byHandLevels, nil
	}
	return nil, 0, fmt.Errorf("there is no scheduler %q; there are %s", name, strings.Join(MatrixSchedulers(), ", "))
}
