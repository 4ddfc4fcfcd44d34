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
	// The numbers of steps in the window and of parts in the hour.
	steps      = 12
	stepLength = 5 * time.Second

	// perLock is how many documents are counted under one lock, so that a call of a million
	// does not block others.
	perLock = 1000

	// lastLevel is the last level that a report counts separately.
	lastLevel = 255
)

// collector counts the results of calls, in detail for the last minute and coarsely for the
// last hour.
type collector struct {
	joined time.Time

	mu      sync.Mutex
	steps   []*step // the window's, the current step last; the others do not change
	hour    []*part // likewise
	waiting backlogs
}

// step counts what happened in five seconds of the window.
type step struct {
	number               int64 // since the member joined
	byCount, byLoad      map[priority.Level]int64
	overridden, fallback int64
	errors               map[string]int64
	waits                map[priority.Level]Histogram
	customers            customers
}

// part counts what happened in five minutes of the hour.
type part struct {
	number     int64 // since the member joined
	firstWaits Histogram
	customers  customers
}

func newStep(number int64) *step {
	return &step{
		number: number, byCount: make(map[priority.Level]int64), byLoad: make(map[priority.Level]int64),
		errors: make(map[string]int64), waits: make(map[priority.Level]Histogram), customers: make(customers),
	}
}

func newCollector(joined time.Time) *collector {
	return &collector{joined: joined, waiting: make(backlogs)}
}

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
		s, p := c.current(now)
		of := sameCustomer{counted: [2]customers{s.customers, p.customers}, waiting: c.waiting}
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
			of.count(customer, lastDecision{customer, now, rule, level, d.Count, d.Load, d.Pending})
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

// sameCustomer counts consecutive documents of a customer together.
type sameCustomer struct {
	counted   [2]customers
	waiting   backlogs
	name      string
	documents int64
	last      lastDecision
}

func (s *sameCustomer) count(name string, last lastDecision) {
	if name != s.name {
		s.end()
		s.name = name
	}
	s.documents++
	s.last = last
}

func (s *sameCustomer) end() {
	if s.documents == 0 {
		return
	}
	for _, c := range s.counted {
		c.count(s.name, s.documents, s.last)
	}
	if s.last.rule == priority.ByLoad {
		s.waiting.note(s.name, s.last)
	}
	s.documents = 0
}

func bounded(level priority.Level) priority.Level { return min(max(level, priority.First), lastLevel) }

// ended counts how long documents took.
func (c *collector) ended(now time.Time, ended []priority.Ended) {
	for part := range slices.Chunk(ended, perLock) {
		c.mu.Lock()
		s, p := c.current(now)
		for _, e := range part {
			if e.Level == 0 { // it was not pending
				continue
			}
			level, bucket := bounded(e.Level), bucketOf(e.Latency)
			if s.waits[level] == nil {
				s.waits[level] = make(Histogram)
			}
			s.waits[level][bucket]++
			if level == priority.First {
				p.firstWaits[bucket]++
			}
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
	s, _ := c.current(now)
	for class, n := range counts {
		if n > 0 {
			s.errors[class] += n
		}
	}
}

// current returns the step and the part of a time, or later ones that have already begun.
// The caller holds mu.
func (c *collector) current(now time.Time) (*step, *part) {
	number, of := c.number(now, stepLength), c.number(now, PartLength)
	if n := len(c.steps); n == 0 || c.steps[n-1].number < number {
		c.steps = append(slices.DeleteFunc(c.steps, func(s *step) bool { return s.number <= number-steps }), newStep(number))
	}
	if n := len(c.hour); n == 0 || c.hour[n-1].number < of {
		c.hour = append(slices.DeleteFunc(c.hour, func(p *part) bool { return p.number <= of-steps }),
			&part{of, make(Histogram), make(customers)})
	}
	return c.steps[len(c.steps)-1], c.hour[len(c.hour)-1]
}

func (c *collector) number(now time.Time, length time.Duration) int64 {
	return int64(now.Sub(c.joined) / length)
}

// fill writes the window's and the hour's numbers into a report.
func (c *collector) fill(r *Report, now time.Time) {
	r.Up = now.Sub(c.joined)
	r.Window = r.Up - time.Duration(max(c.number(now, stepLength)-steps+1, 0))*stepLength
	window, hour, waiting := c.kept(now)
	inWindow, inHour := make(customers), make(customers)
	for _, s := range window {
		add(&r.ByCount, s.byCount)
		add(&r.ByLoad, s.byLoad)
		add(&r.Errors, s.errors)
		addWaits(&r.Waits, s.waits)
		r.Overridden += s.overridden
		r.Fallback += s.fallback
		inWindow.addAll(s.customers)
	}
	first := map[int]int64{}
	for _, p := range hour {
		add(&first, p.firstWaits)
		inHour.addAll(p.customers)
	}
	r.FirstHour = first
	r.Busiest = busiest(now, inWindow, inHour, waiting)
	for i := range r.Busiest {
		b := &r.Busiest[i]
		for _, p := range slices.Backward(hour) {
			if of, ok := p.customers[b.Customer]; ok {
				b.Hour = append(b.Hour, Part{max(now.Sub(of.first), 0), of.documents, of.last.level})
			}
		}
	}
}

// addAll adds a later step's customers.
func (c customers) addAll(later customers) {
	for name, customer := range later {
		customer.documents += c[name].documents
		c[name] = customer // the last decision is the later step's
	}
}

// kept returns a snapshot of the window's steps, the hour's parts and the backlogs.
func (c *collector) kept(now time.Time) ([]*step, []*part, backlogs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current(now) // forgets what has expired
	maps.DeleteFunc(c.waiting, func(_ string, last lastDecision) bool { return now.Sub(last.at) > remembered })
	window, hour := slices.Clone(c.steps), slices.Clone(c.hour)
	last := *window[len(window)-1]
	last.byCount, last.byLoad, last.errors = maps.Clone(last.byCount), maps.Clone(last.byLoad), maps.Clone(last.errors)
	last.customers, last.waits = maps.Clone(last.customers), maps.Clone(last.waits)
	for level, h := range last.waits {
		last.waits[level] = maps.Clone(h)
	}
	window[len(window)-1] = &last
	latest := hour[len(hour)-1]
	hour[len(hour)-1] = &part{latest.number, maps.Clone(latest.firstWaits), maps.Clone(latest.customers)}
	return window, hour, maps.Clone(c.waiting)
}

// addWaits adds histograms to *to.
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
