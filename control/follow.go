package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// readTimeout is how long one reading in the background may take.
	readTimeout = 2 * time.Second

	// maxReaders is how many readings may be under way, if Redis hangs and the client
	// does not heed a deadline.
	maxReaders = 4
)

// Status is what a [Store] knows of the document.
type Status struct {
	// Document is what holds, nil if none was read yet.
	Document *Document

	// ReadAt is when it was known for sure that nothing newer holds, by this process's
	// clock; zero: never.
	ReadAt time.Time

	// Err is why the last reading failed, why what it read is not used, or why the total
	// of a trial cannot be written; else nil. It wraps [ErrCorruptDocument],
	// [ErrNewerDocument], [priority.ErrInvalidPolicy], or what kept Redis from answering.
	Err error

	// Moved is what this process has seen of the trial that runs.
	Moved []Moved
}

// Status returns what the Store knows of the document. It asks nobody.
func (s *Store) Status() Status {
	status := *s.status.Load()
	status.Moved = s.current.Load().tally.moved()
	return status
}

// Refresh reads the document now, as before a worker's first document, and returns
// why that failed, until ctx ends.
func (s *Store) Refresh(ctx context.Context) error {
	s.now()
	return s.refresh(ctx)
}

// follow reads the document every interval, give or take a tenth, so that a fleet's
// processes do not ask all at once.
func (s *Store) follow() {
	defer close(s.ended)
	for s.live.Err() == nil {
		ctx, cancel := context.WithTimeout(s.live, readTimeout)
		_ = s.refresh(ctx) // Status has it
		cancel()
		timer := time.NewTimer(s.interval*9/10 + rand.N(s.interval/5+1))
		select {
		case <-timer.C:
		case <-s.live.Done():
			timer.Stop()
		}
	}
	_ = s.current.Load().flush(context.Background(), &s.reader)
}

// refresh reads the document and goes by it, until ctx ends. The client may not heed
// ctx: then its commands end later, and what they tell counts if nobody was faster.
func (s *Store) refresh(ctx context.Context) error {
	known := s.current.Load()
	select {
	case s.readers <- struct{}{}:
	case <-ctx.Done():
		return s.gaveUp(ctx, known)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.readers }()
		next, err := s.next(ctx, known)
		if err != nil {
			done <- s.failed(known, err)
			return
		}
		done <- s.goBy(known, next, next.flush(ctx, &s.reader))
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return s.gaveUp(ctx, known)
	}
}

func (s *Store) gaveUp(ctx context.Context, known *state) error {
	err := fmt.Errorf("control: Redis does not say what operators have set: %w", ctx.Err())
	if errors.Is(err, context.Canceled) { // which is no failure of Redis
		return err
	}
	return s.failed(known, err)
}

// next returns the state of the document as it is in Redis.
func (s *Store) next(ctx context.Context, known *state) (*state, error) {
	h, err := s.reader.head(ctx)
	if err != nil {
		return nil, err
	}
	document, h, err := s.reader.catchUp(ctx, known.document, h)
	if err != nil {
		return nil, err
	}
	return known.with(document, h, s.own)
}

// goBy makes what was read the current state, unless something else was read since the
// state that was known. It returns what failed all the same.
func (s *Store) goBy(known, next *state, failure error) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.current.Load() == known {
		s.current.Store(next)
		s.tell(Status{Document: next.document, ReadAt: next.head.seen, Err: failure})
	}
	return failure
}

// failed notes that the document could not be read or used, unless it was since.
func (s *Store) failed(known *state, err error) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.current.Load() == known {
		status := *s.status.Load()
		status.Err = err
		s.tell(status)
	}
	return err
}

// tell sets the status. The caller holds the lock.
func (s *Store) tell(status Status) {
	before := s.status.Swap(&status).Err
	if status.Err != nil && s.onError != nil && (before == nil || before.Error() != status.Err.Error()) {
		s.onError(status.Err)
	}
}
