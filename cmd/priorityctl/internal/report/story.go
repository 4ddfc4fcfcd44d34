package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

// stories say what happens in a scenario to readers who do not know the words of
// its summary.
var stories = map[string]string{
	"steady-flood":     "200 customers send documents all day, some far more often than others. Then one more customer uploads thousands of documents at once.",
	"occasional-flood": "20,000 customers send a document now and then. Then one more customer uploads thousands of documents at once.",
	"trickle-flood":    "200 customers send documents all day. Then one more customer sends thousands of documents, a few every second.",
	"many-servers":     "As in steady-flood, 200 customers send documents all day and one more uploads thousands at once, but there are more servers, and each customer sends more.",
	"big-customer":     "One big customer sends as much as 200 others together, all day. Then one more customer uploads thousands of documents at once.",
	"batches":          "200 customers send all day, several documents at a time. Then one more customer uploads thousands of documents at once.",
	"second-flood":     "One customer uploads thousands of documents at once. Five minutes later, while most of those still wait, a second one uploads a smaller number.",
	"pauser":           "One customer uploads thousands of documents at once. Another sends a few at a time and pauses just long enough in between that its count starts afresh.",
	"overload":         "20 customers together send half as much again as the servers can do, some far more than others. Somebody has to wait: the question is who.",
	"overload-equal":   "20 customers who send equally much together send half as much again as the servers can do.",
	"overload-wide":    "200 customers, some large and most small, together send a fifth more than the servers can do.",
	"overload-cost":    "20 customers send equally many documents, but those of some take far longer. Together they are half as much again as the servers can do.",
	"cost-skew":        "50 customers send documents all day. For about an hour one more sends few documents, but each takes as long as 50 of the others'.",
	"starve":           "New customers keep coming and send one document each, slightly more than the servers can do. Another customer sends 200 documents early on: when are those served?",
	"lost-done":        "As in steady-flood, one customer uploads thousands of documents at once. Beyond that, the service sometimes fails to report that a document is done.",
	"outage":           "As in trickle-flood, one customer sends thousands of documents, a few every second. In the middle of it the counts cannot be reached for a minute.",
	"failover":         "As in trickle-flood, one customer sends thousands of documents, a few every second. In the middle of it the server with the counts fails, and another takes over that lacks the last seconds.",
	"bursts":           "60 customers each send a few documents at once, or many, again and again.",
	"rush-hour":        "For one hour of two, 100 customers together send more than the servers can do, some far more than others.",
	"short-and-long":   "Some customers send short documents, others long ones. Then one more customer uploads thousands of short ones at once.",
}

// way is how documents are scheduled, in the words of the page.
type way struct {
	outcome simulation.Outcome
	name    string // "Submit"
	title   string // "After: Submit"
}

// ways returns what is compared in pictures: first come, Next and Submit or,
// where none of them was simulated, all there is.
func (s Simulation) ways() []way {
	var ways []way
	for _, known := range []struct{ scheduler, when string }{
		{simulation.FirstCome, "Before: "}, {simulation.Rule, "After: "}, {simulation.Submit, "After: "},
	} {
		for _, outcome := range s.Outcomes {
			if outcome.Scheduler == known.scheduler {
				name := wayName(outcome.Scheduler)
				ways = append(ways, way{outcome, name, known.when + name})
			}
		}
	}
	if len(ways) > 0 {
		return ways
	}
	for _, outcome := range s.Outcomes {
		name := wayName(outcome.Scheduler)
		ways = append(ways, way{outcome, name, name})
	}
	return ways
}

// wayName is a scheduler in the words of the page.
func wayName(scheduler string) string {
	name, discipline, own := strings.Cut(scheduler, ":")
	switch name {
	case simulation.FirstCome:
		name = "first come"
	case simulation.Rule:
		name = "Next"
	case simulation.Submit:
		name = "Submit"
	}
	if own {
		name += ", consumers " + discipline
	}
	return name
}

// audience is a group in the words of the page.
func audience(group string) string {
	switch group {
	case simulation.Second:
		return "the second flooder"
	case simulation.LightestHalf:
		return "the half who send least"
	case simulation.HeaviestHalf:
		return "the half who send most"
	case simulation.WorstCustomer:
		return "the customer who waits longest"
	}
	return theGroup(group)
}

// shownGroups returns those whose waits are compared: the scenario's or, where all
// customers are in one, the light half, all, and the one who fares worst.
func (s Simulation) shownGroups() []group {
	var names []string
	if known := s.Outcomes[0].Series.Groups; len(known) > 0 && known[0] == simulation.LightestHalf {
		names = []string{simulation.LightestHalf, simulation.Others, simulation.WorstCustomer}
	} else {
		names = known
	}
	var groups []group
	for _, name := range names {
		if documents := s.Outcomes[0].Measures[name+"_documents"].Mean; documents > 0 {
			g := group{name: name, audience: audience(name), documents: documents}
			if name == simulation.Others && names[0] == simulation.LightestHalf {
				g.audience = "all customers"
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// group is one of those whose waits are compared.
type group struct {
	name, audience string
	documents      float64 // how many they submit, a mean over the seeds
}

func (g group) unlucky(outcome simulation.Outcome) float64 {
	return outcome.Measures[g.name+"_wait_p99_s"].Mean
}

func (g group) typical(outcome simulation.Outcome) float64 {
	return outcome.Measures[g.name+"_wait_p50_s"].Mean
}

// finding says in a sentence for each of two groups what changes from the first
// way to the last.
func finding(groups []group, ways []way) []string {
	if len(ways) < 2 {
		return nil
	}
	before, after := ways[0], ways[len(ways)-1]
	start := "With " + before.name
	if before.outcome.Scheduler == simulation.FirstCome {
		start = "Before"
	}
	var sentences []string
	for _, g := range groups[:min(2, len(groups))] {
		sentences = append(sentences, fmt.Sprintf("%s, a typical document of %s waits %s and an unlucky one %s; with %s, %s and %s.",
			start, g.audience, lasting(g.typical(before.outcome)), lasting(g.unlucky(before.outcome)),
			after.name, lasting(g.typical(after.outcome)), lasting(g.unlucky(after.outcome))))
	}
	return sentences
}

// dotText says who a dot is, and what they sent and waited.
func dotText(d simulation.Dot) string {
	if d.Customers == 1 {
		return fmt.Sprintf("%s: sent %.0f, waited %s", shownName(d.Customer), d.Sent.Least, lasting(d.Waited.Least))
	}
	text := fmt.Sprintf("%s customers: sent %.0f", thousands(d.Customers), d.Sent.Least)
	if d.Sent.Most > d.Sent.Least {
		text += fmt.Sprintf(" to %.0f", d.Sent.Most)
	}
	text += " each, waited " + lasting(d.Waited.Least)
	if most := lasting(d.Waited.Most); most != lasting(d.Waited.Least) {
		text += " to " + most
	}
	return text
}

// dotsInWords says how many customers the dots stand for.
func dotsInWords(dots []simulation.Dot) string {
	customers, most := 0, 0
	for _, dot := range dots {
		customers += dot.Customers
		most = max(most, dot.Customers)
	}
	switch {
	case customers == 0:
		return "No customers."
	case customers == 1:
		return "One customer."
	case most == 1:
		return fmt.Sprintf("%s customers, a dot for each.", thousands(customers))
	}
	return fmt.Sprintf("%s customers in %d dots; the largest stands for %s.", thousands(customers), len(dots), thousands(most))
}

const longestName = 60 // characters of a name that are shown

// shownName makes any bytes a name to show: what is long is cut, and a name that
// is written from right to left does not change the order of what follows it.
func shownName(name string) string {
	name = graphic(name)
	if runes := []rune(name); len(runes) > longestName {
		name = string(runes[:longestName]) + "…"
	}
	const isolate, pop = "\u2068", "\u2069"
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		return isolate + name + pop
	}
	return name
}

// graphic quotes a text as in Go if not all of it can be seen.
func graphic(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) || r == unicode.ReplacementChar }) >= 0 {
		return strconv.QuoteToGraphic(text)
	}
	return text
}

// listed writes groups as "the others and the flooder".
func listed(groups []string) string {
	words := make([]string, len(groups))
	for i, group := range groups {
		words[i] = audience(group)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// thousands writes 20000 as 20,000.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
