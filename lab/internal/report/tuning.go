package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/gocode"
	"github.com/docpriority/priority/lab/internal/simulation"
)

// Tuning is what a tuning found.
type Tuning struct {
	About     About
	Options   simulation.Options
	HeavyCost float64
	Advice    simulation.Advice
}

// WriteText writes who waits how long, the verdict, and the lines to paste.
func (t Tuning) WriteText(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s.\n%d servers; %s; strict levels.\n\n%s\n\n",
		t.About.Name, t.About.Summary, t.Options.Servers, t.About.Service, t.division())
	t.writeWaits(&text)
	if t.Advice.Reason != simulation.TooLittle {
		text.WriteByte('\n')
		t.writeRatios(&text)
	}
	fmt.Fprintf(&text, "\n%s\n\n%s", strings.Join(t.verdict(), "\n"), t.lines())
	_, err := io.WriteString(to, text.String())
	return err
}

// division says in words what was held back.
func (t Tuning) division() string {
	a := t.Advice
	return fmt.Sprintf("Policies were chosen on the first %s, and are judged on the %s after them, which the choice did not see.\n"+
		"Worst tenth: the 90th percentile of the customers' mean waits.", span(a.Split-a.Begin), span(a.End-a.Split))
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

func (t Tuning) writeWaits(text *strings.Builder) {
	const line = "%-23s%9s%9s%9s%9s%9s%9s\n"
	fmt.Fprintf(text, "%-23s%27s%27s\n", "", "chosen on", "held back")
	fmt.Fprintf(text, line, "", "light", "worst", "heavy", "light", "worst", "heavy")
	fmt.Fprintf(text, line, "wait, s", "p99", "tenth", "mean", "p99", "tenth", "mean")
	for _, choice := range t.choices() {
		cells := []any{calls[choice.Counting] + ", " + t.policyName(choice)}
		for _, measures := range []simulation.Measures{choice.Chosen, choice.Judged} {
			for _, name := range []string{"light_wait_p99_s", "worst_tenth_wait_s", "heavy_wait_mean_s"} {
				cells = append(cells, cell(measures, name))
			}
		}
		fmt.Fprintf(text, line, cells...)
	}
}

// choices are those that were judged.
func (t Tuning) choices() []*simulation.Choice {
	next, submit := t.Advice.Next, t.Advice.Submit
	return slices.Compact([]*simulation.Choice{next.Present, next.Best, submit.Present, submit.Best})
}

// calls has the call that counts in each way.
var calls = map[string]string{simulation.Rule: "Next", simulation.Submit: "Submit"}

// policyName says which policy a choice has.
func (t Tuning) policyName(c *simulation.Choice) string {
	switch {
	case c != t.Advice.Next.Present && c != t.Advice.Submit.Present:
		return "policy found"
	case isDefault(c.Policy):
		return "default policy"
	}
	return "your policy"
}

func isDefault(p priority.Policy) bool {
	return gocode.Policy(p) == gocode.Policy(priority.DefaultPolicy())
}

func cell(m simulation.Measures, name string) string {
	if value, ok := m[name]; ok {
		return number(value)
	}
	return "-"
}

// writeRatios writes how the choices compare on the part held back.
func (t Tuning) writeRatios(text *strings.Builder) {
	const line = "%-28s%26s%26s\n"
	fmt.Fprintf(text, line, "ratio (in each half)", "light p99", "worst tenth")
	for _, c := range t.comparisons() {
		fmt.Fprintf(text, line, c.title, halves(c.LightP99), halves(c.WorstTenth))
	}
}

// comparison is one with a title.
type comparison struct {
	title string
	simulation.Comparison
}

func (t Tuning) comparisons() []comparison {
	a := t.Advice
	present := "yours"
	if isDefault(a.Next.Present.Policy) {
		present = "default"
	}
	var all []comparison
	for _, found := range []simulation.Found{a.Next, a.Submit} {
		if found.Best != found.Present {
			all = append(all, comparison{calls[found.Present.Counting] + ": found ÷ " + present, found.Gain})
		}
	}
	all = append(all, comparison{"Submit ÷ Next, " + present, a.AtPresent})
	if a.Next.Holds || a.Submit.Holds {
		all = append(all, comparison{"Submit ÷ Next, better policy", a.Verdict})
	}
	return all
}

func halves(c simulation.Contrast) string {
	return fmt.Sprintf("%s (%s, %s)", number(c.Ratio()), number(c.Halves[0]), number(c.Halves[1]))
}

// verdict says what to call, why, and how certain it is.
func (t Tuning) verdict() []string {
	a := t.Advice
	sentences := []string{t.reason()}
	if a.Reason != simulation.TooLittle && a.Reason != simulation.NobodyWaits {
		sentences = append(sentences,
			waits("The light customers' p99", a.Verdict.LightP99), waits("The worst tenth", a.Verdict.WorstTenth),
			t.heavySentence(), t.policySentence(),
			"A difference counts if it is felt, and shows in both halves of the part held back.")
	}
	return slices.DeleteFunc(sentences, func(sentence string) bool { return sentence == "" })
}

func (t Tuning) reason() string {
	a := t.Advice
	call := "Call " + map[string]string{simulation.Rule: "Next", simulation.Submit: "Submit and Done"}[a.Take.Counting]
	if a.Take != a.Next.Present && a.Take != a.Submit.Present {
		call += " with the policy found"
	}
	tooLong := fmt.Sprintf("the heavy ones wait more than %v %% longer than now", 100*t.HeavyCost)
	switch a.Reason {
	case simulation.SubmitBetter:
		return call + ": on the part held back, Submit serves your customers better than Next."
	case simulation.NextBetter:
		return call + ": on the part held back, Next serves your customers better than Submit."
	case simulation.Mixed:
		return call + ", unless the gain by Submit is worth its loss to you: Submit serves some of your customers better and others worse."
	case simulation.NextTooDear:
		return call + ": by Next, of your customers " + tooLong + "."
	case simulation.SubmitTooDear:
		return call + ": Submit serves your customers better, but by it " + tooLong + ". A larger -heavy-cost allows that."
	case simulation.NobodyWaits:
		return fmt.Sprintf("%s, which is simpler: with %d servers hardly anybody waits. If people do wait, -servers is too large.", call, t.Options.Servers)
	case simulation.TooLittle:
		return fmt.Sprintf("This trace is too small to tell a difference from luck. In one half of the part held back, %d light customers "+
			"submitted; 10 are needed. Take a longer trace, or a larger -light; until then leave things as they are.", a.Light)
	}
	call += ", which is simpler: between Next and Submit this trace shows no difference that is more than luck and large enough to be felt."
	if a.Next.Holds && !a.Submit.Holds {
		call += " Submit and Done do as well without that policy."
	}
	return call
}

// waits says how long a wait is by Submit and by Next.
func waits(who string, c simulation.Contrast) string {
	verdict := "that may be luck"
	switch {
	case !c.Felt:
		verdict = "no difference that is felt"
	case c.Shorter():
		verdict = "shorter"
	case c.Longer():
		verdict = "longer"
	}
	return fmt.Sprintf("%s is %s s by Submit and %s s by Next: %s (ratio %s; in each half %s).",
		who, number(c.Wait), number(c.Than), verdict, number(c.Ratio()), number(c.Halves[0])+" and "+number(c.Halves[1]))
}

// heavySentence says what the heavy customers pay, or gain, if there are any.
func (t Tuning) heavySentence() string {
	const mean = "heavy_wait_mean_s"
	submit, next := t.Advice.Submit.Taken().Judged, t.Advice.Next.Taken().Judged
	if _, ok := submit[mean]; !ok {
		return ""
	}
	return fmt.Sprintf("Heavy customers wait %s s on average by Submit and %s s by Next.", number(submit[mean]), number(next[mean]))
}

// policySentence says which policy is worth taking.
func (t Tuning) policySentence() string {
	found := t.Advice.Next
	if t.Advice.Take.Counting == simulation.Submit {
		found = t.Advice.Submit
	}
	present := t.policyName(found.Present)
	switch {
	case found.Best == found.Present:
		return fmt.Sprintf("No policy was found that is better than the %s.", strings.TrimPrefix(present, "your "))
	case found.Holds:
		return fmt.Sprintf("The policy found is better than %s on the part held back, too.", the(present))
	}
	return fmt.Sprintf("The policy found is not certainly better than %s on the part held back: keep that.", the(present))
}

func the(policy string) string {
	if policy == "default policy" {
		return "the default"
	}
	return "yours"
}

// lines returns the Go lines to paste.
func (t Tuning) lines() string {
	take := t.Advice.Take
	fields := ""
	if !isDefault(take.Policy) {
		fields += "\tPolicy: " + strings.ReplaceAll(gocode.Policy(take.Policy), "\n", "\n\t") + ",\n"
	}
	options := "nil"
	if fields != "" {
		options = "&priority.RedisOptions{\n" + fields + "}"
	}
	lines := "store, err := priority.NewRedisStore(client, " + options + ")\n"
	if take.Counting == simulation.Submit {
		return lines + "decision, err := store.Submit(ctx, customer, document, cost) // when it arrives; cost: 0 if you do not know\n" +
			"_, err = store.Done(ctx, customer, document, took)           // when it is processed\n"
	}
	return lines + "decision, err := store.Next(ctx, customer) // when a document arrives\n"
}
