package simulation

import (
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"time"
)

// drawing is a workload in the making.
type drawing struct {
	demand   Demand
	work     *Workload
	arrivals *rand.Rand // of the steady customers
	extra    *rand.Rand // of the others
	service  func() time.Duration
	load     float64  // of the steady customers
	arrive   []func() // make the documents, once the time measured is known
}

// measure says which documents are measured: those that come for so long from a
// moment. None come later.
func (d *drawing) measure(from, length time.Duration) {
	d.work.From, d.work.To = from, from+length
}

// rate is how many documents a second are a load.
func (d *drawing) rate(load float64) float64 {
	return load * float64(d.demand.Servers) / d.demand.Service.Mean.Seconds()
}

// steady adds customers who send at random moments, the i-th as often as 1/i^zipf.
func (d *drawing) steady(customers int, zipf, load float64) {
	d.load += load
	first := len(d.work.Customers)
	upTo := make([]float64, customers) // the shares of the customers up to this one
	total := 0.0
	for i := range customers {
		total += math.Pow(float64(i+1), -zipf)
		upTo[i] = total
		d.work.Customers = append(d.work.Customers, "c"+strconv.Itoa(i+1))
		d.work.GroupOf = append(d.work.GroupOf, 0)
	}
	d.arrive = append(d.arrive, func() {
		for at := d.gap(load); at < d.work.To; at += d.gap(load) {
			who := sort.SearchFloat64s(upTo, d.arrivals.Float64()*total)
			d.add(first+who, at, d.service())
		}
	})
}

// strangers adds customers who send one document each.
func (d *drawing) strangers(load float64) {
	d.load += load
	d.arrive = append(d.arrive, func() {
		for at := d.gap(load); at < d.work.To; at += d.gap(load) {
			d.work.Customers = append(d.work.Customers, "c"+strconv.Itoa(len(d.work.Customers)))
			d.work.GroupOf = append(d.work.GroupOf, 0)
			d.add(len(d.work.Customers)-1, at, d.service())
		}
	})
}

func (d *drawing) gap(load float64) time.Duration {
	return seconds(d.arrivals.ExpFloat64() / d.rate(load))
}

// flood adds a customer who sends documents from the end of the warm-up on, at a
// rate a second, or all at once if that is 0. What comes until the backlog
// should be gone, and 15 % longer, is measured.
func (d *drawing) flood(documents int, rate float64) {
	if d.demand.Flood > 0 {
		documents = d.demand.Flood
	}
	drained := float64(documents) / d.rate(1-d.load)
	d.measure(warmUp, seconds(1.15*drained).Round(time.Minute))
	flooder := int(d.work.addApart(Flooder))
	d.arrive = append(d.arrive, func() {
		at := warmUp
		for range documents {
			if rate > 0 {
				at += seconds(d.extra.ExpFloat64() / rate)
			}
			d.add(flooder, at, d.service())
		}
	})
}

// burst adds a customer who sends documents at once.
func (d *drawing) burst(documents int, at time.Duration) {
	customer := int(d.work.addApart(Flooder))
	d.arrive = append(d.arrive, func() {
		for range documents {
			d.add(customer, at, d.service())
		}
	})
}

// heavy adds a customer whose documents take long, at a load for so long.
func (d *drawing) heavy(service time.Duration, load float64, length time.Duration) {
	d.measure(warmUp, length)
	customer := int(d.work.addApart(Flooder))
	between := service.Seconds() / (load * float64(d.demand.Servers))
	d.arrive = append(d.arrive, func() {
		for at := warmUp; at < d.work.To; at += seconds(d.extra.ExpFloat64() * between) {
			d.add(customer, at, service)
		}
	})
}

// pauser adds a customer who sends documents at once, again and again.
func (d *drawing) pauser(documents int, every time.Duration) {
	customer := int(d.work.addApart(Pauser))
	d.arrive = append(d.arrive, func() {
		for at := seconds(d.extra.Float64() * every.Seconds()); at < d.work.To; at += every {
			for range documents {
				d.add(customer, at, d.service())
			}
		}
	})
}

func (d *drawing) add(customer int, at, service time.Duration) {
	d.work.Documents = append(d.work.Documents, Document{int32(customer), at, service})
}
