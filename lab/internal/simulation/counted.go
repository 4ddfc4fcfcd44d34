package simulation

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/memory"
)

// counted gives the levels that the module's own store gives: by Next, or by Submit with a
// Done at the end of each service.
type counted struct {
	counting counting
	work     *Workload
	clock    *clock
	store    store
	lostDone float64
	losses   *rand.Rand
}

// counting is a way to count documents, by its name.
type counting struct {
	byLoad bool // by Submit
	levels int  // of the policy; 0: as it is
	tiers  bool // the loads are multiplied by the customer's weight

	costs    bool // Submit knows what a document costs
	delays   bool // Submit knows when a document is due
	accounts bool // customers are users of accounts
	inOrder  bool // a customer's documents stay in order
}

// newCounting reads a name: Rule or Submit, "submit/22" with so many levels, and
// "submit/22+cost" with the cost on arrival, or what else the module is told.
func newCounting(name string) (c counting, ok bool) {
	name, c.tiers = strings.CutSuffix(name, "*weight")
	name, option, told := strings.Cut(name, "+")
	switch option {
	case "":
	case "cost":
		c.costs = true
	case "delay":
		c.delays = true
	case "accounts":
		c.accounts = true
	case "order":
		c.inOrder = true
	default:
		return c, false
	}
	name, levels, own := strings.Cut(name, "/")
	if own {
		var err error
		if c.levels, err = strconv.Atoi(levels); err != nil || c.levels < 1 || c.levels > mostLevels {
			return c, false
		}
	}
	c.byLoad = name == Submit
	return c, c.byLoad || name == Rule && !told && !c.tiers
}

const mostLevels = 255

// policy returns the policy with the levels of its own that the way to count has: the
// default table of so many, and turns in what is more than six.
func (c counting) policy(p priority.Policy) priority.Policy {
	p.InOrder = c.inOrder
	if c.levels == 0 {
		return p
	}
	thresholds := priority.DefaultPolicy().Thresholds
	p.Thresholds = thresholds[:min(c.levels-1, len(thresholds))]
	p.Loads = fair.Loads(c.levels)
	p.Turns = c.levels - 1 - len(p.Loads)
	return p
}

// store is what is called of a priority.Store.
type store interface {
	Next(ctx context.Context, customer string) (priority.Decision, error)
	Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error)
	Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error)
}

// clock is the virtual time as the module sees it.
type clock struct{ now time.Duration }

func (c *clock) Now() time.Time { return time.Unix(0, int64(c.now)) }

// newCounted returns one with a store in memory, and with the workload's outage or
// failover. The seed decides which Dones are lost.
func newCounted(counting counting, w *Workload, o Options, seed uint64) (*counted, error) {
	c := &counted{
		counting: counting,
		work:     w,
		clock:    new(clock),
		lostDone: o.LostDone,
		losses:   rand.New(rand.NewPCG(seed, streamOfLosses)),
	}
	options := memory.Options{Policy: o.Policy, Accounts: counting.accounts, Now: c.clock.Now}
	if counting.tiers {
		options.PolicyOf = policyOf(w, o.Policy)
	}
	var err error
	if w.Outage.To > 0 || w.Failover.To > 0 {
		c.store, err = newTroubled(w, options, c.clock)
	} else {
		c.store, err = memory.New(&options)
	}
	return c, err
}

func (c *counted) Submit(document int, now time.Duration) (priority.Level, error) {
	c.clock.now = now
	var decision priority.Decision
	var err error
	if c.counting.byLoad {
		decision, err = c.store.Submit(context.Background(), c.customerOf(document), c.told(document, now))
	} else {
		decision, err = c.store.Next(context.Background(), c.customerOf(document))
	}
	return decision.Level, err
}

// told is what Submit is told of a document.
func (c *counted) told(document int, now time.Duration) priority.Document {
	told := priority.Document{ID: strconv.Itoa(document)}
	if c.counting.costs {
		told.Cost = c.work.Documents[document].Service.Seconds()
	}
	if c.counting.delays {
		told.Delay = c.work.Documents[document].Submitted - now
	}
	return told
}

func (c *counted) Done(document int, now time.Duration) error {
	c.clock.now = now
	if !c.counting.byLoad || c.lostDone > 0 && c.losses.Float64() < c.lostDone {
		return nil
	}
	_, err := c.store.Done(context.Background(), c.customerOf(document), strconv.Itoa(document), c.work.Documents[document].Service)
	return err
}

// policyOf returns the policies of customers by their weights: the loads of one with twice the
// weight are twice as high.
func policyOf(w *Workload, policy priority.Policy) func(customer string) priority.Policy {
	policies := make(map[string]priority.Policy)
	for customer, weight := range w.Weights {
		weighted := policy.WithDefaults()
		for i := range weighted.Loads {
			weighted.Loads[i] *= weight
		}
		policies[w.Customers[customer]] = weighted
	}
	return func(customer string) priority.Policy {
		if weighted, ok := policies[customer]; ok {
			return weighted
		}
		return policy
	}
}

func (c *counted) customerOf(document int) string {
	return c.work.Customers[c.work.Documents[document].Customer]
}
