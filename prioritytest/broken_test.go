//go:build !race

package prioritytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// The suite rejects each of these stores, and names the law that it breaks.
func TestABrokenStoreIsRejected(t *testing.T) {
	for _, test := range []struct {
		name string
		law  int
		open func(t *testing.T) Subject
	}{
		{"counts a document twice", 1, nexts(countsTwice)},
		{"takes two entries of a customer for one", 1, around(func(s priority.Store) priority.Store { return mergesEntries{s} })},
		{"counts a redelivery", 1, submits(countsRedeliveries)},
		{"counts a Submit twice", 1, submits(submitsTwice)},
		{"counts a Submit by the count too", 1, submits(countsToo)},
		{"ignores the cost", 1, submits(ignoresCost)},
		{"ignores the costs of a batch", 1, around(func(s priority.Store) priority.Store { return ignoresCosts{s} })},
		{"submits a batch one by one", 1, around(func(s priority.Store) priority.Store { return submitsEach{s} })},
		{"has a load of its own", 1, submits(inventsLoad)},
		{"has a level that is not its load's", 4, submits(inventsLevel)},
		{"does not take turns", 4, submits(takesNoTurns)},
		{"has a next level of its own", 4, around(func(s priority.Store) priority.Store { return inventsNext{s} })},
		{"reports an end twice", 1, ends(reportsTwice)},
		{"reports ends that were none", 1, ends(reportsAll)},
		{"reports another level", 1, ends(reportsLevel)},
		{"reports no end", 1, ends(reportsNone)},
		{"repeats a call of unknown outcome", 1, nexts(repeats(priority.ErrOutcomeUnknown))},
		{"says not counted of what may be", 1, nexts(hidesUnknown)},
		{"has errors of two classes", 1, nexts(twoClasses)},
		{"tries again when time is over", 2, nexts(repeats(priority.ErrNotCounted))},
		{"is deaf to contexts", 2, nexts(deaf)},
		{"leaves a goroutine behind each call that fails", 3, nexts(leaves)},
		{"keeps entries for good", 3, keepsEntries},
		{"remembers an outage's level", 4, around(func(s priority.Store) priority.Store { return &remembersLevels{Store: s} })},
		{"loses Dones", 4, around(func(s priority.Store) priority.Store { return losesDones{s} })},
		{"has an old Done end a new Submit", 4, recovering(around(func(s priority.Store) priority.Store { return &owesDones{Store: s} }))},
		{"ends leases early", 4, endsLeasesEarly},
		{"restores what another has reset", 5, restoring},
		{"fails a batch for one customer", 6, around(func(s priority.Store) priority.Store { return failsAll{s} })},
		{"gives up on all for one customer", 6, around(func(s priority.Store) priority.Store { return &givesUp{Store: s} })},
		{"has all wait for one", 6, func(t *testing.T) Subject { return nexts(queues(make(chan struct{}, 1)))(t) }},
		{"invents a policy", 7, around(func(s priority.Store) priority.Store { return inventsPolicy{s} })},
		{"invents a last level", 7, around(func(s priority.Store) priority.Store { return inventsLast{s} })},
		{"lends its thresholds", 7, around(func(s priority.Store) priority.Store { return &lendsPolicy{s, s.PolicyOf("acme")} })},
		{"lends its loads", 7, around(func(s priority.Store) priority.Store { return &lendsLoads{s, s.PolicyOf("acme").Loads} })},
	} {
		t.Run(test.name, func(t *testing.T) {
			if broken := examine(t, test.open, test.law); broken != nil {
				t.Log(broken)
			} else {
				t.Errorf("law %d was not found broken", test.law)
			}
		})
	}
}

// examine runs the suite until it finds that a law is broken.
func examine(t *testing.T, open func(t *testing.T) Subject, law int) *violation {
	s := suite{open: open, virtual: true}
	for _, c := range checks {
		if broken, _ := s.check(t, c); broken != nil && broken.law == law {
			return broken
		}
	}
	for seed := range 400 {
		if broken := s.sequence(t, sequences(true).Example(seed)); broken != nil && broken.law == law {
			return broken
		}
	}
	return nil
}

// policed is a store in memory with a policy of its own.
func policed() *memory.Store {
	s, err := memory.New(&memory.Options{Policy: priority.Policy{Thresholds: []int64{-5, -10}, Loads: []float64{4, 100}, Turns: 3}})
	if err != nil {
		panic(err)
	}
	return s
}

func around(broken func(priority.Store) priority.Store) func(t *testing.T) Subject {
	return func(*testing.T) Subject {
		inner := policed()
		failing := NewFailingStore(inner)
		return Subject{Store: broken(failing), Other: inner, Faulty: []Faulty{failing}}
	}
}

func recovering(open func(t *testing.T) Subject) func(t *testing.T) Subject {
	return func(t *testing.T) Subject {
		s := open(t)
		s.Recovery = time.Second
		return s
	}
}

// next answers a Next of the store inside.
type next func(ctx context.Context, inner priority.Store, customer string) (priority.Decision, error)

type nexting struct {
	priority.Store
	next next
}

func (s nexting) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return s.next(ctx, s.Store, customer)
}

func nexts(next next) func(t *testing.T) Subject {
	return around(func(s priority.Store) priority.Store { return nexting{s, next} })
}

func countsTwice(ctx context.Context, s priority.Store, customer string) (priority.Decision, error) {
	d, err := s.Next(ctx, customer)
	_, _ = s.Next(ctx, customer)
	return d, err
}

// repeats makes a call again if it fails like this.
func repeats(class error) next {
	return func(ctx context.Context, s priority.Store, customer string) (priority.Decision, error) {
		d, err := s.Next(ctx, customer)
		if errors.Is(err, class) {
			return s.Next(ctx, customer)
		}
		return d, err
	}
}

func hidesUnknown(ctx context.Context, s priority.Store, customer string) (priority.Decision, error) {
	d, err := s.Next(ctx, customer)
	if errors.Is(err, priority.ErrOutcomeUnknown) {
		err = priority.ErrNotCounted
	}
	return d, err
}

func twoClasses(ctx context.Context, s priority.Store, customer string) (priority.Decision, error) {
	d, err := s.Next(ctx, customer)
	if err != nil {
		err = fmt.Errorf("%w and %w", priority.ErrOutcomeUnknown, err)
	}
	return d, err
}

func deaf(ctx context.Context, s priority.Store, customer string) (priority.Decision, error) {
	return s.Next(context.WithoutCancel(ctx), customer)
}

func leaves(ctx context.Context, s priority.Store, customer string) (priority.Decision, error) {
	d, err := s.Next(ctx, customer)
	if err != nil {
		go time.Sleep(time.Hour)
	}
	return d, err
}

type mergesEntries struct{ priority.Store }

func (s mergesEntries) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if priority.CheckEach(customers) != nil || ctx.Err() != nil {
		return s.Store.NextEach(ctx, customers)
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(customers)))
	once, err := s.Store.NextEach(ctx, distinct)
	var decisions []priority.Decision
	for _, customer := range customers {
		at, _ := slices.BinarySearch(distinct, customer)
		decisions = append(decisions, once[at])
	}
	return decisions, err
}

// submit answers a Submit of the store inside.
type submit func(ctx context.Context, inner priority.Store, customer, document string, cost float64) (priority.Decision, error)

type submittingStore struct {
	priority.Store
	submit submit
}

func (s submittingStore) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	return s.submit(ctx, s.Store, customer, document, cost)
}

func submits(submit submit) func(t *testing.T) Subject {
	return around(func(s priority.Store) priority.Store { return submittingStore{s, submit} })
}

func countsRedeliveries(ctx context.Context, s priority.Store, customer, document string, cost float64) (priority.Decision, error) {
	if err := s.Done(ctx, customer, document, 0); err != nil {
		return priority.Decision{}, err
	}
	return s.Submit(ctx, customer, document, cost)
}

func submitsTwice(ctx context.Context, s priority.Store, customer, document string, cost float64) (priority.Decision, error) {
	d, err := s.Submit(ctx, customer, document, cost)
	if err == nil && s.Done(ctx, customer, document, 0) == nil {
		_, _ = s.Submit(ctx, customer, document, cost)
	}
	return d, err
}

func countsToo(ctx context.Context, s priority.Store, customer, document string, cost float64) (priority.Decision, error) {
	d, err := s.Submit(ctx, customer, document, cost)
	if err == nil {
		_, _ = s.Next(ctx, customer)
	}
	return d, err
}

func ignoresCost(ctx context.Context, s priority.Store, customer, document string, cost float64) (priority.Decision, error) {
	if priority.CheckSubmit(customer, []string{document}, []float64{cost}) == nil {
		cost = 0
	}
	return s.Submit(ctx, customer, document, cost)
}

func inventsLoad(ctx context.Context, s priority.Store, customer, document string, cost float64) (priority.Decision, error) {
	d, err := s.Submit(ctx, customer, document, cost)
	if err == nil {
		d.Load = float64(d.Pending)
		d.Level = s.PolicyOf(customer).LevelOfLoad(d.Load)
	}
	return d, err
}

func inventsLevel(ctx context.Context, s priority.Store, customer, document string, cost float64) (priority.Decision, error) {
	d, err := s.Submit(ctx, customer, document, cost)
	d.Level = min(d.Level, 2)
	return d, err
}

func takesNoTurns(ctx context.Context, s priority.Store, customer, document string, cost float64) (priority.Decision, error) {
	d, err := s.Submit(ctx, customer, document, cost)
	if err == nil {
		d.Level = s.PolicyOf(customer).LevelOfLoad(d.Load)
	}
	return d, err
}

type ignoresCosts struct{ priority.Store }

func (s ignoresCosts) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]priority.Decision, error) {
	if priority.CheckSubmit(customer, documents, costs) == nil {
		costs = nil
	}
	return s.Store.SubmitN(ctx, customer, documents, costs)
}

// submitsEach does not decide about documents that are submitted again as if none of
// them were there.
type submitsEach struct{ priority.Store }

func (s submitsEach) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) (decisions []priority.Decision, err error) {
	if priority.CheckSubmit(customer, documents, costs) != nil || len(documents) < 2 || ctx.Err() != nil {
		return s.Store.SubmitN(ctx, customer, documents, costs)
	}
	for i := range documents {
		var one []float64
		if costs != nil {
			one = costs[i : i+1]
		}
		d, err := s.Store.SubmitN(ctx, customer, documents[i:i+1], one)
		if err != nil {
			return nil, &priority.BatchError{Errs: slices.Repeat([]error{priority.ItemErrors(err, 1)[0]}, len(documents))}
		}
		decisions = append(decisions, d...)
	}
	return decisions, nil
}

type inventsNext struct{ priority.Store }

func (s inventsNext) Peek(ctx context.Context, customer string) (priority.State, error) {
	state, err := s.Store.Peek(ctx, customer)
	state.NextLevel = max(state.NextLevel, state.Level)
	return state, err
}

// end answers a DoneN of the store inside.
type end func(ctx context.Context, inner priority.Store, customer string, documents []string, took time.Duration) error

type ending struct {
	priority.Store
	end end
}

func (s ending) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error {
	return s.end(ctx, s.Store, customer, documents, took)
}

func ends(end end) func(t *testing.T) Subject {
	return around(func(s priority.Store) priority.Store { return ending{s, end} })
}

// reporting makes a DoneN whose reports are given to a function.
func reporting(report func(ctx context.Context, e priority.Ended)) end {
	return func(ctx context.Context, s priority.Store, customer string, documents []string, took time.Duration) error {
		own := priority.WithEnded(priority.WithEnded(ctx, nil), func(e priority.Ended) { report(ctx, e) })
		return s.DoneN(own, customer, documents, took)
	}
}

var (
	reportsNone  = reporting(func(context.Context, priority.Ended) {})
	reportsTwice = reporting(func(ctx context.Context, e priority.Ended) {
		priority.ReportEnded(ctx, e)
		priority.ReportEnded(ctx, e)
	})
	reportsLevel = reporting(func(ctx context.Context, e priority.Ended) {
		e.Level = priority.First
		priority.ReportEnded(ctx, e)
	})
)

func reportsAll(ctx context.Context, s priority.Store, customer string, documents []string, took time.Duration) error {
	err := s.DoneN(priority.WithEnded(ctx, nil), customer, documents, took)
	for _, document := range slices.Compact(slices.Sorted(slices.Values(documents))) {
		if err == nil {
			priority.ReportEnded(ctx, priority.Ended{Document: document, Level: priority.First})
		}
	}
	return err
}

func keepsEntries(*testing.T) Subject {
	var mu sync.Mutex
	inner, seen := policed(), make(map[string]bool)
	return Subject{
		Store:   noting{inner, func(customer string) { mu.Lock(); seen[customer] = true; mu.Unlock() }},
		Entries: func() int { mu.Lock(); defer mu.Unlock(); return len(seen) },
	}
}

type noting struct {
	*memory.Store
	note func(customer string)
}

func (s noting) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	s.note(customer)
	return s.Store.Submit(ctx, customer, document, cost)
}

// remembersLevels answers in an outage, and stays at what it answered.
type remembersLevels struct {
	priority.Store
	worst atomic.Int32
}

func (s *remembersLevels) Next(ctx context.Context, customer string) (priority.Decision, error) {
	d, err := s.Store.Next(ctx, customer)
	if err != nil {
		d, err = priority.Decision{Level: s.Last(), Count: -11, Degraded: true}, nil
		s.worst.Store(int32(d.Level))
	}
	d.Level = max(d.Level, priority.Level(s.worst.Load()))
	return d, err
}

type losesDones struct{ priority.Store }

func (s losesDones) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error {
	if err := s.Store.DoneN(ctx, customer, documents, took); errors.Is(err, priority.ErrInvalid) {
		return err
	}
	return nil
}

// owesDones sends the Dones that failed again and again.
type owesDones struct {
	priority.Store
	mu   sync.Mutex
	owed map[string][]string
}

func (s *owesDones) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error {
	err := s.Store.DoneN(ctx, customer, documents, took)
	if err == nil || errors.Is(err, priority.ErrInvalid) || ctx.Err() != nil {
		return err
	}
	return s.owe(customer, documents)
}

func (s *owesDones) owe(customer string, documents []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owed == nil {
		s.owed = make(map[string][]string)
		time.AfterFunc(50*time.Millisecond, s.pay)
	}
	s.owed[customer] = append(s.owed[customer], documents...)
	return nil
}

func (s *owesDones) pay() {
	s.mu.Lock()
	owed := s.owed
	s.owed = nil
	s.mu.Unlock()
	for customer, documents := range owed {
		if s.Store.DoneN(context.Background(), customer, documents, 0) != nil {
			_ = s.owe(customer, documents)
		}
	}
}

func endsLeasesEarly(*testing.T) Subject {
	inner, err := memory.New(&memory.Options{Lease: time.Minute})
	if err != nil {
		panic(err)
	}
	return Subject{Store: longLease{inner}}
}

type longLease struct{ *memory.Store }

func (longLease) Lease() time.Duration { return priority.DefaultLease }

// restoresCounts counts once more what it has counted itself, when the count is gone.
type restoresCounts struct {
	*memory.Store
	mu    sync.Mutex
	count map[string]int64
}

func restoring(*testing.T) Subject {
	inner := policed()
	return Subject{Store: &restoresCounts{Store: inner, count: make(map[string]int64)}, Other: inner}
}

func (s *restoresCounts) Next(ctx context.Context, customer string) (priority.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.Store.Next(ctx, customer)
	if lost := d.Count - s.count[customer]; err == nil && lost > 1 {
		decisions, err := s.Store.NextN(ctx, customer, int(lost))
		if err != nil {
			return d, err
		}
		d = decisions[lost-1]
	}
	if err == nil {
		s.count[customer] = d.Count
	}
	return d, err
}

func (s *restoresCounts) Reset(ctx context.Context, customer string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.count, customer)
	return s.Store.Reset(ctx, customer)
}

type failsAll struct{ priority.Store }

func (s failsAll) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	decisions, err := s.Store.NextEach(ctx, customers)
	if batch := new(priority.BatchError); errors.As(err, &batch) {
		for i, err := range batch.Errs {
			if err == nil {
				batch.Errs[i] = fmt.Errorf("%w: another entry failed", priority.ErrOutcomeUnknown)
			}
		}
	}
	return decisions, err
}

// givesUp answers nobody after three failures, for a second.
type givesUp struct {
	priority.Store
	mu       sync.Mutex
	failures int
	until    time.Time
}

func (s *givesUp) Next(ctx context.Context, customer string) (priority.Decision, error) {
	s.mu.Lock()
	open := time.Now().Before(s.until)
	s.mu.Unlock()
	if open {
		return priority.Decision{}, priority.ErrNotCounted
	}
	d, err := s.Store.Next(ctx, customer)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures++; err == nil {
		s.failures = 0
	}
	if s.failures == 3 {
		s.failures, s.until = 0, time.Now().Add(time.Second)
	}
	return d, err
}

// queues makes one call at a time.
func queues(turn chan struct{}) next {
	return func(ctx context.Context, s priority.Store, customer string) (priority.Decision, error) {
		turn <- struct{}{}
		defer func() { <-turn }()
		return s.Next(ctx, customer)
	}
}

type inventsPolicy struct{ priority.Store }

func (inventsPolicy) PolicyOf(string) priority.Policy { return priority.DefaultPolicy() }

type inventsLast struct{ priority.Store }

func (inventsLast) Last() priority.Level { return 9 }

type lendsPolicy struct {
	priority.Store
	policy priority.Policy
}

func (s *lendsPolicy) PolicyOf(string) priority.Policy { return s.policy }

type lendsLoads struct {
	priority.Store
	loads []float64
}

func (s *lendsLoads) PolicyOf(customer string) priority.Policy {
	policy := s.Store.PolicyOf(customer)
	policy.Loads = s.loads
	return policy
}
