package bench

import (
	"fmt"
	"math/rand/v2"
)

// documents are what decisions are made about while server time is measured: the
// customers of each, in an order that looks random and is the same in every run.
type documents struct {
	// before are the customers who have a count when a round begins.
	before []string

	// slices are what is measured, each with the same share of new customers.
	// No customer is in a slice twice.
	slices [][]string
}

// newCustomers is how many of a slice's customers are new: one of so many, about
// as in the recorded traffic of a week (one in 21).
const newCustomers = 20

// documents returns slices of some length, of customers whose names begin with
// those who are measured.
func (b *bench) documents(slice int, measured string) documents {
	names := customerNames(b.customers + b.decisions/newCustomers)
	for i := range names {
		names[i] = measured + names[i]
	}
	known, unknown := names[:b.customers], names[b.customers:]
	d := documents{before: known}
	random := rand.New(rand.NewPCG(1, 2))
	for range b.decisions / slice {
		part := make([]string, 0, slice)
		fresh := slice / newCustomers
		part, unknown = append(part, unknown[:fresh]...), unknown[fresh:]
		for _, i := range random.Perm(len(known))[:slice-fresh] {
			part = append(part, known[i])
		}
		random.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		d.slices = append(d.slices, part)
	}
	return d
}

// customerNames returns n names of the usual length.
func customerNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("customer-%06d", i)
	}
	return names
}

// shuffled returns the names in an order that looks random and is the same in
// every run.
func shuffled(names []string) []string {
	order := make([]string, len(names))
	for to, from := range rand.New(rand.NewPCG(1, 2)).Perm(len(names)) {
		order[to] = names[from]
	}
	return order
}
