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
	"github.com/docpriority/priority/internal/insight/census"
)

// Comparison goes through all customers once, and finds who would go before whom by
// other rules. It is not safe for concurrent use.
type Comparison struct {
	inspector *Inspector
	options   ComparisonOptions

	walk     *census.Walk
	keys     int64 // of the servers, when the walk began
	looked   int64
	met      map[string]struct{}
	order    order
	examples map[[2]priority.Level][]Example // by the levels
	found    Compared
}

// mostRemembered bounds how many customers are remembered to recognize those who come
// twice: some 30 MB.
const mostRemembered = 200_000

// ComparisonOptions say how to go through the customers.
type ComparisonOptions struct {
	Pace     int // how many keys a second are looked at; 0: as fast as Redis answers
	Examples int // how many of the customers whose order changes to name
}

// Compared is what a Comparison has found. The levels are what a document that arrives
// now would get, by the rule that its customer is counted by, without overrides.
type Compared struct {
	A         control.Rules `json:"a"`
	B         control.Rules `json:"b"`
	AName     string        `json:"a_name"`
	BName     string        `json:"b_name"`
	Customers int64         `json:"customers"`
	Corrupt   int64         `json:"corrupt"`

	// Forward is how many customers go before more others than after, by B and not by
	// A, and Back for how many it is the other way round.
	Forward int64 `json:"forward"`
	Back    int64 `json:"back"`
	Pairs   Pairs `json:"pairs"`

	Shifts   []Shift   `json:"shifts"`   // by level
	Examples []Example `json:"examples"` // customers with the most changes first
}

// Example is a customer who would go before or after others.
type Example struct {
	Name
	State
	Tier   string         `json:"tier,omitempty"`
	From   priority.Level `json:"from"`
	To     priority.Level `json:"to"`
	Before int64          `json:"before"` // as in a Shift
	After  int64          `json:"after"`
}

// NewComparison returns a Comparison that has looked at nothing yet. Tiers come from
// the inspector's store and what operators have set. An error wraps
// [priority.ErrInvalid].
func NewComparison(inspector *Inspector, a, b NamedRules, options ComparisonOptions) (*Comparison, error) {
	c := &Comparison{inspector: inspector, options: options}
	c.found = Compared{A: a.Rules, B: b.Rules, AName: a.Name, BName: b.Name}
	for _, rules := range []NamedRules{a, b} {
		if err := rules.Policy.ValidateTiers(rules.Tiers); err != nil {
			return nil, fmt.Errorf("%s: %w", rules.Name, err)
		}
	}
	return c, nil
}

// Advance continues until it has looked at all customers, which it reports, or until
// the deadline, if that is not zero. After an error, which is go-redis's or the
// context's, it starts again.
func (c *Comparison) Advance(ctx context.Context, deadline time.Time) (done bool, err error) {
	if c.walk == nil {
		if c.walk, err = c.inspector.Walk(ctx, census.Options{Pace: c.options.Pace}, ""); err != nil {
			return false, err
		}
		c.keys, _ = c.walk.Keys(ctx) // without the right to DBSIZE there is no progress to show
		c.looked, c.met = 0, make(map[string]struct{})
		c.order, c.examples = order{}, make(map[[2]priority.Level][]Example)
		c.found = Compared{A: c.found.A, B: c.found.B, AName: c.found.AName, BName: c.found.BName}
	}
	for {
		entries, err := c.walk.Next(ctx, c.inspector.Store)
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			c.walk = nil // the servers may have changed
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

// Progress returns about how many percent are done.
func (c *Comparison) Progress() int {
	return int(min(100*c.looked/max(c.keys, 1), 100))
}

// Found returns what was found so far.
func (c *Comparison) Found() Compared {
	found := c.found
	found.Shifts, found.Pairs = c.order.shifts()
	found.Examples = []Example{}
	for _, s := range found.Shifts {
		switch s.Direction() {
		case -1:
			found.Forward += s.Customers
		case 1:
			found.Back += s.Customers
		}
		if s.Before+s.After == 0 {
			continue
		}
		for _, example := range c.examples[[2]priority.Level{s.From, s.To}] {
			example.Before, example.After = s.Before, s.After
			found.Examples = append(found.Examples, example)
		}
	}
	slices.SortFunc(found.Examples, func(x, y Example) int {
		return cmp.Or(cmp.Compare(y.Before+y.After, x.Before+x.After), strings.Compare(x.Exact(), y.Exact()))
	})
	found.Examples = found.Examples[:min(len(found.Examples), c.options.Examples)]
	return found
}

func (c *Comparison) policyOf(rules control.Rules, customer string) priority.Policy {
	policy, ok := rules.Tiers[c.inspector.tier(customer)]
	if !ok {
		policy = rules.Policy
	}
	return policy.WithDefaults()
}

func (c *Comparison) add(entry census.Entry) {
	if len(c.met) < mostRemembered {
		if _, again := c.met[entry.Customer]; again {
			return // SCAN may meet a key twice
		}
		c.met[entry.Customer] = struct{}{}
	}
	if entry.Corrupt != "" {
		c.found.Corrupt++
		return
	}
	from, to := levelBy(c.policyOf(c.found.A, entry.Customer), entry.State), levelBy(c.policyOf(c.found.B, entry.Customer), entry.State)
	c.found.Customers++
	c.order.add(from, to)
	// Only the end shows whom the order of these levels concerns.
	levels := [2]priority.Level{from, to}
	if examples := c.examples[levels]; len(examples) < c.options.Examples {
		state := stateOf(entry.State)
		example := Example{Name: NameOf(entry.Customer), State: state, Tier: c.inspector.tier(entry.Customer), From: from, To: to}
		c.examples[levels] = append(examples, example)
	}
}

// Summary says in a few sentences what was found.
func (c Compared) Summary() string {
	customers, changed := Plural(c.Customers, "customer"), c.Pairs.Changed()
	switch {
	case c.Customers == 0:
		return "Nothing is known of any customer now."
	case changed == 0:
		return fmt.Sprintf("The order of %s does not change.", customers)
	}
	pairs := fmt.Sprintf("%s of %s (%s)", Group(changed), Plural(c.Pairs.All, "pair"), Percent(float64(changed)/float64(c.Pairs.All)))
	if changed == c.Pairs.Merged {
		return fmt.Sprintf("Of %s, none would overtake another: levels are merged. In %s, two levels become one.", customers, pairs)
	}
	return fmt.Sprintf("Of %s, %s would move forward, and %s back. The order of %s changes: %s reversed, %s split, %s merged.",
		customers, Group(c.Forward), Group(c.Back), pairs, Group(c.Pairs.Reversed), Group(c.Pairs.Split), Group(c.Pairs.Merged))
}

// String is what a person reads on a terminal.
func (c Compared) String() string {
	var out strings.Builder
	out.WriteString(Wrap(c.Summary(), 79) + "\n")
	if c.Pairs.Changed() == 0 {
		return out.String()
	}
	out.WriteString("\nA  →  B   CUSTOMERS      BEFORE       AFTER\n")
	for _, s := range c.Shifts {
		fmt.Fprintf(&out, "%-3d→%3d  %10s  %10s  %10s\n", s.From, s.To, Group(s.Customers), Group(s.Before), Group(s.After))
	}
	if len(c.Examples) > 0 {
		out.WriteString("\nA  →  B  COUNT/LOAD      BEFORE       AFTER  FOR EXAMPLE\n")
	}
	for _, e := range c.Examples {
		about := ""
		if e.Tier != "" {
			about += ", tier " + Shown(e.Tier)
		}
		if e.Overridden() {
			about += ", overridden"
		}
		fmt.Fprintf(&out, "%-3d→%3d  %10s  %10s  %10s  %s%s\n", e.From, e.To, e.Number(), Group(e.Before), Group(e.After), Shown(e.Exact()), about)
	}
	out.WriteString("\nBEFORE, AFTER: how many others each goes before, or after, by B and not by A.\n")
	return out.String()
}
