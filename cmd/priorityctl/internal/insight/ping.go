package insight

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/keys"
)

// Check is one check: what was found, and what to do about it.
type Check struct {
	Check  string  `json:"check"`
	Status Outcome `json:"status"`
	Found  string  `json:"found"`
	Remedy string  `json:"remedy,omitempty"`
}

// Outcome is the outcome of a check.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Warning Outcome = "warning"
	Failed  Outcome = "failed"
)

// Worst returns the worst outcome.
func Worst(checks []Check) Outcome {
	worst := OK
	for _, c := range checks {
		if c.Status == Failed || worst == OK {
			worst = c.Status
		}
	}
	return worst
}

// slow is how long a decision may take on average.
const slow = 50 * time.Millisecond

// Ping checks whether Redis does what the module needs: version, memory, persistence and
// replication of every master, the latency of a round trip, and the rights of a worker and of an
// operator. For the rights it counts a document of a separate customer, and forgets it again.
// An error means that Redis cannot be reached.
func (s *Snapshot) Ping(ctx context.Context) ([]Check, error) {
	var checks []Check
	for _, m := range s.Masters {
		checks = append(checks, m.checks(ctx)...)
	}
	var customer string
	var latency time.Duration
	var err error
	for range 20 { // customers, until one's master answers
		customer = "priorityctl ping " + rand.Text()
		if latency, err = s.latency(ctx, customer); !Unreachable(err) {
			break
		}
	}
	switch {
	case Unreachable(err):
		return nil, err
	case err == nil && latency > slow:
		checks = append(checks, Check{"latency", Warning, "Peek takes " + Span(latency), "a decision takes as long; the default timeout is 250ms: move Redis nearer"})
	case err == nil:
		checks = append(checks, Check{"latency", OK, "Peek takes " + Span(latency) + " in the median", ""})
	}
	worker := Check{"worker", OK, "this user may do what a worker does", ""}
	if err := s.work(ctx, customer); err != nil {
		worker.Status, worker.Found = Failed, OneLine(s.Hidden(err))
		for _, m := range s.Masters { // Redis 6.2 has this setting
			if value, _ := m.setting(ctx, "lua-replicate-commands"); value == "no" {
				worker.Remedy = "set lua-replicate-commands yes, by CONFIG SET and in redis.conf"
			}
		}
	}
	operator := Check{"operator", OK, "this user may read and change what operators set", ""}
	switch err := s.operate(ctx); {
	case Forbidden(err):
		operator.Status, operator.Found, operator.Remedy = Warning, OneLine(s.Hidden(err)), "for a worker's user that is right"
	case err != nil:
		operator.Status, operator.Found = Failed, OneLine(s.Hidden(err))
	}
	return append(checks, worker, operator), nil
}

// latency returns the median of some Peeks.
func (s *Snapshot) latency(ctx context.Context, customer string) (time.Duration, error) {
	const peeks = 21
	took := make([]time.Duration, peeks)
	for i := range took {
		began := time.Now()
		if _, err := s.Store.Peek(ctx, customer); err != nil {
			return 0, cause(err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[peeks/2], nil
}

// work does what workers do.
func (s *Snapshot) work(ctx context.Context, customer string) error {
	_, next := s.Store.Next(ctx, customer)
	_, submit := s.Store.Submit(ctx, customer, priority.Document{ID: "document"})
	_, peek := s.Store.Peek(ctx, customer)
	_, done := s.Store.Done(ctx, customer, "document", 0)
	failed := errors.Join(next, submit, peek, done, s.Store.Reset(ctx, customer))
	if failed == nil {
		return nil
	}
	theirs := s.Store.Keys(customer) // removed if this user may; else they expire
	_ = s.Client.Unlink(ctx, theirs.Count).Err()
	_ = s.Client.Unlink(ctx, theirs.Pending).Err()
	for _, err := range []error{next, submit, peek, done} {
		if err != nil {
			return cause(err)
		}
	}
	return failed
}

// operate uses each right needed to read and change what operators set, on a separate key,
// one type after the other.
func (s *Snapshot) operate(ctx context.Context) error {
	key := keys.Prefix(s.Prefix).Log() + "-ping-" + rand.Text()
	defer s.Client.Unlink(ctx, key)
	for _, command := range [][]any{
		{"set", key, "v", "px", 1000, "get"}, {"get", key}, {"pttl", key}, {"unlink", key},
		{"zadd", key, 1, "m"}, {"zrangebyscore", key, 0, 1}, {"zremrangebyscore", key, 0, 0}, {"zcard", key}, {"zrem", key, "m"},
		{"xadd", key, "maxlen", 1, "*", "f", "v"}, {"xtrim", key, "minid", "=", 0}, {"pexpire", key, 1000}, {"xrevrange", key, "+", "-", "count", 1},
	} {
		if err := s.Client.Do(ctx, command...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}
