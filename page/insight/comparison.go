package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/page/insight/census"
)

// Comparison goes through the counts of all customers once, and finds who would change
// level between two rules. It is not safe for concurrent use.
type Comparison struct {
	inspector *Inspector
	options   ComparisonOptions
	a, b      *priority.Policies

	walk   *census.Walk
	keys   int64 // of the servers, when the walk began
	looked int64
	met    map[string]struct{}
	shifts map[Shift]int64
	found  Compared
}

// ComparisonOptions say how the counts are gone through.
type ComparisonOptions struct {
	Pace     int // how many keys a second are looked at; 0: as fast as Redis answers
	Examples int // how many of the customers who change level to name
}

// Compared is what a Comparison has found. The levels are those of Next, without
// overrides, of counts as they are.
type Compared struct {
	A         control.Rules `json:"a"`
	B         control.Rules `json:"b"`
	AName     string        `json:"a_name"`
	BName     string        `json:"b_name"`
	Customers int64         `json:"customers"`
	Earlier   int64         `json:"earlier"` // are processed earlier by B
	Later     int64         `json:"later"`
	Corrupt   int64         `json:"corrupt"`

	// Overridden is how many of those who change level have an override in force.
	Overridden int64 `json:"overridden"`

	Shifts   []Shift   `json:"shifts"`   // by level; those of customers whose level is the same too
	Examples []Example `json:"examples"` // those who change most first
}

// Shift is how many customers with a level by A have another by B, or the same.
type Shift struct {
	From      priority.Level `json:"from"`
	To        priority.Level `json:"to"`
	Customers int64          `json:"customers"`
}

// Example is a customer who would change level.
type Example struct {
	Name
	Tier       string         `json:"tier,omitempty"`
	Count      int64          `json:"count"`
	From       priority.Level `json:"from"`
	To         priority.Level `json:"to"`
	Overridden bool           `json:"overridden,omitempty"`
}

// NewComparison returns a Comparison that has looked at nothing yet. Tiers are those
// that the inspector's store and what operators have set say. An error wraps
// [priority.ErrInvalidPolicy].
func NewComparison(inspector *Inspector, a, b NamedRules, options ComparisonOptions) (*Comparison, error) {
	c := &Comparison{inspector: inspector, options: options}
	c.found = Compared{A: a.Rules, B: b.Rules, AName: a.Name, BName: b.Name}
	tierOf := inspector.Store.Policies().TierOf
	var err error
	if c.a, err = priority.NewPolicies(a.Policy, a.Tiers, tierOf); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	if c.b, err = priority.NewPolicies(b.Policy, b.Tiers, tierOf); err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	return c, nil
}

// Advance goes on until all counts were looked at, which it reports, or until the
// deadline; zero: there is none. After an error, which is go-redis's or the context's,
// it begins anew.
func (c *Comparison) Advance(ctx context.Context, deadline time.Time) (done bool, err error) {
	if c.walk == nil {
		if c.walk, err = c.inspector.Walk(ctx, census.Options{Pace: c.options.Pace}, ""); err != nil {
			return false, err
		}
		c.keys, _ = c.walk.Keys(ctx) // without the right to DBSIZE there is no progress to show
		c.looked, c.met, c.shifts = 0, make(map[string]struct{}), make(map[Shift]int64)
		c.found = Compared{A: c.found.A, B: c.found.B, AName: c.found.AName, BName: c.found.BName}
	}
	for {
		entries, err := c.walk.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			c.walk = nil // the servers may be others now
			return false, err
		}
		c.looked = c.walk.Looked()
		for _, entry := range entries {
			c.add(entry)
		}
		if c.walk.Done() {
			return true, nil
		}
		if !deadline.IsZero() && time.Now().After(deadline) {
			return false, nil
		}
	}
}

// Progress is how much was looked at, in percent, about.
func (c *Comparison) Progress() int {
	return int(min(100*c.looked/max(c.keys, 1), 100))
}

// Found returns what was found until now.
func (c *Comparison) Found() Compared {
	found := c.found
	found.Shifts, found.Examples = []Shift{}, append([]Example{}, found.Examples...)
	for shift, customers := range c.shifts {
		shift.Customers = customers
		found.Shifts = append(found.Shifts, shift)
	}
	slices.SortFunc(found.Shifts, func(a, b Shift) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return found
}

func (c *Comparison) add(entry census.Entry) {
	if len(c.met) < mostRemembered {
		if _, again := c.met[entry.Customer]; again {
			return // SCAN may meet a key twice
		}
		c.met[entry.Customer] = struct{}{}
	}
	if entry.Corrupt {
		c.found.Corrupt++
		return
	}
	from, to := c.a.PolicyOf(entry.Customer).Level(entry.Count), c.b.PolicyOf(entry.Customer).Level(entry.Count)
	c.found.Customers++
	c.shifts[Shift{From: from, To: to}]++
	if from == to {
		return
	}
	if to < from {
		c.found.Earlier++
	} else {
		c.found.Later++
	}
	_, overridden := c.inspector.override(entry.Customer)
	if overridden {
		c.found.Overridden++
	}
	example := Example{NameOf(entry.Customer), c.b.TierOf(entry.Customer), entry.Count, from, to, overridden}
	at, _ := slices.BinarySearchFunc(c.found.Examples, example, moreChanged)
	if at < c.options.Examples {
		c.found.Examples = slices.Insert(c.found.Examples, at, example)
		c.found.Examples = c.found.Examples[:min(len(c.found.Examples), c.options.Examples)]
	}
}

// moreChanged orders by how far a level changes, then by the customer.
func moreChanged(a, b Example) int {
	change := func(e Example) priority.Level { return max(e.To-e.From, e.From-e.To) }
	return cmp.Or(cmp.Compare(change(b), change(a)), strings.Compare(a.Exact(), b.Exact()))
}

// Summary says in a sentence what was found.
func (c Compared) Summary() string {
	changed := c.Earlier + c.Later
	if c.Customers == 0 {
		return "No customer has a count now."
	}
	if changed == 0 {
		return fmt.Sprintf("None of %s changes level.", Plural(c.Customers, "customer"))
	}
	summary := fmt.Sprintf("Of %s, %s (%s) would change level by Next: %s earlier, %s later.", Plural(c.Customers, "customer"),
		Group(changed), Percent(float64(changed)/float64(c.Customers)), Group(c.Earlier), Group(c.Later))
	if c.Overridden > 0 {
		summary += fmt.Sprintf(" Of them, %s an override meanwhile.", has(c.Overridden))
	}
	return summary
}

func has(n int64) string {
	if n == 1 {
		return "1 has"
	}
	return Group(n) + " have"
}

// String is what a person reads on a terminal.
func (c Compared) String() string {
	var out strings.Builder
	out.WriteString(Wrap(c.Summary(), 79) + "\n")
	if c.Earlier+c.Later == 0 {
		return out.String()
	}
	out.WriteString("\nA  →  B   CUSTOMERS\n")
	for _, s := range c.Shifts {
		change := ""
		if s.From != s.To {
			change = fmt.Sprintf("  %+d", s.To-s.From)
		}
		fmt.Fprintf(&out, "%-3d→%3d  %10s%s\n", s.From, s.To, Group(s.Customers), change)
	}
	if len(c.Examples) > 0 {
		out.WriteString("\nA  →  B       COUNT  FOR EXAMPLE\n")
	}
	for _, e := range c.Examples {
		about := ""
		if e.Tier != "" {
			about += ", tier " + Shown(e.Tier)
		}
		if e.Overridden {
			about += ", overridden"
		}
		fmt.Fprintf(&out, "%-3d→%3d  %10s  %s%s\n", e.From, e.To, Group(e.Count), Shown(e.Exact()), about)
	}
	return out.String()
}
