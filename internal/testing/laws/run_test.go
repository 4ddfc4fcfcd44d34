package laws

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/prioritytest"
)

// run is a subject and what was done with it so far.
type run struct {
	subject
	t          *testing.T
	began      time.Time
	goroutines int // before the subject
	trace      []string

	fault    *prioritytest.Fault // what fails now
	troubled time.Duration       // when the last fault ended
}

// violation is a law that was broken.
type violation struct {
	law  int
	text string
}

var names = [...]string{
	1: "at most once",
	2: "in time",
	3: "bounded",
	4: "levels err to the better side",
	5: "what others did stands",
	6: "one customer's trouble is theirs",
	7: "the policy passes through",
	8: "a document counts from when it is due",
}

// broken ends the run because a law is broken.
func broken(law int, format string, args ...any) {
	panic(&violation{law, fmt.Sprintf(format, args...)})
}

// attempt does something with a new subject, in a bubble, and returns the law that is
// broken, or nil.
func attempt(t *testing.T, open opener, do func(r *run)) (found *violation) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		r := &run{t: t, goroutines: runtime.NumGoroutine(), troubled: -time.Hour}
		r.subject = open(t)
		synctest.Wait()
		r.began = time.Now()
		found = caught(func() { do(r) })
		if after := caught(r.end); found == nil {
			found = after
		}
		if found != nil {
			found.text += "\n    " + strings.Join(r.trace[max(0, len(r.trace)-40):], "\n    ")
			time.Sleep(24 * time.Hour) // what was left behind ends: a bubble waits for it
		}
	})
	return found
}

func caught(do func()) (found *violation) {
	defer func() {
		if p := recover(); p != nil {
			var ok bool
			if found, ok = p.(*violation); !ok {
				panic(p)
			}
		}
	}()
	do()
	return nil
}

func (v *violation) Error() string { return fmt.Sprintf("law %d, %s: %s", v.law, names[v.law], v.text) }

// end closes the subject, which leaves nothing behind.
func (r *run) end() {
	r.heal()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.close(ctx); err != nil {
		broken(1, "nothing fails any more, and Close returns %v", err)
	}
	r.pass(time.Minute)
	r.bounded("after Close", mostGoroutines)
}

// bounded checks that there are no more goroutines than before and most.
func (r *run) bounded(when string, most int) {
	synctest.Wait()
	if n := runtime.NumGoroutine() - r.goroutines; n > most {
		broken(3, "%d goroutines %s, more than %d", n, when, most)
	}
}

func (r *run) now() time.Duration { return time.Since(r.began) }

// pass lets time pass, until nothing more happens by itself.
func (r *run) pass(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// note adds a line to what was done so far.
func (r *run) note(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf("%12v  ", r.now())+fmt.Sprintf(format, args...))
}

// caller is who makes a call: by which store, and with how much patience.
type caller struct {
	other    bool          // another process, which no fault concerns
	ended    bool          // the call's context has ended before it
	patience time.Duration // its context ends after this time; 0: never
}

// call makes a call and checks that it was in time.
func (r *run) call(c caller, what *call) answer {
	ctx, cancel := context.WithCancel(context.Background())
	store, limit := r.store, time.Duration(0)
	switch {
	case c.other:
		store = r.other
	case c.ended:
		cancel()
	case r.excused(what.customers...):
		limit = timeout
	}
	if c.patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.patience)
		limit = min(limit, c.patience)
	}
	defer cancel()
	start := time.Now()
	a := what.on(ctx, store)
	took := time.Since(start)
	r.note("%v%s = %v", what, c, &a)
	if took > limit {
		law := 2
		if r.fault != nil && !r.excused(what.customers...) {
			law = 6
		}
		broken(law, "%v took %v, more than %v", what, took, limit)
	}
	time.Sleep((time.Millisecond - took%time.Millisecond) % time.Millisecond) // the subjects count in whole ones
	synctest.Wait()
	r.wellFormed(what, &a)
	return a
}

// wellFormed checks what holds for every answer: errors are of one class, those of many
// entries a BatchError, and decisions without an error are there.
func (r *run) wellFormed(what *call, a *answer) {
	for _, err := range a.errs {
		if class(err) == priority.ErrInvalid {
			broken(1, "a call that is not wrong is said to be: %v", err)
		}
	}
	many := what.operation == prioritytest.NextEach || what.operation == prioritytest.SubmitN || what.operation == prioritytest.DoneN
	if _, isBatch := a.err.(*priority.BatchError); a.err != nil && isBatch != many {
		broken(1, "the error of %v is a %T: %v", what, a.err, a.err)
	}
	if done := what.operation == prioritytest.Done || what.operation == prioritytest.DoneN; done && len(a.ended) != what.entries() {
		broken(1, "%d ends of %v", len(a.ended), what)
	}
	for _, d := range a.decisions {
		if d.RuleLevel != d.Level { // nothing here sets overrides
			broken(1, "%v decides %+v", what, d)
		}
	}
	if a.state.RuleLevel != a.state.NextLevel {
		broken(1, "%v = %+v", what, a.state)
	}
	decides := strings.HasPrefix(string(what.operation), "Next") || strings.HasPrefix(string(what.operation), "Submit")
	if decides && a.err == nil && len(a.decisions) != what.entries() {
		broken(1, "%d decisions of %v", len(a.decisions), what)
	}
}

func (c caller) String() string {
	switch {
	case c.other:
		return " of another process"
	case c.ended:
		return " whose context has ended"
	case c.patience > 0:
		return fmt.Sprint(" within ", c.patience)
	}
	return ""
}

// fail makes a fault; there is one at a time.
func (r *run) fail(fault prioritytest.Fault) {
	r.heal()
	r.note("fail %+v", fault)
	r.fault = &fault
	r.faults.Fail(fault)
}

func (r *run) heal() {
	if r.fault == nil {
		return
	}
	r.faults.Heal()
	r.note("heal")
	r.fault, r.troubled = nil, r.now()
	synctest.Wait()
}

// concerns reports whether a call for one of the customers may meet the fault.
func (r *run) concerns(customers ...string) bool {
	for _, customer := range customers {
		if r.fault != nil && (r.fault.Customer == "" || r.fault.Customer == customer) {
			return true
		}
	}
	return false
}

// excused reports whether a call for the customers need not be answered as usual.
func (r *run) excused(customers ...string) bool { return r.concerns(customers...) || r.recovering() }

// recovering reports whether there is a fault, of anyone, or was one only recently.
func (r *run) recovering() bool {
	return r.recovery > 0 && (r.fault != nil || r.now() <= r.troubled+r.recovery)
}

// peek returns what the fleet knows of a customer.
func (r *run) peek(customer string) priority.State {
	synctest.Wait()
	state, err := r.other.Peek(context.Background(), customer)
	if err != nil {
		broken(1, "Peek of another process: %v", err)
	}
	return state
}
