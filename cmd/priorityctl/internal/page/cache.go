package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docpriority/priority/internal/insight"
)

// patience is how long one question may take.
const patience = 10 * time.Second

// cache has what Redis last answered. It asks one question at a time, and each at most once
// in a while, however many people look.
type cache struct {
	mu    sync.Mutex // guards all, and is held while Redis is asked
	known map[string]*answer
	away  error // why Redis could not be asked
	since time.Time
}

// answer is the last answer to a question.
type answer struct {
	asked time.Time
	read  time.Time // zero: there is no value
	value any
	err   error // why value is no newer
}

// read returns the answer to a question that was asked at most a while ago, or else the last
// one, and notes on the page why it is no newer. It returns false if there is none.
func read[T any](v *visit, question string, while time.Duration, ask func(ctx context.Context) (T, error)) (value T, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.answerTo(question)
	switch {
	case time.Since(a.asked) < while && a.err == nil:
	case v.away != nil && time.Since(v.since) < v.interval:
		a.err = v.away
	case a.err == nil || time.Since(a.asked) >= v.interval:
		// A reader who leaves does not take the answer from the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(v.request.Context()), patience)
		defer cancel()
		found, err := ask(ctx)
		a.asked, a.err, v.away = time.Now(), err, nil
		if err == nil {
			a.value, a.read = found, a.asked
		} else if insight.Unreachable(err) {
			v.away, v.since = err, a.asked
		}
	}
	if a.err != nil {
		v.note(a)
	}
	value, ok = a.value.(T)
	return value, ok && !a.read.IsZero()
}

// most is how many answers are kept to questions of a kind, the first word of each.
var most = map[string]int{"customer": 1000, "log": 50, "search": 20}

// answerTo returns what is known of a question, and forgets the one of its kind that was
// asked longest ago if there are too many.
func (c *cache) answerTo(question string) *answer {
	if a := c.known[question]; a != nil {
		return a
	}
	kind, _, _ := strings.Cut(question, " ")
	n, oldest := 0, ""
	for each, a := range c.known {
		if strings.HasPrefix(each, kind+" ") {
			n++
			if first := c.known[oldest]; first == nil || a.asked.Before(first.asked) {
				oldest = each
			}
		}
	}
	if n > 0 && n >= most[kind] {
		delete(c.known, oldest)
	}
	c.known[question] = &answer{}
	return c.known[question]
}

// note says why an answer is no newer: each reason once, of a Redis that cannot be reached
// the first one, and its age where there is one.
func (v *visit) note(a *answer) {
	unreachable := insight.Unreachable(a.err)
	if says := v.text(a.err); !slices.Contains(v.Stale, says) && !(unreachable && v.unreachable) {
		v.Stale = append(v.Stale, says)
	}
	v.unreachable = v.unreachable || unreachable
	if !a.read.IsZero() && (v.oldest.IsZero() || a.read.Before(v.oldest)) {
		v.oldest = a.read
	}
}

// isAway reports whether the page could not ask Redis for all that it shows.
func (v *visit) isAway() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.away != nil
}

// text returns an error as a page may show it.
func (p *Page) text(err error) string {
	text := insight.OneLine(p.own.Hidden(err))
	if insight.Unreachable(err) {
		return "Redis at " + p.own.Server.Address + " cannot be reached: " + text
	}
	return text
}

// noteLoss compares what operators have set with what they had set before. Its caller has
// the lock.
func (p *Page) noteLoss(now *insight.Inspector) {
	switch version := now.Settings.Version; {
	case version < p.settled:
		p.lost = fmt.Sprintf("Redis lost what operators set: version %d was known, %d is there. Workers keep the rules that they know until operators apply, import or withdraw rules; overrides are gone. "+
			"priorityctl control import brings back what priorityctl control export has printed.", p.settled, version)
	case version > p.settled:
		p.lost = "" // operators have changed something since
	}
	p.settled = now.Settings.Version
}
