package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lab/internal/markdown"
	"github.com/docpriority/priority/lab/internal/simulation"
)

// Tuning is what a tuning found.
type Tuning struct {
	About   About
	Servers int
	Advice  simulation.Advice
}

// About says what was simulated.
type About struct{ Name, Summary, Service string }

// WriteText writes who waits how long, the verdict, and the lines to paste.
func (t Tuning) WriteText(to io.Writer) error {
	a := t.Advice
	text := fmt.Sprintf("%s: %s.\n%d servers; %s; strict levels.\n\n"+
		"Policies were chosen on the first %s, and are judged on the %s after them, which the choice did not see.\n"+
		"Worst tenth: the 90th percentile of the customers' mean waits.\n\n%s\n",
		t.About.Name, t.About.Summary, t.Servers, t.About.Service, span(a.Split-a.Begin), span(a.End-a.Split), t.waits())
	if a.Reason != simulation.TooLittle {
		text += t.ratios() + "\n"
	}
	_, err := io.WriteString(to, text+t.reason()+"\n\n"+t.lines())
	return err
}

// span writes a length of time in a unit that fits it.
func span(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= 2*unit.length {
			return fmt.Sprintf("%.1f %s", d.Seconds()/unit.length.Seconds(), unit.name)
		}
	}
	return fmt.Sprintf("%.1f seconds", d.Seconds())
}

// waits has who waits how long by each choice that was judged.
func (t Tuning) waits() string {
	rows := [][]string{{"wait, s", "chosen on: light p99", "worst tenth", "heavy mean", "held back: light p99", "worst tenth", "heavy mean"}}
	next, submit := t.Advice.Next, t.Advice.Submit
	for _, choice := range slices.Compact([]*simulation.Choice{next.Present, next.Best, submit.Present, submit.Best}) {
		row := []string{calls[choice.Counting] + ", policy found"}
		if choice == next.Present || choice == submit.Present {
			row[0] = calls[choice.Counting] + ", default policy"
		}
		for _, measures := range []simulation.Measures{choice.Chosen, choice.Judged} {
			for _, name := range []string{"light_wait_p99_s", "worst_tenth_wait_s", "heavy_wait_mean_s"} {
				cell := "-"
				if value, ok := measures[name]; ok {
					cell = number(value)
				}
				row = append(row, cell)
			}
		}
		rows = append(rows, row)
	}
	return markdown.Table(rows)
}

// calls has the call that counts in each way.
var calls = map[string]string{simulation.Rule: "Next", simulation.Submit: "Submit"}

// ratios has how the choices compare on the part held back.
func (t Tuning) ratios() string {
	rows := [][]string{{"ratio (in each half)", "light p99", "worst tenth"}}
	add := func(title string, c simulation.Comparison) {
		rows = append(rows, []string{title, halves(c.LightP99), halves(c.WorstTenth)})
	}
	a := t.Advice
	for _, found := range []simulation.Found{a.Next, a.Submit} {
		if found.Best != found.Present {
			add(calls[found.Present.Counting]+": found ÷ default", found.Gain)
		}
	}
	add("Submit ÷ Next, default", a.AtPresent)
	if a.Next.Holds || a.Submit.Holds {
		add("Submit ÷ Next, better policy", a.Verdict)
	}
	return markdown.Table(rows)
}

func halves(c simulation.Contrast) string {
	return fmt.Sprintf("%s (%s, %s)", number(c.Ratio()), number(c.Halves[0]), number(c.Halves[1]))
}

// reason says what to call, and why.
func (t Tuning) reason() string {
	a := t.Advice
	call := "Call " + map[string]string{simulation.Rule: "Next", simulation.Submit: "Submit and Done"}[a.Take.Counting]
	if a.Take != a.Next.Present && a.Take != a.Submit.Present {
		call += " with the policy found"
	}
	switch a.Reason {
	case simulation.SubmitBetter:
		return call + ": on the part held back, Submit serves your customers better than Next."
	case simulation.NextBetter:
		return call + ": on the part held back, Next serves your customers better than Submit."
	case simulation.Mixed:
		return call + ", unless the gain by Submit is worth its loss to you: Submit serves some of your customers better and others worse."
	case simulation.SubmitTooDear:
		return call + ": Submit serves your customers better, but the heavy ones would wait more than three times as long."
	case simulation.NobodyWaits:
		return fmt.Sprintf("%s, which is simpler: with %d servers hardly anybody waits. If people do wait, -servers is too large.", call, t.Servers)
	case simulation.TooLittle:
		return fmt.Sprintf("This trace is too small to tell a difference from luck. In one half of the part held back, %d light customers "+
			"submitted; 10 are needed. Take a longer trace, or a larger -light; until then call Next, which is simpler.", a.Light)
	}
	call += ", which is simpler: between Next and Submit this trace shows no difference that is more than luck and large enough to be felt."
	if a.Next.Holds && !a.Submit.Holds {
		call += " Submit and Done do as well without that policy."
	}
	return call
}

// lines returns the Go lines to paste.
func (t Tuning) lines() string {
	take := t.Advice.Take
	options := "nil"
	if !take.Policy.Equal(priority.DefaultPolicy()) {
		options = "&priority.RedisOptions{\n\tPolicy: " + strings.ReplaceAll(take.Policy.GoString(), "\n", "\n\t") + ",\n}"
	}
	lines := "store, err := priority.NewRedisStore(client, " + options + ")\n"
	if take.Counting == simulation.Submit {
		return lines + "decision, err := store.Submit(ctx, customer, priority.Document{ID: document, Cost: cost}) // when it arrives; cost: 0 if you do not know\n" +
			"_, err = store.Done(ctx, customer, document, took)           // when it is processed\n"
	}
	return lines + "decision, err := store.Next(ctx, customer) // when a document arrives\n"
}
