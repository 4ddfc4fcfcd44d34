package prioritytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
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
	secondary map[string]*secondAccount // of what answers while the fleet cannot be reached
	trace     []string

	active   []Fault
	failing  int           // which of Faulty they are in
	troubled time.Duration // until when there was a fault
	faulty   bool          // there ever was one
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

// end closes the subject. Then nothing of it is left.
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

// boundedGoroutines checks that there are no more goroutines than those of callers
// and those that the subject may keep.
func (r *run) boundedGoroutines(when string, callers int) {
	if !r.virtual {
		return
	}
	r.rest()
	if runtime.NumGoroutine()-r.process-callers <= r.Goroutines {
		return
	}
	all := goroutines() // those of other tests do not matter
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
			l.ends = l.ends && !fault.concerns(customer) // a Done that meets it is not sent again
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

// hindered reports whether a fault may be met by a call of one of the customers.
func (r *run) hindered(customers ...string) bool {
	return slices.ContainsFunc(r.active, func(f Fault) bool { return slices.ContainsFunc(customers, f.concerns) })
}

// excused reports whether a call of the customers need not be answered as usual.
func (r *run) excused(customers ...string) bool {
	return r.hindered(customers...) || r.recovering()
}

// recovering reports whether a fault, of whatever customer, is not over for long.
func (r *run) recovering() bool {
	return r.faulty && r.Recovery > 0 && (len(r.active) > 0 || r.now() <= r.troubled+r.Recovery)
}

// account returns what the fleet knows of a customer.
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
	was := a.String()
	if !a.adopt(s, peeked, now, r.Slack) {
		law := 1
		if s.max == 0 && a.others {
			law = 5
		}
		r.note(now, "the fleet has %s", describeState(peeked))
		r.broken(law, "%q had %s; %s then is not possible in the fleet", customer, was, describeState(peeked))
	}
	if len(r.active) == 0 && now > max(a.doneAt, r.troubled)+r.Recovery {
		a.arrived()
	}
	was = a.String()
	if !a.adoptPending(peeked.Pending, now) {
		r.note(now, "the fleet has %s", describeState(peeked))
		r.broken(4, "%q had %s; %d pending in the fleet then is not possible", customer, was, peeked.Pending)
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

// errorsOf returns the errors of a call's n entries. In a call of many they are in a
// *priority.BatchError, in others they are not.
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
func describeState(s priority.State) string { return fmt.Sprintf("%+v", s) }

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
		part := fmt.Sprintf("level %d count %d", d.Level, d.Count)
		if d.Pending > 0 {
			part += fmt.Sprintf(" pending %d", d.Pending)
		}
		part += fmt.Sprintf(" reset in %v", d.ResetIn)
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
