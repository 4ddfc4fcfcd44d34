package prioritytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/observe"
)

// run is one subject, the model of what it should have counted, and what was done
// with it so far.
type run struct {
	Subject
	t       *testing.T
	virtual bool
	began   time.Time
	waited  time.Duration

	accounts  map[string]*account       // of the fleet
	secondary map[string]*secondAccount // of the store that answers while the fleet cannot be reached
	trace     []string

	active   []Fault
	failing  int           // the index of the Faulty that they are in
	troubled time.Duration // until when there was a fault
	faulty   bool          // there ever was a fault
	before   int           // goroutines in the bubble
	process  int           // and in the process
	stop     func()        // ends what runs in the background
}

func newRun(t *testing.T, s Subject, virtual bool) *run {
	if s.Store == nil {
		t.Fatal("prioritytest: Subject.Store is nil")
	}
	if s.Other == nil {
		if len(s.Faulty) > 0 {
			t.Fatal("prioritytest: a Subject with Faulty needs an Other")
		}
		s.Other = s.Store
	}
	if s.Wait == nil && !virtual {
		t.Fatal("prioritytest: a Subject needs a Wait in real time")
	}
	if !virtual {
		s.Faulty = nil
	}
	if s.Timeout == 0 {
		s.Timeout = 250 * time.Millisecond
	}
	if len(s.Customers) == 0 {
		s.Customers = []string{"acme", "a}b{%7D", "\x00"}
	}
	if len(s.Customers) < 3 {
		t.Fatal("prioritytest: a Subject needs three Customers")
	}
	r := &run{
		Subject: s, t: t, virtual: virtual, began: time.Now(), troubled: never, stop: func() {},
		accounts: make(map[string]*account), secondary: make(map[string]*secondAccount),
	}
	r.rest()
	if virtual {
		r.before, r.process = len(goroutines()), runtime.NumGoroutine()
	}
	return r
}

// end closes the subject and checks that it leaves nothing behind.
func (r *run) end() {
	r.heal()
	r.stop()
	if r.Close != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_ = r.Close(ctx)
		cancel()
	}
	r.pass(time.Minute)
	r.boundedGoroutines("after Close", 0)
}

// boundedGoroutines checks that there are no more goroutines than callers have and
// the subject may keep.
func (r *run) boundedGoroutines(when string, callers int) {
	if !r.virtual {
		return
	}
	r.rest()
	if runtime.NumGoroutine()-r.process-callers <= r.Goroutines {
		return
	}
	all := goroutines() // other tests' goroutines do not matter
	if n := len(all) - r.before - callers; n > r.Goroutines {
		r.broken(3, "%d goroutines %s, more than %d, such as\n%s", n, when, r.Goroutines, all[len(all)-1])
	}
}

// goroutines returns the stacks of the goroutines in this one's bubble.
func goroutines() (own []string) {
	_, bubble, _ := strings.Cut(stacks(false)[0], "synctest bubble ")
	bubble, _, _ = strings.Cut(bubble, "]")
	for _, stack := range stacks(true) {
		header, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(header, "synctest bubble "+bubble+"]") {
			own = append(own, stack)
		}
	}
	return own
}

func stacks(all bool) []string {
	for buffer := make([]byte, 1<<16); ; buffer = make([]byte, 4*len(buffer)) {
		if n := runtime.Stack(buffer, all); n < len(buffer) {
			return strings.Split(string(buffer[:n]), "\n\n")
		}
	}
}

// broken ends the run because a law is broken.
func (r *run) broken(law int, format string, args ...any) {
	panic(&violation{law, fmt.Sprintf(format, args...), r.trace})
}

// note adds a line to what was done so far.
func (r *run) note(at time.Duration, format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf("%10v  ", at)+fmt.Sprintf(format, args...))
}

// now returns the time since the run began.
func (r *run) now() time.Duration {
	if r.Wait != nil {
		return r.waited
	}
	return time.Since(r.began)
}

// pass lets time pass.
func (r *run) pass(d time.Duration) {
	r.rest()
	if r.Wait == nil {
		time.Sleep(d)
	} else {
		r.waited += d
		r.Wait(d)
	}
	r.rest()
}

// rest waits until nothing more happens by itself.
func (r *run) rest() {
	if r.virtual {
		synctest.Wait()
	}
}

func (r *run) fail(at int, fault Fault) {
	r.active = append(r.active, fault)
	r.faulty = true
	r.Faulty[at%len(r.Faulty)].Fail(fault)
	if fault.Class != priority.ErrCorruptCount {
		return
	}
	for customer, a := range r.accounts {
		for document, l := range a.docs {
			l.ends = l.ends && !fault.concerns(customer) // a Done that it fails is not sent again
			a.docs[document] = l
		}
	}
}

func (r *run) heal() {
	if len(r.active) == 0 {
		return
	}
	for _, faulty := range r.Faulty {
		faulty.Heal()
	}
	r.active, r.troubled = nil, r.now()
	r.rest()
}

// hindered reports whether a call for one of the customers may meet a fault.
func (r *run) hindered(customers ...string) bool {
	return slices.ContainsFunc(r.active, func(f Fault) bool { return slices.ContainsFunc(customers, f.concerns) })
}

// excused reports whether a call for the customers need not be answered as usual.
func (r *run) excused(customers ...string) bool {
	return r.hindered(customers...) || r.recovering()
}

// recovering reports whether a fault, of any customer, ended only recently.
func (r *run) recovering() bool {
	return r.faulty && r.Recovery > 0 && (len(r.active) > 0 || r.now() <= r.troubled+r.Recovery)
}

// account returns what the fleet knows about a customer.
func (r *run) account(customer string) *account {
	a := r.accounts[customer]
	if a == nil {
		length := r.leaseOf(caller{})
		a = &account{
			customer: customer, policy: r.Other.PolicyOf(customer), docs: make(map[string]lease),
			adaptive: certain(length) < length,
		}
		r.accounts[customer] = a
	}
	return a
}

// observe asks the fleet for a customer's count, which calls may have changed as the
// span says, and checks that it can be so.
func (r *run) observe(customer string, s span) {
	a := r.account(customer)
	r.rest()
	peeked, err := r.Other.Peek(context.Background(), customer)
	if err != nil {
		r.t.Fatalf("prioritytest: Other.Peek(%q): %v", customer, err)
	}
	now := r.now()
	law := 1
	if s.max == 0 && s.submitsMax == 0 && a.others {
		law = 5
	}
	was := *a
	impossible := func(law int) {
		r.note(now, "the fleet has %s", describeState(peeked, nil))
		r.broken(law, "%q had %v; %s then is not possible in the fleet", customer, &was, describeState(peeked, nil))
	}
	if !a.adopt(s, peeked, now, r.Slack) || !a.adoptLately(s, peeked.Lately, now, r.Slack) {
		impossible(law)
	}
	if len(r.active) == 0 && now > max(a.doneAt, r.troubled)+r.Recovery {
		a.arrived()
	}
	if !a.adoptPending(peeked.Pending, now) {
		impossible(4)
	}
	r.judgeState(a, peeked, r.leaseOf(caller{other: true}))
	r.judgePending(a, peeked, now, now)
}

// judgeState checks that what a Peek returned fits together.
func (r *run) judgeState(a *account, s priority.State, lease time.Duration) {
	level, next := priority.Level(0), a.policy.Level(0)
	if s.Rule != priority.ByLoad {
		if s.Load != 0 || s.Lately != 0 || s.Cost != 0 || s.Pending != 0 || s.PendingLast != 0 || s.Oldest != 0 || s.Sojourn != 0 || s.Lease != 0 {
			r.broken(1, "nothing was submitted, and %s", describeState(s, nil))
		}
		if s.Rule == priority.ByCount {
			level, next = a.policy.Level(s.Count), a.policy.Level(s.Count-1)
		} else if s.Count != 0 || s.ResetIn != 0 {
			r.broken(1, "nothing is known, and %s", describeState(s, nil))
		}
		if s.Level != level || s.NextLevel != next {
			r.broken(4, "levels %d and %d are next to %s", level, next, describeState(s, nil))
		}
		return
	}
	ordinary := s.Pending - s.PendingLast
	load := loadOf(int64(math.Round(1000*s.Lately))+1000, ordinary+1, int64(math.Round(1000*s.Cost)))
	if fair.Millionths(s.Load) != load {
		r.broken(1, "the load is not %v: %s", float64(load)/1e6, describeState(s, nil))
	}
	if next, _ := levels(a.policy, s.Load, bounds{s.PendingLast + 1, s.PendingLast + 1}); s.NextLevel != next {
		r.broken(4, "the next level is not %d: %s", next, describeState(s, nil))
	}
	if (s.Pending == 0) != (s.Level == 0) || s.Level < 0 || s.Level > a.policy.Last() || s.Pending == 0 && s.Oldest != 0 ||
		s.PendingLast < 0 || ordinary < 0 || s.Cost <= 0 || s.Sojourn < 0 {
		r.broken(1, "it does not fit together: %s", describeState(s, nil))
	}
	if length := (fair.History{Sojourn: int64(s.Sojourn / (100 * time.Millisecond))}).Lease(lease); s.Lease != length {
		r.broken(4, "the lease is not %v: %s", length, describeState(s, nil))
	}
}

// judgePending checks what a Peek between two times has said about pending documents:
// the newest one's level, the oldest one's age, and how many have the last level.
func (r *run) judgePending(a *account, s priority.State, from, to time.Duration) {
	_, beyond := a.split(from, to, func(string) bool { return false })
	if s.PendingLast < beyond.least || s.PendingLast > beyond.most {
		r.broken(1, "%q had %v; %d to %d documents are pending beyond the last load: %s", a.customer, a, beyond.least, beyond.most, describeState(s, nil))
	}
	newest, oldest, oldestMaybe := never, to, to // bounds of the newest and of the oldest
	for _, l := range a.docs {
		if l.sure >= to {
			newest, oldest = max(newest, l.from), min(oldest, l.to)
		}
		if l.maybe >= from {
			oldestMaybe = min(oldestMaybe, l.from)
		}
	}
	if slack := r.Slack + time.Millisecond; s.Pending > 0 && (s.Oldest < from-oldest-slack || s.Oldest > to-oldestMaybe+slack) {
		r.broken(1, "%q had %v; the oldest is not as old as %s", a.customer, a, describeState(s, nil))
	}
	for _, l := range a.docs { // a clock may show two times as the same millisecond
		if l.maybe >= from && l.to+r.Slack+time.Millisecond > newest && (l.level == s.Level || l.level == 0) {
			return
		}
	}
	if s.Pending > 0 {
		r.broken(1, "%q had %v; level %d is not the newest document's: %s", a.customer, a, s.Level, describeState(s, nil))
	}
}

// observeAll asks the fleet for the counts of all customers, which no call has
// changed.
func (r *run) observeAll() {
	now := r.now()
	for _, customer := range slices.Sorted(maps.Keys(r.accounts)) {
		r.observe(customer, span{from: now, to: now})
	}
}

// class checks that an error is of one class, and returns it.
func (r *run) class(err error) error {
	if err == nil {
		return nil
	}
	var found []error
	for _, class := range []error{priority.ErrInvalid, priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorruptCount} {
		if errors.Is(err, class) {
			found = append(found, class)
		}
	}
	if len(found) != 1 {
		r.broken(1, "an error is of %d classes, not one: %v", len(found), err)
	}
	return found[0]
}

// errorsOf returns the errors of a call's n entries. Only a call for many documents
// has a *priority.BatchError.
func (r *run) errorsOf(operation Operation, err error, n int) []error {
	var batch *priority.BatchError
	isBatch := errors.As(err, &batch)
	many := operation == NextEach || operation == SubmitN || operation == DoneN
	switch {
	case err == nil || errors.Is(err, priority.ErrInvalid):
	case isBatch != many:
		r.broken(1, "the error of a %s is a %T: %v", operation, err, err)
	case many && len(batch.Errs) != n:
		r.broken(1, "a %s of %d has %d errors", operation, n, len(batch.Errs))
	case many && len(batch.Unwrap()) == 0:
		r.broken(1, "a %s has an error, but none of its entries", operation)
	}
	errs := priority.ItemErrors(err, n)
	for _, err := range errs {
		r.class(err)
	}
	return errs
}

// describeState shows what a Peek returned, in short.
func describeState(s priority.State, err error) string {
	text := fmt.Sprintf("%s level %d next %d count %d reset in %v", s.Rule, s.Level, s.NextLevel, s.Count, s.ResetIn)
	if s.Rule == priority.ByLoad {
		text += fmt.Sprintf(" load %v lately %v cost %v pending %d, beyond %d oldest %v sojourn %v lease %v",
			s.Load, s.Lately, s.Cost, s.Pending, s.PendingLast, s.Oldest, s.Sojourn, s.Lease)
	}
	if s.Degraded {
		text += " degraded"
	}
	if err != nil {
		text += " " + observe.Outcome(err)
	}
	return text
}

// describe shows what a call returned, in short.
func describe(decisions []priority.Decision, err error) string {
	if err == nil && len(decisions) == 0 {
		return "ok"
	}
	var parts []string
	for i, d := range decisions {
		if len(decisions) > 3 && i > 0 && i < len(decisions)-1 {
			if i == 1 {
				parts = append(parts, "…")
			}
			continue
		}
		if d == (priority.Decision{}) {
			if len(decisions) > 1 {
				parts = append(parts, "none")
			}
			continue
		}
		part := fmt.Sprintf("level %d", d.Level)
		if d.Pending > 0 {
			part += fmt.Sprintf(" load %v pending %d", d.Load, d.Pending)
		} else {
			part += fmt.Sprintf(" count %d reset in %v", d.Count, d.ResetIn)
		}
		if d.Degraded {
			part += " degraded"
		}
		parts = append(parts, part)
	}
	if err != nil {
		parts = append(parts, observe.Outcome(err))
	}
	return strings.Join(parts, ", ")
}
