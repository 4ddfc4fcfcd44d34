package memory

import (
	"cmp"
	"container/heap"
	"container/list"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// submitted is what customers submitted. Documents that are due and customers are in the order
// in which they became due and submitted last, so that expired ones come first.
type submitted struct {
	customers map[string]*customer
	byUse     list.List // of *customer
	documents list.List // of *document
	scheduled byDue     // documents that are due later
	number    uint64    // of the latest document that was scheduled
}

// customer is a customer, or an account, with a history or with documents.
type customer struct {
	name    string
	history fair.History
	used    time.Time // when something was submitted last
	place   *list.Element

	documents map[string]*document
	ordinary  window
	flood     window // documents beyond the last load

	// While documents are scheduled, the recent documents of the history are those due until
	// countedTo. Of the documents that are due, uncounted are missing there.
	countedTo time.Time
	uncounted int64
}

// document was submitted and is not done.
type document struct {
	of     *customer
	id     string
	due    time.Time
	level  priority.Level
	window *window
	place  *list.Element // among all customers' documents that are due; nil: it is scheduled
	number uint64        // of those that were scheduled
	index  int           // among the scheduled
	within *list.Element // among its window's documents that are due
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
	for s.len() > 0 && s.len()+documents > most {
		if oldest := s.documents.Front(); oldest != nil {
			s.remove(oldest.Value.(*document))
		} else {
			s.remove(s.scheduled[0])
		}
	}
	if s.customers[name] == nil && len(s.customers) >= most {
		s.drop(s.byUse.Front().Value.(*customer))
	}
}

func (s *submitted) len() int { return s.documents.Len() + len(s.scheduled) }

// add notes a document.
func (s *submitted) add(c *customer, d *document, now time.Time, isFlood bool) {
	d.of, d.window = c, &c.ordinary
	if isFlood {
		d.window = &c.flood
	}
	c.documents[d.id] = d
	if d.due.After(now) {
		s.number++
		d.number = s.number
		heap.Push(&s.scheduled, d)
		d.window.schedule(d)
	} else {
		s.arrive(d)
	}
}

// arrive notes that a document is due.
func (s *submitted) arrive(d *document) {
	d.place = s.documents.PushBack(d)
	d.window.add(d)
	if d.of.isUncounted(d.due) {
		d.of.uncounted++
	}
}

// pass notes the documents that have become due.
func (s *submitted) pass(now time.Time) {
	for len(s.scheduled) > 0 && !s.scheduled[0].due.After(now) {
		d := heap.Pop(&s.scheduled).(*document)
		d.window.unschedule(d)
		s.arrive(d)
	}
}

func (s *submitted) remove(d *document) {
	delete(d.of.documents, d.id)
	if d.place == nil {
		heap.Remove(&s.scheduled, d.index)
		d.window.unschedule(d)
		return
	}
	s.documents.Remove(d.place)
	d.window.remove(d)
	if d.of.isUncounted(d.due) {
		d.of.uncounted--
	}
}

// forgetDocuments removes documents that were due more than a day ago.
func (s *submitted) forgetDocuments(now time.Time) {
	for e := s.documents.Front(); e != nil && now.Sub(e.Value.(*document).due) > fair.Day; e = s.documents.Front() {
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
		s.remove(d)
	}
	s.byUse.Remove(c.place)
	delete(s.customers, c.name)
}

// isUncounted reports whether the history's recent documents lack one that is due at a time.
func (c *customer) isUncounted(due time.Time) bool {
	return !c.countedTo.IsZero() && due.After(c.countedTo)
}

// byDue is a heap of documents: the next one that is due comes first.
type byDue []*document

func (h byDue) Len() int { return len(h) }
func (h byDue) Less(i, j int) bool {
	return cmp.Or(h[i].due.Compare(h[j].due), cmp.Compare(h[i].number, h[j].number)) < 0
}
func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byDue) Push(d any) {
	d.(*document).index = len(*h)
	*h = append(*h, d.(*document))
}

func (h *byDue) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return d
}
