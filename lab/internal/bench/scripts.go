package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
)

// scripts measures the scripts of the calls that count what is pending.
type scripts struct {
	*bench
	server *server
	store  *priority.RedisStore // of an AutoPipeliner that counts what it sends
	ids    []string             // of acme's documents
}

// measureScripts measures what it costs to count what is pending, where that is
// little and where it is much.
func measureScripts(ctx context.Context, b *bench) (*report, error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	client, sent := server.countingClient()
	defer client.Close()
	batching, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	store, err := priority.NewRedisStore(batching, &priority.RedisOptions{Timeout: patience, Lease: time.Hour})
	if err != nil {
		return nil, err
	}
	reading, err := priority.NewRedisStore(batching, &priority.RedisOptions{Timeout: patience, Lease: time.Hour, Overrides: true})
	if err != nil {
		return nil, err
	}
	p := &scripts{bench: b, server: server, store: store, ids: customerNames(b.pending)}
	overridden := &scripts{bench: b, server: server, store: reading, ids: p.ids}

	perCustomer, perDocument, err := p.memory(ctx)
	if err != nil {
		return nil, err
	}
	names := customerNames(b.customers)
	if err := decideAll(ctx, b.callers, names, p.submit(invoiceOf)); err != nil {
		return nil, err
	}
	if _, err := store.SubmitN(ctx, "acme", p.ids, nil); err != nil {
		return nil, err
	}
	one, many := b.picked(names), b.picked(p.ids)
	var loads []timed
	for _, load := range []struct {
		of     documents
		decide decide
	}{
		{one, next(store)},
		{one, p.submit(invoiceOf)}, {one, p.submitAndDone(invoiceOf)}, {one, p.peek(invoiceOf)},
		{many, p.submit(ofAcme)}, {many, p.submitAndDone(ofAcme)}, {many, p.peek(ofAcme)},
	} {
		loads = append(loads, timed{server, sent, load.of, b.together(load.decide)})
	}
	loads = append(loads, timed{server, sent, one.tenth(), b.together(p.submitFifty)})
	loads = append(loads, timed{server, sent, one, b.together(overridden.submitAndDone(invoiceOf))})
	times, err := b.serverTimes(ctx, "scripts, server time", loads)
	if err != nil {
		return nil, err
	}
	r := p.report(times[0], times[1:4], times[4:7])
	each := make(samples, len(times[7])) // a document
	for i, microseconds := range times[7] {
		each[i] = microseconds / fifty
	}
	r.grids = append(r.grids,
		grid{{"SubmitN of 50", "server time a document", "µs"}, {"documents again", each.over(times[0]).String(), tenths(each.median())}},
		grid{{"bytes of Redis", ""}, {"a customer with one pending document", whole(perCustomer)}, {"each further document of many", whole(perDocument)}})
	r.grids[0] = append(r.grids[0], []string{
		"Submit and Done, overrides read", times[8].over(times[0]).String(), tenths(times[8].median()), "", "",
	})
	r.bars = append(r.bars,
		bar{what: "SubmitN of 50, a document, to Next", figure: each.over(times[0]).median(), bound: 1},
		bar{what: "Submit and Done, overrides read, to without", figure: times[8].over(times[2]).median(), bound: 1.15},
		bar{what: "bytes of a customer with one pending document", figure: perCustomer, bound: 300})
	return r, nil
}

// memory returns the bytes of a customer with one pending document, and of each document
// of a customer with many.
func (p *scripts) memory(ctx context.Context) (perCustomer, perDocument float64, err error) {
	perCustomer, err = p.server.memoryOfCustomers(ctx, p.callers, customerNames(p.customers), p.submit(invoiceOf))
	if err != nil {
		return 0, 0, err
	}
	perDocument, err = p.server.memoryOfCustomers(ctx, p.callers, p.ids, p.submit(ofAcme))
	return perCustomer, perDocument, err
}

// submitFifty submits fifty documents of each customer at once.
func (p *scripts) submitFifty(ctx context.Context, customer string) error {
	_, err := p.store.SubmitN(ctx, "many "+customer, p.ids[:fifty], nil) // others stay with one document
	return err
}

const fifty = 50

// tenth returns a part of each slice, for calls that do more.
func (d documents) tenth() (part documents) {
	for _, slice := range d.slices {
		part.slices = append(part.slices, slice[:len(slice)/10])
	}
	return part
}

// picked returns slices of names that are picked at random.
func (b *bench) picked(names []string) (picked documents) {
	random := rand.New(rand.NewPCG(1, uint64(len(names))))
	for range b.decisions / b.slice {
		slice := make([]string, b.slice)
		for i := range slice {
			slice[i] = names[random.IntN(len(names))]
		}
		picked.slices = append(picked.slices, slice)
	}
	return picked
}

// about is a document that a call is about, by the name in a load: one of each customer, or each
// of acme's.
type about func(name string) (customer, document string)

func invoiceOf(name string) (customer, document string) { return name, "invoice" }

func ofAcme(name string) (customer, document string) { return "acme", name }

func (p *scripts) submit(about about) decide {
	return func(ctx context.Context, name string) error {
		customer, document := about(name)
		_, err := p.store.Submit(ctx, customer, document, 0)
		return err
	}
}

func (p *scripts) submitAndDone(about about) decide {
	return func(ctx context.Context, name string) error {
		customer, document := about(name)
		if _, err := p.store.Submit(ctx, customer, "another "+document, 0); err != nil {
			return err
		}
		_, err := p.store.Done(ctx, customer, "another "+document, 0)
		return err
	}
}

func (p *scripts) peek(about about) decide {
	return func(ctx context.Context, name string) error {
		customer, _ := about(name)
		_, err := p.store.Peek(ctx, customer)
		return err
	}
}

func (p *scripts) report(next samples, one, many []samples) *report {
	all := whole(float64(len(p.ids)))
	g := grid{{"server time", "one pending", "µs", all + " pending", "µs"}}
	for i, name := range []string{"Submit, again", "Submit and Done", "Peek"} {
		g = append(g, []string{
			name, one[i].over(next).String(), tenths(one[i].median()), many[i].over(next).String(), tenths(many[i].median()),
		})
	}
	return &report{
		title: "scripts",
		notes: fmt.Sprintf(`Server time of the calls that count what is pending, as a ratio to Next (%s µs) for customers
			with one pending document: medians of %d rounds, with the least and the most, measured as for the peers, for customers or documents
			picked at random. "Again" is a document that is pending.`, tenths(next.median()), p.rounds),
		grids: []grid{g},
		bars: []bar{
			{what: "Submit and Done, " + all + " pending, to one", figure: many[1].over(one[1]).median(), bound: 1.5},
			{what: "Submit and Done, to Next", figure: one[1].over(next).median(), bound: 5},
			{what: "Submit again, to Next", figure: one[0].over(next).median(), bound: 3},
			{what: "Peek, to Next", figure: one[2].over(next).median(), bound: 2.9},
		},
	}
}
