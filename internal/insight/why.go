package insight

import (
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// String is what a person reads on a terminal: all in a table, and below it Why.
func (c *Customer) String() string {
	var out strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&out, "%-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	submits := c.Submit.known
	line("customer", "%s", Shown(c.Exact()))
	levels := fmt.Sprintf("%d of 1 to %d", c.Level, c.policy.Last())
	if o := c.Override; o != nil {
		line("override", "%s, for %s more", o.Says, Span(o.Left()))
		levels = fmt.Sprintf("%d of 1 to %d; without the override %d", c.Level, c.last, o.RuledLevel)
	}
	switch {
	case c.Pending > 0:
		line("level", "%s, by Submit", levels)
	case submits:
		line("level", "%s, by Next: nothing is pending", levels)
	default:
		line("level", "%s", levels)
	}
	if submits {
		c.Submit.writeTo(line)
	}
	line("next", "level %d by Submit, level %d by Next", c.Submit.NextLevel, c.NextLevel)
	switch {
	case !c.Counted:
		line("count", "none: no document in the last %s", Span(c.policy.ResetInterval))
	default:
		line("count", "%d: %s since the last reset", c.Count, Plural(c.Documents, "document"))
	}
	line("row", "%s → level %d by Next", c.Row, c.RuleLevel)
	switch {
	case c.NoTTL:
		line("resets", "never as it is: the key has no TTL; the next document gives it one")
	case c.Counted:
		line("resets", "in %s%s", Span(c.resetIn()), c.unless())
	}
	line("keys", "%s", Shown(c.CountKey))
	if submits {
		line("", "%s", Shown(c.PendingKey))
		line("", "%s", Shown(c.UsageKey))
	}
	line("policy", "%s", c.PolicyName)
	if c.Tier != "" {
		line("tier", "%s", Shown(c.Tier))
	}
	out.WriteString("\n" + Wrap(c.Why(), 79))
	return out.String()
}

func (c *Customer) resetIn() time.Duration { return time.Duration(c.ResetInMS) * time.Millisecond }

func (c *Customer) unless() string {
	if c.policy.ResetMode == priority.SinceLastReset {
		return ", whatever comes"
	}
	return ", unless a document comes before"
}

// Why says in plain words, in one line, why the customer is slow and when that ends,
// and which override it has.
func (c *Customer) Why() string {
	who := Shown(c.Exact())
	var why strings.Builder
	if o := c.Override; o != nil {
		fmt.Fprintf(&why, "%s has an override until %s, for %s more, %s: %s. The next document gets %s. Queued documents keep the level that they have. Without the override: ",
			who, Moment(o.Until), Span(o.Left()), byWhom(o.By, o.Why), o.Says, levelsOf(c.Submit.NextLevel, c.NextLevel))
	}
	if c.Submit.known {
		submit := c.Submit
		submit.NextLevel = c.rule.submit
		why.WriteString(who + submit.why(c.rule.now, c.Pending))
	} else {
		why.WriteString(c.whyByNext())
	}
	return why.String()
}

// levelsOf names the levels of the next document by either call.
func levelsOf(submit, next priority.Level) string {
	if submit == next {
		return fmt.Sprintf("level %d", next)
	}
	return fmt.Sprintf("level %d by Submit, level %d by Next", submit, next)
}

// whyByNext is Why for a customer of whom only the count is known, without an override.
func (c *Customer) whyByNext() string {
	who, cause := Shown(c.Exact()), Plural(c.Documents, "document")+" since the last reset"
	var why strings.Builder
	switch {
	case !c.Counted && c.rule.now == priority.First:
		fmt.Fprintf(&why, "%s is not slow: the next document is counted as the first and gets level 1.", who)
	case c.rule.now == priority.First:
		fmt.Fprintf(&why, "%s is not slow: such documents are processed first.", who)
	case c.rule.now == c.policy.Last():
		fmt.Fprintf(&why, "%s is slow because of %s: such documents are processed last.", who, cause)
	default:
		fmt.Fprintf(&why, "%s waits behind %s because of %s.", who, levelsBefore(c.rule.now), cause)
	}
	if c.Counted && c.RuleLevel < c.policy.Last() {
		// The next row begins one below this row's least count.
		more := c.Count - rowOf(c.policy, c.RuleLevel).Least + 1
		if more == 1 {
			fmt.Fprintf(&why, " The next document has level %d.", c.rule.next)
		} else {
			fmt.Fprintf(&why, " The %s document from now has level %d.", ordinal(more), c.RuleLevel+1)
		}
	}
	switch {
	case c.RuleLevel == priority.First || c.NoTTL:
	case c.policy.ResetMode == priority.SinceLastReset:
		fmt.Fprintf(&why, " In %s the count starts afresh, whatever comes.", Span(c.resetIn()))
	default:
		fmt.Fprintf(&why, " The count starts afresh after %s without a document; each one begins the %s anew.",
			Span(c.resetIn()), Span(c.policy.ResetInterval))
	}
	return why.String()
}

// levelsBefore names the levels that are served before one that is not the first.
func levelsBefore(level priority.Level) string {
	if level == priority.First+1 {
		return "level 1"
	}
	return fmt.Sprintf("levels 1 to %d", level-1)
}
