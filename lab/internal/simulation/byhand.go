package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
)

// byHand gives levels as teams do in some twenty lines of their own: by how many documents of the
// customer are pending, one more for each that arrives and one less for each Done; or, with a
// window, by how many arrived in it, which needs no Done, as sidekiq-fair_tenant counts
// (https://github.com/Envek/sidekiq-fair_tenant, read 2026-11-26). Nothing ends a count whose Done
// is lost. A failover costs it nothing here, which favors it. While Redis cannot be reached a
// document gets level 1 and is not counted.
type byHand struct {
	work     *Workload
	window   time.Duration     // 0: by those that are pending
	counts   []int64           // by customer
	sent     [][]time.Duration // in the window, by customer
	lostDone float64
	losses   *rand.Rand
}

const (
	byHandLevels = 9

	// Level l ends at step^l documents: the steps that score best.
	pendingStep, sentStep = 2, 3
)

func newByHand(w *Workload, o Options, seed uint64, window time.Duration) *byHand {
	return &byHand{
		work: w, window: window, lostDone: o.LostDone, losses: rand.New(rand.NewPCG(seed, streamOfLosses)),
		counts: make([]int64, len(w.Customers)), sent: make([][]time.Duration, len(w.Customers)),
	}
}

func (b *byHand) Submit(document int, now time.Duration) (priority.Level, error) {
	customer := b.work.Documents[document].Customer
	if !b.add(customer, 1, now) {
		return priority.First, nil
	}
	count, step := b.counts[customer], int64(pendingStep)
	if b.window > 0 {
		sent := append(b.sent[customer], now)
		for sent[0] <= now-b.window {
			sent = sent[1:]
		}
		b.sent[customer], count, step = sent, int64(len(sent)), sentStep
	}
	level := priority.First
	for most := step; count > most && level < byHandLevels; most *= step {
		level++
	}
	return level, nil
}

func (b *byHand) Done(document int, now time.Duration) error {
	if b.lostDone > 0 && b.losses.Float64() < b.lostDone {
		return nil
	}
	b.add(b.work.Documents[document].Customer, -1, now)
	return nil
}

// add adds to a customer's count, if Redis can be reached. After a lost call of Submit it may be below 0.
func (b *byHand) add(customer int32, n int64, now time.Duration) (reached bool) {
	if now >= b.work.Outage.From && now < b.work.Outage.To {
		return false
	}
	b.counts[customer] += n
	return true
}
