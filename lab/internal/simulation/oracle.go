package simulation

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/docpriority/priority"
)

// oracle gives levels at arrival that somebody chose who knows all that will come.
// There are three; the best of them for a figure is an example of what a level at
// arrival can reach there. It is no proof that none reaches more: one that also
// ordered the documents by their service times would do better in most figures, and
// none of the three is the best choice of levels for the figure that it is shown
// for. What an oracle does not reach either is hard to reach; what submit reaches
// beyond an oracle only shows that this one was not the best.
type oracle []uint8 // by document

func (o oracle) Submit(document int, _ time.Duration) (priority.Level, error) {
	return priority.Level(o[document]), nil
}

func (oracle) Done(int, time.Duration) error { return nil }

// newOracleOfSize gives a level to a customer: level 1 to those who never flood,
// and later ones to the others, by how much they flood in all. Somebody floods who
// sends more than their max-min fair share of the servers within one of the spans
// of 30 mean service times that follow each other, as a minute for documents of
// 2 s. The fair share of the whole time measured would not do: most floods are
// small enough to be served within it.
func newOracleOfSize(w *Workload, servers int, last priority.Level) oracle {
	excess := excessOf(w, servers)
	var flooders []int
	for customer, e := range excess {
		if e > 0 {
			flooders = append(flooders, customer)
		}
	}
	slices.SortStableFunc(flooders, func(a, b int) int { return cmp.Compare(excess[a], excess[b]) })
	levels := make([]uint8, len(w.Customers))
	for customer := range levels {
		levels[customer] = uint8(priority.First)
	}
	for i, customer := range flooders {
		levels[customer] = uint8(int(last) - (len(flooders)-1-i)*(int(last)-1)/len(flooders))
	}
	o := make(oracle, len(w.Documents))
	for i, d := range w.Documents {
		o[i] = levels[d.Customer]
	}
	return o
}

// excessOf returns by how much the customers exceed their fair shares of all spans,
// in seconds of service.
func excessOf(w *Workload, servers int) []float64 {
	span := 30 * w.meanService()
	excess, demands := make([]float64, len(w.Customers)), make([]float64, len(w.Customers))
	for first := 0; first < len(w.Documents); {
		number := w.Documents[first].Submitted / span
		end := first
		for ; end < len(w.Documents) && w.Documents[end].Submitted/span == number; end++ {
			demands[w.Documents[end].Customer] += w.Documents[end].Service.Seconds()
		}
		var senders []int
		var sent []float64
		for _, d := range w.Documents[first:end] {
			if demand := demands[d.Customer]; demand > 0 {
				senders, sent = append(senders, int(d.Customer)), append(sent, demand)
				demands[d.Customer] = 0
			}
		}
		for i, fair := range maxMinFair(sent, float64(servers)*span.Seconds()) {
			excess[senders[i]] += sent[i] - fair
		}
		first = end
	}
	return excess
}

// newOracleOfShares gives level 1 to so many of each customer's documents as their
// max-min fair share of the time measured can serve, evenly spread over them, and
// the last level to the rest. It is for overload: then level 1 is just what the
// servers can do, and the rest is never reached.
func newOracleOfShares(w *Workload, servers int, last priority.Level) oracle {
	demands := make([]float64, len(w.Customers))
	for i := range w.measured() {
		demands[w.Documents[i].Customer] += w.Documents[i].Service.Seconds()
	}
	fair := maxMinFair(demands, float64(servers)*(w.To-w.From).Seconds())
	due := make([]float64, len(w.Customers)) // of the share, in documents
	o := make(oracle, len(w.Documents))
	for i, d := range w.Documents {
		share := 1.0
		if demands[d.Customer] > 0 {
			share = fair[d.Customer] / demands[d.Customer]
		}
		o[i] = uint8(last)
		if due[d.Customer] += share; due[d.Customer] >= 1-1e-9 {
			due[d.Customer]--
			o[i] = uint8(priority.First)
		}
	}
	return o
}

// newOracleOfWaits gives a level to a document by how long it would wait under round
// robin, which knows the queues: level 1 up to 5 mean service times, and from there
// to the longest wait, of the last level, in equal steps of the logarithm. So the
// first documents of a burst come before the rest of it, and of others.
func newOracleOfWaits(w *Workload, servers int, last priority.Level) (oracle, error) {
	starts, err := Run(w, servers, newRoundRobin(w))
	if err != nil {
		return nil, err
	}
	longest := 0.0
	for i, d := range w.Documents {
		longest = max(longest, (starts[i] - d.Submitted).Seconds())
	}
	from := 5 * w.meanService().Seconds()
	step := math.Log(max(longest/from, 2)) / float64(max(last-1, 1))
	o := make(oracle, len(w.Documents))
	for i, d := range w.Documents {
		level := 1 + math.Ceil(math.Log(max((starts[i]-d.Submitted).Seconds()/from, 1))/step)
		o[i] = uint8(min(int(level), int(last)))
	}
	return o, nil
}
