package prioritytest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// check is a part of the suite without random sequences.
type check struct {
	name  string
	needs need
	run   func(r *run)
}

// need is what a check requires of a Subject.
type need int

const (
	nothing need = iota
	virtualTime
	faults // something that fails, and virtual time
	entries
	closing
)

var checks = []check{
	{"policies pass through", nothing, (*run).policiesPassThrough},
	{"wrong calls count nothing", nothing, (*run).wrongCallsCountNothing},
	{"empty calls count nothing", nothing, (*run).emptyCallsCountNothing},
	{"large calls work", nothing, (*run).largeCallsWork},
	{"customers share nothing", nothing, (*run).customersShareNothing},
	{"ended contexts end calls", virtualTime, (*run).endedContextsEndCalls},
	{"nil contexts do no harm", nothing, (*run).nilContextsDoNoHarm},
	{"concurrent calls count once each", nothing, (*run).concurrentCallsCountOnceEach},
	{"floods and redeliveries count once", nothing, (*run).floodsAndRedeliveriesCountOnce},
	{"costs count", nothing, (*run).costsCount},
	{"another process counts and resets", nothing, (*run).anotherProcessCountsAndResets},
	{"what is over is gone", entries, (*run).whatIsOverIsGone},
	{"every operation meets every fault", faults, (*run).everyOperationMeetsEveryFault},
	{"an outage ends", faults, (*run).anOutageEnds},
	{"an old Done meets a new Submit", faults, (*run).anOldDoneMeetsANewSubmit},
	{"everything hangs", faults, (*run).everythingHangs},
	{"a customer's node hangs", faults, (*run).aCustomersNodeHangs},
	{"a customer's count is corrupt", faults, (*run).aCustomersCountIsCorrupt},
	{"callers are impatient", faults, (*run).callersAreImpatient},
	{"Close ends in time", closing, (*run).closeEndsInTime},
}

func (r *run) policiesPassThrough() {
	for _, customer := range append(r.Customers, "somebody else") {
		policy, want := r.Store.PolicyOf(customer), r.Other.PolicyOf(customer)
		switch {
		case !reflect.DeepEqual(policy, want):
			r.broken(7, "PolicyOf(%q) = %+v, but %+v inside", customer, policy, want)
		case policy.Thresholds == nil || policy.Loads == nil || policy.ResetInterval == 0 || policy.Validate() != nil:
			r.broken(7, "PolicyOf(%q) = %+v is not filled in", customer, policy)
		case policy.Last() > r.Store.Last():
			r.broken(7, "Last() = %d, but the policy of %q ends at %d", r.Store.Last(), customer, policy.Last())
		}
		if len(policy.Thresholds) > 0 {
			policy.Thresholds[0] = math.MaxInt64
			if reflect.DeepEqual(r.Store.PolicyOf(customer), policy) {
				r.broken(7, "who changes the Thresholds of PolicyOf(%q) changes the Store's", customer)
			}
		}
		if len(policy.Loads) > 0 {
			policy.Loads[0] = -1
			if slices.Contains(r.Store.PolicyOf(customer).Loads, -1) {
				r.broken(7, "who changes the Loads of PolicyOf(%q) changes the Store's", customer)
			}
		}
	}
	if r.Store.Last() != r.Other.Last() {
		r.broken(7, "Last() = %d, but %d inside", r.Store.Last(), r.Other.Last())
	}
	for customer := range 3 {
		r.do(&step{operation: NextN, customers: []int{customer}, n: 60})
	}
}

func (r *run) wrongCallsCountNothing() {
	ctx, customer := context.Background(), r.Customers[0]
	long, many := strings.Repeat("x", 513), slices.Repeat([]string{customer}, priority.MaxDocuments+1)
	documents := []string{"d", "e"}
	kinds := map[error][]func(s priority.Store) error{
		priority.ErrInvalidCost: {
			func(s priority.Store) error { _, err := s.SubmitN(ctx, customer, documents, []float64{}); return err },
			func(s priority.Store) error { _, err := s.SubmitN(ctx, customer, documents, []float64{1}); return err },
			func(s priority.Store) error {
				_, err := s.SubmitN(ctx, customer, documents, []float64{1, 1, 1})
				return err
			},
			func(s priority.Store) error { _, err := s.SubmitN(ctx, customer, nil, []float64{1}); return err },
		},
		priority.ErrInvalidCount: {
			func(s priority.Store) error { _, err := s.NextN(ctx, customer, -1); return err },
			func(s priority.Store) error { _, err := s.NextN(ctx, customer, priority.MaxDocuments+1); return err },
			func(s priority.Store) error { _, err := s.NextEach(ctx, many); return err },
			func(s priority.Store) error { _, err := s.SubmitN(ctx, customer, many, nil); return err },
			func(s priority.Store) error { return s.DoneN(ctx, customer, many, 0) },
		},
		priority.ErrInvalidOption: {
			func(s priority.Store) error { return s.Done(ctx, customer, "d", -1) },
			func(s priority.Store) error { return s.DoneN(ctx, customer, []string{"d"}, -1) },
		},
	}
	for _, wrong := range []float64{-1, -math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), math.Inf(-1)} {
		kinds[priority.ErrInvalidCost] = append(kinds[priority.ErrInvalidCost],
			func(s priority.Store) error { _, err := s.Submit(ctx, customer, "d", wrong); return err },
			func(s priority.Store) error {
				_, err := s.SubmitN(ctx, customer, documents, []float64{1, wrong})
				return err
			},
		)
	}
	for _, wrong := range []string{"", long} {
		kinds[priority.ErrInvalidCustomer] = append(kinds[priority.ErrInvalidCustomer],
			func(s priority.Store) error { _, err := s.Next(ctx, wrong); return err },
			func(s priority.Store) error { _, err := s.NextN(ctx, wrong, 1); return err },
			func(s priority.Store) error { _, err := s.NextEach(ctx, []string{customer, wrong}); return err },
			func(s priority.Store) error { _, err := s.Submit(ctx, wrong, "d", 0); return err },
			func(s priority.Store) error { _, err := s.SubmitN(ctx, wrong, []string{"d"}, nil); return err },
			func(s priority.Store) error { return s.Done(ctx, wrong, "d", 0) },
			func(s priority.Store) error { return s.DoneN(ctx, wrong, []string{"d"}, 0) },
			func(s priority.Store) error { _, err := s.Peek(ctx, wrong); return err },
			func(s priority.Store) error { return s.Reset(ctx, wrong) },
		)
		kinds[priority.ErrInvalidDocument] = append(kinds[priority.ErrInvalidDocument],
			func(s priority.Store) error { _, err := s.Submit(ctx, customer, wrong, 0); return err },
			func(s priority.Store) error {
				_, err := s.SubmitN(ctx, customer, []string{"d", wrong}, nil)
				return err
			},
			func(s priority.Store) error { return s.Done(ctx, customer, wrong, 0) },
			func(s priority.Store) error { return s.DoneN(ctx, customer, []string{"d", wrong}, 0) },
		)
	}
	r.account(customer)
	for kind, calls := range kinds {
		for i, call := range calls {
			err := call(r.Store)
			if r.class(err); !errors.Is(err, kind) {
				r.broken(1, "wrong call %d is answered %v, not %v", i, err, kind)
			}
		}
	}
	r.observeAll()
}

func (r *run) emptyCallsCountNothing() {
	ctx, customer := context.Background(), r.Customers[0]
	r.account(customer)
	for operation, call := range map[Operation]func() ([]priority.Decision, error){
		NextN:    func() ([]priority.Decision, error) { return r.Store.NextN(ctx, customer, 0) },
		NextEach: func() ([]priority.Decision, error) { return r.Store.NextEach(ctx, nil) },
		SubmitN:  func() ([]priority.Decision, error) { return r.Store.SubmitN(ctx, customer, nil, nil) },
		DoneN:    func() ([]priority.Decision, error) { return nil, r.Store.DoneN(ctx, customer, nil, 0) },
	} {
		if decisions, err := call(); len(decisions) > 0 || err != nil {
			r.broken(1, "a %s of nothing is answered %s", operation, describe(decisions, err))
		}
	}
	r.observeAll()
}

func (r *run) largeCallsWork() {
	ctx, customer := context.Background(), strings.Repeat("c", priority.MaxCustomerBytes)
	documents := []string{strings.Repeat("d", priority.MaxDocumentBytes), strings.Repeat("d", priority.MaxDocumentBytes-1)}
	if d, err := r.Store.SubmitN(ctx, customer, documents, nil); err != nil || d[1].Pending != 2 {
		r.broken(1, "two documents of the longest names are answered %s", describe(d, err))
	}
	if err := r.Store.DoneN(ctx, customer, documents, time.Duration(len(documents))*time.Second); err != nil {
		r.broken(1, "DoneN of the longest names: %v", err)
	}
	const large = priority.MaxDocuments / 10
	d, err := r.Store.NextN(ctx, customer, large)
	if err != nil || len(d) != large || d[large-1].Count != 1-large {
		r.broken(1, "a NextN of %d is answered %s", large, describe(d, err))
	}
	for range 3 {
		if d, err := r.Store.Next(ctx, customer); err != nil || d.Level != r.Store.PolicyOf(customer).Level(-large) {
			r.broken(1, "the document after them is answered %s", describe([]priority.Decision{d}, err))
		}
	}
}

// customersShareNothing counts for customers whose keys would be equal if names were
// not escaped.
func (r *run) customersShareNothing() {
	customers := []string{
		"acme", "Acme", "acme ", " acme", "{", "}", "{}", "}{", "{acme}", "acme}", "{acme", "%", "%%", "%25", "%7D", "%7d", "%257D",
		"acme}:count", "acme:count", "acme}:pending", ":", "\x00", "a\x00", "a\x00b", "\r\n", "*1\r\n$4\r\nPING\r\n", "\xff", "\xed\xa0\x80",
		"ü", "u\u0308", "客户", "\"", "'", "\\", "0", "-1", "nil", strings.Repeat("x", 511), strings.Repeat("x", 512), strings.Repeat("}", 512),
	}
	each, err := r.Store.NextEach(context.Background(), append(customers, customers...))
	if err != nil {
		r.broken(1, "a NextEach of odd names: %v", err)
	}
	for i, d := range each {
		if want := int64(-(i / len(customers))); d.Count != want {
			r.broken(6, "the count of %.20q is %d, not %d: it shares it", customers[i%len(customers)], d.Count, want)
		}
	}
	for _, customer := range customers {
		d, err := r.Store.Submit(context.Background(), customer, "d", 0)
		if err != nil || d.Load != 1 || d.Pending != 1 {
			r.broken(6, "the first Submit of %.20q is answered %s", customer, describe([]priority.Decision{d}, err))
		}
	}
}

// everyOperation is a step of each operation, of the first customer.
func everyOperation(c caller) (steps []step) {
	for _, operation := range []Operation{Next, NextN, NextEach, Submit, SubmitN, Done, DoneN, Peek, Reset} {
		steps = append(steps, step{operation: operation, caller: c, customers: []int{0, 1, 0}, documents: []int{0, 3, 0}, n: 3})
	}
	return steps
}

func (r *run) endedContextsEndCalls() {
	r.apply([]step{{operation: SubmitN, customers: []int{0}, documents: []int{0, 1, 2}}})
	r.apply(everyOperation(caller{ended: true}))
	r.apply(everyOperation(caller{}))
}

func (r *run) nilContextsDoNoHarm() {
	var none context.Context
	for _, call := range []func(customer string){
		func(customer string) { _, _ = r.Store.Next(none, customer) },
		func(customer string) { _, _ = r.Store.NextN(none, customer, 1) },
		func(customer string) { _, _ = r.Store.NextEach(none, []string{customer}) },
		func(customer string) { _, _ = r.Store.Submit(none, customer, "d", 0) },
		func(customer string) { _ = r.Store.Done(none, customer, "d", 0) },
		func(customer string) { _, _ = r.Store.Peek(none, customer) },
		func(customer string) { _ = r.Store.Reset(none, customer) },
	} {
		func() {
			defer func() { _ = recover() }()
			call("nobody")
		}()
	}
	d, err := r.Store.Next(context.Background(), "nobody") // and no lock is held
	if err != nil || d.Count < -4 {
		r.broken(1, "after calls with a nil context a Next is answered %s", describe([]priority.Decision{d}, err))
	}
	r.apply(everyOperation(caller{}))
}

func (r *run) concurrentCallsCountOnceEach() {
	const callers, each = 8, 12
	ctx := context.Background()
	counts := make([][]priority.Decision, callers)
	var calling sync.WaitGroup
	for i := range callers {
		calling.Go(func() {
			for n := range each {
				var d []priority.Decision
				var err error
				switch n % 3 {
				case 0:
					d, err = r.Store.NextN(ctx, "crowd", 1)
				case 1:
					d, err = r.Store.NextEach(ctx, []string{"crowd"})
				default:
					d = make([]priority.Decision, 1)
					d[0], err = r.Store.Submit(ctx, "crowd", fmt.Sprint(i, n), 0)
				}
				if err == nil {
					counts[i] = append(counts[i], d...)
				}
			}
		})
	}
	calling.Wait()
	type place struct{ count, pending int64 }
	seen := make(map[place]bool)
	for _, d := range slices.Concat(counts...) {
		at := place{d.Count, d.Pending}
		if seen[at] {
			r.broken(1, "concurrent documents have the same count %d or are both %d pending", d.Count, d.Pending)
		}
		seen[at] = true
	}
	const submits = callers * each / 3
	held, err := r.Other.Peek(ctx, "crowd")
	if err != nil || held.Count != 1-(callers*each-submits) || held.Pending != submits || math.Abs(held.Lately-submits) > .1 {
		r.broken(1, "after %d concurrent documents, %d of them submitted, the fleet has %s", callers*each, submits, describeState(held, err))
	}
}

// floodsAndRedeliveriesCountOnce submits enough for floods to take turns, if the policy
// has turns, and to exceed what is remembered; some documents more than once.
func (r *run) floodsAndRedeliveriesCountOnce() {
	one, other := func(at int) []int { return []int{at} }, caller{other: true}
	upTo := func(from, to int) (numbers []int) {
		for i := from; i < to; i++ {
			numbers = append(numbers, i)
		}
		return numbers
	}
	for at := range r.Customers[:3] {
		submit := func(c caller, from, to int) step {
			return step{operation: SubmitN, caller: c, customers: one(at), documents: upTo(from, to)}
		}
		steps := []step{submit(caller{}, 0, 20), submit(other, 20, 40), submit(caller{}, 10, 45)}
		for i := range 12 {
			steps = append(steps, step{operation: Submit, customers: one(at), documents: one(40 + i)})
		}
		steps = append(steps,
			step{operation: DoneN, customers: one(at), documents: append(upTo(5, 30), 7, 8)},
			step{operation: Submit, customers: one(at), documents: one(5)},
			step{customers: one(at), wait: forAmount, amount: 90 * time.Second},
			submit(caller{}, 3, 8), submit(other, 3, 8),
			step{operation: DoneN, customers: one(at), documents: upTo(0, 60)},
		)
		for from := 0; from < 600; from += 40 {
			steps = append(steps, submit(caller{}, from, from+40), step{operation: DoneN, customers: one(at), documents: upTo(from, from+40)})
		}
		steps = append(steps, submit(caller{}, 0, 3), step{customers: one(at), wait: forAmount, amount: fair.Day}, submit(caller{}, 3, 6))
		r.trace = nil
		r.apply(steps)
	}
}

// costsCount submits documents of many costs, and ends documents that took long.
func (r *run) costsCount() {
	ctx, customer := context.Background(), "payer"
	documents := make([]string, 100)
	for i := range documents {
		documents[i] = fmt.Sprint(i)
	}
	submit := func(cost float64) priority.Decision {
		d, err := r.Store.Submit(ctx, customer, "d", cost)
		if err != nil {
			r.broken(1, "Submit: %v", err)
		}
		if err := r.Store.Reset(ctx, customer); err != nil {
			r.broken(1, "Reset: %v", err)
		}
		return d
	}
	for i, document := range documents {
		if d := submit(3); d.Load != 1 {
			r.broken(1, "after %d documents nobody knows the average cost, and a load is %v", i, d.Load)
		}
		if i%2 == 0 { // a document without a cost does not count for the average
			if d := submit(0); d.Load != 1 {
				r.broken(1, "a document of unknown cost has load %v", d.Load)
			}
		}
		if _, err := r.Store.Submit(ctx, "worker", document, 0); err != nil {
			r.broken(1, "Submit: %v", err)
		}
	}
	for _, test := range []struct{ cost, load float64 }{{3, 1}, {0, 1}, {3 / 4., .25}, {1e-9, .001}} {
		if d := submit(test.cost); math.Abs(d.Load-test.load) > .05*test.load {
			r.broken(1, "a document that costs %v where all cost 3 has load %v, not %v", test.cost, d.Load, test.load)
		}
	}
	// These move the average.
	if d := submit(6); math.Abs(d.Load-2) > .1 {
		r.broken(1, "a document that costs 6 where all cost 3 has load %v, not 2", d.Load)
	}
	if d := submit(math.MaxFloat64); d.Load != 100 {
		r.broken(1, "a document that costs more than all others has load %v, not 100", d.Load)
	}
	d, err := r.Store.SubmitN(ctx, customer, []string{"a", "b"}, []float64{math.MaxFloat64, 0})
	if err != nil || math.Abs(d[0].Load-100) > .1 || math.Abs(d[1].Load-4) > .1 && r.Store.PolicyOf(customer).LevelOfLoad(100) <= priority.Level(len(r.Store.PolicyOf(customer).Loads)) {
		r.broken(1, "a document that costs much and one of unknown cost are answered %s", describe(d, err))
	}

	if err := r.Store.DoneN(ctx, "worker", documents, 100*time.Second); err != nil {
		r.broken(1, "DoneN: %v", err)
	}
	if err := r.Store.Done(ctx, customer, "b", 10*time.Second); err != nil {
		r.broken(1, "Done: %v", err)
	}
	state, err := r.Other.Peek(ctx, customer)
	if err != nil || state.Cost != 1.9 {
		r.broken(1, "after a Done that took ten times as long as all the fleet has %s", describeState(state, err))
	}
	if d, err := r.Store.Submit(ctx, customer, "c", 0); err != nil || math.Abs(d.Load-1.9*3*float64(d.Pending-state.PendingLast)) > .1 {
		r.broken(1, "a document of the cost that its customer's have is answered %s", describe([]priority.Decision{d}, err))
	}
	_ = r.Other.Reset(ctx, customer)
	_ = r.Other.Reset(ctx, "worker")
}

func (r *run) anotherProcessCountsAndResets() {
	next, other := step{operation: Next, customers: []int{0}}, caller{other: true}
	many := step{operation: NextN, customers: []int{0}, n: 40}
	otherReset := step{operation: Reset, customers: []int{0}, caller: other}
	otherCounts := step{operation: NextN, customers: []int{0}, n: 3, caller: other}
	wait := step{customers: []int{0}, wait: forAmount, amount: time.Millisecond}
	for _, steps := range [][]step{
		{many, next, next, otherReset, wait, next},
		{many, next, next, otherReset, otherCounts, wait, next, wait},
		{many, next, otherCounts, next, otherReset, next, next, otherCounts, wait, wait, next, wait},
		{many, next, otherReset, next, otherCounts, {operation: Reset, customers: []int{0}}, otherCounts, next, wait, next},
	} {
		r.trace = nil
		r.apply(steps)
		r.apply([]step{{operation: Reset, customers: []int{0}}})
	}
}

// whatIsOverIsGone makes one call for each of many customers, and then no calls.
func (r *run) whatIsOverIsGone() {
	var customers []string
	longest := max(r.leaseOf(caller{}), fair.Day)
	for i := range 1000 {
		customers = append(customers, fmt.Sprint("customer ", i))
	}
	customers = append(customers, r.Customers...)
	for _, customer := range customers {
		longest = max(longest, r.Store.PolicyOf(customer).ResetInterval)
		if _, err := r.Store.Submit(context.Background(), customer, "d", 0); err != nil {
			r.broken(1, "Submit: %v", err)
		}
	}
	_, _ = r.Store.NextEach(context.Background(), customers)
	r.pass(3 * longest)
	if n := r.Entries(); n > 0 {
		r.broken(3, "%v after the last of %d customers, %d entries are left", 3*longest, len(customers), n)
	}
}

func (r *run) everyOperationMeetsEveryFault() {
	heal, recover := step{heal: true}, step{customers: []int{0}, wait: forRecovery, plus: time.Millisecond}
	for _, f := range []Fault{
		{},
		{Class: priority.ErrOutcomeUnknown},
		{Class: priority.ErrOutcomeUnknown, Counted: true},
		{Class: priority.ErrCorruptCount, Customer: "0"},
		{Class: priority.ErrOutcomeUnknown, Delay: 100},
		{Delay: 100, Customer: "0"},
		{Slow: true, Delay: 50},
	} {
		for at := range r.Faulty {
			for _, c := range []caller{{}, {ended: true}, {patience: 20 * time.Millisecond}} {
				steps := []step{{operation: SubmitN, customers: []int{0}, documents: []int{0, 1}}, {customers: []int{0}, fault: &f, at: at}}
				r.trace = nil
				r.apply(append(append(steps, everyOperation(c)...), heal, recover))
			}
		}
	}
}

// anOutageEnds checks what an outage leaves behind.
func (r *run) anOutageEnds() {
	acme := []int{0}
	heal, recover := step{heal: true}, step{customers: acme, wait: forRecovery, plus: time.Millisecond}
	submit := func(documents ...int) step { return step{operation: SubmitN, customers: acme, documents: documents} }
	done := func(documents ...int) step { return step{operation: DoneN, customers: acme, documents: documents} }
	otherSubmits := step{operation: SubmitN, customers: acme, documents: []int{0}, caller: caller{other: true}}
	next := step{operation: NextN, customers: acme, n: 15}
	for _, f := range []Fault{{}, {Class: priority.ErrOutcomeUnknown}, {Class: priority.ErrOutcomeUnknown, Counted: true}, {Class: priority.ErrOutcomeUnknown, Delay: 100}} {
		fault := step{customers: acme, fault: &f}
		for _, steps := range [][]step{
			{submit(0, 1, 2, 3, 4, 5), fault, next, done(0, 1, 2), next, heal, recover, next, submit(0)},
			{submit(0, 1, 2), fault, done(0, 1), submit(0), heal, recover, submit(2)},
			{submit(0, 1, 2), fault, done(0, 1), heal, submit(0), recover, submit(2)},
			{submit(0, 1), fault, done(0), {operation: Reset, customers: acme}, heal, {operation: Reset, customers: acme}, submit(0, 1), recover, submit(2)},
			{submit(0, 1), fault, done(0), heal, {operation: Reset, customers: acme}, otherSubmits, recover, submit(2)},
			{submit(0, 1), next, next, fault, next, next, heal, {operation: Reset, customers: acme}, recover, next},
		} {
			for at := range r.Faulty {
				for i := range steps {
					steps[i].at = at
				}
				r.trace = nil
				r.apply(steps)
				r.apply([]step{{operation: Reset, customers: acme}})
			}
		}
	}
}

// anOldDoneMeetsANewSubmit submits a document again while its Done, which failed
// before, is on its way.
func (r *run) anOldDoneMeetsANewSubmit() {
	acme := []int{0}
	submit := step{operation: Submit, customers: acme, documents: []int{0}}
	late := Fault{Slow: true, Delay: 90, Operations: []Operation{Done, DoneN}}
	for at := range r.Faulty {
		for after := time.Duration(0); after <= r.Recovery; after += r.Timeout / 5 {
			r.trace = nil
			r.apply([]step{
				submit, {customers: acme, fault: new(Fault), at: at}, {operation: Done, customers: acme, documents: []int{0}}, {heal: true},
				{customers: acme, fault: &late, at: at}, {customers: acme, wait: forAmount, amount: after}, submit,
				{customers: acme, wait: forAmount, amount: r.Timeout}, {heal: true},
			})
			r.apply([]step{{operation: Reset, customers: acme}})
		}
	}
}

// everythingHangs makes many calls while nothing inside answers.
func (r *run) everythingHangs() {
	const callers = 2000
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("customer ", i)
	}
	call := func(ctx context.Context, i int) error {
		customer, document := many[i%len(many)], fmt.Sprint(i)
		switch i % 10 {
		case 0:
			if i < 100 {
				_, err := r.Store.NextEach(ctx, many)
				return err
			}
			return r.Store.Reset(ctx, customer)
		case 1:
			_, err := r.Store.SubmitN(ctx, customer, many[:60], nil)
			return err
		case 2, 3:
			_, err := r.Store.Submit(ctx, customer, document, 0)
			return err
		case 4:
			return r.Store.Done(ctx, customer, document, 0)
		case 5:
			_, err := r.Store.Peek(ctx, customer)
			return err
		}
		_, err := r.Store.Next(ctx, customer)
		return err
	}
	for at := range r.Faulty {
		for _, patience := range []time.Duration{0, r.Timeout / 5} {
			r.note(r.now(), "fail unknown, after %v; %d callers, patience %v", r.Timeout, callers, patience)
			r.fail(at, Fault{Class: priority.ErrOutcomeUnknown, Delay: r.Timeout})
			took, errs := make([]time.Duration, callers), make([]error, callers)
			var calling sync.WaitGroup
			for i := range callers {
				calling.Go(func() {
					ctx, cancel := context.Background(), func() {}
					if patience > 0 {
						ctx, cancel = context.WithTimeout(ctx, patience)
					}
					defer cancel()
					start := time.Now()
					errs[i] = call(ctx, i)
					took[i] = time.Since(start)
				})
			}
			r.rest()
			r.boundedGoroutines("while everything hangs", callers)
			calling.Wait()
			limit := r.Timeout
			if patience > 0 {
				limit = patience
			}
			for i, err := range errs {
				if batch := new(priority.BatchError); errors.As(err, &batch) {
					for _, err := range batch.Unwrap() {
						r.class(err)
					}
				} else {
					r.class(err)
				}
				if took[i] > limit {
					r.broken(2, "call %d of many took %v, more than %v", i, took[i], limit)
				}
			}
			r.heal()
			r.pass(max(r.Recovery, time.Second) + time.Millisecond)
			r.boundedGoroutines("after everything hung", 0)
		}
	}
	r.apply(everyOperation(caller{}))
}

// trouble makes a fault for the first customer, and calls for it. It returns the
// fault's end.
func (r *run) trouble(at int, f Fault, callers int) (end func()) {
	f.Customer = r.Customers[0]
	r.note(r.now(), "fail %+v; %d callers", f, callers)
	delete(r.accounts, f.Customer) // the model does not follow what this counts
	r.fail(at, f)
	ctx, cancel := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for ctx.Err() == nil {
				_, _ = r.Store.Next(ctx, r.Customers[0])
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	r.rest()
	r.stop = func() {
		cancel()
		calling.Wait()
	}
	return func() {
		r.stop()
		r.heal()
		r.pass(r.Recovery + time.Millisecond)
		delete(r.secondary, f.Customer)
		if err := r.Other.Reset(context.Background(), r.Customers[0]); err != nil {
			r.t.Fatalf("prioritytest: Other.Reset: %v", err)
		}
	}
}

// others calls for another customer, and checks that it is answered as always, at the
// latest after a while.
func (r *run) others(latest time.Duration) {
	first, recovery := r.now(), r.Recovery
	for i := range 40 {
		if r.now()-first >= latest {
			r.Recovery = 0 // recovery is no excuse any more
		}
		r.do(&step{operation: Next, customers: []int{1}})
		r.pass(time.Duration(1+13*i)*time.Millisecond + (latest / 20).Truncate(time.Millisecond)) // out of step with everything
	}
	r.Recovery = recovery
}

func (r *run) aCustomersNodeHangs() {
	for at := range r.Faulty {
		for _, class := range []error{priority.ErrOutcomeUnknown, priority.ErrNotCounted} {
			end := r.trouble(at, Fault{Class: class, Delay: r.Timeout}, 20)
			r.others(10 * r.Recovery)
			end()
		}
	}
	r.apply(everyOperation(caller{}))
}

func (r *run) aCustomersCountIsCorrupt() {
	for at := range r.Faulty {
		end := r.trouble(at, Fault{Class: priority.ErrCorruptCount}, 20)
		r.others(0)
		end()
	}
	r.apply(everyOperation(caller{}))
}

// callersAreImpatient makes calls whose contexts end before the answer, for one
// customer again and again.
func (r *run) callersAreImpatient() {
	for at := range r.Faulty {
		delay := r.Timeout / 5
		r.fail(at, Fault{Slow: true, Delay: delay})
		r.note(r.now(), "slow, %v; impatient callers of %q", delay, r.Customers[0])
		for i := range 40 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			if i%2 == 0 {
				cancel()
			}
			_, _ = r.Store.Next(ctx, r.Customers[0])
			_, _ = r.Store.NextEach(ctx, r.Customers[:1])
			_, _ = r.Store.Submit(ctx, r.Customers[0], "d", 0)
			_ = r.Store.Done(ctx, r.Customers[0], "d", 0)
			_, _ = r.Store.Peek(ctx, r.Customers[0])
			cancel()
		}
		d, err := r.Store.Next(context.Background(), r.Customers[1])
		if err != nil || d.Degraded {
			r.broken(6, "%q is answered %s because callers of %q gave up", r.Customers[1], describe([]priority.Decision{d}, err), r.Customers[0])
		}
		r.heal()
		r.pass(r.Recovery + time.Millisecond)
	}
}

// closeEndsInTime closes the Store while nothing inside answers, and then again.
func (r *run) closeEndsInTime() {
	r.do(&step{operation: NextN, customers: []int{0}, n: 40})
	r.do(&step{operation: Next, customers: []int{0}})
	r.do(&step{operation: Submit, customers: []int{0}, documents: []int{0}})
	for at := range r.Faulty {
		r.note(r.now(), "fail not counted, hanging")
		r.fail(at, Fault{Delay: r.Timeout})
		r.do(&step{operation: Done, customers: []int{0}, documents: []int{0}})
		r.do(&step{operation: Next, customers: []int{0}})
		patience := r.Timeout / 5
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		start := time.Now()
		err := r.Close(ctx)
		cancel()
		r.note(r.now(), "Close = %v", err)
		if took := time.Since(start); took > patience {
			r.broken(2, "Close took %v, and its context %v", took, patience)
		}
		r.heal()
	}
	err := r.Close(context.Background())
	r.note(r.now(), "Close = %v", err)
	r.observeAll()
	if err != nil {
		r.broken(1, "nothing fails any more, and Close returns %v", err)
	}
	r.boundedGoroutines("after Close", 0)
}
