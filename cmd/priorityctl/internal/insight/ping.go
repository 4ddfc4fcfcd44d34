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
		checks = append(checks, finding("latency.slow", "latency", Span(latency)))
	case err == nil:
		checks = append(checks, finding("latency", "latency", Span(latency)))
	}
	worker, operator := finding("worker"), finding("operator")
	if err := s.work(ctx, customer); err != nil {
		worker = finding("worker.failed", "why", OneLine(s.Hidden(err)))
		for _, m := range s.Masters { // Redis 6.2 has this setting
			if value, _ := m.setting(ctx, "lua-replicate-commands"); value == "no" {
				worker = finding("worker.old", "why", OneLine(s.Hidden(err)))
			}
		}
	}
	switch err := s.operate(ctx); {
	case Forbidden(err):
		operator = finding("operator.forbidden", "why", OneLine(s.Hidden(err)))
	case err != nil:
		operator = finding("operator.failed", "why", OneLine(s.Hidden(err)))
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
