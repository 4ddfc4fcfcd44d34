package insight

import (
	"fmt"
	"math"
	"strings"

	"github.com/docpriority/priority"
)

// String is for a terminal: everything in a table, and below it Why.
func (c *Customer) String() string {
	var out strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&out, "%-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	line("customer", "%s", Shown(c.Exact()))
	line("rule", "%s; %s", c.rule, c.Rules)
	next := fmt.Sprintf("level %d of 1 to %d", c.NextLevel, c.last)
	if o := c.Override; o != nil {
		line("override", "%s, %s", o.Says, o.Ends())
	}
	if c.Overridden() {
		next = fmt.Sprintf("level %d of 1 to %d; by the rule %d", c.NextLevel, c.last, c.RuleLevel)
	}
	row := rowOf(c.policy, c.RuleLevel)
	switch c.rule {
	case priority.ByCount:
		line("next", "%s: %s", next, row.Condition())
		c.writeCount(line)
	case priority.ByLoad:
		line("next", "%s: %s", next, row.Load())
		c.writeLoad(line)
	default:
		line("next", "%s", next)
	}
	if c.LevelDone > 0 {
		line("waits", "level %d: %s in the median of the last minute, 95 %% at most %s", c.NextLevel, long(c.LevelMedianMS), long(c.LevelP95MS))
	}
	c.writeHour(line)
	line("key", "%s", Shown(c.Key))
	why := c.Why()
	if c.rule == priority.Unknown {
		why += " priorityctl list shows all customers."
	}
	out.WriteString("\n" + Wrap(why, 79))
	return out.String()
}

// writeHour writes a line for each five minutes with documents, at most the last six.
func (c *Customer) writeHour(line func(label, format string, args ...any)) {
	const most = 6
	label := "hour"
	for _, p := range c.Hour[max(len(c.Hour)-most, 0):] {
		line(label, "from %s  %s, the last at level %d", p.Began.Format("15:04:05 UTC"), Plural(p.Documents, "document"), p.Level)
		label = ""
	}
}

func (c *Customer) writeCount(line func(label, format string, args ...any)) {
	line("count", "%d: %s since the last reset", c.Count, Plural(c.Documents(), "document"))
	line("level", "%d, of the last document: %s", c.Level, rowOf(c.policy, c.Level).Condition())
	switch {
	case c.ResetInMS == 0:
		line("resets", "never as it is: the key has no TTL; the next document gives it one")
	case c.policy.ResetMode == priority.SinceLastReset:
		line("resets", "in %s, whatever comes", Span(c.ResetIn()))
	default:
		line("resets", "in %s, unless a document comes before", Span(c.ResetIn()))
	}
}

func (c *Customer) writeLoad(line func(label, format string, args ...any)) {
	line("load", "%s", c.Product())
	line("", "with the next document")
	pending := "none"
	if c.Pending > 0 {
		pending = fmt.Sprintf("%s, the oldest for %s; the newest has level %d", Group(c.Pending), long(c.OldestMS), c.Level)
	}
	line("pending", "%s", pending)
	if c.PendingLast > 0 {
		line("", "%s of them beyond the last load, which do not count", Group(c.PendingLast))
	}
	done := "not known yet how long after they were submitted"
	if c.LatencyMS > 0 {
		done = long(c.LatencyMS) + " after they were submitted, on average"
	}
	line("done", "%s", done)
	line("lease", "%s: documents not done by then no longer count", long(c.LeaseMS))
}

// Why says in plain words, in one line, why the customer is slow and when that ends,
// and which override it has.
func (c *Customer) Why() string {
	who := Shown(c.Exact())
	var why strings.Builder
	if o := c.Override; o != nil {
		why.WriteString(c.whyOverridden(o, who))
	}
	switch c.rule {
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
		fmt.Fprintf(&why, " The next document gets level %d.", c.RuleLevel)
	}
	if !c.FloodBegan.IsZero() {
		fmt.Fprintf(&why, " The flood began at %s.", Moment(c.FloodBegan))
	}
	if c.LevelDone > 0 {
		fmt.Fprintf(&why, " Documents of level %d took %s in the median of the last minute", c.NextLevel, long(c.LevelMedianMS))
		if c.Pending > 0 {
			fmt.Fprintf(&why, "; the customer's oldest waits %s", long(c.OldestMS))
		}
		why.WriteString(".")
	}
	return why.String()
}

// whyOverridden says what an override does, who has set it, why, and until when.
func (c *Customer) whyOverridden(o *Override, who string) string {
	return fmt.Sprintf("%s has an override %s, %s: %s. The next document gets level %d. Queued documents keep their level. Without the override: ",
		who, o.Ends(), o.ByWhom(), o.Says, c.NextLevel)
}

// whyByCount is Why by count, without an override.
func (c *Customer) whyByCount(why *strings.Builder, who string) {
	cause := Plural(c.Documents(), "document") + " since the last reset"
	switch {
	case c.Level == priority.First:
		fmt.Fprintf(why, "%s is not slow: such documents are processed first.", who)
	case c.Level == c.policy.Last():
		fmt.Fprintf(why, "%s is slow because of %s: such documents are processed last.", who, cause)
	default:
		fmt.Fprintf(why, "%s waits behind %s because of %s.", who, levelsBefore(c.Level), cause)
	}
	if c.Level <= priority.Level(len(c.policy.Thresholds)) {
		// The next row begins one below this row's least count.
		more := c.Count - rowOf(c.policy, c.Level).Least + 1
		if more == 1 {
			fmt.Fprintf(why, " The next document has level %d.", c.RuleLevel)
		} else {
			fmt.Fprintf(why, " The %s document from now has level %d.", ordinal(more), c.Level+1)
		}
	}
	switch {
	case c.Level == priority.First || c.ResetInMS == 0:
	case c.policy.ResetMode == priority.SinceLastReset:
		fmt.Fprintf(why, " In %s the count is reset, whatever comes.", Span(c.ResetIn()))
	default:
		fmt.Fprintf(why, " The count is reset after %s without a document; each one restarts the %s.",
			Span(c.ResetIn()), Span(c.policy.ResetInterval))
	}
}

// whyByLoad is Why by load, without an override.
func (c *Customer) whyByLoad(why *strings.Builder, who string) {
	level := c.RuleLevel
	switch {
	case c.PendingLast > 0 && level <= priority.Level(len(c.policy.Loads)):
		fmt.Fprintf(why, "%s floods: %s wait at level %d or later, and the next one gets level %d.",
			who, Plural(c.PendingLast, "document"), len(c.policy.Loads)+1, level)
	case level == priority.First:
		fmt.Fprintf(why, "%s is not slow: the next document gets level 1, which is processed first.", who)
	case level == c.policy.Last():
		fmt.Fprintf(why, "%s is slow: the next document gets level %d, which is processed last.", who, level)
	default:
		fmt.Fprintf(why, "%s waits behind %s: the next document gets level %d.", who, levelsBefore(level), level)
	}
	recent := amount(c.recentThen(), "document")
	if c.Recent+1 > mostRecent {
		recent = Group(mostRecent) + " or more documents"
	}
	fmt.Fprintf(why, " Its load, itself included, is %s: %s submitted recently × %s pending × %s.",
		number(c.Load), recent, Group(c.counting()+1), c.atCost())
	if row := rowOf(c.policy, level); !math.IsInf(row.UpTo, 1) {
		fmt.Fprintf(why, " Level %d is for loads up to %s.", level, bound(row.UpTo))
	} else if c.policy.Turns > 0 {
		fmt.Fprintf(why, " It is the %s pending beyond the last load, where floods take turns.", ordinal(c.PendingLast+1))
	}
	switch {
	case c.FewerPending > 0:
		fewer := Group(c.FewerPending) + " fewer pending"
		if c.PendingLast > 0 {
			fewer = Group(c.FewerPending) + " fewer of those that count"
		}
		fmt.Fprintf(why, " With %s, it gets level %d.", fewer, c.FewerLevel)
	case c.FadedInMS > 0:
		fmt.Fprintf(why, " If nothing more is submitted for %s, the next one gets level %d.", long(c.FadedInMS), c.FadedLevel)
	}
	if c.Level > 0 && c.Level != level {
		fmt.Fprintf(why, " The newest pending document has level %d, and keeps it.", c.Level)
	}
}

// atCost says what the customer's documents cost.
func (c *Customer) atCost() string {
	if times := cost(c.Cost); times != "1.00" {
		return times + " times the usual cost"
	}
	return "the usual cost"
}

// levelsBefore names the levels that are served before a level that is not the
// first.
func levelsBefore(level priority.Level) string {
	if level == priority.First+1 {
		return "level 1"
	}
	return fmt.Sprintf("levels 1 to %d", level-1)
}
