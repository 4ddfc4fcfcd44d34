package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
)

// byLevel serves documents by the levels that the module gives them when they
// arrive: the level that the picker names, and first come within it.
type byLevel struct {
	clock   *clock
	decide  func(document int) (priority.Decision, error)
	done    func(document int) error // nil: nobody wants to know
	picker  *queue.Picker
	waiting *queues // by level, from 0
	hasWork []bool  // by level, from 0
	levels  []uint8 // by document
}

// clock is the virtual time as the module sees it.
type clock struct{ now atomic.Int64 }

func (c *clock) set(now time.Duration) { c.now.Store(int64(now)) }
func (c *clock) Now() time.Time        { return time.Unix(0, c.now.Load()) }

// newByLevel returns a scheduler whose levels are those of the module's store in
// memory: of Next for Rule, of Submit for Submit. The seed decides which Dones are
// lost.
func newByLevel(counting string, w *Workload, o Options, picker *queue.Picker, seed uint64) (*byLevel, error) {
	last := int(o.Policy.Last())
	s := &byLevel{
		clock:   new(clock),
		picker:  picker,
		waiting: newQueues(last, len(w.Documents)),
		hasWork: make([]bool, last),
		levels:  make([]uint8, len(w.Documents)),
	}
	store, err := memory.New(&memory.Options{Policy: o.Policy, Lease: o.Lease, Now: s.clock.Now})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	customerOf := func(document int) string { return w.Customers[w.Documents[document].Customer] }
	if counting == Rule {
		s.decide = func(document int) (priority.Decision, error) {
			return store.Next(ctx, customerOf(document))
		}
		return s, nil
	}
	s.decide = func(document int) (priority.Decision, error) {
		return store.Submit(ctx, customerOf(document), strconv.Itoa(document))
	}
	losses := rand.New(rand.NewPCG(seed, streamOfLosses))
	s.done = func(document int) error {
		if o.LostDone > 0 && losses.Float64() < o.LostDone {
			return nil
		}
		return store.Done(ctx, customerOf(document), strconv.Itoa(document), w.Documents[document].Service)
	}
	return s, nil
}

func (s *byLevel) Submit(document int, now time.Duration) error {
	s.clock.set(now)
	decision, err := s.decide(document)
	if err != nil {
		return err
	}
	s.levels[document] = uint8(decision.Level)
	at := int(decision.Level - priority.First)
	s.waiting.push(at, document)
	s.hasWork[at] = true
	return nil
}

func (s *byLevel) Next(time.Duration) (int, bool) {
	level, ok := s.picker.Pick(s.hasWork)
	if !ok {
		return 0, false
	}
	at := int(level - priority.First)
	document := s.waiting.pop(at)
	s.hasWork[at] = !s.waiting.empty(at)
	return document, true
}

func (s *byLevel) Done(document int, now time.Duration) error {
	if s.done == nil {
		return nil
	}
	s.clock.set(now)
	return s.done(document)
}

// newPicker returns the picker of a consumer discipline: "strict", "linear",
// "halving", or weights, that of level 1 first, as in "8,4,2,1".
func newPicker(discipline string, policy priority.Policy) (*queue.Picker, error) {
	switch discipline {
	case "", Strict:
		return queue.NewPicker()
	case Linear:
		return queue.NewPicker(queue.LinearWeights(policy.Last())...)
	case Halving:
		return queue.NewPicker(queue.HalvingWeights(policy.Last())...)
	}
	var weights []int64
	for text := range strings.SplitSeq(discipline, ",") {
		weight, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a consumer discipline is %s, %s, %s or weights as 8,4,2,1, not %q", Strict, Linear, Halving, discipline)
		}
		weights = append(weights, weight)
	}
	return queue.NewPicker(weights...)
}

// Consumer disciplines.
const (
	Strict  = "strict"  // the first level that has work
	Linear  = "linear"  // weighted 9:8:…:1
	Halving = "halving" // weighted 256:128:…:1
)
