package main

import (
	"slices"
	"sync"
	"time"

	"github.com/docpriority/priority"
)

// book is the truth about a fleet: what became of each document.
type book struct {
	mu  sync.Mutex
	all []*document
}

// document is one that a worker of the trial submitted or counted.
type document struct {
	customer, id string
	by           string // the worker
	rule         priority.Rule
	priority.Decision

	decided period        // the call that gave it a level
	older   time.Duration // for how much longer than that it has been due, as Redis was told afterwards
	ended   period        // the call of Done; zero: none returned
	endedBy string
	failed  bool // no call gave it a level

	scheduled bool // it is due long after the trial
	forgotten bool // it was served, and no Done was called
}

// period is the time that something took. What is true at any time in it may be said.
type period struct{ began, ended time.Time }

// within measures a call.
func within(call func()) period {
	began := time.Now()
	call()
	return period{began, time.Now()}
}

// bounds are what a number may be, as calls were under way while it was read.
type bounds struct{ least, most int64 }

func (b bounds) has(n int64) bool { return n >= b.least && n <= b.most }

// which says of which documents a number is.
type which func(*document) bool

func ofCustomer(names ...string) which {
	return func(d *document) bool { return !d.failed && slices.Contains(names, d.customer) }
}

func ofLevel(level priority.Level, rule priority.Rule) which {
	return func(d *document) bool { return !d.failed && d.Level == level && d.rule == rule }
}

func failed(d *document) bool { return d.failed }

func byLoad(d *document) bool { return d.rule == priority.ByLoad && !d.failed && !d.Degraded }

// ofFlood is of documents beyond the last load of five.
func ofFlood(d *document) bool { return byLoad(d) && d.RuleLevel > 5 }

// and is of documents for which both are true.
func (w which) and(other which) which { return func(d *document) bool { return w(d) && other(d) } }

// write adds documents, whose decisions are written by decide.
func (b *book) write(documents []*document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, documents...)
}

// change changes what is written of a document.
func (b *book) change(d *document, how func(*document)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	how(d)
}

// number counts documents: those for which it is certain during all of a period, and those for which
// it may be so at some time in it, as of all whose call is under way.
func (b *book) number(which which, certain, possible func(*document) bool) (n bounds) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.all {
		switch {
		case d.decided.ended.IsZero():
			n.most++
		case which(d):
			n.least += int64(oneIf(certain(d)))
			n.most += int64(oneIf(possible(d)))
		}
	}
	return n
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// waits reports whether a document was pending, by load, during all of a period, or may have been at
// some time in it.
func (d *document) waits(during period) (certain, possible bool) {
	if !byLoad(d) || d.scheduled {
		return false, false
	}
	certain = d.decided.ended.Before(during.began) && (d.ended.began.IsZero() || d.ended.began.After(during.ended))
	return certain, d.decided.began.Before(during.ended) && (d.ended.ended.IsZero() || d.ended.ended.After(during.began))
}

// pending is how many documents waited or were served.
func (b *book) pending(which which, during period) bounds {
	return b.number(which, func(d *document) bool { certain, _ := d.waits(during); return certain },
		func(d *document) bool { _, possible := d.waits(during); return possible })
}

// oldest is for how many milliseconds the oldest pending document had been due.
func (b *book) oldest(which which, during period) (age bounds) {
	b.number(which, func(d *document) bool {
		certain, possible := d.waits(during)
		if certain {
			age.least = max(age.least, (during.began.Sub(d.decided.ended)+d.older).Milliseconds()-1)
		}
		if possible {
			age.most = max(age.most, (during.ended.Sub(d.decided.began)+d.older).Milliseconds()+1)
		}
		return false
	}, failed)
	return age
}

// lastMinute is how many documents got a level, or were done, in the last minute, by reports of
// what was until then: a report covers 55 to 60 seconds.
func (b *book) lastMinute(which which, during period, reported time.Time, of func(*document) period) bounds {
	const shortest, longest = 55 * time.Second, 60 * time.Second
	return b.number(which, func(d *document) bool {
		at := of(d)
		return !at.ended.IsZero() && at.ended.Before(reported) && at.ended.After(during.ended.Add(-shortest))
	}, func(d *document) bool {
		at := of(d)
		return !at.began.IsZero() && at.began.Before(during.ended) && (at.ended.IsZero() || at.ended.After(reported.Add(-longest)))
	})
}

// inReports is how many documents got a level, or were done, by reports of what was until then.
func (b *book) inReports(which which, during period, reported time.Time, of func(*document) period) bounds {
	return b.number(which, func(d *document) bool {
		at := of(d)
		return !at.ended.IsZero() && at.ended.Before(reported)
	}, func(d *document) bool {
		at := of(d)
		return !at.began.IsZero() && at.began.Before(during.ended)
	})
}

func whenDecided(d *document) period { return d.decided }
func whenEnded(d *document) period   { return d.ended }

// forgotten returns the documents for which no Done was called.
func (b *book) forgotten() (all []*document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.all {
		if d.forgotten {
			all = append(all, d)
		}
	}
	return all
}
