package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
		sent[name]++
		c.count(name, decision{})
	}
	for name, customer := range c {
		if customer.documents > sent[name] || customer.documents < 1 || len(c) > mostCustomers {
			t.Errorf("%s: %d documents, %d were sent; %d customers", name, customer.documents, sent[name], len(c))
		}
	}
	for i, b := range busiest(time.Now(), c, nil, nil)[:3] {
		if !strings.HasPrefix(b.Customer, "busy") || b.Documents < sent[b.Customer]-all/mostCustomers {
			t.Errorf("%d: %+v, %d were sent", i, b, sent[b.Customer])
		}
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
