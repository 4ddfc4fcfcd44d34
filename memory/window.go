package memory

import (
	"cmp"
	"container/list"
	"slices"
	"time"
)

// window counts documents that are due from one time to another. It expects the first one to
// move little between calls.
type window struct {
	documents list.List     // of *document, those that are due, in the order of their times
	first     *list.Element // of the young documents
	young     int64
	scheduled []*document // due later, in the order of their times
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

func (w *window) schedule(d *document) {
	w.scheduled = slices.Insert(w.scheduled, w.scheduledUntil(d.due), d)
}

func (w *window) unschedule(d *document) {
	at, _ := slices.BinarySearchFunc(w.scheduled, d.due, compareDue)
	if at += slices.Index(w.scheduled[at:], d); at > 0 {
		w.scheduled = slices.Delete(w.scheduled, at, at+1)
	} else { // it has become due, as all others may at the same time
		w.scheduled[0], w.scheduled = nil, w.scheduled[1:]
	}
}

// scheduledUntil returns how many scheduled documents are due no later than a time.
func (w *window) scheduledUntil(due time.Time) int {
	at, _ := slices.BinarySearchFunc(w.scheduled, due, func(d *document, due time.Time) int { return cmp.Or(compareDue(d, due), -1) })
	return at
}

func compareDue(d *document, due time.Time) int { return d.due.Compare(due) }

// count returns how many documents are due at a time or later, and no later than another.
func (w *window) count(since, due time.Time) int64 {
	scheduled := int64(w.scheduledUntil(due) - w.scheduledUntil(since.Add(-time.Millisecond)))
	if latest := w.documents.Back(); latest == nil || latest.Value.(*document).due.Before(since) {
		return scheduled // without a walk through those that are due
	}
	return w.since(since) + scheduled
}

// since returns how many documents have been due at a time or later.
func (w *window) since(since time.Time) int64 {
	for w.first != nil && w.first.Value.(*document).due.Before(since) {
		w.first.Value.(*document).young = false
		w.young--
		w.first = w.first.Next()
	}
	for {
		before := w.documents.Back()
		if w.first != nil {
			before = w.first.Prev()
		}
		if before == nil || before.Value.(*document).due.Before(since) {
			return w.young
		}
		before.Value.(*document).young = true
		w.young++
		w.first = before
	}
}

// oldest returns the oldest document that has been due at a time or later, or nil.
func (w *window) oldest(since time.Time) *document {
	if w.since(since); w.first == nil {
		return nil
	}
	return w.first.Value.(*document)
}

// newest returns the newest document that is due at a time or later, and no later than another, or
// nil. Of those due at the same time it is the one with the last level.
func (w *window) newest(since, due time.Time) (newest *document) {
	for i := w.scheduledUntil(due) - 1; i >= 0; i-- {
		if d := w.scheduled[i]; newest == nil {
			newest = d
		} else if !d.due.Equal(newest.due) {
			break
		} else if d.level > newest.level {
			newest = d
		}
	}
	latest := w.documents.Back()
	if newest != nil || latest == nil || latest.Value.(*document).due.Before(since) {
		return newest
	}
	newest = latest.Value.(*document)
	for e := newest.within.Prev(); e != nil && e.Value.(*document).due.Equal(newest.due); e = e.Prev() {
		if d := e.Value.(*document); d.level > newest.level {
			newest = d
		}
	}
	return newest
}
