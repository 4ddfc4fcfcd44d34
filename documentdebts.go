package priority

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// documentDebts are what a tracker was told and could not do. It remembers up to
// maxDebtors documents.
type documentDebts struct {
	policyOf func(customer string) Policy

	mu         sync.Mutex
	byCustomer map[string]*documentDebt
	documents  int
}

type documentDebt struct {
	submitted, done map[string]bool
	voidAt          time.Time // the fleet's count has been reset by then
}

// owed is what was owed for a customer.
type owed struct{ submitted, done []string }

// submitted notes that a document was not submitted because of err, if that is
// sure.
func (d *documentDebts) submitted(customer, document string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if surely(err) {
		if debt := d.of(customer); debt != nil && !debt.submitted[document] {
			debt.submitted[document] = true
			d.documents++
		}
	}
}

// done notes that a document is done: for one that is owed itself, and where it
// could not be said because of err.
func (d *documentDebts) done(customer, document string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	debt := d.byCustomer[customer]
	isOwed := debt != nil && debt.submitted[document]
	if isOwed || surely(err) {
		if debt := d.of(customer); debt != nil && !debt.done[document] {
			debt.done[document] = true
			d.documents++
		}
	}
}

// take returns what is owed for a customer, if that are at most so many documents,
// and owes it no more.
func (d *documentDebts) take(customer string, most int) owed {
	d.mu.Lock()
	defer d.mu.Unlock()
	debt := d.byCustomer[customer]
	if debt == nil || len(debt.submitted) > most {
		return owed{}
	}
	d.drop(customer)
	if !time.Now().Before(debt.voidAt) {
		return owed{}
	}
	return owed{slices.Collect(maps.Keys(debt.submitted)), slices.Collect(maps.Keys(debt.done))}
}

func (d *documentDebts) forget(customer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(customer)
}

// of returns a customer's debt, to which something is added now, or nil if there
// is no room. The caller holds mu.
func (d *documentDebts) of(customer string) *documentDebt {
	now := time.Now()
	if d.documents >= maxDebtors {
		for name, debt := range d.byCustomer {
			if !now.Before(debt.voidAt) {
				d.drop(name)
			}
		}
	}
	if d.documents >= maxDebtors {
		return nil
	}
	debt := d.byCustomer[customer]
	if debt == nil {
		if d.byCustomer == nil {
			d.byCustomer = make(map[string]*documentDebt)
		}
		debt = &documentDebt{submitted: make(map[string]bool), done: make(map[string]bool)}
		d.byCustomer[customer] = debt
	}
	policy := d.policyOf(customer)
	if debt.voidAt.IsZero() || policy.ResetMode == SinceLastUpdate {
		debt.voidAt = now.Add(policy.resetInterval())
	}
	return debt
}

// The caller holds mu.
func (d *documentDebts) drop(customer string) {
	if debt := d.byCustomer[customer]; debt != nil {
		d.documents -= len(debt.submitted) + len(debt.done)
		delete(d.byCustomer, customer)
	}
}

// surely reports that what failed with err was surely not done.
func surely(err error) bool {
	return errors.Is(err, ErrNotCounted) || errors.Is(err, ErrCorruptCount)
}
