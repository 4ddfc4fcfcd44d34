package control

import (
	"github.com/docpriority/priority"
)

// state is what holds at a time. It does not change.
type state struct {
	document *Document
	head     head
	store    *priority.RedisStore // decides by the document's rules
	last     priority.Level
}

// with returns the state of another document, or of the same one later.
func (s *Store) with(now *state, document *Document, h head) (*state, error) {
	next := *now
	next.document, next.head = document, h
	before := now.document
	// What was not read again is the same. A version says less: after a failover, two
	// changes may have the same one.
	if before == document || before.Rules == document.Rules {
		return &next, nil
	}
	if next.store = s.own; document.Rules == nil {
		return &next, nil
	}
	options, err := document.Options(s.options)
	if err != nil {
		return nil, err
	}
	policies, err := priority.NewPolicies(options.Policy, options.Tiers, options.TierOf)
	if err != nil {
		return nil, err
	}
	next.store = s.own.With(policies)
	return &next, nil
}

// decided is what a decision of the store's becomes.
func (now *state) decided(customer string, decision priority.Decision, err error) (priority.Decision, error) {
	if err != nil {
		return decision, err
	}
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
