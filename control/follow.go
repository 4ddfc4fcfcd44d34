package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// ErrLost: Redis has no rules, or older ones than the Store knows, as after a restart
// without its data or a failover to a replica that lagged. The known rules stay in force
// until operators apply, import or withdraw rules. If the Store knew no rules: Redis has
// no version, or an older one, so overrides may be lost, until the next change.
var ErrLost = errors.New("control: Redis lost what operators set")

const (
	// readTimeout is how long one reading in the background may take.
	readTimeout = 2 * time.Second

	// maxReaders is how many readings may be under way, if Redis hangs and the client
	// does not heed a deadline.
	maxReaders = 4

	// wholeEvery is how often the rules are read even if the version is the same: their
	// key alone may have been lost or repaired.
	wholeEvery = time.Minute
)

// Status is what a [Store] knows about the rules.
type Status struct {
	// Version is the version of the rules that are followed, or of their withdrawal; 0: no
	// rules were ever set, and the worker's own options apply.
	Version int64

	// Rules are the rules that are followed; nil: the worker's own options apply.
	Rules *Item[Rules]

	// ReadAt is when Redis last answered, by this process's clock. Zero: it never has.
	ReadAt time.Time

	// Err says why the last reading failed, or why its rules are not used; else nil. It
	// wraps [ErrLost], [ErrCorrupt], [ErrNewer], [priority.ErrInvalid], or what kept
	// Redis from answering.
	Err error
}

// known is what a Store knows. It does not change.
type known struct {
	rules   *Item[*Rules] // followed; nil: rules were never set
	text    string        // of the rules
	head    head          // the newest that was seen
	seen    string        // what the version's key held
	readAt  time.Time
	wholeAt time.Time // when the rules were read
	refused error     // why the rules that were read are not used
	err     error     // Status.Err
}

// Status returns what the Store knows about the rules. It sends nothing.
func (s *Store) Status() Status { return s.current.Load().status() }

func (k *known) status() Status {
	status := Status{Rules: given(k.rules), ReadAt: k.readAt, Err: k.err}
	if k.rules != nil {
		status.Version = k.rules.Version
	}
	return status
}

// follow reads the rules every interval, give or take a tenth, so that a fleet's
// processes do not ask all at once.
func (s *Store) follow() {
	defer close(s.ended)
	for s.live.Err() == nil {
		ctx, cancel := context.WithTimeout(s.live, readTimeout)
		_ = s.refresh(ctx) // Status has the error
		cancel()
		select {
		case <-time.After(s.interval*9/10 + rand.N(s.interval/5+1)):
		case <-s.live.Done():
		}
	}
}

// Refresh reads the rules now, for instance before a worker's first document, until
// ctx ends. It returns Status.Err.
func (s *Store) Refresh(ctx context.Context) error {
	if s.live.Err() != nil {
		return errors.New("control: the store is closed")
	}
	s.now()
	return s.refresh(ctx)
}

// refresh reads the rules until ctx ends. The client may not heed ctx: then its command
// ends later, and its reply counts if no later reading was faster.
func (s *Store) refresh(ctx context.Context) error {
	done, number := make(chan error, 1), s.asked.Add(1)
	select {
	case s.readers <- struct{}{}:
		go func() {
			defer func() { <-s.readers }()
			now := s.current.Load()
			seen := now.seen
			if time.Since(now.wholeAt) > wholeEvery {
				seen = ""
			}
			reply, err := followScript.run(ctx, s.client, []string{s.keys.version, s.keys.rules}, seen)
			if !errors.Is(err, context.Canceled) { // a cancellation is not Redis's failure
				err = s.take(number, reply, err)
			}
			done <- err
		}()
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	err := fmt.Errorf("control: Redis does not say which rules hold: %w", ctx.Err())
	if errors.Is(err, context.Canceled) {
		return err
	}
	return s.take(number, nil, err)
}

// take updates what is known by a reading, unless a later reading was faster.
func (s *Store) take(number int64, reply []any, err error) error {
	s.taking.Lock()
	defer s.taking.Unlock()
	before := s.current.Load()
	if number < s.taken {
		return before.err
	}
	s.taken = number
	now := *before
	if err == nil {
		now.readAt = time.Now()
		if len(reply) > 1 { // else nothing has changed
			now.wholeAt = now.readAt
			now.seen, _ = reply[0].(string)
			rules, _ := reply[1].(string)
			now.refused = s.goBy(&now, rules)
		}
		err = now.refused
	}
	now.err = err
	s.current.Store(&now)
	if s.onChange != nil && s.live.Err() == nil && (now.rules != before.rules || reason(now.err) != reason(before.err)) {
		s.onChange(now.status())
	}
	return now.err
}

// goBy follows the rules that were read, or returns why it does not.
func (s *Store) goBy(now *known, rules string) error {
	there, err := headOf(s.keys.version, now.seen)
	if err != nil {
		return err
	}
	var lost error
	if there.newer(now.head) {
		now.head = there
	} else if there != now.head {
		lost = fmt.Errorf("%w: version %d was known, %d is there", ErrLost, now.head.version, there.version)
	}
	if rules == now.text {
		return lost
	}
	if rules == "" {
		return fmt.Errorf("%w: rules of version %d were known, none are there", ErrLost, now.rules.Version)
	}
	item, err := rulesOf(s.keys.rules, rules)
	if err != nil {
		return err
	}
	if now.rules != nil && !rulesHead(item, rules).newer(rulesHead(now.rules, now.text)) {
		return fmt.Errorf("%w: rules of version %d were known, %d is there", ErrLost, now.rules.Version, item.Version)
	}
	follow := Rules{s.options.Policy, s.options.Tiers}
	if item.Value != nil {
		follow = *item.Value
	}
	if err = follow.Validate(s.own.Last()); err == nil {
		err = s.own.Follow(follow.Policy, follow.Tiers)
	}
	if err != nil {
		return fmt.Errorf("version %d of the rules: %w", item.Version, err)
	}
	now.rules, now.text = item, rules
	return lost
}

func rulesHead(item *Item[*Rules], text string) head {
	return head{item.Version, item.At.UnixMilli(), text}
}

// reason returns the part of an error that says why, without what differs each time,
// such as the ports of connections.
func reason(err error) string {
	var reply redis.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrLost), errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewer), errors.Is(err, priority.ErrInvalid):
		return err.Error()
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(reply.Error(), " ")
		return code
	}
	return "no answer"
}
