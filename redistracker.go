package priority

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// RedisTracker is a [Tracker] whose counts live in Redis, shared by all processes
// that use the same server, prefix, policies and lease. Each operation is one
// call of an atomic script on the customer's two keys, by Redis's clock. The
// count is the one of a [RedisStore] of the same prefix.
//
// A Submit of unknown outcome may simply be made again: a document is counted
// once by its id.
type RedisTracker struct {
	store   *RedisStore
	scripts tiered[*trackerScripts]
}

// trackerScripts are the scripts of one policy.
type trackerScripts struct{ submit, pending *script }

// What one call of a script takes, so that none holds Redis for long.
const (
	mostSubmitted = 100
	mostDone      = 1000
)

var _ Tracker = (*RedisTracker)(nil)

// NewRedisTracker returns a tracker on a client. It sends nothing. Nil opts are
// the defaults. An error wraps [ErrInvalidPolicy] or [ErrInvalidOption].
func NewRedisTracker(client RedisClient, opts *RedisOptions) (*RedisTracker, error) {
	if opts == nil {
		opts = &RedisOptions{}
	}
	store, err := NewRedisStore(client, opts)
	if err != nil {
		return nil, err
	}
	lease, err := leaseOf(opts.Lease)
	if err != nil {
		return nil, err
	}
	scripts, err := newTiered(opts.Policy, opts.Tiers, opts.TierOf, func(p Policy) *trackerScripts {
		return &trackerScripts{
			submit:  newScript(renderLease(render(submitLua, p), lease), 4),
			pending: newScript(render(pendingLua, p), 4),
		}
	})
	if err != nil {
		return nil, err
	}
	return &RedisTracker{store: store, scripts: scripts}, nil
}

// Submit implements [Tracker].
func (t *RedisTracker) Submit(ctx context.Context, customer, document string) (Decision, error) {
	if err := checkSubmitted(customer, document); err != nil {
		return Decision{}, err
	}
	reply, err := t.store.caller.call(ctx, &scriptCall{
		operation: "Submit", key: t.store.Key(customer), pending: t.PendingKey(customer),
		script: t.scripts.of(customer).submit, documents: []string{document},
	})
	if err != nil {
		return Decision{}, err
	}
	return submittedOf(reply, 0), nil
}

// SubmitN implements [Tracker]. Each hundred documents are one atomic command,
// and all are sent in one round trip.
func (t *RedisTracker) SubmitN(ctx context.Context, customer string, documents []string) ([]Decision, error) {
	if err := checkSubmitted(customer, documents...); err != nil || len(documents) == 0 {
		return nil, err
	}
	decisions := make([]Decision, len(documents))
	err := t.each(ctx, documents, mostSubmitted, scriptCall{
		operation: "SubmitN", key: t.store.Key(customer), pending: t.PendingKey(customer),
		script: t.scripts.of(customer).submit,
	}, func(at int, reply []int64) { decisions[at] = submittedOf(reply, at%mostSubmitted) })
	return decisions, err
}

// Done implements [Tracker].
func (t *RedisTracker) Done(ctx context.Context, customer, document string) error {
	if err := checkSubmitted(customer, document); err != nil {
		return err
	}
	_, err := t.store.caller.call(ctx, &scriptCall{
		operation: "Done", key: t.PendingKey(customer), script: doneScript, documents: []string{document},
	})
	return err
}

// DoneN implements [Tracker]. Each thousand documents are one atomic command, and
// all are sent in one round trip.
func (t *RedisTracker) DoneN(ctx context.Context, customer string, documents []string) error {
	if err := checkSubmitted(customer, documents...); err != nil || len(documents) == 0 {
		return err
	}
	return t.each(ctx, documents, mostDone, scriptCall{
		operation: "DoneN", key: t.PendingKey(customer), script: doneScript,
	}, func(int, []int64) {})
}

// each makes one call for every most documents, and gives each document the
// reply of its own.
func (t *RedisTracker) each(ctx context.Context, documents []string, most int, call scriptCall, replied func(at int, reply []int64)) error {
	var calls []scriptCall
	for part := range slices.Chunk(documents, most) {
		call.documents = part
		calls = append(calls, call)
	}
	replies, failures := t.store.caller.callEach(ctx, calls)
	var errs []error
	for at := range documents {
		i := at / most
		if failures[i] == nil {
			replied(at, replies[i])
			continue
		}
		if errs == nil {
			errs = make([]error, len(documents))
		}
		errs[at] = failures[i]
	}
	if errs != nil {
		return &BatchError{Errs: errs}
	}
	return nil
}

// Peek implements [Tracker].
func (t *RedisTracker) Peek(ctx context.Context, customer string) (Decision, error) {
	if err := checkCustomer(customer); err != nil {
		return Decision{}, err
	}
	reply, err := t.store.caller.call(ctx, &scriptCall{
		operation: "Peek", key: t.store.Key(customer), pending: t.PendingKey(customer),
		script: t.scripts.of(customer).pending, readOnly: true,
	})
	if err != nil {
		return Decision{}, err
	}
	return submittedOf(reply, 0), nil
}

// Reset implements [Tracker].
func (t *RedisTracker) Reset(ctx context.Context, customer string) error {
	if err := checkCustomer(customer); err != nil {
		return err
	}
	_, err := t.store.caller.call(ctx, &scriptCall{
		operation: "Reset", key: t.store.Key(customer), pending: t.PendingKey(customer), script: resetScript,
	})
	return err
}

// Key returns the key of a customer's count: that of a [RedisStore].
func (t *RedisTracker) Key(customer string) string { return t.store.Key(customer) }

// PendingKey returns the key of a customer's pending documents: a sorted set by
// the end of their leases, in milliseconds of Redis's clock.
func (t *RedisTracker) PendingKey(customer string) string {
	return t.store.keyOf(customer, "}:pending")
}

// PolicyOf returns the policy that decides for a customer, with every field
// filled in.
func (t *RedisTracker) PolicyOf(customer string) Policy { return t.store.PolicyOf(customer) }

// Script returns the Lua script that submits the customer's documents:
// lua/submit.lua with the numbers of the customer's policy and of the lease.
func (t *RedisTracker) Script(customer string) string {
	return t.scripts.of(customer).submit.text.(string)
}

// submittedOf reads the decision of one document in a reply of submit.lua, or
// that of pending.lua.
func submittedOf(reply []int64, at int) Decision {
	return Decision{
		Level:   Level(reply[3*at]),
		Count:   reply[3*at+1],
		Pending: reply[3*at+2],
		ResetIn: time.Duration(reply[len(reply)-1]) * time.Millisecond,
	}
}

// renderLease writes the lease into a script's text.
func renderLease(lua string, lease time.Duration) string {
	return replaceBlock(lua, "lease", fmt.Sprintf("local lease = %d\n", lease.Milliseconds()))
}
