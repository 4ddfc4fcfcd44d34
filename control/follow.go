package control

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lua"
)

// readTimeout is how long one reading of the rules may take.
const readTimeout = 2 * time.Second

// Status is what a [Store] knows about the rules.
type Status struct {
	// Version is the version of the rules that are followed, or of their withdrawal; 0: no
	// rules were ever set, and the worker's own options apply.
	Version int64

	// Rules are the rules that are followed; nil: the worker's own options apply.
	Rules *Rules

	// ReadAt is when Redis last answered, by this process's clock. Zero: it never has.
	ReadAt time.Time

	// Err says why the last reading failed, or why its rules are not used; else nil. It
	// wraps [ErrLost], [ErrCorrupt], [ErrNewer], [priority.ErrInvalid], or the reason why
	// Redis did not answer.
	Err error
}

// known is what a Store knows. It is immutable.
type known struct {
	followed item   // version 0: rules were never set
	text     string // of followed
	newest   item   // that was read, usable or not
	head     string // beginning of the key's text, which lua/follow.lua compares
	refused  error  // why the rules that were read are not used
	readAt   time.Time
	err      error // Status.Err
}

// Status returns what the Store knows about the rules. It sends nothing.
func (s *Store) Status() Status { return s.current.Load().status() }

func (k *known) status() Status {
	return Status{Version: k.followed.Version, Rules: k.followed.Rules, ReadAt: k.readAt, Err: k.err}
}

// follow reads the rules when Refresh asks for it and every interval, give or take a tenth,
// so that the processes of a fleet do not all ask at once.
func (s *Store) follow() {
	defer close(s.ended)
	for due := time.Duration(0); ; due = s.interval*9/10 + rand.N(s.interval/5+1) {
		var answer chan error
		select {
		case <-time.After(due):
		case answer = <-s.ask:
		case <-s.live.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.live, readTimeout)
		text, changed, err := s.read(ctx)
		cancel()
		if s.live.Err() == nil { // else that is why it failed
			err = s.take(text, changed, err)
		}
		if answer != nil {
			answer <- err
		}
	}
}

// Refresh reads the rules now, as before a worker's first document, unless ctx ends
// first. It returns Status.Err.
func (s *Store) Refresh(ctx context.Context) error {
	s.now()
	answer := make(chan error, 1)
	select {
	case s.ask <- answer:
	case <-ctx.Done():
		return fmt.Errorf("control: the rules were not read: %w", ctx.Err())
	case <-s.live.Done():
		return errors.New("control: the store is closed")
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("control: the rules were not read: %w", ctx.Err())
	}
}

var followDigest = func() string {
	sum := sha1.Sum([]byte(lua.Follow))
	return hex.EncodeToString(sum[:])
}()

// reading is not retried by go-redis: the next reading is soon, and failures show sooner.
type reading struct{ *redis.SliceCmd }

func (reading) NoRetry() bool { return true }

// read returns the content of the rules' key, unless the Store knows it already.
func (s *Store) read(ctx context.Context) (text string, changed bool, err error) {
	run := func(command, script string) (*redis.SliceCmd, error) {
		cmd := redis.NewSliceCmd(ctx, command, script, 1, s.rulesKey, s.current.Load().head)
		_ = s.client.Process(ctx, reading{cmd})
		return cmd, cmd.Err() // a deferred AutoPipeliner waits only here
	}
	cmd, err := run("evalsha", followDigest)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd, err = run("eval", lua.Follow)
	}
	switch reply := cmd.Val(); {
	case err != nil && strings.Contains(err.Error(), "CORRUPT "):
		return "", false, fmt.Errorf("%w: %q: %w", ErrCorrupt, s.rulesKey, err)
	case err != nil:
		return "", false, fmt.Errorf("control: cannot read %q: %w", s.rulesKey, err)
	case len(reply) == 1:
		return "", false, nil
	case len(reply) == 2:
		if text, ok := reply[1].(string); ok {
			return text, true, nil
		}
	}
	return "", false, fmt.Errorf("%w: %q: unexpected reply", ErrCorrupt, s.rulesKey)
}

// take updates what is known from a reading.
func (s *Store) take(text string, changed bool, err error) error {
	before := s.current.Load()
	now := *before
	if err == nil {
		now.readAt = time.Now()
		if changed {
			now.head = headOf(text)
			now.refused = s.use(&now, text)
		}
		err = now.refused
	}
	now.err = err
	s.current.Store(&now)
	if s.onChange != nil && (now.text != before.text || reason(now.err) != reason(before.err)) {
		s.onChange(now.status())
	}
	return now.err
}

// use follows the rules that were read, or returns why not.
func (s *Store) use(now *known, text string) error {
	if text == now.text && now.newest.is(now.followed) {
		return nil
	}
	if text == "" {
		return fmt.Errorf("%w: version %d was known, none is there", ErrLost, now.newest.Version)
	}
	read, err := parse(s.rulesKey, text)
	if err != nil {
		return err
	}
	if !read.newer(now.newest) && !read.is(now.newest) {
		return fmt.Errorf("%w: version %d was known, %d is there", ErrLost, now.newest.Version, read.Version)
	}
	now.newest = read
	follow := Rules{s.options.Policy, s.options.Tiers}
	if read.invalid != nil {
		return fmt.Errorf("version %d of the rules: %w", read.Version, read.invalid)
	}
	if read.Rules != nil {
		follow = *read.Rules
	}
	if err = follow.Validate(s.own.Last()); err == nil {
		err = s.own.Follow(follow.Policy, follow.Tiers)
	}
	if err != nil {
		return fmt.Errorf("version %d of the rules: %w", read.Version, err)
	}
	now.followed, now.text = read, text
	return nil
}

// reason returns the cause in an error, without details that vary, such as a connection's
// port.
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
