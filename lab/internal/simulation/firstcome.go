package simulation

import "time"

// firstCome serves documents as they arrive.
type firstCome struct{ waiting *queues }

func newFirstCome(w *Workload) *firstCome {
	return &firstCome{newQueues(1, len(w.Documents))}
}

func (s *firstCome) Submit(document int, _ time.Duration) error {
	s.waiting.push(0, document)
	return nil
}

func (s *firstCome) Next(time.Duration) (int, bool) {
	if s.waiting.empty(0) {
		return 0, false
	}
	return s.waiting.pop(0), true
}

func (s *firstCome) Done(int, time.Duration) error { return nil }
