package memory

import (
	"strconv"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/keys"
)

// book is what a call knows of a customer, or of an account.
type book struct {
	*customer
	prefix  string // of the documents of a user in the account's book
	average int64  // cost
	now     time.Time
	lease   time.Duration
	longest time.Duration // the lease of a flood's documents
	counted int64         // the recent documents, without the uncounted ones
	changed bool          // counted was
}

// books returns a customer's book, and the account's if the customer is its user. Of a Peek or a
// Done, they may have no customer.
func (s *Store) books(name string, now time.Time, find func(name string) *customer) []book {
	books := []book{s.book(find(name), "", now)}
	if account, user, ok := keys.Account(name); ok && s.accounts {
		books = append(books, s.book(find(account), ":/"+strconv.Itoa(len(user))+"/"+user, now))
	}
	return books
}

func (s *Store) book(c *customer, prefix string, now time.Time) book {
	if c == nil {
		c = new(customer)
	}
	history := c.history.At(now)
	counted := history.Recent(now)
	return book{c, prefix, history.Average(), now, history.Lease(s.Lease()), s.Lease(), counted, false}
}

// submits returns the books of a call that submits. Once an hour, the documents that have become
// due are added to the recent ones.
func (s *Store) submits(name string, documents int, delayed bool, now time.Time) []book {
	books := s.books(name, now, func(name string) *customer {
		s.submitted.makeRoom(name, documents, s.maxEntries())
		return s.submitted.use(name, now)
	})
	for i := range books {
		b := &books[i]
		switch isCounted := !b.countedTo.IsZero(); {
		case isCounted && now.Sub(b.countedTo) >= time.Hour:
			b.add(1000 * b.uncounted)
			b.changed = true
			b.countedTo, b.uncounted = time.Time{}, 0
			if delayed || b.scheduled(now.Add(priority.MaxDelay)) > 0 {
				b.countedTo = now
			}
		case delayed && !isCounted:
			b.countedTo = now
		}
	}
	return books
}

// member returns the id by which the book knows a document. No document's own id looks like
// another's, or like a user's.
func (b *book) member(id string) string {
	if b.prefix == "" && id[0] == ':' {
		return ":" + id
	}
	return b.prefix + id
}

func (b *book) add(recent int64) { b.counted = min(b.counted+recent, fair.MostRecent) }

// take takes a document out of the book, and counts it as recent as of when it is due. It returns
// the document if it was pending.
func (b *book) take(s *submitted, id string, due time.Time) (pending *document, uncounted int64) {
	d, recent := b.documents[b.member(id)], int64(1000)
	if d != nil {
		if s.remove(d); b.isPending(d) {
			pending = d
			if !b.isUncounted(d.due) {
				recent = min(b.counted, 1000)
				b.counted -= recent
			}
		}
	}
	b.changed = b.changed || pending == nil || !b.countedTo.IsZero()
	if b.isUncounted(due) {
		return pending, 1
	}
	b.add(recent)
	return pending, 0
}

func (b *book) isPending(d *document) bool {
	since, floodsSince := b.since(b.now)
	if d.window == &b.flood {
		return !d.due.Before(floodsSince)
	}
	return !d.due.Before(since)
}

// until returns until when documents are due that count beside one. One with a delay counts those
// that are due soon after it, too: else a flood that is submitted latest first would see nothing of
// itself.
func (b *book) until(due time.Time) time.Time { return due.Add(min(due.Sub(b.now), b.lease)) }

// since returns when documents were due at the latest that are done or presumed lost at a time, and
// the same of a flood's.
func (b *book) since(due time.Time) (ordinary, flood time.Time) {
	ordinary = due.Add(-b.lease)
	if ordinary.Before(b.history.Lost) {
		ordinary = b.history.Lost
	}
	return ordinary, due.Add(-b.longest)
}

// recent returns how many documents are recent when one is due; further ones are not in the book.
func (b *book) recent(due time.Time, further int64) int64 {
	recent := b.counted
	if !b.countedTo.IsZero() {
		recent += 1000 * (b.uncountedUntil(due) + further)
	}
	return min(recent, fair.MostRecent)
}

// uncountedUntil returns how many documents of the last day before a time are not counted.
func (b *book) uncountedUntil(due time.Time) int64 {
	yesterday := due.Add(-fair.Day)
	until := b.until(due)
	if !yesterday.After(b.countedTo) {
		return b.uncounted + b.scheduled(until)
	}
	return b.ordinary.count(yesterday, until) + b.flood.count(yesterday, until)
}

// scheduled returns how many documents are due later than now, and no later than a time.
func (b *book) scheduled(due time.Time) int64 {
	return int64(b.ordinary.scheduledUntil(due) + b.flood.scheduledUntil(due))
}

// pending returns how many documents count as pending at a time: before the last load, and in
// a flood.
func (b *book) pending(due time.Time) (ordinary, flood int64) {
	since, floodsSince := b.since(due)
	until := b.until(due)
	return b.ordinary.count(since, until), b.flood.count(floodsSince, until)
}

// newest returns the newest of the documents that are pending at a time, or nil.
func (b *book) newest(due time.Time) *document {
	newest, other := b.newestOfEach(due)
	if newest == nil || other != nil && (other.due.After(newest.due) || other.due.Equal(newest.due) && other.level > newest.level) {
		return other
	}
	return newest
}

func (b *book) newestOfEach(due time.Time) (ordinary, flood *document) {
	since, floodsSince := b.since(b.now)
	return b.ordinary.newest(since, due), b.flood.newest(floodsSince, due)
}

// order returns the level that a document which is due at a time must not be earlier than: the
// later one of those of the newest pending documents, before the last load and in a flood. One that
// was scheduled, or is submitted again, may be the newest with an early level, and a flood must not
// be overtaken for it.
func (b *book) order(due time.Time) priority.Level {
	level := priority.First
	ordinary, flood := b.newestOfEach(due)
	for _, d := range []*document{ordinary, flood} {
		if d != nil {
			level = max(level, d.level)
		}
	}
	return level
}

// judge decides about a new document that costs so much: its load and level, and whether it is of
// a flood. further is how many recent documents are not in the book.
func (b *book) judge(policy priority.Policy, due time.Time, further, cost int64) (load float64, level priority.Level, isFlood bool) {
	ordinary, flood := b.pending(due)
	load = float64(fair.Load(b.recent(due, further), ordinary+1, cost)) / 1e6
	level = policy.LevelOfLoad(load, flood+1)
	return load, level, level > priority.Level(len(policy.Loads))
}

// oldest returns when the oldest of the documents that are pending became due. There is one.
func (b *book) oldest(now time.Time) time.Time {
	oldest := now
	since, floodsSince := b.since(now)
	for _, first := range []*document{b.ordinary.oldest(since), b.flood.oldest(floodsSince)} {
		if first != nil && first.due.Before(oldest) {
			oldest = first.due
		}
	}
	return oldest
}
