package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
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
	// Document is what holds, nil if none was read yet. Overrides that are over may
	// still be in it.
	Document *Document

	// ReadAt is when it was known for sure that nothing newer holds, by this process's
	// clock, and Now is the time by Redis's clock. Zero: none was read yet.
	ReadAt, Now time.Time

	// Err is why the last reading failed, or why what it read is not used; else nil. It
	// wraps [ErrCorruptDocument], [ErrNewerDocument], [priority.ErrInvalidPolicy], or
	// what kept Redis from answering.
	Err error
}

// Status returns what the Store knows of the document. It asks nobody.
func (s *Store) Status() Status {
	s.reading.Lock()
	defer s.reading.Unlock()
	now := s.current.Load()
	status := Status{Err: s.failure}
	if !now.head.seen.IsZero() {
		status.Document, status.ReadAt, status.Now = now.document, now.head.seen, now.head.redisTime()
	}
	return status
}

// Refresh reads the document now, as before a worker's first document, and returns
// why that failed, until ctx ends.
func (s *Store) Refresh(ctx context.Context) error {
	if s.live.Err() != nil {
		return errors.New("control: the store is closed")
	}
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
		select {
		case <-time.After(s.interval*9/10 + rand.N(s.interval/5+1)):
		case <-s.live.Done():
		}
	}
}

// refresh reads the document and goes by it, until ctx ends. The client may not heed
// ctx: then its commands end later, and what they tell counts if nobody was faster.
func (s *Store) refresh(ctx context.Context) error {
	began := time.Now()
	select {
	case s.readers <- struct{}{}:
	case <-ctx.Done():
		return s.gaveUp(ctx, began)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.readers }()
		done <- s.read(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return s.gaveUp(ctx, began)
	}
}

func (s *Store) gaveUp(ctx context.Context, began time.Time) error {
	err := fmt.Errorf("control: Redis does not say what operators have set: %w", ctx.Err())
	if !errors.Is(err, context.Canceled) { // which is no failure of Redis
		s.note(began, err)
	}
	return err
}

// read reads the document and goes by it.
func (s *Store) read(ctx context.Context) error {
	known, began := s.current.Load(), time.Now()
	h, err := s.reader.head(ctx)
	if err == nil {
		if err = s.unusable.is(h); err == nil {
			err = s.catchUp(ctx, known, h)
		}
	}
	s.note(began, err)
	return err
}

// catchUp reads what has changed since what was known, and goes by it.
func (s *Store) catchUp(ctx context.Context, known *state, h head) error {
	document, h, err := s.reader.catchUp(ctx, known.document, h)
	if err == nil {
		err = s.goBy(document, h)
	}
	if errors.Is(err, ErrCorruptDocument) || errors.Is(err, priority.ErrInvalidPolicy) {
		s.unusable.note(h, err)
	}
	return err
}

// goBy makes a document the one that holds, unless a later reading was faster.
func (s *Store) goBy(document *Document, h head) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	now := s.current.Load()
	if h.asked.Before(now.head.asked) {
		return nil
	}
	next, err := s.with(now, document, h)
	if err != nil {
		return err
	}
	s.current.Store(next)
	return nil
}

// note notes why a reading failed, nil if it did not, and tells of it until Close:
// unless one that began later has ended before.
func (s *Store) note(began time.Time, failure error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if began.Before(s.noted) {
		return
	}
	before := s.failure
	s.noted, s.failure = began, failure
	if failure != nil && reason(before) != reason(failure) && s.onError != nil && s.live.Err() == nil {
		s.onError(failure)
	}
}

// reason is the part of an error that says why, without what is different each time,
// as the ports of connections are.
func reason(err error) string {
	var reply redis.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrCorruptDocument), errors.Is(err, ErrNewerDocument), errors.Is(err, priority.ErrInvalidPolicy):
		return err.Error()
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(reply.Error(), " ")
		return code
	}
	return "no answer"
}

// unusable is a document that was read and cannot be used. It is not read again and
// again: until it changes if that is for its rules, and else, as somebody may mend an
// item by hand, for a minute.
type unusable struct {
	mu   sync.Mutex
	head head
	err  error
}

const mendedWithin = time.Minute

func (u *unusable) note(h head, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.head, u.err = h, err
}

// is returns why the document of a head cannot be used, nil if that is not known.
func (u *unusable) is(h head) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil || h.version != u.head.version || h.token != u.head.token ||
		errors.Is(u.err, ErrCorruptDocument) && h.asked.Sub(u.head.asked) > mendedWithin {
		return nil
	}
	return u.err
}
