package prioritytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// caller is who makes a call: by which store, and with how much patience.
type caller struct {
	other    bool          // another process
	ended    bool          // the call's context has ended before it
	patience time.Duration // its context ends after so long; 0: never
}

// call makes a call and checks that it returned in time. what describes it.
func (r *run) call(c caller, what string, customers []string, do func(ctx context.Context, store priority.Store)) (from, to time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	store, limit := r.Store, time.Duration(0)
	switch {
	case c.other:
		store = r.Other
	case c.ended:
		cancel()
	case r.excused(customers...):
		limit = r.Timeout
	}
	if c.patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.patience)
		limit = min(limit, c.patience)
	}
	defer cancel()
	start := time.Now()
	from = r.now()
	do(ctx, store)
	to = r.now()
	switch took := time.Since(start); {
	case !r.virtual:
	case took > limit && len(r.active) > 0 && !r.excused(customers...):
		r.broken(6, "%s took %v while only other customers' calls hang", what, took)
	case took > limit:
		r.broken(2, "%s took %v, more than %v", what, took, limit)
	case took%time.Millisecond > 0: // what counts in whole milliseconds is exact then
		time.Sleep(time.Millisecond - took%time.Millisecond)
	}
	return from, to
}

// decide makes a call that counts the entries' documents, and checks its decisions
// and what it has counted.
func (r *run) decide(c caller, operation Operation, entries []entry, do func(ctx context.Context, store priority.Store) ([]priority.Decision, error)) {
	var decisions []priority.Decision
	var err error
	customers := customersOf(entries)
	what := c.describe(operation, entries)
	from, to := r.call(c, what, customers, func(ctx context.Context, store priority.Store) { decisions, err = do(ctx, store) })
	r.note(from, "%s = %s", what, describe(decisions, err))
	errs := r.errorsOf(operation, err, len(entries))
	if len(decisions) != len(entries) && slices.Contains(errs, nil) {
		r.broken(1, "%d decisions for %d documents", len(decisions), len(entries))
	}
	spans := make(map[string]span)
	for _, customer := range customers {
		var own []entry
		for i, e := range entries {
			if e.customer == customer {
				if e.err = errs[i]; e.err == nil {
					e.decision = decisions[i]
				}
				own = append(own, e)
			}
		}
		s := span{from: from, to: to, atomic: operation == Next || operation == NextN}
		spans[customer] = r.judge(c, own, s)
	}
	for _, customer := range customers {
		r.observe(customer, spans[customer])
	}
}

// judge checks the decisions of one customer's entries, and returns what they may
// have counted in the fleet.
func (r *run) judge(c caller, entries []entry, s span) span {
	a := r.account(entries[0].customer)
	p := &progress{docs: maps.Clone(a.docs)}
	excused := r.excused(a.customer) || c.ended || c.patience > 0
	length := r.leaseOf(c)
	var last *priority.Decision
	again := 0
	for _, e := range entries {
		d := e.decision
		submitted := e.document != ""
		least, most, held := 1, 1, find(p.docs, e.document)
		if submitted {
			least, most = counts(held, s)
			if held.ends && !c.other { // the Submit cancels the Done
				held.ends = false
				p.docs[e.document] = held
			}
		}
		switch {
		case e.err != nil:
			r.excuse(c, e, excused)
			if errors.Is(e.err, priority.ErrOutcomeUnknown) {
				p.max += most
				p.perhaps(e.document, s.to+length)
				r.secondAccount(a.customer).known = false
			}
			continue
		case d.Degraded:
			r.excuse(c, e, excused)
			r.judgeDegraded(a, e, s, length)
			if r.mayArrive(a.customer) {
				p.max += most
				p.perhaps(e.document, s.to+length)
			}
			continue
		}
		p.min, p.max = p.min+least, p.max+most
		if submitted && r.mayArrive(a.customer) { // and be sent again, which shows what it is then
			again = len(entries)
		}
		if submitted {
			if held.coming && c.other { // the Done does not know of this Submit
				p.docs[e.document] = lease{sure: never, maybe: s.to + length, coming: true}
			} else {
				p.docs[e.document] = leaseUntil(max(held.sure, s.from+certain(length)), max(held.maybe, s.to+length))
			}
		}
		if !c.other {
			r.forgotten(a.customer)
		}
		if !a.within(d.Count, &progress{min: p.min, max: p.max + again}, s.from, s.to) {
			r.wrong(a, e)
		}
		if last != nil && s.atomic && d.Count != last.Count-1 {
			r.broken(1, "the counts of one NextN are not one after the other: %d after %d", d.Count, last.Count)
		}
		last = &d
		sure, possible := 0, 0
		if submitted {
			sure, _ = pendingOf(p.docs, s.to)
			_, possible = pendingOf(p.docs, s.from)
			possible += again
		}
		if d.Pending < int64(sure) || d.Pending > int64(possible) {
			r.broken(lawOfPending(d.Pending, possible), "%q had %v; it has %d documents pending, not %d to %d", a.customer, a, d.Pending, sure, possible)
		}
		r.judgeLevel(a.policy, d, submitted)
		if most := a.policy.ResetInterval + r.Slack; d.ResetIn < 0 || d.ResetIn > most ||
			!submitted && a.policy.ResetMode == priority.SinceLastUpdate && d.ResetIn < a.policy.ResetInterval-r.Slack {
			r.broken(1, "the count starts afresh in %v, and the interval is %v", d.ResetIn, a.policy.ResetInterval)
		}
	}
	a.docs = p.docs
	a.others = a.others || c.other
	s.min, s.max = p.min, p.max
	return s
}

// wrong ends the run because of a decision's count.
func (r *run) wrong(a *account, e entry) {
	law := 1
	if a.others {
		law = 5
	}
	r.broken(law, "%q had %v; its count cannot be %d then", a.customer, a, e.decision.Count)
}

func lawOfPending(pending int64, most int) int {
	if pending > int64(most) {
		return 4
	}
	return 1
}

// excuse checks that there is a reason why the fleet did not decide.
func (r *run) excuse(c caller, e entry, excused bool) {
	how := "degraded"
	if e.err != nil {
		how = e.err.Error()
	}
	switch {
	case c.other:
		r.t.Fatalf("prioritytest: Other fails for %q: %s", e.customer, how)
	case errors.Is(e.err, priority.ErrInvalid):
		r.broken(1, "a call that is not wrong is said to be: %s", how)
	case errors.Is(e.err, priority.ErrCorruptCount) && !slices.ContainsFunc(r.active, func(f Fault) bool {
		return f.concerns(e.customer) && f.Class == priority.ErrCorruptCount
	}):
		r.broken(6, "the count of %q is not corrupt: %s", e.customer, how)
	case excused:
	case len(r.active) > 0:
		r.broken(6, "only others have faults, and %q is answered: %s", e.customer, how)
	case r.faulty:
		r.broken(4, "%v after the last fault %q is answered: %s", r.now()-r.troubled, e.customer, how)
	default:
		r.broken(1, "there was no fault, and %q is answered: %s", e.customer, how)
	}
}

// mayArrive reports whether a call of the customer may have reached the fleet though
// something else answered.
func (r *run) mayArrive(customer string) bool {
	return slices.ContainsFunc(r.active, func(f Fault) bool {
		return f.concerns(customer) && (f.Counted || f.Slow)
	})
}

// peek asks the Store for what holds.
func (r *run) peek(c caller, customer string) {
	var d priority.State
	var err error
	what := fmt.Sprintf("%s(%q)", c.name(Peek), customer)
	from, to := r.call(c, what, []string{customer}, func(ctx context.Context, store priority.Store) { d, err = store.Peek(ctx, customer) })
	r.note(from, "%s = %s", what, fmt.Sprintf("%s, %v", describeState(d), err))
	r.errorsOf(Peek, err, 1)
	a := r.account(customer)
	e := entry{customer: customer, decision: priority.Decision{Count: d.Count, Degraded: d.Degraded}, err: err}
	switch {
	case errors.Is(err, priority.ErrOutcomeUnknown):
		r.broken(1, "a Peek counts nothing, but its outcome is unknown: %v", err)
	case err != nil, d.Degraded:
		r.excuse(c, e, r.excused(customer) || c.ended || c.patience > 0)
	default:
		if !a.within(d.Count, &progress{}, from, to) {
			r.wrong(a, e)
		}
		sure, _ := a.pending(to)
		_, most := a.pending(from)
		if d.Pending < int64(sure) || d.Pending > int64(most) {
			r.broken(lawOfPending(d.Pending, most), "%q had %v; it has %d documents pending, not %d to %d", customer, a, d.Pending, sure, most)
		}
	}
	r.observe(customer, span{from: from, to: to})
}

// reset has a customer's count and pending documents forgotten.
func (r *run) reset(c caller, customer string) {
	var err error
	what := fmt.Sprintf("%s(%q)", c.name(Reset), customer)
	from, to := r.call(c, what, []string{customer}, func(ctx context.Context, store priority.Store) { err = store.Reset(ctx, customer) })
	r.note(from, "%s = %s", what, describe(nil, err))
	r.errorsOf(Reset, err, 1)
	a := r.account(customer)
	s := span{from: from, to: to}
	second := r.secondAccount(customer)
	switch {
	case err == nil:
		s.reset = true
		for document, l := range a.docs {
			l.sure, l.maybe = never, never
			if a.docs[document] = l; !c.other { // and the Dones that are on their way
				delete(a.docs, document)
			}
		}
		if a.others = c.other; !c.other {
			second.known, second.has = true, false
			clear(second.docs)
		}
	default:
		r.excuse(c, entry{customer: customer, err: err}, r.excused(customer) || c.ended || c.patience > 0)
		second.maybeForgotten = true
		if errors.Is(err, priority.ErrOutcomeUnknown) {
			s.reset, s.kept = true, true
			for document, l := range a.docs {
				l.sure = never
				a.docs[document] = l
			}
		}
	}
	r.observe(customer, s)
}

// done ends the pending state of documents.
func (r *run) done(c caller, operation Operation, customer string, documents []string) {
	var err error
	what := fmt.Sprintf("%s(%q, %s)", c.name(operation), customer, strings.Join(documents, " "))
	from, to := r.call(c, what, []string{customer}, func(ctx context.Context, store priority.Store) {
		if operation == Done {
			err = store.Done(ctx, customer, documents[0], time.Second)
		} else {
			err = store.DoneN(ctx, customer, documents, time.Duration(len(documents))*time.Second)
		}
	})
	r.note(from, "%s = %s", what, describe(nil, err))
	a, second := r.account(customer), r.secondAccount(customer)
	excused := r.excused(customer) || c.ended || c.patience > 0
	for i, err := range r.errorsOf(operation, err, len(documents)) {
		document := documents[i]
		l := find(a.docs, document)
		if s, ok := second.docs[document]; ok {
			second.docs[document] = leaseUntil(never, s.maybe)
		}
		switch {
		case err != nil:
			r.excuse(c, entry{customer: customer, err: err}, excused)
			// It may always be sent again, and so it may arrive even now.
			a.docs[document] = lease{sure: never, maybe: l.maybe, coming: true}
			a.doneAt = to
		case excused && !c.other:
			// Where what is pending is corrupt, only a Reset helps, and that ends it too.
			corrupt := slices.ContainsFunc(r.active, func(f Fault) bool { return f.Class == priority.ErrCorruptCount && f.concerns(customer) })
			a.docs[document] = lease{sure: never, maybe: l.maybe, coming: true, ends: !corrupt}
			a.doneAt = to
		case l.coming && c.other: // which does not take back the one that is on its way
			a.docs[document] = lease{sure: never, maybe: never, coming: true, ends: l.ends}
		default:
			delete(a.docs, document)
		}
	}
	a.others = a.others || c.other
	r.observe(customer, span{from: from, to: to})
}

// leaseOf returns how long documents of a caller are pending at most.
func (r *run) leaseOf(c caller) time.Duration {
	store := r.Store
	if c.other {
		store = r.Other
	}
	if leased, ok := priority.As[leaser](store); ok {
		return leased.Lease()
	}
	return priority.DefaultLease
}

// leaser knows how long documents are pending at most, as a RedisStore and a
// memory.Store do.
type leaser interface{ Lease() time.Duration }

// certain returns how long documents are pending at least, of the longest lease.
func certain(lease time.Duration) time.Duration { return min(lease, 3*time.Minute) }

func leaseUntil(sure, maybe time.Duration) lease { return lease{sure: sure, maybe: maybe} }

// find returns the lease of a document, which may be one that it never had.
func find(docs map[string]lease, document string) lease {
	if l, ok := docs[document]; ok {
		return l
	}
	return leaseUntil(never, never)
}

// counts returns how many documents a Submit counts, at least and at most.
func counts(held lease, s span) (least, most int) {
	switch {
	case held.maybe < s.from:
		return 1, 1
	case held.sure >= s.to:
		return 0, 0
	}
	return 0, 1
}

// perhaps notes that a document may be pending until a time.
func (p *progress) perhaps(document string, until time.Duration) {
	if document == "" {
		return
	}
	l := find(p.docs, document)
	l.maybe, l.coming, l.ends = max(l.maybe, until), false, false // a Submit cancels a Done
	p.docs[document] = l
}

func customersOf(entries []entry) []string {
	var customers []string
	for _, e := range entries {
		if !slices.Contains(customers, e.customer) {
			customers = append(customers, e.customer)
		}
	}
	return customers
}

func (c caller) name(operation Operation) string {
	switch {
	case c.other:
		return "other " + string(operation)
	case c.ended:
		return "ended " + string(operation)
	case c.patience > 0:
		return fmt.Sprintf("%v %s", c.patience, operation)
	}
	return string(operation)
}

func (c caller) describe(operation Operation, entries []entry) string {
	if operation == NextN {
		return fmt.Sprintf("%s(%q, %d)", c.name(operation), entries[0].customer, len(entries))
	}
	var what []string
	for _, e := range entries {
		what = append(what, strings.TrimSpace(fmt.Sprintf("%q %s", e.customer, e.document)))
	}
	return fmt.Sprintf("%s(%s)", c.name(operation), strings.Join(what, ", "))
}
