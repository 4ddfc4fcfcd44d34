// Package expiring keeps documents of customers until a time each, with a value.
package expiring

import (
	"container/list"
	"maps"
	"slices"
	"time"
)

// Set is documents with their ends. All stay in a Set equally long, so that they end in
// the order in which they came. An operation for one
// document takes no longer with more documents, and one for a customer depends on
// that customer's only. It is not safe for concurrent use. The zero value is ready
// to use.
type Set[V any] struct {
	byEnd      list.List // of entry; the first to end in front
	byCustomer map[string]map[string]*list.Element
}

type entry[V any] struct {
	customer, document string
	value              V
	end                time.Time
}

// Hold keeps a document until its end, and reports whether it was there already.
func (s *Set[V]) Hold(customer, document string, value V, end time.Time) bool {
	if element, ok := s.byCustomer[customer][document]; ok {
		element.Value = entry[V]{customer, document, value, end}
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
	documents[document] = s.byEnd.PushBack(entry[V]{customer, document, value, end})
	return false
}

// Release removes a document, and reports whether it was there.
func (s *Set[V]) Release(customer, document string) bool {
	element, ok := s.byCustomer[customer][document]
	if ok {
		s.remove(element)
	}
	return ok
}

// Holds reports whether a document is there.
func (s *Set[V]) Holds(customer, document string) bool {
	_, ok := s.byCustomer[customer][document]
	return ok
}

// Forget removes all documents of a customer.
func (s *Set[V]) Forget(customer string) {
	for _, element := range s.byCustomer[customer] {
		s.byEnd.Remove(element)
	}
	delete(s.byCustomer, customer)
}

// Expire removes the documents whose end is before now.
func (s *Set[V]) Expire(now time.Time) {
	for e := s.byEnd.Front(); e != nil && now.After(e.Value.(entry[V]).end); e = s.byEnd.Front() {
		s.remove(e)
	}
}

// Len returns how many documents are there.
func (s *Set[V]) Len() int { return s.byEnd.Len() }

// LenOf returns how many documents of a customer are there.
func (s *Set[V]) LenOf(customer string) int { return len(s.byCustomer[customer]) }

// Customers returns the customers of the documents, in no order.
func (s *Set[V]) Customers() []string { return slices.Collect(maps.Keys(s.byCustomer)) }

// Documents returns a customer's documents and their values, in no order.
func (s *Set[V]) Documents(customer string) (documents []string, values []V) {
	for document, element := range s.byCustomer[customer] {
		documents = append(documents, document)
		values = append(values, element.Value.(entry[V]).value)
	}
	return documents, values
}

func (s *Set[V]) remove(element *list.Element) {
	removed := s.byEnd.Remove(element).(entry[V])
	documents := s.byCustomer[removed.customer]
	if delete(documents, removed.document); len(documents) == 0 {
		delete(s.byCustomer, removed.customer)
	}
}
