package simulation

// order keeps the order of each customer's documents: none gets a better level than
// an earlier one of the same customer that still waits. It is an experiment: the
// store is not told, and goes on as if its own levels had been given. With consumers
// that are not strict, documents may still overtake.
type order struct {
	documents []Document
	waiting   []int32 // by customer
	last      []uint8 // by customer: the level of the document that came last
}

func newOrder(w *Workload) *order {
	return &order{documents: w.Documents, waiting: make([]int32, len(w.Customers)), last: make([]uint8, len(w.Customers))}
}

// submitted returns the level of a document that arrives, given the one that it
// would have.
func (o *order) submitted(document int, level uint8) uint8 {
	customer := o.documents[document].Customer
	if o.waiting[customer] > 0 {
		level = max(level, o.last[customer])
	}
	o.waiting[customer]++
	o.last[customer] = level
	return level
}

// started says that a document waits no more.
func (o *order) started(document int) { o.waiting[o.documents[document].Customer]-- }
