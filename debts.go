package priority

import (
	"errors"
	"maps"
	"sync"
	"time"
)

const (
	// maxDebtors bounds the memory of an outage.
	maxDebtors = 100_000
	sweepEvery = time.Minute
)

// debts are documents that were answered for but are not in the fleet's counts.
type debts struct {
	policyOf func(customer string) Policy

	mu         sync.Mutex
	byCustomer map[string]debt
	swept      time.Time
}

type debt struct {
	documents int
	voidAt    time.Time // the fleet's count has been reset by then
}

// owe notes documents that a store did not count because of err, if that is sure.
func (d *debts) owe(customer string, documents int, err error) {
	if documents == 0 || !errors.Is(err, ErrNotCounted) && !errors.Is(err, ErrCorruptCount) {
		return
	}
	policy := d.policyOf(customer)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	held, ok := d.byCustomer[customer]
	switch {
	case ok && now.Before(held.voidAt):
		held.documents += documents
		if policy.ResetMode == SinceLastUpdate {
			held.voidAt = now.Add(policy.resetInterval())
		}
	case ok || d.room(now):
		held = debt{documents: documents, voidAt: now.Add(policy.resetInterval())}
	default:
		return
	}
	if d.byCustomer == nil {
		d.byCustomer = make(map[string]debt)
	}
	d.byCustomer[customer] = held
}

// take returns how many documents of a customer are owed, most at the most, and
// owes them no more.
func (d *debts) take(customer string, most int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	held, ok := d.byCustomer[customer]
	if !ok || most <= 0 {
		return 0
	}
	if !time.Now().Before(held.voidAt) {
		delete(d.byCustomer, customer)
		return 0
	}
	taken := min(held.documents, most)
	if held.documents -= taken; held.documents > 0 {
		d.byCustomer[customer] = held
	} else {
		delete(d.byCustomer, customer)
	}
	return taken
}

func (d *debts) forget(customer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byCustomer, customer)
}

// room makes room for one more customer. The caller holds mu.
func (d *debts) room(now time.Time) bool {
	if len(d.byCustomer) < maxDebtors {
		return true
	}
	if now.Sub(d.swept) > sweepEvery {
		d.swept = now
		maps.DeleteFunc(d.byCustomer, func(_ string, held debt) bool { return !now.Before(held.voidAt) })
	}
	return len(d.byCustomer) < maxDebtors
}
