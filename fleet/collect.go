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
	// steps is how many of them are remembered, of each length.
	steps      = 12
	stepLength = 5 * time.Second // of the window; those of the hour are of PartLength

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

	mu           sync.Mutex
	window, hour recent
	waiting      backlogs
	added        int64 // the window's last step that is in the history; -1: none
}

// recent has the last twelve steps of a length since the member joined.
type recent struct {
	length time.Duration
	all    []*step // the current one last; the others do not change
}

// step counts what happened in it. Those of the hour have customers, what was submitted and has
// ended, and the waits of level 1 only.
type step struct {
	number               int64
	submitted, ended     int64
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

// number returns the number of the step at a time since the member joined.
func (r *recent) number(up time.Duration) int64 { return int64(up / r.length) }

// at returns the step at a time since the member joined, or a later one that has already begun.
// It forgets steps that are over.
func (r *recent) at(up time.Duration) *step {
	number := r.number(up)
	if n := len(r.all); n == 0 || r.all[n-1].number < number {
		r.all = append(slices.DeleteFunc(r.all, func(s *step) bool { return s.number <= number-steps }), newStep(number))
	}
	return r.all[len(r.all)-1]
}

// kept returns a snapshot of the steps.
func (r *recent) kept(up time.Duration) []*step {
	current := *r.at(up)
	current.byCount, current.byLoad, current.errors = maps.Clone(current.byCount), maps.Clone(current.byLoad), maps.Clone(current.errors)
	current.customers, current.waits = maps.Clone(current.customers), maps.Clone(current.waits)
	for level, h := range current.waits {
		current.waits[level] = maps.Clone(h)
	}
	return append(slices.Clone(r.all[:len(r.all)-1]), &current)
}

func newCollector(joined time.Time) *collector {
	return &collector{joined: joined, window: recent{length: stepLength}, hour: recent{length: PartLength}, waiting: make(backlogs), added: -1}
}

// current returns the window's and the hour's step of a time. The caller holds mu.
func (c *collector) current(now time.Time) (window, hour *step) {
	up := now.Sub(c.joined)
	return c.window.at(up), c.hour.at(up)
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
		window, hour := c.current(now)
		for at := from; at < min(from+perLock, len(call.Decisions)); at++ {
			if errs != nil && errs[at] != nil {
				continue
			}
			customer, d := call.CustomerOf(at), call.Decisions[at]
			level := bounded(d.Level)
			window.decided(rule, level, d)
			latest := decision{customer, now, rule, level, d.Count, d.Load, d.Pending}
			window.customers.count(customer, latest)
			hour.customers.count(customer, latest)
			if rule == priority.ByLoad {
				c.waiting.note(customer, latest)
				if !d.Degraded {
					hour.submitted++
				}
			}
		}
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

func bounded(level priority.Level) priority.Level { return min(max(level, priority.First), lastLevel) }

// ended counts how long documents took.
func (c *collector) ended(now time.Time, ended []priority.Ended) {
	for part := range slices.Chunk(ended, perLock) {
		c.mu.Lock()
		window, hour := c.current(now)
		for _, e := range part {
			if e.Level == 0 { // it was not pending
				continue
			}
			level, bucket := bounded(e.Level), bucketOf(e.Latency)
			window.waited(level, bucket)
			hour.ended++
			if level == priority.First {
				hour.waited(level, bucket)
			}
		}
		c.mu.Unlock()
	}
}

func (s *step) waited(level priority.Level, bucket int) {
	if s.waits[level] == nil {
		s.waits[level] = make(Histogram)
	}
	s.waits[level][bucket]++
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
	window, _ := c.current(now)
	for class, n := range counts {
		if n > 0 {
			window.errors[class] += n
		}
	}
}

// fill writes the window's and the hour's numbers into a report.
func (c *collector) fill(r *Report, now time.Time) {
	r.Up = now.Sub(c.joined)
	r.Window = r.Up - time.Duration(max(c.window.number(r.Up)-steps+1, 0))*stepLength
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
	var waits map[priority.Level]Histogram
	for _, s := range hour {
		addWaits(&waits, s.waits)
		inHour.addAll(s.customers)
		r.Submitted += s.submitted
		r.Ended += s.ended
	}
	r.FirstHour = waits[priority.First]
	r.Busiest = busiest(now, inWindow, inHour, waiting)
	for i := range r.Busiest {
		b := &r.Busiest[i]
		for _, s := range slices.Backward(hour) {
			if counted, ok := s.customers[b.Customer]; ok {
				b.Hour = append(b.Hour, Part{max(now.Sub(counted.first), 0), counted.documents, counted.latest.level})
			}
		}
	}
}

// addAll adds a later step's customers.
func (c customers) addAll(later customers) {
	for name, customer := range later {
		customer.documents += c[name].documents
		c[name] = customer // the latest decision is the later step's
	}
}

// kept returns a snapshot of the window, the hour and the backlogs.
func (c *collector) kept(now time.Time) (window, hour []*step, waiting backlogs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.waiting, func(_ string, latest decision) bool { return now.Sub(latest.at) > remembered })
	up := now.Sub(c.joined)
	return c.window.kept(up), c.hour.kept(up), maps.Clone(c.waiting)
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
