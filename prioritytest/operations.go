package prioritytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// caller is who makes a call: by which store, and with how much patience.
type caller struct {
	other    bool          // another process
	ended    bool          // the call's context has ended before it
	patience time.Duration // its context ends after this time; 0: never
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
	case took%time.Millisecond > 0: // stores that count in whole milliseconds are exact then
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
		s := span{from: from, to: to}
		if s.atomic = operation == Next || operation == NextN; own[0].document == "" {
			spans[customer] = r.judgeNexts(c, own, s)
		} else {
			spans[customer] = r.judgeSubmits(c, own, s)
		}
	}
	for _, customer := range customers {
		r.observe(customer, spans[customer])
	}
}

// judgeNexts checks the decisions of one customer's entries by the count, and returns what
// they may have counted in the fleet.
func (r *run) judgeNexts(c caller, entries []entry, s span) span {
	a := r.account(entries[0].customer)
	excused := r.excused(a.customer) || c.ended || c.patience > 0
	var counted bounds
	var last *priority.Decision
	for _, e := range entries {
		d := e.decision
		switch {
		case e.err != nil:
			r.excuse(c, e, excused)
			if errors.Is(e.err, priority.ErrOutcomeUnknown) {
				counted.add(0, 1)
				r.secondAccount(a.customer).known = false
			}
			continue
		case d.Degraded:
			r.excuse(c, e, excused)
			r.judgeDegradedCount(a, e, s)
			if r.mayArrive(a.customer) {
				counted.add(0, 1)
			}
			continue
		}
		counted.add(1, 1)
		if !c.other {
			r.forgotten(a.customer)
		}
		if !a.within(d.Count, counted, s.from, s.to) {
			r.wrong(a, e)
		}
		if last != nil && s.atomic && d.Count != last.Count-1 {
			r.broken(1, "the counts of one NextN are not one after the other: %d after %d", d.Count, last.Count)
		}
		last = &d
		r.judgeCount(a.policy, d)
		if most := a.policy.ResetInterval + r.Slack; d.ResetIn < 0 || d.ResetIn > most ||
			a.policy.ResetMode == priority.SinceLastUpdate && d.ResetIn < a.policy.ResetInterval-r.Slack {
			r.broken(1, "the count starts afresh in %v, and the interval is %v", d.ResetIn, a.policy.ResetInterval)
		}
	}
	a.others = a.others || c.other
	s.min, s.max = int(counted.least), int(counted.most)
	return s
}

// judgeCount checks the level of a decision by the count, and that it has no load.
func (r *run) judgeCount(policy priority.Policy, d priority.Decision) {
	if level := policy.Level(d.Count); d.Level != level {
		r.broken(4, "count %d is level %d, not %d", d.Count, level, d.Level)
	}
	if d.Load != 0 || d.Pending != 0 {
		r.broken(1, "a document by the count has load %v and %d pending", d.Load, d.Pending)
	}
}

// judgeSubmits checks the decisions of one customer's entries by the load, and returns
// what they may have counted in the fleet.
func (r *run) judgeSubmits(c caller, entries []entry, s span) span {
	a := r.account(entries[0].customer)
	excused := r.excused(a.customer) || c.ended || c.patience > 0
	length := r.leaseOf(c)
	docs, call := maps.Clone(a.docs), r.begin(a, entries, s)
	var counted bounds
	again := 0
	for _, e := range entries {
		d, held := e.decision, find(docs, e.document)
		least, most := counts(held, s)
		if held.ends && !c.other { // the Submit cancels the Done
			held.ends = false
			docs[e.document] = held
		}
		perhaps := func() {
			counted.add(0, int64(most))
			call.add(e, a, bounds{0, 1})
			// A Done that is on its way may arrive after all.
			held.maybe, held.ends, held.level = max(held.maybe, s.to+length), false, 0
			if held.to = s.to; held.from == never {
				held.from = s.from
			}
			docs[e.document] = held
		}
		switch {
		case e.err != nil:
			r.excuse(c, e, excused)
			if errors.Is(e.err, priority.ErrOutcomeUnknown) {
				perhaps()
				r.secondAccount(a.customer).known = false
			}
			continue
		case d.Degraded:
			r.excuse(c, e, excused)
			r.judgeDegradedLoad(a, e, s, length)
			if r.mayArrive(a.customer) {
				perhaps()
			}
			continue
		}
		counted.add(int64(least), int64(most))
		if r.mayArrive(a.customer) { // and be sent again, which shows what is pending then
			again = len(entries)
		}
		held.sure, held.maybe = max(held.sure, early(s.from+certain(length))), max(held.maybe, late(s.to+length))
		held.from, held.to, held.level = s.from, s.to, d.Level
		if held.coming && c.other { // the Done does not know this Submit
			held.sure, held.maybe, held.ends = never, late(s.to+length), false
		} else {
			held.coming, held.ends = false, false
		}
		docs[e.document] = held
		if !c.other {
			r.forgotten(a.customer)
		}
		sure, _ := pendingOf(docs, s.to)
		_, possible := pendingOf(docs, s.from)
		if possible += again; d.Pending < int64(sure) || d.Pending > int64(possible) {
			r.broken(lawOfPending(d.Pending, possible), "%q had %v; it has %d documents pending, not %d to %d", a.customer, a, d.Pending, sure, possible)
		}
		r.judgeLoad(a, e, call)
		call.add(e, a, bounds{1, 1})
	}
	a.docs = docs
	a.others = a.others || c.other
	s.submitsMin, s.submitsMax, s.again = int(counted.least), int(counted.most), len(entries)
	return s
}

// submitting is what the loads of a call's documents depend on, besides their costs.
type submitting struct {
	least, most      float64 // submitted lately
	ordinary, beyond bounds  // pending
	decided          map[string]priority.Level
}

// begin returns what the documents of a call find. Documents that are pending are
// decided about as if they were not.
func (r *run) begin(a *account, entries []entry, s span) *submitting {
	c := &submitting{decided: make(map[string]priority.Level)}
	c.least, c.most = a.latelyIn(s.from, s.to, r.Slack)
	batch := make(map[string]bool)
	for _, e := range entries {
		held := find(a.docs, e.document)
		if !batch[e.document] && held.maybe >= s.from {
			c.least = max(c.least-1, 0)
		}
		if !batch[e.document] && held.sure >= s.to {
			c.most = max(c.most-1, 0)
		}
		batch[e.document] = true
	}
	c.ordinary, c.beyond = a.split(s.from, s.to, func(document string) bool { return batch[document] })
	return c
}

// add notes that a document was decided about, or may have been.
func (c *submitting) add(e entry, a *account, n bounds) {
	was, twice := c.decided[e.document]
	switch {
	case !twice:
		c.least, c.most = c.least+float64(n.least), c.most+float64(n.most)
	case a.isBeyond(was):
		c.beyond.add(-1, 0)
	default:
		c.ordinary.add(-1, 0)
	}
	switch {
	case n.least == 0:
		c.ordinary.add(0, 1)
		c.beyond.add(0, 1)
	case a.isBeyond(e.decision.Level):
		c.beyond.add(1, 1)
	default:
		c.ordinary.add(1, 1)
	}
	c.decided[e.document] = e.decision.Level
}

// judgeLoad checks a document's load, and its level by that.
func (r *run) judgeLoad(a *account, e entry, c *submitting) {
	d := e.decision
	least, most := c.least, c.most
	ordinary, beyond := c.ordinary, c.beyond
	if was, twice := c.decided[e.document]; !twice {
		least, most = least+1, most+1
	} else if a.isBeyond(was) {
		beyond.add(-1, -1)
	} else {
		ordinary.add(-1, -1)
	}
	cost := costsOf(e)
	low := loadOf(int64(1000*least), max(ordinary.least, 0)+1, cost.least)
	high := loadOf(int64(math.Ceil(1000*most)), ordinary.most+1, cost.most)
	if load := fair.Millionths(d.Load); load < low || load > high {
		law := 1
		if load > high && r.faulty {
			law = 4
		}
		r.broken(law, "%q had %v; the load of %q is %v, not %v to %v", a.customer, a, e.document, d.Load, float64(low)/1e6, float64(high)/1e6)
	}
	r.judgeLevel(a.policy, d, bounds{max(beyond.least, 0) + 1, beyond.most + 1})
}

// costsOf returns what a document may cost, in thousandths of the average. Documents take
// the same time.
func costsOf(e entry) bounds {
	if e.cost == 0 {
		return bounds{1000, 1000}
	}
	return bounds{1, fair.MaxCost}
}

// judgeLevel checks the level of a decision by the load, and that it has no count. If
// the document is beyond the last load, it is one of beyond documents there.
func (r *run) judgeLevel(policy priority.Policy, d priority.Decision, beyond bounds) {
	first, last := levels(policy, d.Load, beyond)
	if d.Level < first || d.Level > last {
		r.broken(4, "load %v is level %d to %d, not %d", d.Load, first, last, d.Level)
	}
	if d.Count != 0 || d.ResetIn != 0 {
		r.broken(1, "a document by the load has count %d, reset in %v", d.Count, d.ResetIn)
	}
}

// levels returns the first and the last level of a load.
func levels(policy priority.Policy, load float64, beyond bounds) (first, last priority.Level) {
	level := policy.LevelOfLoad(load)
	if level <= priority.Level(len(policy.Loads)) {
		return level, level
	}
	return level + turnOf(beyond.least, policy.Turns), level + turnOf(beyond.most, policy.Turns)
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

// peek asks the Store for a customer's state.
func (r *run) peek(c caller, customer string) {
	var state priority.State
	var err error
	what := fmt.Sprintf("%s(%q)", c.name(Peek), customer)
	from, to := r.call(c, what, []string{customer}, func(ctx context.Context, store priority.Store) { state, err = store.Peek(ctx, customer) })
	r.note(from, "%s = %s", what, describeState(state, err))
	r.errorsOf(Peek, err, 1)
	a := r.account(customer)
	e := entry{customer: customer, decision: priority.Decision{Count: state.Count}, err: err}
	switch {
	case errors.Is(err, priority.ErrOutcomeUnknown):
		r.broken(1, "a Peek counts nothing, but its outcome is unknown: %v", err)
	case err != nil, state.Degraded:
		r.excuse(c, e, r.excused(customer) || c.ended || c.patience > 0)
		if err == nil {
			r.judgeState(a, state, r.leaseOf(c))
		}
	default:
		if !a.within(state.Count, bounds{}, from, to) {
			r.wrong(a, e)
		}
		sure, _ := a.pending(to)
		_, most := a.pending(from)
		if state.Pending < int64(sure) || state.Pending > int64(most) {
			r.broken(lawOfPending(state.Pending, most), "%q had %v; it has %d documents pending, not %d to %d", customer, a, state.Pending, sure, most)
		}
		if was := *a; !was.adoptLately(span{from: from, to: to}, state.Lately, to, r.Slack) {
			r.broken(1, "%q had %v; %v were not submitted lately", customer, a, state.Lately)
		}
		r.judgeState(a, state, r.leaseOf(c))
		r.judgePending(a, state, from, to)
	}
	r.observe(customer, span{from: from, to: to})
}

// reset forgets a customer's count and pending documents.
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
			if a.docs[document] = l.gone(); !c.other { // with the Dones that are on their way
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
	var reports []priority.Ended
	what := fmt.Sprintf("%s(%q, %s)", c.name(operation), customer, strings.Join(documents, " "))
	from, to := r.call(c, what, []string{customer}, func(ctx context.Context, store priority.Store) {
		ctx = priority.WithEnded(ctx, func(e priority.Ended) { reports = append(reports, e) })
		if operation == Done {
			err = store.Done(ctx, customer, documents[0], time.Second)
		} else {
			err = store.DoneN(ctx, customer, documents, time.Duration(len(documents))*time.Second)
		}
	})
	r.note(from, "%s = %s, ended %v", what, describe(nil, err), reports)
	a, second := r.account(customer), r.secondAccount(customer)
	excused := r.excused(customer) || c.ended || c.patience > 0
	errs := r.errorsOf(operation, err, len(documents))
	r.judgeEnded(c, a, documents, errs, reports, span{from: from, to: to})
	for i, err := range errs {
		document := documents[i]
		l := find(a.docs, document)
		if s, ok := second.docs[document]; ok {
			s.sure = never
			second.docs[document] = s
		}
		switch {
		case err != nil:
			r.excuse(c, entry{customer: customer, err: err}, excused)
			// It may always be sent again, and so it may arrive even now.
			l.sure, l.coming, l.ends = never, true, false
			a.docs[document] = l
			a.doneAt = to
		case excused && !c.other:
			// If the pending documents are corrupt, only a Reset helps, which ends them
			// too.
			corrupt := slices.ContainsFunc(r.active, func(f Fault) bool { return f.Class == priority.ErrCorruptCount && f.concerns(customer) })
			l.sure, l.coming, l.ends = never, true, !corrupt
			a.docs[document] = l
			a.doneAt = to
		case l.coming && c.other: // it does not take back the Done that is on its way
			a.docs[document] = l.gone()
		default:
			delete(a.docs, document)
		}
	}
	a.others = a.others || c.other
	r.observe(customer, span{from: from, to: to})
}

// judgeEnded checks which documents a call of Done or DoneN has reported: each that was
// pending, once, with its level and how long it was pending.
func (r *run) judgeEnded(c caller, a *account, documents []string, errs []error, reports []priority.Ended, s span) {
	excused := r.excused(a.customer) || c.ended || c.patience > 0
	reported := make(map[string]bool)
	for _, e := range reports {
		can := func(l lease) bool {
			slack := r.Slack + time.Millisecond // a clock may show whole milliseconds
			return l.was(s.from) && (l.level == e.Level || l.level == 0 && e.Level >= priority.First && e.Level <= a.policy.Last()) &&
				e.Sojourn >= s.from-l.to-slack && e.Sojourn <= s.to-l.from+slack
		}
		switch {
		case reported[e.Document]:
			r.broken(1, "the end of %q is reported twice", e.Document)
		case !slices.Contains(documents, e.Document):
			r.broken(1, "the end of %q is reported, and it is not in the call", e.Document)
		case !can(find(a.docs, e.Document)) && !(excused && !c.other && can(find(r.secondAccount(a.customer).docs, e.Document))):
			r.broken(1, "%q had %v; %q cannot have ended at level %d after %v", a.customer, a, e.Document, e.Level, e.Sojourn)
		}
		reported[e.Document] = true
	}
	for i, document := range documents {
		if l := find(a.docs, document); errs[i] == nil && !excused && l.sure >= s.to && !reported[document] {
			r.broken(1, "%q had %v; the end of %q is not reported", a.customer, a, document)
		}
	}
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

// early and late return the whole millisecond before a time and after it: a store's clock
// may show whole milliseconds.
func early(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }
func late(d time.Duration) time.Duration  { return early(d + time.Millisecond - 1) }

// find returns the lease of a document, which may never have had one.
func find(docs map[string]lease, document string) lease {
	if l, ok := docs[document]; ok {
		return l
	}
	return lease{}.gone()
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
