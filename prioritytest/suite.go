package prioritytest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/bubble"
)

// Subject is a Store under test, and what [TestStore] has to know about it. Only
// Store is required.
type Subject struct {
	// Store is the store to test.
	Store priority.Store

	// Other is another process's store of the same counts: its calls do not pass
	// through Faulty. The suite reads from it what was really counted. Default:
	// Store. Required with Faulty.
	Other priority.Store

	// Faulty is where the suite makes trouble: each [FailingStore] inside Store, or
	// something of your own. Default: nothing fails.
	Faulty []Faulty

	// Timeout is the longest that a call of Store takes, and that a hanging store
	// inside it takes. Default: 250 ms.
	Timeout time.Duration

	// Recovery is how long after the last fault, of any customer, answers may still
	// be Degraded and Dones may not have arrived. For a fallback.Store it is twice
	// RetryAfter and a Timeout. Default: 0.
	Recovery time.Duration

	// Goroutines is the most goroutines that the Store keeps, or leaves behind,
	// whatever hangs. Default: 0.
	Goroutines int

	// Entries returns how many customers and documents the Store holds in memory.
	// Default: it is not checked.
	Entries func() int

	// Wait lets time pass for the counts. Default: time.Sleep.
	Wait func(d time.Duration)

	// Slack is how far ResetIn may be off. Default: it is exact.
	Slack time.Duration

	// Customers are three customers to test with. Default: customers with the
	// default policy.
	Customers []string

	// Close closes Store. It is called more than once. Default: there is nothing to
	// close.
	Close func(ctx context.Context) error
}

// Faulty fails on demand, until it is healed. A [FailingStore] is one.
type Faulty interface {
	Fail(Fault)
	Heal()
}

// TestStore tests that a Store keeps the laws of this module's stores:
//
//  1. At most once: a call without an error counts its documents exactly once, by
//     the store that answered; ErrNotCounted says that nobody ever counts them. A Done
//     reports each document that it ends once.
//  2. In time: a wrapper's call takes no longer than a call of the store that it wraps.
//  3. Bounded: goroutines and entries are bounded, whatever hangs; what has expired is
//     gone soon even if no call comes.
//  4. Levels err to the better side: after an outage a document's level may be better
//     than the full history would give, never worse for longer than one lease.
//  5. What others did stands: nothing undoes a count or a Reset of another process.
//  6. One customer's trouble is theirs: it changes nothing for others.
//  7. The policy passes through: PolicyOf and Last return what the wrapped store returns.
//
// It calls open for each check and for each of some random sequences of operations,
// faults and waits, and compares what the Store does with a model of the two rules. Each
// runs in a testing/synctest bubble of its own, where waits cost nothing; open is called
// in the bubble. (Time stands still in a bubble while a goroutine waits for a
// sync.Mutex: a Store that holds a mutex during a call of an inner store makes the test
// hang, as it would make its callers hang.) [pgregory.net/rapid] generates the
// sequences; it shortens one that breaks a law and prints how to run it again. Its
// flags, such as -rapid.checks, say how many sequences there are.
//
// It counts the goroutines of the process, so it should not run in parallel with
// other tests.
func TestStore(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	test(t, suite{open: open, virtual: true})
}

// TestStoreInRealTime is [TestStore] without a bubble, for a Store that depends on
// something outside of the process, such as a real server. Subject.Wait is required.
// It does not test faults, contexts that end, and goroutines.
func TestStoreInRealTime(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	test(t, suite{open: open})
}

func test(t *testing.T, s suite) {
	t.Helper()
	for _, check := range checks {
		t.Run(check.name, func(t *testing.T) {
			switch broken, lacks := s.check(t, check); {
			case broken != nil:
				t.Error(broken)
			case lacks != "":
				t.Log("not checked: there is no", lacks)
			}
		})
	}
	t.Run("random sequences", func(t *testing.T) {
		if s.virtual {
			rapid.Check(t, func(drawn *rapid.T) {
				if broken := s.sequence(t, sequences(true).Draw(drawn, "sequence")); broken != nil {
					drawn.Fatal(broken)
				}
			})
			return
		}
		for seed := range 10 { // a hundred and their shortening would take too long
			if broken := s.sequence(t, sequences(false).Example(seed)); broken != nil {
				t.Fatal(broken)
			}
		}
	})
}

// suite says how the checks run.
type suite struct {
	open    func(t *testing.T) Subject
	virtual bool // in a bubble
}

// check runs one check and returns the law that is broken, or what the subject lacks
// for it.
func (s *suite) check(t *testing.T, c check) (broken *violation, lacks string) {
	broken = s.attempt(t, func(r *run) {
		switch {
		case c.needs == faults && len(r.Faulty) == 0:
			lacks = "Subject.Faulty"
		case c.needs == virtualTime && !s.virtual:
			lacks = "virtual time"
		case c.needs == entries && r.Entries == nil:
			lacks = "Subject.Entries"
		case c.needs == closing && r.Close == nil:
			lacks = "Subject.Close"
		default:
			c.run(r)
		}
	})
	return broken, lacks
}

// sequence does steps one after the other and returns the law that is broken.
func (s *suite) sequence(t *testing.T, steps sequence) *violation {
	return s.attempt(t, func(r *run) { r.apply(steps) })
}

// attempt runs something on a new subject, which it closes.
func (s *suite) attempt(t *testing.T, do func(r *run)) (broken *violation) {
	try := func(t *testing.T) {
		r := newRun(t, s.open(t), s.virtual)
		broken = caught(func() { do(r) })
		if after := caught(r.end); broken == nil {
			broken = after
		}
		if broken != nil && s.virtual {
			time.Sleep(24 * time.Hour) // a bubble panics if goroutines are left
		}
	}
	if s.virtual {
		bubble.Test(t, try)
	} else {
		try(t)
	}
	return broken
}

// caught returns the violation with which a function ended the run.
func caught(do func()) (broken *violation) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *violation:
			broken = p
		default:
			panic(p)
		}
	}()
	do()
	return nil
}

// violation is a law that was broken.
type violation struct {
	law   int
	text  string
	trace []string // what was done before
}

var laws = [...]string{
	1: "at most once",
	2: "in time",
	3: "bounded",
	4: "levels err to the better side",
	5: "what others did stands",
	6: "one customer's trouble is theirs",
	7: "the policy passes through",
}

func (v *violation) Error() string {
	const shown = 40
	trace := v.trace[max(0, len(v.trace)-shown):]
	return fmt.Sprintf("law %d, %s: %s", v.law, laws[v.law], strings.Join(append([]string{v.text}, trace...), "\n    "))
}
