package simulation

import (
	"slices"
	"time"

	"github.com/docpriority/priority"
)

// byLevel serves documents by the levels that they are given when they arrive:
// the level that the consumers choose, and first come within it. With ends, levels are folded:
// those up to ends[0] are one, those up to ends[1] the next, and those behind the last end one more.
type byLevel struct {
	giver     levelGiver
	consumers consumers
	documents []Document
	waiting   *queues // by level, from 0
	hasWork   []bool  // by level, from 0
	levels    []uint8 // by document; 0: not yet known
	ends      []priority.Level
}

// levelGiver gives documents their levels.
type levelGiver interface {
	// Submit returns the level of a document that is enqueued now.
	Submit(document int, now time.Duration) (priority.Level, error)
	// Done says that a document's service has ended.
	Done(document int, now time.Duration) error
}

func newByLevel(giver levelGiver, consumers consumers, w *Workload, last priority.Level, ends []priority.Level) *byLevel {
	return &byLevel{
		ends:      ends,
		giver:     giver,
		consumers: consumers,
		documents: w.Documents,
		waiting:   newQueues(int(last), len(w.Documents)),
		hasWork:   make([]bool, last),
		levels:    make([]uint8, len(w.Documents)),
	}
}

// Foresee gives a document the level that it has when it is due.
func (s *byLevel) Foresee(document int, now time.Duration) error {
	level, err := s.giver.Submit(document, now)
	s.levels[document] = uint8(level)
	return err
}

func (s *byLevel) Submit(document int, now time.Duration) error {
	if s.levels[document] == 0 {
		if err := s.Foresee(document, now); err != nil {
			return err
		}
	}
	level := priority.Level(s.levels[document])
	at := int(level - priority.First)
	if len(s.ends) > 0 {
		at, _ = slices.BinarySearch(s.ends, level)
	}
	s.waiting.push(at, document)
	s.hasWork[at] = true
	return nil
}

func (s *byLevel) Next(time.Duration) (int, bool) {
	level, ok := s.consumers.pick(s.hasWork)
	if !ok {
		return 0, false
	}
	at := int(level - priority.First)
	document := s.waiting.pop(at)
	s.hasWork[at] = !s.waiting.empty(at)
	return document, true
}

func (s *byLevel) Done(document int, now time.Duration) error { return s.giver.Done(document, now) }
