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
	servers  int
	work     *Workload
	arrivals *rand.Rand // of the steady customers
	extra    *rand.Rand // of the others
	service  func() time.Duration
	length   float64 // of the documents, to the usual ones
	warmUp   time.Duration
	batches  int      // how many documents the steady customers send at a time
	load     float64  // of the steady customers
	account  string   // whose users are added, with a slash
	ids      int      // by which the flooder sends
	ahead    float64  // the share of the steady customers' documents that are enqueued hours before
	arrive   []func() // make the documents, once the time measured is known
}

// measure says which documents are measured: those that come for so long from a
// moment. None come later.
func (d *drawing) measure(from, length time.Duration) {
	d.work.From, d.work.To = from, from+length
}

// times adds customers whose documents take so many times as long as usual.
func (d *drawing) times(length float64, add func()) {
	d.length = length
	add()
	d.length = 1
}

// weigh gives each customer so far a weight, 1, 3 or 10, and a group by it.
func (d *drawing) weigh() {
	d.work.Groups, d.work.Apart = []string{"weight_1", "weight_3", "weight_10"}, []bool{false, false, false}
	for i := range d.work.Customers {
		group := []uint8{0, 1, 2, 0, 1, 0, 0, 1, 2, 0}[i%10]
		d.work.GroupOf[i] = group
		d.work.Weights = append(d.work.Weights, []float64{1, 3, 10}[group])
	}
}

// rate is how many documents a second are a load.
func (d *drawing) rate(load float64) float64 {
	return load * float64(d.servers) / (d.length * usualService.Seconds())
}

// server returns a function that draws how long documents take to serve, length
// times as long as usual.
func (d *drawing) server() func() time.Duration {
	length := d.length
	return func() time.Duration { return time.Duration(length * float64(d.service())) }
}

// steady adds customers who send at random moments, the i-th as often as 1/i^zipf.
func (d *drawing) steady(customers int, zipf, load float64) {
	d.load += load
	d.rush(customers, zipf, load, 0, 0)
}

// rush adds customers as steady does who send only for a while, or always if from
// and to are 0. They do not count for how long a flood takes to drain.
func (d *drawing) rush(customers int, zipf, load float64, from, to time.Duration) {
	first := d.customers(customers)
	upTo := make([]float64, customers) // the shares of the customers up to this one
	total := 0.0
	for i := range customers {
		total += math.Pow(float64(i+1), -zipf)
		upTo[i] = total
	}
	service, gap := d.server(), d.gaps(load/float64(d.batches))
	batches := d.batches
	d.arrive = append(d.arrive, func() {
		if to == 0 {
			to = d.work.To
		}
		for at := from + gap(); at < to; at += gap() {
			who := sort.SearchFloat64s(upTo, d.arrivals.Float64()*total)
			for range batches {
				var ahead time.Duration
				if d.ahead > 0 && d.extra.Float64() < d.ahead {
					ahead = min(seconds(3600*(1+3*d.extra.Float64())).Truncate(time.Millisecond), at)
				}
				d.addAhead(first+who, at, service(), ahead)
			}
		}
	})
}

// unequal adds customers who send equally often, and whose documents take 1/i^zipf
// as long as the first customer's.
func (d *drawing) unequal(customers int, zipf, load float64) {
	total := 0.0
	for i := range customers {
		total += math.Pow(float64(i+1), -zipf)
	}
	for i := range customers {
		share := math.Pow(float64(i+1), -zipf) / total
		d.times(share*float64(customers), func() { d.steady(1, 0, load*share) })
	}
}

// bursts adds customers who all send equally many bursts, of 1 to most documents
// with a uniform logarithm.
func (d *drawing) bursts(customers, most int, load float64) {
	d.load += load
	first := d.customers(customers)
	service := d.server()
	mean := float64(most-1) / math.Log(float64(most))
	gap := d.gaps(load / mean)
	d.arrive = append(d.arrive, func() {
		for at := gap(); at < d.work.To; at += gap() {
			who := d.arrivals.IntN(customers)
			for range int(math.Pow(float64(most), d.arrivals.Float64()) + 0.5) {
				d.add(first+who, at, service())
			}
		}
	})
}

// customers adds customers to the group of others.
func (d *drawing) customers(n int) (first int) {
	first = len(d.work.Customers)
	for i := range n {
		d.work.Customers = append(d.work.Customers, d.account+"c"+strconv.Itoa(first+i+1))
		d.work.GroupOf = append(d.work.GroupOf, 0)
	}
	return first
}

// apart adds customers who are a group of their own, which the first has the name of.
func (d *drawing) apart(group string, n int) (first int) {
	first = d.customers(n)
	d.work.Customers[first] = d.account + group
	d.work.setApart(group, first)
	return first
}

// within adds customers who are users of one account.
func (d *drawing) within(account string, add func()) {
	d.account = account + "/"
	add()
	d.account = ""
}

// users adds equal steady customers who are a group of their own.
func (d *drawing) users(n int, load float64) {
	first := len(d.work.Customers)
	d.steady(n, 0, load)
	d.work.setApart(Users, first)
}

// gaps returns a function that draws the time between two arrivals of a load.
func (d *drawing) gaps(load float64) func() time.Duration {
	rate := d.rate(load)
	return func() time.Duration { return seconds(d.arrivals.ExpFloat64() / rate) }
}

// flood adds a customer who sends documents from the end of the warm-up on, at a
// rate a second, or all at once if that is 0. What comes until the backlog
// should be gone, and 15 % longer, is measured.
func (d *drawing) flood(documents int, rate float64) {
	drained := float64(documents) / d.rate(1-d.load)
	d.measure(d.warmUp, seconds(1.15*drained).Round(time.Minute))
	flooder, service, ids := d.apart(Flooder, d.ids), d.server(), d.ids
	d.arrive = append(d.arrive, func() {
		at := d.warmUp
		for i := range documents {
			if rate > 0 {
				at += seconds(d.extra.ExpFloat64() / rate)
			}
			d.add(flooder+i%ids, at, service())
		}
	})
}

// burst adds a customer, a group of their own, who sends documents at once.
func (d *drawing) burst(group string, documents int, at time.Duration) {
	customer := d.apart(group, 1)
	d.arrive = append(d.arrive, func() {
		for range documents {
			d.add(customer, at, d.service())
		}
	})
}

// slices adds a customer, a group of their own, who sends documents at once at the end of the
// warm-up, and a slice more so many times, one every.
func (d *drawing) slices(group string, documents, slice int, every time.Duration, more int) {
	customer := d.apart(group, 1)
	d.arrive = append(d.arrive, func() {
		for range documents {
			d.add(customer, d.warmUp, d.service())
		}
		for i := range more * slice {
			d.add(customer, d.warmUp+every*time.Duration(i/slice+1), d.service())
		}
	})
}

// planner adds a steady customer, a group of their own, who enqueues so many more documents at once
// that are all due later.
func (d *drawing) planner(load float64, documents int, enqueued, due time.Duration) {
	customer := len(d.work.Customers)
	d.steady(1, 0, load)
	d.work.setApart(Planner, customer)
	d.arrive = append(d.arrive, func() {
		for range documents {
			d.addAhead(customer, due, d.service(), due-enqueued)
		}
	})
}

// heavy adds a customer whose documents take long, at a load for so long.
func (d *drawing) heavy(service time.Duration, load float64, length time.Duration) {
	d.measure(warmUp, length)
	customer := d.apart(Flooder, 1)
	between := service.Seconds() / (load * float64(d.servers))
	d.arrive = append(d.arrive, func() {
		for at := warmUp; at < d.work.To; at += seconds(d.extra.ExpFloat64() * between) {
			d.add(customer, at, service)
		}
	})
}

func (d *drawing) add(customer int, at, service time.Duration) { d.addAhead(customer, at, service, 0) }

func (d *drawing) addAhead(customer int, due, service, ahead time.Duration) {
	d.work.Documents = append(d.work.Documents, Document{int32(customer), due, service, ahead})
}
