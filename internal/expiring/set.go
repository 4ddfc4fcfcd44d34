// Package expiring keeps documents of customers until a time each, with a value.
package expiring

import (
	"container/heap"
	"container/list"
	"maps"
	"slices"
	"time"
)

// Set is documents with their ends. All stay in a Set equally long, so that they end in
// the order in which they came. An operation for one document takes hardly longer with
// more documents, and one for a customer depends on that customer's only. It is not safe
// for concurrent use. The zero value is ready to use.
type Set[V any] struct {
	byEnd     list.List // of *entry; the first to end in front
	customers map[string]*customer[V]
	bySize    sizes[V]
}

type customer[V any] struct {
	name      string
	documents map[string]*list.Element
	place     int // in bySize
}

type entry[V any] struct {
	of       *customer[V]
	document string
	value    V
	end      time.Time
}

// Hold keeps a document until its end, and reports whether it was there already.
func (s *Set[V]) Hold(name, document string, value V, end time.Time) bool {
	c := s.customers[name]
	if c == nil {
		if s.customers == nil {
			s.customers = make(map[string]*customer[V])
		}
		c = &customer[V]{name: name, documents: make(map[string]*list.Element)}
		s.customers[name] = c
		heap.Push(&s.bySize, c)
	}
	if element, ok := c.documents[document]; ok {
		e := element.Value.(*entry[V])
		e.value, e.end = value, end
		s.byEnd.MoveToBack(element)
		return true
	}
	c.documents[document] = s.byEnd.PushBack(&entry[V]{c, document, value, end})
	heap.Fix(&s.bySize, c.place)
	return false
}

// Get returns a document's value, to look at or to change, or nil.
func (s *Set[V]) Get(customer, document string) *V {
	if c := s.customers[customer]; c != nil {
		if element, ok := c.documents[document]; ok {
			return &element.Value.(*entry[V]).value
		}
	}
	return nil
}

// Release removes a document, and reports whether it was there.
func (s *Set[V]) Release(customer, document string) bool {
	c := s.customers[customer]
	if c == nil {
		return false
	}
	element, ok := c.documents[document]
	if ok {
		s.remove(element)
	}
	return ok
}

// Forget removes all documents of a customer.
func (s *Set[V]) Forget(customer string) {
	c := s.customers[customer]
	if c == nil {
		return
	}
	for _, element := range c.documents {
		s.byEnd.Remove(element)
	}
	s.drop(c)
}

// Expire removes the documents whose end is before now.
func (s *Set[V]) Expire(now time.Time) {
	for e := s.byEnd.Front(); e != nil && now.After(e.Value.(*entry[V]).end); e = s.byEnd.Front() {
		s.remove(e)
	}
}

// Thin removes a document of the customer who has the most, if they have more than one
// more than another customer, and reports whether it did.
func (s *Set[V]) Thin(other string) bool {
	if len(s.bySize) == 0 || len(s.bySize[0].documents) <= s.LenOf(other)+1 {
		return false
	}
	for _, element := range s.bySize[0].documents {
		s.remove(element)
		break
	}
	return true
}

// Len returns how many documents are there.
func (s *Set[V]) Len() int { return s.byEnd.Len() }

// LenOf returns how many documents of a customer are there.
func (s *Set[V]) LenOf(customer string) int {
	if c := s.customers[customer]; c != nil {
		return len(c.documents)
	}
	return 0
}

// Customers returns the customers of the documents, in no order.
func (s *Set[V]) Customers() []string { return slices.Collect(maps.Keys(s.customers)) }

// Documents returns a customer's documents, in no order.
func (s *Set[V]) Documents(customer string) []string {
	if c := s.customers[customer]; c != nil {
		return slices.Collect(maps.Keys(c.documents))
	}
	return nil
}

func (s *Set[V]) remove(element *list.Element) {
	removed := s.byEnd.Remove(element).(*entry[V])
	c := removed.of
	if delete(c.documents, removed.document); len(c.documents) == 0 {
		s.drop(c)
	} else {
		heap.Fix(&s.bySize, c.place)
	}
}

// drop removes a customer whose documents are removed.
func (s *Set[V]) drop(c *customer[V]) {
	heap.Remove(&s.bySize, c.place)
	delete(s.customers, c.name)
}

// sizes are customers as a heap: who has the most documents comes first.
type sizes[V any] []*customer[V]

func (s sizes[V]) Len() int           { return len(s) }
func (s sizes[V]) Less(i, j int) bool { return len(s[i].documents) > len(s[j].documents) }
func (s sizes[V]) Swap(i, j int)      { s[i], s[j] = s[j], s[i]; s[i].place, s[j].place = i, j }

func (s *sizes[V]) Push(c any) {
	added := c.(*customer[V])
	added.place = len(*s)
	*s = append(*s, added)
}

func (s *sizes[V]) Pop() any {
	last := len(*s) - 1
	c := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return c
}
