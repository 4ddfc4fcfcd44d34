package memory

import (
	"container/list"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// submitted is what customers submitted. Documents and customers are in the order of
// their last Submit, so that expired ones come first.
type submitted struct {
	customers map[string]*customer
	byUse     list.List // of *customer
	documents list.List // of *document
}

// customer is a customer with a history or with documents.
type customer struct {
	name    string
	history fair.History
	used    time.Time // when something was submitted last
	place   *list.Element

	documents map[string]*document
	ordinary  window
	flood     window // documents beyond the last load
}

// document was submitted and is not done.
type document struct {
	of     *customer
	id     string
	at     time.Time
	level  priority.Level
	window *window
	place  *list.Element // among all customers' documents
	within *list.Element // among its window's documents
	young  bool          // within the lease, at the last call of since
}

// find returns a customer, or nil.
func (s *submitted) find(name string) *customer { return s.customers[name] }

// use returns a customer who submits something.
func (s *submitted) use(name string, now time.Time) *customer {
	c := s.customers[name]
	if c == nil {
		if s.customers == nil {
			s.customers = make(map[string]*customer)
		}
		c = &customer{name: name, documents: make(map[string]*document)}
		c.place = s.byUse.PushBack(c)
		s.customers[name] = c
	}
	c.used = now
	s.byUse.MoveToBack(c.place)
	return c
}

// makeRoom forgets what was submitted longest ago, so that there is room for a customer's
// documents.
func (s *submitted) makeRoom(name string, documents, most int) {
	for s.documents.Len() > 0 && s.documents.Len()+documents > most {
		s.remove(s.documents.Front().Value.(*document))
	}
	if s.customers[name] == nil && len(s.customers) >= most {
		s.drop(s.byUse.Front().Value.(*customer))
	}
}

// add notes a document.
func (s *submitted) add(c *customer, id string, now time.Time, level priority.Level, isFlood bool) {
	d := &document{of: c, id: id, at: now, level: level, window: &c.ordinary}
	if isFlood {
		d.window = &c.flood
	}
	d.place = s.documents.PushBack(d)
	d.window.add(d)
	c.documents[id] = d
}

func (s *submitted) remove(d *document) {
	s.documents.Remove(d.place)
	d.window.remove(d)
	delete(d.of.documents, d.id)
}

// forgetDocuments removes documents that are older than a day.
func (s *submitted) forgetDocuments(now time.Time) {
	for e := s.documents.Front(); e != nil && now.Sub(e.Value.(*document).at) > fair.Day; e = s.documents.Front() {
		s.remove(e.Value.(*document))
	}
}

// forgetCustomers removes customers of whom nothing recent is left.
func (s *submitted) forgetCustomers(now time.Time) {
	var next *list.Element
	for e := s.byUse.Front(); e != nil && now.Sub(e.Value.(*customer).used) >= fair.Day; e = next {
		next = e.Next()
		c := e.Value.(*customer)
		if len(c.documents) == 0 && now.After(c.history.Fades) {
			s.drop(c)
		}
	}
}

// drop removes a customer, if there is one.
func (s *submitted) drop(c *customer) {
	if c == nil {
		return
	}
	for _, d := range c.documents {
		s.documents.Remove(d.place)
	}
	s.byUse.Remove(c.place)
	delete(s.customers, c.name)
}

// pending returns how many documents count as pending since a time: all documents,
// and the documents that are not beyond the last load.
func (c *customer) pending(since time.Time) (all, ordinary int64) {
	ordinary = c.ordinary.since(since)
	return ordinary + c.flood.since(since), ordinary
}

// ends returns the newest and the oldest of the documents that pending has counted; nil
// if there are none. Within a millisecond, the one with the last level is the newest.
func (c *customer) ends() (newest, oldest *document) {
	for _, w := range []*window{&c.ordinary, &c.flood} {
		if w.young == 0 {
			continue
		}
		first, last := w.first.Value.(*document), w.documents.Back().Value.(*document)
		if newest == nil || last.at.UnixMilli() >= newest.at.UnixMilli() {
			newest = last
		}
		for e := last.within; e != nil && e.Value.(*document).at.UnixMilli() == newest.at.UnixMilli(); e = e.Prev() {
			if d := e.Value.(*document); d.level > newest.level {
				newest = d
			}
		}
		if oldest == nil || first.at.Before(oldest.at) {
			oldest = first
		}
	}
	return newest, oldest
}

// window counts documents from a time on. It expects that time to move little
// between calls.
type window struct {
	documents list.List     // of *document, in the order of their times
	first     *list.Element // of the young documents
	young     int64
}

func (w *window) add(d *document) {
	d.within = w.documents.PushBack(d)
	d.young = true
	w.young++
	if w.first == nil {
		w.first = d.within
	}
}

func (w *window) remove(d *document) {
	if d.young {
		w.young--
	}
	if w.first == d.within {
		w.first = d.within.Next()
	}
	w.documents.Remove(d.within)
}

// since returns how many documents came at a time or later.
func (w *window) since(since time.Time) int64 {
	for w.first != nil && w.first.Value.(*document).at.Before(since) {
		w.first.Value.(*document).young = false
		w.young--
		w.first = w.first.Next()
	}
	for {
		before := w.documents.Back()
		if w.first != nil {
			before = w.first.Prev()
		}
		if before == nil || before.Value.(*document).at.Before(since) {
			return w.young
		}
		before.Value.(*document).young = true
		w.young++
		w.first = before
	}
}
