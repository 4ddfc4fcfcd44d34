// Package leases keeps documents of customers until a time each, with a value.
package leases

import (
	"container/list"
	"maps"
	"slices"
	"time"
)

// Set is documents with the ends of their leases. All leases in a Set are equally
// long, so that they end in the order in which they begin. An operation for one
// document takes no longer with more documents, and one for a customer depends on
// that customer's only. It is not safe for concurrent use. The zero value is ready
// to use.
type Set[V any] struct {
	byEnd      list.List // of lease; the first to end in front
	byCustomer map[string]map[string]*list.Element
}

type lease[V any] struct {
	customer, document string
	value              V
	end                time.Time
}

// Hold begins a document's lease, or begins it anew, and reports whether it had
// one.
func (s *Set[V]) Hold(customer, document string, value V, end time.Time) bool {
	if element, ok := s.byCustomer[customer][document]; ok {
		element.Value = lease[V]{customer, document, value, end}
		s.byEnd.MoveToBack(element)
		return true
	}
	if s.byCustomer == nil {
		s.byCustomer = make(map[string]map[string]*list.Element)
	}
	documents := s.byCustomer[customer]
	if documents == nil {
		documents = make(map[string]*list.Element)
		s.byCustomer[customer] = documents
	}
	documents[document] = s.byEnd.PushBack(lease[V]{customer, document, value, end})
	return false
}

// Release ends a document's lease, and reports whether it had one.
func (s *Set[V]) Release(customer, document string) bool {
	element, ok := s.byCustomer[customer][document]
	if ok {
		s.remove(element)
	}
	return ok
}

// Holds reports whether a document has a lease.
func (s *Set[V]) Holds(customer, document string) bool {
	_, ok := s.byCustomer[customer][document]
	return ok
}

// Forget ends all leases of a customer.
func (s *Set[V]) Forget(customer string) {
	for _, element := range s.byCustomer[customer] {
		s.byEnd.Remove(element)
	}
	delete(s.byCustomer, customer)
}

// Expire ends the leases that end before now.
func (s *Set[V]) Expire(now time.Time) {
	for e := s.byEnd.Front(); e != nil && now.After(e.Value.(lease[V]).end); e = s.byEnd.Front() {
		s.remove(e)
	}
}

// Len returns how many documents have a lease.
func (s *Set[V]) Len() int { return s.byEnd.Len() }

// LenOf returns how many documents of a customer have one.
func (s *Set[V]) LenOf(customer string) int { return len(s.byCustomer[customer]) }

// Customers returns the customers who have leases, in no order.
func (s *Set[V]) Customers() []string { return slices.Collect(maps.Keys(s.byCustomer)) }

// Documents returns a customer's documents and their values, in no order.
func (s *Set[V]) Documents(customer string) (documents []string, values []V) {
	for document, element := range s.byCustomer[customer] {
		documents = append(documents, document)
		values = append(values, element.Value.(lease[V]).value)
	}
	return documents, values
}

func (s *Set[V]) remove(element *list.Element) {
	l := s.byEnd.Remove(element).(lease[V])
	documents := s.byCustomer[l.customer]
	if delete(documents, l.document); len(documents) == 0 {
		delete(s.byCustomer, l.customer)
	}
}
