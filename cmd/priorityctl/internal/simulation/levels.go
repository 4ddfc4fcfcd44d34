package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// byLevel serves documents by the levels that the module gives them when they
// arrive: the level that the picker names, and first come within it.
type byLevel struct {
	clock   *clock
	decide  func(document int) (priority.Decision, error)
	done    func(document int) error // nil: nobody wants to know
	picker  *priority.Picker
	waiting *queues // by level, from 0
	hasWork []bool  // by level, from 0
	levels  []uint8 // by document
}

// clock is the virtual time as the module sees it.
type clock struct{ now time.Duration }

func (c *clock) Now() time.Time { return time.Unix(0, 0).Add(c.now) }

// newRule returns a scheduler by the module's MemoryStore.
func newRule(w *Workload, o Options, picker *priority.Picker) (*byLevel, error) {
	s := newByLevel(w, o.Policy, picker)
	store, err := priority.NewMemoryStore(&priority.MemoryOptions{Policy: o.Policy, Now: s.clock.Now})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	s.decide = func(document int) (priority.Decision, error) {
		return store.Next(ctx, w.Customers[w.Documents[document].Customer])
	}
	return s, nil
}

// newTracker returns a scheduler by the module's MemoryTracker. The seed decides
// which Dones are lost.
func newTracker(w *Workload, o Options, picker *priority.Picker, seed uint64) (*byLevel, error) {
	s := newByLevel(w, o.Policy, picker)
	tracker, err := priority.NewMemoryTracker(&priority.MemoryOptions{Policy: o.Policy, Now: s.clock.Now, Lease: o.Lease})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	s.decide = func(document int) (priority.Decision, error) {
		return tracker.Submit(ctx, w.Customers[w.Documents[document].Customer], strconv.Itoa(document))
	}
	losses := rand.New(rand.NewPCG(seed, streamOfLosses))
	s.done = func(document int) error {
		if o.LostDone > 0 && losses.Float64() < o.LostDone {
			return nil
		}
		return tracker.Done(ctx, w.Customers[w.Documents[document].Customer], strconv.Itoa(document))
	}
	return s, nil
}

func newByLevel(w *Workload, policy priority.Policy, picker *priority.Picker) *byLevel {
	lowest := int(policy.Lowest())
	return &byLevel{
		clock:   new(clock),
		picker:  picker,
		waiting: newQueues(lowest, len(w.Documents)),
		hasWork: make([]bool, lowest),
		levels:  make([]uint8, len(w.Documents)),
	}
}

func (s *byLevel) Submit(document int, now time.Duration) error {
	s.clock.now = now
	decision, err := s.decide(document)
	if err != nil {
		return err
	}
	s.levels[document] = uint8(decision.Level)
	queue := int(decision.Level - priority.Highest)
	s.waiting.push(queue, document)
	s.hasWork[queue] = true
	return nil
}

func (s *byLevel) Next(time.Duration) (int, bool) {
	level, ok := s.picker.Pick(s.hasWork)
	if !ok {
		return 0, false
	}
	queue := int(level - priority.Highest)
	document := s.waiting.pop(queue)
	s.hasWork[queue] = !s.waiting.empty(queue)
	return document, true
}

func (s *byLevel) Done(document int, now time.Duration) error {
	if s.done == nil {
		return nil
	}
	s.clock.now = now
	return s.done(document)
}

// newPicker returns the picker of a consumer discipline: "strict", "linear",
// "halving", or weights, that of level 1 first, as in "8,4,2,1".
func newPicker(discipline string, policy priority.Policy) (*priority.Picker, error) {
	switch discipline {
	case "", Strict:
		return priority.NewPicker()
	case Linear:
		return priority.NewPicker(priority.LinearWeights(policy.Lowest())...)
	case Halving:
		return priority.NewPicker(priority.HalvingWeights(policy.Lowest())...)
	}
	var weights []int64
	for text := range strings.SplitSeq(discipline, ",") {
		weight, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a consumer discipline is %s, %s, %s or weights as 8,4,2,1, not %q", Strict, Linear, Halving, discipline)
		}
		weights = append(weights, weight)
	}
	return priority.NewPicker(weights...)
}

// Consumer disciplines.
const (
	Strict  = "strict"  // the first level that has work
	Linear  = "linear"  // weighted 9:8:…:1
	Halving = "halving" // weighted 256:128:…:1
)
