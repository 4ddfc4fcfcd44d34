package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/observe"
)

const (
	// How many steps a window has.
	steps      = 12
	stepLength = 5 * time.Second

	// perLock is how many documents are counted at a time: others have their turn
	// while a call has a million of them.
	perLock = 1000

	// lastLevel is the last level that a report counts separately.
	lastLevel = 255
)

// collector counts what callers got in the last minute.
type collector struct {
	joined time.Time

	mu    sync.Mutex
	steps []*step // the window's, the current step last; the others do not change
}

// step is what happened in a part of the window.
type step struct {
	number               int64 // since the member joined
	byCount, byLoad      map[priority.Level]int64
	overridden, fallback int64
	errors               map[string]int64
	waits                map[priority.Level]Histogram
	customers            customers
}

func newStep(number int64) *step {
	return &step{
		number: number, byCount: make(map[priority.Level]int64), byLoad: make(map[priority.Level]int64),
		errors: make(map[string]int64), waits: make(map[priority.Level]Histogram), customers: make(customers),
	}
}

func newCollector(joined time.Time) *collector { return &collector{joined: joined} }

// observe is an [observe.Func].
func (c *collector) observe(_ context.Context, call observe.Call) {
	now := call.Start.Add(call.Duration)
	rule := ruleOf(call.Operation)
	if rule != priority.Unknown {
		c.decided(now, rule, call)
	}
	if len(call.Ended) > 0 {
		c.ended(now, call.Ended)
	}
	if call.Err != nil {
		c.failed(now, call)
	}
}

// ruleOf returns the rule by which a call decides.
func ruleOf(operation string) priority.Rule {
	switch operation {
	case "Next", "NextN", "NextEach":
		return priority.ByCount
	case "Submit", "SubmitN":
		return priority.ByLoad
	}
	return priority.Unknown
}

// decided counts a call's decisions.
func (c *collector) decided(now time.Time, rule priority.Rule, call observe.Call) {
	var errs []error
	if call.Err != nil && len(call.Decisions) > 0 {
		errs = itemerrors.Of(call.Err, len(call.Decisions))
	}
	for from := 0; from < len(call.Decisions); from += perLock {
		c.mu.Lock()
		s := c.current(now)
		of := sameCustomer{step: s}
		for at := from; at < min(from+perLock, len(call.Decisions)); at++ {
			if errs != nil && errs[at] != nil {
				continue
			}
			customer := call.Customers[0]
			if len(call.Customers) > 1 {
				customer = call.Customers[at]
			}
			d := call.Decisions[at]
			level := bounded(d.Level)
			s.decided(rule, level, d)
			of.count(customer, lastTold{rule, level, d.Count, d.Load})
		}
		of.end()
		c.mu.Unlock()
	}
}

func (s *step) decided(rule priority.Rule, level priority.Level, d priority.Decision) {
	if rule == priority.ByCount {
		s.byCount[level]++
	} else {
		s.byLoad[level]++
	}
	if d.Level != d.RuleLevel {
		s.overridden++
	}
	if d.Degraded {
		s.fallback++
	}
}

// sameCustomer counts neighboring documents of a customer together.
type sameCustomer struct {
	step      *step
	name      string
	documents int64
	last      lastTold
}

func (s *sameCustomer) count(name string, last lastTold) {
	if name != s.name {
		s.end()
		s.name = name
	}
	s.documents++
	s.last = last
}

func (s *sameCustomer) end() {
	if s.documents > 0 {
		s.step.customers.count(s.name, s.documents, s.last)
		s.documents = 0
	}
}

func bounded(level priority.Level) priority.Level { return min(max(level, priority.First), lastLevel) }

// ended counts how long documents took.
func (c *collector) ended(now time.Time, ended []priority.Ended) {
	for part := range slices.Chunk(ended, perLock) {
		c.mu.Lock()
		s := c.current(now)
		for _, e := range part {
			if e.Level == 0 { // it was not pending
				continue
			}
			level := bounded(e.Level)
			h := s.waits[level]
			if h == nil {
				h = make(Histogram)
				s.waits[level] = h
			}
			h[bucketOf(e.Latency)]++
		}
		c.mu.Unlock()
	}
}

// failed counts the documents for which a call failed.
func (c *collector) failed(now time.Time, call observe.Call) {
	counts := make(map[string]int64)
	if class := observe.Outcome(call.Err); class != "partial" && len(call.Decisions) == 0 {
		counts[class] = int64(call.Items)
	} else {
		class, before := "", error(nil)
		for _, err := range itemerrors.Of(call.Err, call.Items) {
			if err == nil {
				continue
			}
			if err != before { // neighbors often share an error
				class, before = observe.Outcome(err), err
			}
			counts[class]++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.current(now)
	for class, n := range counts {
		if n > 0 {
			s.errors[class] += n
		}
	}
}

// current returns the step of a time, or a later one that has begun. The caller holds
// mu.
func (c *collector) current(now time.Time) *step {
	number := c.number(now)
	if n := len(c.steps); n > 0 && c.steps[n-1].number >= number {
		return c.steps[n-1]
	}
	c.steps = append(slices.DeleteFunc(c.steps, func(s *step) bool { return s.number <= number-steps }), newStep(number))
	return c.steps[len(c.steps)-1]
}

func (c *collector) number(now time.Time) int64 { return int64(now.Sub(c.joined) / stepLength) }

// fill writes what happened in the window into a report.
func (c *collector) fill(r *Report, now time.Time) {
	first := max(c.number(now)-steps+1, 0)
	r.Up = now.Sub(c.joined)
	r.Window = r.Up - time.Duration(first)*stepLength
	busiest := make(customers)
	for _, s := range c.window(now) {
		add(&r.ByCount, s.byCount)
		add(&r.ByLoad, s.byLoad)
		add(&r.Errors, s.errors)
		addWaits(&r.Waits, s.waits)
		r.Overridden += s.overridden
		r.Fallback += s.fallback
		for name, customer := range s.customers {
			customer.documents += busiest[name].documents
			busiest[name] = customer // the last decision is the later step's
		}
	}
	r.Busiest = busiest.most(mostBusiest)
}

// window returns the steps of the window, which nobody changes.
func (c *collector) window(now time.Time) []*step {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current(now) // forgets what is over
	window := slices.Clone(c.steps)
	last := *window[len(window)-1]
	last.byCount, last.byLoad, last.errors = maps.Clone(last.byCount), maps.Clone(last.byLoad), maps.Clone(last.errors)
	last.customers, last.waits = maps.Clone(last.customers), maps.Clone(last.waits)
	for level, h := range last.waits {
		last.waits[level] = maps.Clone(h)
	}
	window[len(window)-1] = &last
	return window
}

// addWaits adds histograms to others.
func addWaits(to *map[priority.Level]Histogram, waits map[priority.Level]Histogram) {
	if *to == nil {
		*to = make(map[priority.Level]Histogram)
	}
	for level, h := range waits {
		sum := map[int]int64((*to)[level])
		add(&sum, h)
		(*to)[level] = sum
	}
}
