// Package flood tells one story in real time: while a few workers serve the steady
// customers of every day, one customer sends hundreds of documents at once.
package flood

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Story is what Run does, in words.
const Story = `4 workers, 20 ms a document. bakery, clinic and dentist each send a document
every 150 ms. After a second archive sends 400 at once.

`

// Workers is how many the story needs.
const Workers = 4

const (
	takes     = 20 * time.Millisecond
	every     = 150 * time.Millisecond
	lasts     = 4500 * time.Millisecond // nobody sends anything after it
	floodAt   = time.Second
	flooding  = "archive"
	floodSize = 400
)

// steady are the customers of every day.
var steady = []string{"bakery", "clinic", "dentist"}

// Queue is what the story goes through.
type Queue interface {
	Produce(ctx context.Context, customer, document string, body []byte) error
	Work(ctx context.Context, process func(ctx context.Context, customer, document string, body []byte) error) error
}

// Wait is a document's: from its arrival until a worker began with it.
type Wait struct {
	Customer string
	Arrived  time.Duration // since the story began
	Waited   time.Duration
}

// Run tells the story and returns each document's wait, in the order of service.
func Run(ctx context.Context, queue Queue) ([]Wait, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	story := &story{queue: queue, began: time.Now(), arrived: make(map[string]time.Duration)}

	var producers sync.WaitGroup
	for i, customer := range steady {
		producers.Go(func() { endAt(stop, story.sendEvery(ctx, customer, time.Duration(i)*every/3)) })
	}
	producers.Go(func() { endAt(stop, story.sendAtOnce(ctx)) })

	working, finish := context.WithCancel(ctx)
	defer finish()
	worked := make(chan error, 1)
	go func() { worked <- queue.Work(working, story.process) }()
	producers.Wait()
	story.await(ctx)
	finish()
	err := <-worked
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(cause, err)
	}
	return story.waits, err
}

// endAt ends the story at the first error.
func endAt(stop context.CancelCauseFunc, err error) {
	if err != nil {
		stop(err)
	}
}

type story struct {
	queue Queue
	began time.Time

	mutex   sync.Mutex
	arrived map[string]time.Duration // by document; removed when it is served
	waits   []Wait
}

func (s *story) sendEvery(ctx context.Context, customer string, first time.Duration) error {
	for number, due := 1, first; due < lasts; number, due = number+1, due+every {
		if err := sleepUntil(ctx, s.began.Add(due)); err != nil {
			return err
		}
		if err := s.send(ctx, customer, number); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) sendAtOnce(ctx context.Context) error {
	if err := sleepUntil(ctx, s.began.Add(floodAt)); err != nil {
		return err
	}
	for number := 1; number <= floodSize; number++ {
		if err := s.send(ctx, flooding, number); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) send(ctx context.Context, customer string, number int) error {
	document := fmt.Sprint(customer, "-", number)
	s.mutex.Lock()
	s.arrived[document] = time.Since(s.began)
	s.mutex.Unlock()
	return s.queue.Produce(ctx, customer, document, nil)
}

func (s *story) process(_ context.Context, customer, document string, _ []byte) error {
	now := time.Since(s.began)
	time.Sleep(takes)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if arrived, waits := s.arrived[document]; waits { // else it was delivered twice
		s.waits = append(s.waits, Wait{customer, arrived, now - arrived})
		delete(s.arrived, document)
	}
	return nil
}

// await returns when all documents were served, or the context ends.
func (s *story) await(ctx context.Context) {
	for {
		s.mutex.Lock()
		waiting := len(s.arrived)
		s.mutex.Unlock()
		if waiting == 0 || sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) != nil {
			return
		}
	}
}

func sleepUntil(ctx context.Context, moment time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(moment)):
		return nil
	}
}

// customers returns all of the story, the steady ones first.
func customers() []string {
	return append(slices.Clone(steady), flooding)
}

// of returns what a customer's documents waited, the shortest first.
func of(waits []Wait, customer string) []time.Duration {
	var found []time.Duration
	for _, wait := range waits {
		if wait.Customer == customer {
			found = append(found, wait.Waited)
		}
	}
	slices.Sort(found)
	return found
}
