package control

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// readTimeout bounds each command by which the document is followed.
const readTimeout = time.Second

// Status is what a [Store] knows of the document.
type Status struct {
	// Document is what holds, nil if none was read yet.
	Document *Document

	// ReadAt is when it was known for sure that nothing newer holds, by this process's
	// clock; zero: never.
	ReadAt time.Time

	// Err is why the last reading failed, or why what it read is not used; else nil.
	// It wraps [ErrCorruptDocument], [ErrNewerDocument], [priority.ErrInvalidPolicy],
	// or what kept Redis from answering.
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
	failed := make(chan error, 1)
	go func() { failed <- s.refresh(ctx) }() // a client may not heed ctx
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("control: the document is being read: %w", ctx.Err())
	}
}

// follow reads the document every interval, give or take a tenth, so that a fleet's
// processes do not ask all at once.
func (s *Store) follow() {
	defer close(s.ended)
	for s.live.Err() == nil {
		_ = s.refresh(s.live) // Status has it
		timer := time.NewTimer(s.interval*9/10 + rand.N(s.interval/5+1))
		select {
		case <-timer.C:
		case <-s.live.Done():
			timer.Stop()
		}
	}
	_ = s.current.Load().tally.flush(context.Background(), &s.reader)
}

// refresh reads the document and goes by it.
func (s *Store) refresh(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := s.read(ctx)
	if ctx.Err() != nil && err != nil {
		return err
	}
	before, after := s.status.Load(), Status{Document: s.current.Load().document, ReadAt: time.Now(), Err: err}
	if err != nil {
		after.ReadAt = before.ReadAt
	}
	if after.ReadAt.IsZero() {
		after.Document = nil
	}
	s.status.Store(&after)
	if err != nil && s.onError != nil && (before.Err == nil || before.Err.Error() != err.Error()) {
		s.onError(err)
	}
	return err
}

func (s *Store) read(ctx context.Context) error {
	h, err := s.reader.head(ctx)
	if err != nil {
		return err
	}
	known := s.current.Load()
	document, h, err := s.reader.catchUp(ctx, known.document, h)
	if err != nil {
		return err
	}
	next, err := known.with(document, h, s.own)
	if err != nil {
		return err
	}
	s.current.Store(next)
	if next.tally != known.tally {
		_ = known.tally.flush(ctx, &s.reader)
	}
	return next.tally.flush(ctx, &s.reader)
}
