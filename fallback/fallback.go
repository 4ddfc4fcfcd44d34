// Package fallback keeps answering while the fleet's counts cannot be reached: from
// a secondary store, with Degraded set and no error.
package fallback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/memory"
)

// Options configures a [Store]. The zero value works.
type Options struct {
	// MaxFailures is how many failures of the primary in a row, of all callers
	// together, open the circuit. Default: 10.
	MaxFailures int

	// RetryAfter is how often the Store probes the primary in the background while
	// the circuit is open or Dones are owed to it. Default: 500 ms.
	RetryAfter time.Duration

	// MaxDones is the most Dones that are remembered for the primary. Beyond them the
	// customer with the most loses some, and a document whose Done is lost counts as
	// pending there until its lease ends. Default: 100,000.
	MaxDones int

	// OnChange is called when the circuit opens (true, and the primary's last
	// error) and when it closes again (false, nil). Calls do not overlap. Default:
	// nothing is called.
	OnChange func(open bool, cause error)

	// OnError is called with each error of the primary that callers do not get: the
	// secondary answered, or a Done failed in the background. It must be safe for
	// concurrent use and return soon. Default: nothing is called.
	OnError func(err error)
}

const (
	defaultMaxFailures = 10
	defaultRetryAfter  = 500 * time.Millisecond
	defaultMaxDones    = 100_000
	// ownEntries bounds the Store's own secondary.
	ownEntries = 100_000
)

// Store is a [priority.Store] that answers from a secondary store if the primary
// cannot, with Degraded set and no error.
//
// A call that fails can take as long as the primary's timeout. After MaxFailures in a row
// the circuit opens: calls go to the secondary at once, and only probes in the background
// go to the primary, until it answers. A probe sends a Done of a document that does not
// exist, for each of some recent customers.
//
// If the primary fails for some customers and works for others, as when a node of a
// cluster hangs, the circuit stays closed. Only these customers' calls go to the secondary
// at once, until a probe succeeds for them. The Store remembers up to 10,000 such
// customers; each has waited for the primary's timeout about once.
//
// What was counted without the primary is forgotten when it is back, which can only make
// levels better. But Dones are remembered, as a document that still looks pending makes
// its customer's next levels worse. They reach the primary soon after it is back, up to a
// day later. A Submit of the same document cancels its Done, unless the document was
// certainly not counted.
//
// If the caller passes a secondary, it keeps its counts. For a day after an outage it
// gets each Done too, in the background.
//
// Some calls still return an error: a wrong call ([priority.ErrInvalid]), a call
// whose context was canceled, and a Reset that the primary did not make. If a call's
// own deadline ends first, a probe finds out whether the primary fails.
//
// It is safe for concurrent use. Close it before the primary's client.
type Store struct {
	primary, secondary priority.Store
	own                *memory.Store // the secondary, if New made it
	override           overrider     // the primary, if it knows overrides
	onError            func(error)

	circuit circuit
	dones   dones // owed to the primary
	later   dones // owed to a secondary that the caller passed
	repair  repair

	born      time.Time
	strayedAt atomic.Int64 // nanoseconds after born; 0: never
}

var _ priority.Store = (*Store)(nil)

// New returns a Store. If secondary is nil, it is a *memory.Store with the primary's
// policies and lease: it is fair within one process, and remembers the newest 100,000
// pending documents and as many customers (memory.Options.MaxEntries). Nil opts are the
// defaults. An error wraps [priority.ErrInvalidOption].
func New(primary, secondary priority.Store, opts *Options) (*Store, error) {
	if typednil.Is(primary) {
		return nil, fmt.Errorf("%w: the primary is nil", priority.ErrInvalidOption)
	}
	if secondary != nil && typednil.Is(secondary) {
		return nil, fmt.Errorf("%w: the secondary is a nil %T", priority.ErrInvalidOption, secondary)
	}
	if opts == nil {
		opts = &Options{}
	}
	if opts.MaxFailures < 0 || opts.RetryAfter < 0 || opts.MaxDones < 0 {
		return nil, fmt.Errorf("%w: MaxFailures %d, RetryAfter %v or MaxDones %d is negative",
			priority.ErrInvalidOption, opts.MaxFailures, opts.RetryAfter, opts.MaxDones)
	}
	s := &Store{primary: primary, secondary: secondary, onError: opts.OnError, born: time.Now()}
	if secondary == nil {
		own, err := memory.New(&memory.Options{Like: primary, MaxEntries: ownEntries})
		if err != nil {
			return nil, err
		}
		s.secondary, s.own = own, own
	}
	s.override, _ = priority.As[overrider](primary)
	s.circuit.most = int32(min(cmp.Or(opts.MaxFailures, defaultMaxFailures), math.MaxInt32))
	s.dones.to, s.dones.most = primary, cmp.Or(opts.MaxDones, defaultMaxDones)
	s.later.to, s.later.most = s.secondary, s.dones.most
	s.repair.every, s.repair.onChange = cmp.Or(opts.RetryAfter, defaultRetryAfter), opts.OnChange
	s.repair.turn = make(chan struct{}, 1)
	return s, nil
}

// Open reports whether the circuit is open: calls go to the secondary at once.
func (s *Store) Open() bool { return s.circuit.open() }

// Degraded reports whether the primary's last call failed, or the primary fails for some
// customers, so that answers are degraded. It becomes false again when the primary counts
// a document. Without any calls it becomes false after ten successful probes, as a
// readiness check needs.
func (s *Store) Degraded() bool { return s.circuit.failing() || s.repair.hung.any() }

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return s.one(ctx, customer, true, func(ctx context.Context, store priority.Store) (priority.Decision, error) {
		return store.Next(ctx, customer)
	})
}

func (s *Store) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	if err := priority.CheckN(customer, n); err != nil || n == 0 {
		return nil, err
	}
	decisions, isSecond, err := ask(s, ctx, customer, true, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
		return store.NextN(ctx, customer, n)
	})
	for i := range decisions {
		decisions[i].Degraded = decisions[i].Degraded || isSecond
		decisions[i] = s.overridden(customer, decisions[i])
	}
	return decisions, err
}

// NextEach implements [priority.Store]. The secondary answers for the entries that
// the primary did not count, and at once for customers whose calls hang.
func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if err := priority.CheckEach(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	var errs []error
	for at, customer := range customers {
		if s.hangs(customer) {
			if errs == nil {
				errs = make([]error, len(customers))
			}
			errs[at] = errOpen
		}
	}
	itself := func(customer string) string { return customer }
	decisions, err := each(s, ctx, customers, itself, errs, func(store priority.Store, ctx context.Context, customers []string) ([]priority.Decision, error) {
		return store.NextEach(ctx, customers)
	})
	for at := range decisions {
		decisions[at] = s.overridden(customers[at], decisions[at])
	}
	if s.repair.strayed.Load() {
		for at, failure := range priority.ItemErrors(err, len(customers)) {
			if failure == nil && !decisions[at].Degraded {
				s.forget(customers[at])
			}
		}
	}
	return decisions, err
}

func (s *Store) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	decisions, err := s.SubmitN(ctx, customer, []string{document}, []float64{cost})
	if err != nil {
		return priority.Decision{}, priority.ItemErrors(err, 1)[0]
	}
	return decisions[0], nil
}

// SubmitN implements [priority.Store]. The secondary answers for the documents that
// the primary did not count.
func (s *Store) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]priority.Decision, error) {
	if err := priority.CheckSubmit(customer, documents, costs); err != nil || len(documents) == 0 {
		return nil, err
	}
	items := make([]submission, len(documents))
	for i, document := range documents {
		if items[i].document = document; costs != nil {
			items[i].cost = costs[i]
		}
	}
	submit := func(store priority.Store, ctx context.Context, items []submission) ([]priority.Decision, error) {
		if len(items) == 1 {
			decision, err := store.Submit(ctx, customer, items[0].document, items[0].cost)
			return []priority.Decision{decision}, err
		}
		documents, costs := make([]string, len(items)), make([]float64, len(items))
		for i, item := range items {
			documents[i], costs[i] = item.document, item.cost
		}
		return store.SubmitN(ctx, customer, documents, costs)
	}
	back, onItsWay := s.dones.submitting(customer, documents)
	var backLater []canceled
	if s.own == nil {
		backLater, _ = s.later.submitting(customer, documents)
	}
	var errs []error
	if onItsWay { // the Done must not end this: the primary is not asked
		errs = slices.Repeat([]error{errPaying}, len(items))
	}
	customerOf := func(submission) string { return customer }
	decisions, err := each(s, ctx, items, customerOf, errs, submit)
	s.dones.submitted(customer, documents, back, err)
	s.later.submitted(customer, documents, backLater, err)
	for at := range decisions {
		decisions[at] = s.overridden(customer, decisions[at])
	}
	return decisions, err
}

// submission is a document and its cost.
type submission struct {
	document string
	cost     float64
}

func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) error {
	if err := s.DoneN(ctx, customer, []string{document}, took); err != nil {
		return priority.ItemErrors(err, 1)[0]
	}
	return nil
}

// DoneN implements [priority.Store]. Dones that the primary did not accept are
// remembered for it, and are not an error.
func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error {
	if err := priority.CheckDone(customer, documents, took); err != nil || len(documents) == 0 {
		return err
	}
	// They are remembered from now on: a Submit that arrives during the call
	// cancels its document's Done.
	each := took / time.Duration(len(documents))
	call := s.dones.hold(customer, documents, each)
	err := s.try(ctx, customer, false, func() error {
		if len(documents) == 1 {
			return s.primary.Done(ctx, customer, documents[0], took)
		}
		return s.primary.DoneN(ctx, customer, documents, took)
	})
	errs := priority.ItemErrors(err, len(documents))
	if s.dones.settle(customer, documents, call, errs) {
		s.repairLater()
	}
	s.doneBySecondary(ctx, customer, documents, took, err, errs)
	if err == nil || s.answers(ctx, err) {
		return nil
	}
	return &priority.BatchError{Errs: errs}
}

// doneBySecondary sends the Dones to the secondary: at once during an outage, or if New
// made the secondary. A secondary that the caller passed gets them in the background, as
// long as an outage's documents may be pending there.
func (s *Store) doneBySecondary(ctx context.Context, customer string, documents []string, took time.Duration, err error, errs []error) {
	tell := func() []error {
		second := s.secondary.DoneN(notEnded(ctx, documents, errs), customer, documents, took)
		s.onSecondError(second)
		return priority.ItemErrors(second, len(documents))
	}
	switch {
	case s.own != nil:
		tell()
	case err != nil:
		call := s.later.hold(customer, documents, took/time.Duration(len(documents)))
		s.later.settle(customer, documents, call, tell())
		s.repairLater()
	case s.strayedLately():
		s.later.hold(customer, documents, took/time.Duration(len(documents)))
		s.repairLater()
	}
}

// onSecondError reports an error of the secondary that the caller does not get.
func (s *Store) onSecondError(err error) {
	if err != nil && s.onError != nil {
		s.onError(fmt.Errorf("the secondary: %w", err))
	}
}

// stray records that the secondary answered.
func (s *Store) stray() {
	if !s.repair.strayed.Load() {
		s.repair.strayed.Store(true)
	}
	if s.own == nil {
		s.strayedAt.Store(int64(time.Since(s.born)) + 1)
	}
}

// strayedLately reports whether documents that the secondary decided about may still be
// pending there.
func (s *Store) strayedLately() bool {
	at := s.strayedAt.Load()
	return at != 0 && time.Since(s.born)-time.Duration(at) <= priority.DefaultLease
}

// notEnded returns a context for the secondary that outlives ctx and reports the end
// only of documents that the primary did not end.
func notEnded(ctx context.Context, documents []string, errs []error) context.Context {
	var left map[string]bool
	for i, err := range errs {
		if err != nil {
			if left == nil {
				left = make(map[string]bool)
			}
			left[documents[i]] = true
		}
	}
	silent := priority.WithEnded(context.WithoutCancel(ctx), nil)
	if left == nil {
		return silent
	}
	return priority.WithEnded(silent, func(e priority.Ended) {
		if left[e.Document] {
			priority.ReportEnded(ctx, e)
		}
	})
}

func (s *Store) Peek(ctx context.Context, customer string) (priority.State, error) {
	state, isSecond, err := ask(s, ctx, customer, false, func(ctx context.Context, store priority.Store) (priority.State, error) {
		return store.Peek(ctx, customer)
	})
	if err == nil && isSecond {
		state.Degraded = true
		state.NextLevel = s.overridden(customer, degraded(priority.Decision{Level: state.NextLevel})).Level
	}
	return state, err
}

// Reset implements [priority.Store]. It returns the primary's error, as the fleet's
// count stands then; the secondary forgets the customer in any case.
func (s *Store) Reset(ctx context.Context, customer string) error {
	if err := priority.CheckCustomer(customer); err != nil {
		return err
	}
	err := s.try(ctx, customer, false, func() error { return s.primary.Reset(ctx, customer) })
	if err == nil {
		s.dones.forget(customer)
	}
	second := s.secondary.Reset(context.WithoutCancel(ctx), customer)
	if second == nil {
		s.later.forget(customer)
	}
	if err == nil {
		return second
	}
	return err
}

func (s *Store) PolicyOf(customer string) priority.Policy { return s.primary.PolicyOf(customer) }

func (s *Store) Last() priority.Level { return s.primary.Last() }

// Unwrap returns the primary; see [priority.As].
func (s *Store) Unwrap() priority.Store { return s.primary }

// overrider knows customers' overrides, as a RedisStore does.
type overrider interface {
	Override(customer string, decision priority.Decision) priority.Decision
}

// one asks for one decision.
func (s *Store) one(ctx context.Context, customer string, counts bool, call func(context.Context, priority.Store) (priority.Decision, error)) (priority.Decision, error) {
	decision, isSecond, err := ask(s, ctx, customer, counts, call)
	decision.Degraded = decision.Degraded || isSecond && err == nil
	return s.overridden(customer, decision), err
}

// ask asks the primary, and the secondary if that fails; it reports which of the
// two answered.
func ask[T any](s *Store, ctx context.Context, customer string, counts bool, call func(context.Context, priority.Store) (T, error)) (answer T, isSecond bool, err error) {
	err = s.try(ctx, customer, counts, func() (err error) {
		answer, err = call(ctx, s.primary)
		return err
	})
	if !s.answers(ctx, err) {
		return answer, false, err
	}
	answer, second := call(pastDeadline(ctx), s.secondary)
	s.stray()
	return answer, true, bothFailed(err, second)
}

// each asks the primary for each item without an error, and then the secondary for each
// item with an error. Nil errs mean that no item has an error yet.
func each[T any](s *Store, ctx context.Context, items []T, customerOf func(T) string, errs []error, ask asker[T]) ([]priority.Decision, error) {
	rest, places := items, []int(nil)
	if errs != nil {
		rest = nil
		for at, err := range errs {
			if err == nil {
				rest, places = append(rest, items[at]), append(places, at)
			}
		}
	}
	var answers []priority.Decision
	var err error
	if len(rest) > 0 {
		err = s.try(ctx, customerOf(rest[0]), true, func() (err error) {
			answers, err = ask(s.primary, ctx, rest)
			return err
		})
	}
	if err == nil && errs == nil {
		return answers, nil
	}
	decisions := make([]priority.Decision, len(items))
	if errs == nil {
		errs = priority.ItemErrors(err, len(items))
		copy(decisions, answers)
	} else {
		failed := priority.ItemErrors(err, len(rest))
		for i, at := range places {
			if errs[at] = failed[i]; failed[i] == nil && i < len(answers) {
				decisions[at] = answers[i]
			}
		}
	}
	if err != nil && reached(err) {
		suspectEach(s, ctx, items, customerOf, errs)
	}
	if err != nil && !s.answers(ctx, err) {
		return decisions, &priority.BatchError{Errs: errs}
	}
	return eachBySecondary(s, ctx, items, decisions, errs, ask)
}

// suspectEach schedules a probe for the customers for whom the primary failed in a call
// that worked for others.
func suspectEach[T any](s *Store, ctx context.Context, items []T, customerOf func(T) string, errs []error) {
	forSome, suspects, last := s.repair.hung.any(), 0, ""
	for at, err := range errs {
		if err == nil || err == errOpen || reached(err) || customerOf(items[at]) == last {
			continue
		}
		last = customerOf(items[at])
		if forSome && !impatient(ctx, err) {
			s.repair.hung.add(last)
		}
		if suspects++; suspects <= len(s.repair.candidates) {
			s.circuit.worked.Store(true)
			s.suspect(last)
		}
	}
}

// asker asks a store for the decisions of items.
type asker[T any] = func(store priority.Store, ctx context.Context, items []T) ([]priority.Decision, error)

// eachBySecondary asks the secondary for the items with an error.
func eachBySecondary[T any](s *Store, ctx context.Context, items []T, decisions []priority.Decision, errs []error, ask asker[T]) ([]priority.Decision, error) {
	var failed []int
	var rest []T
	for at, err := range errs {
		if err != nil {
			failed = append(failed, at)
			rest = append(rest, items[at])
		}
	}
	answers, err := ask(s.secondary, pastDeadline(ctx), rest)
	s.stray()
	seconds := priority.ItemErrors(err, len(rest))
	left := make([]error, len(items))
	for i, at := range failed {
		if seconds[i] == nil {
			decisions[at] = degraded(answers[i])
		}
		left[at] = bothFailed(errs[at], seconds[i])
	}
	if err != nil {
		return decisions, &priority.BatchError{Errs: left}
	}
	return decisions, nil
}

// try calls the primary, unless the circuit is open, and returns its error. counts
// says whether the call counts documents.
func (s *Store) try(ctx context.Context, customer string, counts bool, call func() error) error {
	if s.circuit.open() && !s.repair.closed.Load() || s.hangs(customer) {
		s.repair.suggest(customer)
		return errOpen
	}
	attempt := s.circuit.begin(counts, s.repair.hung.any())
	err := call()
	switch s.circuit.note(ctx, err, attempt) {
	case failed:
		if attempt.forSome {
			s.repair.hung.add(customer)
		}
		s.suspect(customer)
	case doubted:
		s.suspect(customer)
	case opened:
		s.suspect(customer)
		s.tell()
	case recovered:
		s.recovered()
	}
	if err == nil && counts && s.repair.strayed.Load() {
		s.forget(customer)
	}
	return err
}

// hangs reports whether the primary fails for this customer and not for others.
func (s *Store) hangs(customer string) bool {
	return s.repair.hung.has(customer) && !s.repair.closed.Load()
}

// suspect schedules a probe, for this customer too.
func (s *Store) suspect(customer string) {
	s.repair.suggest(customer)
	s.repair.suspect.Store(true)
	s.repairLater()
}

// recovered forgets what the Store's own secondary counted while the circuit was
// open.
func (s *Store) recovered() {
	if s.own != nil {
		s.own.Clear()
	}
	s.repair.strayed.Store(false)
	s.tell()
}

// forget forgets what the Store's own secondary counted for a customer for whom the
// primary answers again.
func (s *Store) forget(customer string) {
	if s.own != nil {
		_ = s.own.Reset(context.Background(), customer)
	}
}

var (
	// errOpen is why the secondary answers while the circuit is open.
	errOpen = fmt.Errorf("%w: the circuit is open", priority.ErrNotCounted)
	// errPaying is why the secondary answers for a document whose Done is on its
	// way.
	errPaying = fmt.Errorf("%w: an earlier Done of the document is being sent", priority.ErrNotCounted)
)

// answers reports whether the secondary answers for this error of the primary.
func (s *Store) answers(ctx context.Context, err error) bool {
	if err == nil || errors.Is(err, priority.ErrInvalid) || errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	s.stray()
	if s.onError != nil && err != errOpen {
		s.onError(err)
	}
	return true
}

// pastDeadline lets the secondary answer after the deadline has passed during the
// primary's call.
func pastDeadline(ctx context.Context) context.Context {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// bothFailed returns the error of a call that failed in both stores, in one class:
// if either outcome is unknown, the outcome is unknown.
func bothFailed(primary, secondary error) error {
	switch {
	case secondary == nil || errors.Is(secondary, priority.ErrInvalid): // the primary was not asked
		return secondary
	case errors.Is(secondary, priority.ErrOutcomeUnknown) && !errors.Is(primary, priority.ErrOutcomeUnknown):
		return fmt.Errorf("%w; the primary: %v", secondary, primary)
	case errors.Is(secondary, priority.ErrNotCounted) && errors.Is(primary, priority.ErrNotCounted):
		return fmt.Errorf("%w; the secondary: %w", primary, secondary)
	}
	return fmt.Errorf("%w; the secondary: %v", primary, secondary)
}

func degraded(decision priority.Decision) priority.Decision {
	decision.Degraded = true
	return decision
}

// overridden applies an override that the primary knows to a degraded decision.
func (s *Store) overridden(customer string, decision priority.Decision) priority.Decision {
	if s.override == nil || !decision.Degraded {
		return decision
	}
	return s.override.Override(customer, decision)
}
