package control

import (
	"context"
	"errors"
	"maps"

	"github.com/docpriority/priority"
)

// state is what holds at a time. It does not change.
type state struct {
	document *Document
	head     head
	store    *priority.RedisStore // decides by the document's rules
	last     priority.Level
	trial    *priority.Policies // nil: there is none
	tally    *tally             // of the trial
	earlier  *tally             // of the trial before, whose last decisions may be under way
}

// with returns the state of another document, or of the same one later.
func (now *state) with(document *Document, h head, own *priority.RedisStore) (*state, error) {
	next := *now
	next.document, next.head = document, h
	before := now.document
	// What was not read again is the same. A version says less: after a failover, two
	// changes may have the same one.
	if before == document || before.Rules == document.Rules && before.Trial == document.Trial && maps.Equal(before.Members, document.Members) {
		return &next, nil
	}
	current, trial, err := document.Policies(own.Policies())
	if err != nil {
		return nil, err
	}
	next.store, next.trial = own.With(current, trial), trial
	if !same(before.Trial, document.Trial) {
		next.tally, next.earlier = nil, now.tally
		if trial != nil {
			next.tally = newTally(document.Trial.Version, now.last)
		}
	}
	return &next, nil
}

// same reports whether two trials are one.
func same(a, b *Item[Rules]) bool {
	return a == b || a != nil && b != nil && a.Version == b.Version && a.At.Equal(b.At)
}

// flush writes what trials have seen to their totals in Redis.
func (now *state) flush(ctx context.Context, r *reader) error {
	return errors.Join(now.earlier.flush(ctx, r), now.tally.flush(ctx, r))
}

// decided is what a decision of the store's becomes.
func (now *state) decided(customer string, decision priority.Decision, err error) (priority.Decision, error) {
	if err != nil {
		return decision, err
	}
	now.tally.add(decision.Level, decision.Trial, 1)
	return now.override(customer, decision), nil
}

func (now *state) override(customer string, decision priority.Decision) priority.Decision {
	item, ok := now.document.Overrides[customer]
	if !ok || decision.Ruled != 0 || !now.head.redisTime().Before(item.Until) {
		return decision
	}
	decision.Ruled = decision.Level
	decision.Level = item.Value.Level(decision.Level, now.last)
	return decision
}

// trySettled counts for the trial what package coalesce has answered from memory, all
// of it at one level.
func (now *state) trySettled(owed priority.Owed, decision priority.Decision) {
	if now.tally == nil {
		return
	}
	policy := now.trial.PolicyOf(owed.Customer)
	// Counts go down: this is of the last document, and above it are the others'.
	first, last := decision.Count+int64(owed.Documents)-1, decision.Count
	for level := policy.Level(first); first >= last; level++ {
		end := last
		if i := int(level - priority.First); i < len(policy.Thresholds) {
			end = max(end, policy.Thresholds[i])
		}
		now.tally.add(decision.Level, level, first-end+1)
		first = end - 1
	}
}
