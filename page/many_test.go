//go:build !race

package page_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
)

// Ten thousand overrides are searched and paged.
func TestTenThousandOverridesAreSearchedAndPaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var all sync.WaitGroup
	for worker := range 20 {
		all.Go(func() {
			for i := worker; i < control.MaxOverrides; i += 20 {
				if _, err := w.admin.SetOverride(t.Context(), fmt.Sprintf("customer-%05d", i), pin(2), time.Hour, control.Change{By: "mary", Why: fmt.Sprint("ticket ", i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	redistest.Await(t, "all overrides", func() bool { return strings.Contains(w.get("policy").body, "10,000 of 10,000 overrides") })
	first := w.get("policy")
	if n := strings.Count(first.body, `href="customer?c=customer-`); n != 50 || len(first.body) > 100_000 {
		t.Errorf("a page has %d overrides and %d bytes", n, len(first.body))
	}
	first.has(t, 200, "1 to 50 of 10,000", `href="policy?p=1"`)
	w.get("policy?p=199").has(t, 200, "9,951 to 10,000 of 10,000", `href="policy?p=198"`)
	w.get("policy?q=Ticket+77").has(t, 200, "111 of 10,000 overrides", "customer-00077", `href="policy?p=1&amp;q=Ticket&#43;77"`)
	w.get("policy?q=nobody").has(t, 200, "No override matches.")
}

// The page adds up what a thousand workers report.
func TestAThousandWorkersAreShown(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 1000 {
		r := fleet.Report{ID: fmt.Sprint("id-", i), Name: fmt.Sprintf("w%04d", i), Language: "go", Overrides: true, Window: time.Minute, ByLoad: map[priority.Level]int64{1: 10, 9: 100}}
		r.Waits = map[priority.Level]fleet.Histogram{1: {30: 5, 31: 5}, 9: {70: 50, 71: 50}}
		for n := range 20 {
			r.Busiest = append(r.Busiest, fleet.Busy{Customer: fmt.Sprintf("customer-%d", i*20+n), Documents: 5, Rule: priority.ByLoad, Level: 9, Load: 1e5})
		}
		w.report(r)
	}
	for path, says := range map[string]string{"": "110,000 in the last minute", "workers": `<strong class="figure">1000</strong> of 1,000 workers`} {
		redistest.Await(t, "all of them", func() bool { return strings.Contains(w.get(path).body, says) })
	}
}
