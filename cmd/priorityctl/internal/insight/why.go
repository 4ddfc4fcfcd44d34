package insight

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/docpriority/priority"
)

// Fact is a line of a table about a customer.
type Fact struct{ Label, Text string }

// String is for a terminal: everything in a table, and below it Why.
func (c *Customer) String() string {
	state, row := c.State, rowOf(c.Policy.Policy, c.State.RuleLevel)
	facts := []Fact{{"customer", Shown(c.Exact())}, {"rule", fmt.Sprintf("%s; %s", state.Rule, c.Source)}}
	if o := c.Override; o != nil {
		says := o.Says() + ", " + o.Ends()
		if o.Customer != c.Exact() {
			says += ", of the account " + Shown(o.Customer)
		}
		facts = append(facts, Fact{"override", says})
	}
	next := fmt.Sprintf("level %d of 1 to %d", state.NextLevel, c.last)
	if state.Bounds != (priority.Bounds{}) {
		next += fmt.Sprintf("; by the rule %d", state.RuleLevel)
	}
	switch state.Rule {
	case priority.ByCount:
		next += ": " + row.Condition()
	case priority.ByLoad:
		next += ": " + c.condition(row)
	}
	facts = append(append(facts, Fact{"next", next}), c.Facts()...)
	const mostParts = 6
	label := "hour"
	for _, p := range c.Hour[max(len(c.Hour)-mostParts, 0):] {
		facts = append(facts, Fact{label, fmt.Sprintf("from %s  at least %s, the latest at level %d", p.Began.Format("15:04:05 UTC"), Plural(p.Documents, "document"), p.Level)})
		label = ""
	}
	var out strings.Builder
	for _, f := range append(facts, Fact{"key", Shown(c.Key)}) {
		fmt.Fprintf(&out, "%-9s %s\n", f.Label, strings.ReplaceAll(Wrap(f.Text, 69), "\n", "\n          "))
	}
	out.WriteString("\n" + Wrap(c.Why(), 79))
	if state.Rule == priority.Unknown {
		out.WriteString("\npriorityctl list shows all customers.")
	}
	return out.String()
}

// Facts says what is known of the customer by the rule.
func (c *Customer) Facts() []Fact {
	state, policy := c.State, c.Policy.Policy
	switch state.Rule {
	case priority.ByCount:
		resets := fmt.Sprintf("in %s, unless a document comes before", Span(state.ResetIn))
		if state.ResetIn == 0 {
			resets = "never as it is: the key has no TTL; the next document gives it one"
		} else if policy.ResetMode == priority.SinceLastReset {
			resets = fmt.Sprintf("in %s, whatever comes", Span(state.ResetIn))
		}
		return []Fact{
			{"count", fmt.Sprintf("%d: %s since the last reset", state.Count, Plural(documents(state), "document"))},
			{"level", fmt.Sprintf("%d, of the latest document: %s", state.Level, rowOf(policy, state.Level).Condition())},
			{"resets", resets},
		}
	case priority.ByLoad:
		pending := []Fact{{"pending", "none"}}
		if state.Pending > 0 {
			pending[0].Text = fmt.Sprintf("%s, the oldest for %s; the newest has level %d", Group(state.Pending), Span(state.Oldest), state.Level)
		}
		if state.PendingFlood > 0 {
			pending = append(pending, Fact{"flood", Group(state.PendingFlood) + " of them, which do not count in the load"})
		}
		switch {
		case c.wentBack:
			pending = append(pending, Fact{"scheduled", Group(state.Scheduled) + " more, though none was submitted with a delay: Redis's clock went back, and they count when it is where it was"})
		case state.Scheduled > 0:
			pending = append(pending, Fact{"scheduled", Group(state.Scheduled) + " more, which count from when they are due"})
		}
		if c.account != "" {
			pending = append(pending, Fact{"account", fmt.Sprintf("%s: load %s, %s pending in its flood", Shown(c.account), decimal(state.AccountLoad), Group(state.AccountFlood))})
		}
		if c.Lost > 0 {
			pending = append(pending, Fact{"lost", "at least " + Group(c.Lost) + " more of the last day, presumed lost: no Done within the lease"})
		}
		lease := Span(state.Lease) + ": documents not done by then no longer count"
		if state.PendingFlood > 0 {
			lease += ", but those of a flood do for " + Span(priority.DefaultLease)
		}
		if state.Latency > 0 {
			lease += "; from " + Span(state.Latency) + " until Done, as a rule: long times are cut, floods left out"
		}
		return slices.Concat([]Fact{{"load", product(state) + ", of the next document"}}, pending, []Fact{{"lease", lease}}, c.userFacts())
	}
	return nil
}

// condition says by which load the next document gets the level of a row.
func (c *Customer) condition(row Row) string {
	switch {
	case c.inOrder:
		return "as the newest pending document, in order"
	case c.ByAccount && !math.IsInf(row.UpTo, 1):
		return "one less than the account's"
	case c.ByAccount:
		return "the account's " + row.Load()
	}
	return row.Load()
}

// Why says in plain words, in one line, why the customer is slow and when that ends,
// and which override it has.
func (c *Customer) Why() string {
	who, state := Shown(c.Exact()), c.State
	var why strings.Builder
	if c.full {
		why.WriteString("Redis is full, so each process decides by itself until maxmemory is raised; the rest is by what Redis has. ")
	}
	if o := c.Override; o != nil {
		whose := "an override"
		if o.Customer != c.Exact() {
			whose = "its account's override"
		}
		fmt.Fprintf(&why, "%s has %s %s, %s: %s. The next document gets level %d. Queued documents keep their level. Without the override: ",
			who, whose, o.Ends(), o.ByWhom(), o.Says(), state.NextLevel)
	}
	switch state.Rule {
	case priority.ByCount:
		c.whyByCount(&why, who)
	case priority.ByLoad:
		c.whyByLoad(&why, who)
	default:
		if len(c.Hour) > 0 {
			fmt.Fprintf(&why, "Redis knows nothing of %s any more: it was reset, or all of it has ended.", who)
		} else {
			fmt.Fprintf(&why, "%s is new, or misspelled: nothing is known about it.", who)
		}
		fmt.Fprintf(&why, " The next document gets level %d.", state.RuleLevel)
	}
	if !c.FloodBegan.IsZero() {
		fmt.Fprintf(&why, " The first document of the flood that still waits is from %s.", Moment(c.FloodBegan))
	}
	if c.isLate {
		is := "it takes long or is stuck: how long this customer's documents take is not known yet"
		if state.Latency > 0 {
			is = "it takes long, fails again and again, its worker is lost, or no Done is sent"
		}
		fmt.Fprintf(&why, " Its oldest document, %s, waits at level %d for %s, and others are done far sooner: %s.",
			Shown(c.oldest.ID), c.oldest.Level, ago(c.oldest.Age), is)
	}
	if c.Lost > 0 {
		fmt.Fprintf(&why, " At least %s left by the end of the lease: probably no Done is sent for them.", Plural(c.Lost, "document"))
	}
	if c.Waits.Done > 0 {
		fmt.Fprintf(&why, " Documents of level %d took %s in the median of the last minute", state.NextLevel, Span(c.Waits.Median()))
		if state.Pending > 0 {
			fmt.Fprintf(&why, "; the customer's oldest waits %s", Span(state.Oldest))
		}
		why.WriteString(".")
	}
	return why.String()
}

// whyByCount is Why by count, without an override.
func (c *Customer) whyByCount(why *strings.Builder, who string) {
	state, policy := c.State, c.Policy.Policy
	cause := Plural(documents(state), "document") + " since the last reset"
	switch {
	case state.Level == priority.First:
		fmt.Fprintf(why, "%s is not slow: such documents are processed first.", who)
	case state.Level == policy.Last():
		fmt.Fprintf(why, "%s is slow because of %s: such documents are processed last.", who, cause)
	default:
		fmt.Fprintf(why, "%s waits behind %s because of %s.", who, levelsBefore(state.Level), cause)
	}
	if state.Level <= priority.Level(len(policy.Thresholds)) {
		// The next row begins one below this row's least count.
		more := state.Count - rowOf(policy, state.Level).Least + 1
		if more == 1 {
			fmt.Fprintf(why, " The next document has level %d.", state.RuleLevel)
		} else {
			fmt.Fprintf(why, " After %s, the next has level %d.", Plural(more-1, "more document"), state.Level+1)
		}
	}
	switch {
	case state.Level == priority.First || state.ResetIn == 0:
	case policy.ResetMode == priority.SinceLastReset:
		fmt.Fprintf(why, " In %s the count is reset, whatever comes.", Span(state.ResetIn))
	default:
		fmt.Fprintf(why, " The count is reset after %s without a document; each one restarts the %s.",
			Span(state.ResetIn), Span(policy.ResetInterval))
	}
}

// whyByLoad is Why by load, without an override.
func (c *Customer) whyByLoad(why *strings.Builder, who string) {
	state, policy, level := c.State, c.Policy.Policy, c.State.RuleLevel
	switch {
	case state.PendingFlood > 0 && level <= priority.Level(len(policy.Loads)):
		fmt.Fprintf(why, "%s floods: %s beyond the last load are pending, and the next one gets level %d.",
			who, Plural(state.PendingFlood, "document"), level)
	case level == priority.First:
		fmt.Fprintf(why, "%s is not slow: the next document gets level 1, which is processed first.", who)
	case level == policy.Last():
		fmt.Fprintf(why, "%s is slow: the next document gets level %d, which is processed last.", who, level)
	default:
		fmt.Fprintf(why, "%s waits behind %s: the next document gets level %d.", who, levelsBefore(level), level)
	}
	fmt.Fprintf(why, " Its load, itself included, is %s.", product(state))
	flood := Group(state.PendingFlood+1) + " of the flood"
	if c.account != "" {
		decides := "its own"
		if c.ByAccount {
			decides = "the account's"
		}
		fmt.Fprintf(why, " The load of its account %s is %s; %s decides.", Shown(c.account), decimal(state.AccountLoad), decides)
		flood = Group(state.AccountFlood+1) + " of the account's flood"
	}
	switch row := rowOf(policy, level); {
	case c.inOrder:
		why.WriteString(" Its documents stay in order: none gets an earlier level than the newest pending one.")
	case c.ByAccount && !math.IsInf(row.UpTo, 1):
		fmt.Fprintf(why, " A user is at most one level before the account, whose next document has level %d.", level+1)
	case row.Over > 0 && !math.IsInf(row.UpTo, 1):
		fmt.Fprintf(why, " Loads up to %s get level %d.", bound(row.Over), level-1)
	case math.IsInf(row.UpTo, 1) && policy.Turns > 0:
		fmt.Fprintf(why, " It is pending document %s, and floods take turns.", flood)
	}
	if state.Level > 0 && state.Level != level {
		fmt.Fprintf(why, " The newest pending document has level %d, and keeps it.", state.Level)
	}
}

// levelsBefore names the levels that are served before a level that is not the
// first.
func levelsBefore(level priority.Level) string {
	if level == priority.First+1 {
		return "level 1"
	}
	return fmt.Sprintf("levels 1 to %d", level-1)
}
