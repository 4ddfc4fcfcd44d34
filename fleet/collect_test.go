package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/observe"
)

// next is a call of Next that decided at some time.
func next(at time.Time, customer string, level priority.Level) observe.Call {
	return observe.Call{
		Operation: "Next", Items: 1, Customer: customer, Start: at,
		Decisions: []priority.Decision{{Level: level, Count: -int64(level), RuleLevel: level}},
	}
}

func (c *collector) report(now time.Time) Report {
	r := Report{ID: "id", Language: "go", Levels: 9}
	c.fill(&r, now)
	return r
}

// What a collector remembers is bounded, and so is a report, whoever sends.
func TestCollector_HostileCustomers(t *testing.T) {
	for kind, text := range map[string]string{"control characters": "\x01", "no UTF-8": "\xff", "emoji": "😀", "large texts": "<"} {
		began := time.Now()
		c := newCollector(began)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 40_000 {
			name := fmt.Sprint(i)
			if name += strings.Repeat(text, (512-len(name))/len(text)); kind == "large texts" { // of which names are a part
				name = (fmt.Sprint(i%1000) + strings.Repeat(text, 8<<10))[:512]
			}
			call := next(began.Add(time.Duration(i)*1500*time.Microsecond), name, 1)
			if i%2 == 0 {
				call.Operation = "Submit"
			}
			c.observe(context.Background(), call)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 12<<20 {
			t.Errorf("%s: %d bytes are held", kind, held)
		}
		r := c.report(began.Add(time.Minute - time.Millisecond))
		written := r.fit()
		var read Report
		if err := json.Unmarshal(written, &read); err != nil || r.Documents() != 40_000 || len(written) > maxReportBytes || len(written) < maxReportBytes/4 {
			t.Fatalf("%s: %v, %d documents, %d bytes", kind, err, r.Documents(), len(written))
		}
		for i, b := range read.Busiest {
			if want := r.Busiest[i]; b.Customer != want.Customer || b.Documents != want.Documents {
				t.Errorf("%s: %+v, not %+v", kind, b, want)
			}
		}
	}
}

// Beside many others a busy customer is seen: with no document too much, and hardly one
// too few.
func TestCustomers_BusiestAmongMany(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := make(customers)
	const all = 200_000
	sent := make(map[string]int64)
	for i := range all {
		name := fmt.Sprint("small ", random.IntN(50_000))
		if i > all/2 && random.IntN(50) == 0 { // when there is no place any more
			name = fmt.Sprint("busy ", random.IntN(3))
		}
		n := int64(1 + random.IntN(3))
		sent[name] += n
		c.count(name, n, decision{})
	}
	for name, customer := range c {
		if customer.documents > sent[name] || customer.documents < 1 || len(c) > mostCustomers {
			t.Errorf("%s: %d documents, %d were sent; %d customers", name, customer.documents, sent[name], len(c))
		}
	}
	for i, b := range busiest(time.Now(), c, nil, nil)[:3] {
		if !strings.HasPrefix(b.Customer, "busy") || b.Documents < sent[b.Customer]-3*all/mostCustomers {
			t.Errorf("%d: %+v, %d were sent", i, b, sent[b.Customer])
		}
	}
}

// What every kind of call adds to a report.
func TestCollector_Counts(t *testing.T) {
	now := time.Now()
	refused := fmt.Errorf("%w: refused", priority.ErrNotCounted)
	c := newCollector(now)
	for _, call := range []observe.Call{
		next(now, "acme", 3),
		{Operation: "NextN", Items: 2, Customer: "acme", Decisions: []priority.Decision{{Level: 1, Degraded: true, RuleLevel: 1}, {Level: 2, RuleLevel: 4}}},
		{Operation: "NextEach", Items: 3, Customers: []string{"a", "b", "a"}, Decisions: make([]priority.Decision, 3),
			Err: &priority.BatchError{Errs: []error{refused, nil, priority.ErrCorrupt}}},
		{Operation: "NextN", Customer: "acme", Err: priority.ErrInvalid},
		{Operation: "Submit", Items: 1, Customer: "acme", Decisions: []priority.Decision{{Level: 5, Load: 200, Pending: 7, RuleLevel: 5}}},
		{Operation: "SubmitN", Items: 4, Customer: "c", Err: priority.ErrOutcomeUnknown},
		{Operation: "DoneN", Items: 2, Customer: "c", Ended: []priority.Ended{{}, {Latency: 1500 * time.Millisecond, Level: 5}}},
		{Operation: "DoneN", Items: 2, Customer: "c", Err: errors.New("odd")},
		{Operation: "Peek", Customer: "c", Err: refused},
		{Operation: "Reset", Customer: "c"},
	} {
		call.Start = now
		c.observe(context.Background(), call)
	}
	r := c.report(now)
	if want := (map[priority.Level]int64{3: 1, 1: 2, 2: 1}); !maps.Equal(r.ByCount, want) { // the zero level counts as the first
		t.Errorf("by count: %v, not %v", r.ByCount, want)
	}
	if want := (map[string]int64{"not_counted": 1, "corrupt": 1, "outcome_unknown": 4, "error": 2}); !maps.Equal(r.Errors, want) {
		t.Errorf("errors: %v, not %v", r.Errors, want)
	}
	if r.Overridden != 1 || r.Fallback != 1 || r.ByLoad[5] != 1 || len(r.ByLoad) != 1 || len(r.Waits) != 1 || r.Waits[5][43] != 1 || r.Waits[5].Count() != 1 {
		t.Errorf("%+v", r)
	}
	want := Busy{Customer: "acme", Documents: 4, Rule: priority.ByLoad, Level: 5, Load: 200, Pending: 7, Hour: []Part{{0, 4, 5}}}
	if len(r.Busiest) != 2 || !reflect.DeepEqual(r.Busiest[0], want) {
		t.Errorf("busiest: %+v, not %+v first", r.Busiest, want)
	}
}

// Calls and reports at the same time disturb one another in no way.
func TestCollector_ManyCallers(t *testing.T) {
	began := time.Now()
	c := newCollector(began)
	var all sync.WaitGroup
	const callers, calls = 8, 5000
	for i := range callers {
		all.Go(func() {
			for j := range calls {
				call := next(began.Add(time.Duration(j)*time.Millisecond), fmt.Sprint(i, " ", j%700), 1)
				call.Ended = []priority.Ended{{Level: 1}}
				c.observe(context.Background(), call)
				if j%1000 == 0 {
					c.report(began.Add(time.Second))
				}
			}
		})
	}
	all.Wait()
	if r := c.report(began.Add(6 * time.Second)); r.Documents() != callers*calls || r.Waits[1].Count() != callers*calls {
		t.Errorf("%d documents, %d waits", r.Documents(), r.Waits[1].Count())
	}
}

func TestQuantiles(t *testing.T) {
	h := make(Histogram)
	if h.Median() != 0 || h.P95() != 0 {
		t.Error("of no documents")
	}
	for ms := 1; ms <= 1000; ms++ {
		h[bucketOf(time.Duration(ms)*time.Millisecond)]++
	}
	for q, exact := range map[float64]float64{0: 1, .01: 10, .5: 500, .95: 950, 1: 1000} {
		if got := h.Quantile(q).Seconds() * 1000; got < exact || got > exact*1.19 {
			t.Errorf("quantile %v: %v ms, of exactly %v", q, got, exact)
		}
	}
	if h.coarser(8).Count() != 1000 || len(h.coarser(8)) >= len(h) || h.coarser(8).Median() < h.Median() {
		t.Errorf("coarser: %v", h.coarser(8))
	}
}
