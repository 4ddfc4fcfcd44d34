package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/named"
)

// scripts measures the scripts of the calls that count what is pending.
type scripts struct {
	store *priority.RedisStore // of an AutoPipeliner that counts what it sends
	ids   []string             // of acme's documents
}

// measureScripts measures what it costs to count what is pending, where that is
// little and where it is much.
func measureScripts(ctx context.Context, b *bench) (*report, error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	client, sent := redis.NewClient(&redis.Options{Addr: server.Addr}), new(sentCommands)
	client.AddHook(sent)
	defer client.Close()
	batching, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	p := &scripts{ids: customerNames(b.pending)}
	if p.store, err = priority.NewRedisStore(batching, &priority.RedisOptions{Timeout: patience, Lease: time.Hour}); err != nil {
		return nil, err
	}
	overridden := new(scripts)
	overridden.store, err = priority.NewRedisStore(batching, &priority.RedisOptions{Timeout: patience, Lease: time.Hour, Overrides: true})
	if err != nil {
		return nil, err
	}
	names := customerNames(b.customers)
	perCustomer, err := server.memoryOfCustomers(ctx, b.callers, names, p.submit(invoiceOf))
	if err != nil {
		return nil, err
	}
	perDocument, err := server.memoryOfCustomers(ctx, b.callers, p.ids, p.submit(ofAcme))
	if err != nil {
		return nil, err
	}
	if err := decideAll(ctx, b.callers, names, p.submit(invoiceOf)); err != nil {
		return nil, err
	}
	if _, err := p.store.SubmitN(ctx, "acme", named.Documents(p.ids...)); err != nil {
		return nil, err
	}
	one, many := b.picked(names), b.picked(p.ids)
	var loads []timed
	for _, load := range []struct {
		of     documents
		decide decide
	}{
		{one, next(p.store)},
		{one, p.submit(invoiceOf)}, {one, p.submitAndDone(invoiceOf)}, {one, p.peek(invoiceOf)},
		{many, p.submit(ofAcme)}, {many, p.submitAndDone(ofAcme)}, {many, p.peek(ofAcme)},
		{one.tenth(), p.submitFifty}, {one, overridden.submitAndDone(invoiceOf)},
	} {
		loads = append(loads, timed{server, sent, load.of, b.together(load.decide)})
	}
	times, err := b.serverTimes(ctx, "scripts, server time", loads)
	if err != nil {
		return nil, err
	}
	each := make(samples, b.rounds) // a document
	for i, microseconds := range times[7] {
		each[i] = microseconds / fifty
	}
	return scriptReport(b, times[0], times[1:4], times[4:7], each, times[8], perCustomer, perDocument), nil
}

// submitFifty submits fifty documents of each customer at once.
func (p *scripts) submitFifty(ctx context.Context, customer string) error {
	_, err := p.store.SubmitN(ctx, "many "+customer, named.Documents(p.ids[:fifty]...)) // others stay with one document
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
		_, err := p.store.Submit(ctx, customer, priority.Document{ID: document})
		return err
	}
}

func (p *scripts) submitAndDone(about about) decide {
	return func(ctx context.Context, name string) error {
		customer, document := about(name)
		if _, err := p.store.Submit(ctx, customer, priority.Document{ID: "another " + document}); err != nil {
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

func scriptReport(b *bench, next samples, one, many []samples, each, overridden samples, perCustomer, perDocument float64) *report {
	all := whole(float64(b.pending))
	server := grid{{"server time", "one pending", "µs", all + " pending", "µs"}}
	for i, name := range []string{"Submit, again", "Submit and Done", "Peek"} {
		server = append(server, []string{
			name, one[i].over(next).String(), tenths(one[i].median()), many[i].over(next).String(), tenths(many[i].median()),
		})
	}
	return &report{
		title: "scripts",
		notes: fmt.Sprintf(`Server time of the calls that count what is pending, as a ratio to Next (%s µs) for customers
			with one pending document: medians of %d rounds, with the least and the most, measured as for the peers, for customers or documents
			picked at random. "Again" is a document that is pending.`, tenths(next.median()), b.rounds),
		grids: []grid{
			append(server, []string{"Submit and Done, overrides read", overridden.over(next).String(), tenths(overridden.median()), "", ""}),
			{{"SubmitN of 50", "server time a document", "µs"}, {"documents again", each.over(next).String(), tenths(each.median())}},
			{{"bytes of Redis", ""}, {"a customer with one pending document", whole(perCustomer)}, {"each further document of many", whole(perDocument)}},
		},
		bars: []bar{
			{what: "Submit and Done, " + all + " pending, to one", figure: many[1].over(one[1]).median(), bound: 1.5},
			{what: "Submit and Done, to Next", figure: one[1].over(next).median(), bound: 5},
			{what: "Submit again, to Next", figure: one[0].over(next).median(), bound: 3},
			{what: "Peek, to Next", figure: one[2].over(next).median(), bound: 2.9},
			{what: "SubmitN of 50, a document, to Next", figure: each.over(next).median(), bound: 1},
			{what: "Submit and Done, overrides read, to without", figure: overridden.over(one[1]).median(), bound: 1.15},
			{what: "bytes of a customer with one pending document", figure: perCustomer, bound: 300},
		},
	}
}
