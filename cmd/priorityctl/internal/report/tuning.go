package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

// Tuning is what a search found.
type Tuning struct {
	About     About
	Options   simulation.Options
	HeavyCost float64
	Now, Best simulation.Choice
}

// WriteText writes the policy as Go code, and a table of before and after.
func (t Tuning) WriteText(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintln(&text, Wrap(fmt.Sprintf("%s: %s.", t.About.Name, t.About.Summary), width))
	fmt.Fprintln(&text, Wrap(fmt.Sprintf("%d servers; %s; the heavy customers and the worst tenth may wait %v %% longer.",
		t.Options.Servers, t.About.Service, 100*t.HeavyCost), width))
	fmt.Fprintf(&text, "\n// Counted by %s.\n%s\n\n", calledBy[t.Best.Counting], GoCode(t.Best.Policy))
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "wait, s     \tbefore\tafter\t\n")
	for _, row := range tuningRows {
		fmt.Fprintf(table, "%-12s\t%s\t%s\t\n", row.title, number(t.Now.Measures[row.measure]), number(t.Best.Measures[row.measure]))
	}
	table.Flush() // to a strings.Builder, which cannot fail
	_, err := io.WriteString(to, text.String())
	return err
}

// calledBy has the calls that count in each way.
var calledBy = map[string]string{simulation.Rule: "Next", simulation.Submit: "Submit and Done"}

var tuningRows = []struct{ title, measure string }{
	{"light p50", "light_wait_p50_s"},
	{"light p99", "light_wait_p99_s"},
	{"heavy p50", "heavy_wait_p50_s"},
	{"heavy mean", "heavy_wait_mean_s"},
	{"heavy p99", "heavy_wait_p99_s"},
	{"worst tenth", "worst_tenth_wait_s"},
}

// GoCode returns a policy as a Go expression.
func GoCode(p priority.Policy) string {
	thresholds := make([]string, len(p.Thresholds))
	for i, threshold := range p.Thresholds {
		thresholds[i] = fmt.Sprint(threshold)
	}
	return fmt.Sprintf("priority.Policy{\n\tThresholds:    []int64{%s},\n\tResetInterval: %s,\n\tResetMode:     priority.%s,\n}",
		strings.Join(thresholds, ", "), goDuration(p.ResetInterval), p.ResetMode)
}

// goDuration returns a duration as a Go expression in its largest whole unit.
func goDuration(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}} {
		if d%unit.length == 0 {
			return fmt.Sprintf("%d * %s", d/unit.length, unit.name)
		}
	}
	return fmt.Sprintf("%d * time.Millisecond", d.Milliseconds())
}

type choiceJSON struct {
	Counting string              `json:"counting"`
	Policy   policyJSON          `json:"policy"`
	Measures simulation.Measures `json:"measures"`
}

func newChoiceJSON(c simulation.Choice) choiceJSON {
	return choiceJSON{c.Counting, newPolicyJSON(c.Policy), c.Measures}
}

// WriteJSON writes one object.
func (t Tuning) WriteJSON(to io.Writer) error {
	return json.NewEncoder(to).Encode(struct {
		Summary   string     `json:"summary"`
		Service   string     `json:"service"`
		Servers   int        `json:"servers"`
		HeavyCost float64    `json:"heavy_cost"`
		Before    choiceJSON `json:"before"`
		After     choiceJSON `json:"after"`
		Go        string     `json:"go"`
	}{
		t.About.Summary, t.About.Service, t.Options.Servers, t.HeavyCost,
		newChoiceJSON(t.Now), newChoiceJSON(t.Best), GoCode(t.Best.Policy),
	})
}
