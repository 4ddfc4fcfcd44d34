package prioritynats

import (
	"context"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	"github.com/nats-io/nats.go"
)

// look is how often all levels are looked at: nobody tells of documents that come
// back, after a failure or from a worker that was lost.
const look = time.Second

func arrivedName(name string) string { return name + "-arrived" }

// arrivals know which levels may have documents, for all workers of a process. So a
// document costs one request to fetch, whatever its level, and an idle process a
// request a level each second.
type arrivals struct {
	arrived chan *nats.Msg // told by producers; a full one drops some, which look finds
	level   map[string]int // by subject, from 0
	some    chan struct{}  // wakes one worker, which wakes the next if there was something

	mutex  sync.Mutex
	picker *queue.Picker
	told   []int  // by level: how often something was told to be there
	empty  []int  // by level: what told was when nothing was there
	asking []bool // by level: a worker asks the server now
}

// watch listens to producers until the context ends.
func (q *Queue) watch(ctx context.Context) (*arrivals, error) {
	weights, last := q.options.Weights, q.store.Last()
	switch {
	case q.options.Strict:
		weights = nil
	case weights == nil:
		weights = queue.LinearWeights(last)
	}
	picker, err := queue.NewPicker(weights...)
	if err != nil {
		return nil, err
	}
	a := &arrivals{
		arrived: make(chan *nats.Msg, 1<<10), level: make(map[string]int), some: make(chan struct{}, 1),
		picker: picker, told: make([]int, last), empty: make([]int, last), asking: make([]bool, last),
	}
	for i, subject := range queue.NATSSubjects(arrivedName(q.options.Name), last) {
		a.level[subject] = i
	}
	subscription, err := q.connection().ChanSubscribe(arrivedName(q.options.Name)+".*", a.arrived)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			a.tellAll()
			if sleep(ctx, look) != nil {
				_ = subscription.Unsubscribe()
				return
			}
		}
	}()
	return a, nil
}

func (a *arrivals) tellAll() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for level := range a.told {
		a.told[level]++
	}
	a.wake()
}

func (a *arrivals) wake() {
	select {
	case a.some <- struct{}{}:
	default:
	}
}

// wait returns when there may be a document, or the context ends.
func (a *arrivals) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.some:
	case message := <-a.arrived:
		a.mutex.Lock()
		defer a.mutex.Unlock()
		a.tell(message)
	}
}

// tell notes that a level may have a document. The mutex is locked.
func (a *arrivals) tell(message *nats.Msg) {
	if level, ok := a.level[message.Subject]; ok {
		a.told[level]++
	}
}

// tellArrived notes all that producers have told until now. The mutex is locked.
func (a *arrivals) tellArrived() {
	for {
		select {
		case message := <-a.arrived:
			a.tell(message)
		default:
			return
		}
	}
}

// pick returns the level to ask for a document, and how often it was told of. Until
// answer is called no other worker asks it: of two that ask for one document at the
// same time, JetStream may leave one without an answer.
func (a *arrivals) pick() (level priority.Level, told int, any bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.tellArrived()
	hasWork := make([]bool, len(a.told))
	for i := range hasWork {
		hasWork[i] = a.told[i] != a.empty[i] && !a.asking[i]
	}
	if level, any = a.picker.Pick(hasWork); any {
		a.asking[level-1], told = true, a.told[level-1]
	}
	return level, told, any
}

// answer notes what the server had. A level that was told of since may have more.
func (a *arrivals) answer(level priority.Level, told int, isEmpty bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.asking[level-1] = false
	if isEmpty {
		a.empty[level-1] = told
	} else {
		a.wake()
	}
}
