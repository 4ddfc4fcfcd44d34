package vectors_test

import (
	"sort"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// clock knows how long documents must take to cost so much: a store is told a time,
// and works the cost out from all the times that it was told.
type clock struct {
	store priority.Store
	held  map[string]map[string]bool // the documents that are not done, by customer
	told  []spell
}

type spell struct {
	took            time.Duration
	documents, done int
}

// took returns the time for documents that cost so many thousandths each, or 0 for
// what is not known.
func (c *clock) took(t *testing.T, customer string, cost int64, documents []string) time.Duration {
	t.Helper()
	done := 0
	for _, document := range documents {
		if c.held[customer][document] {
			delete(c.held[customer], document)
			done++
		}
	}
	if cost == 0 {
		return 0
	}
	for len(c.told) < 10 { // A store needs some documents: these are nobody's.
		spell := spell{100 * time.Second, 100, 100}
		if _, err := c.store.SubmitN(t.Context(), "nobody", batch("d", spell.documents), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.store.DoneN(t.Context(), "nobody", batch("d", spell.documents), spell.took); err != nil {
			t.Fatal(err)
		}
		c.told = append(c.told, spell)
	}
	var mean fair.Mean
	for _, spell := range c.told {
		mean.Add(spell.took, spell.documents, spell.done)
	}
	costs := func(took time.Duration) int64 { return mean.Relative(took, len(documents)) }
	took := time.Duration(sort.Search(1<<62, func(took int) bool { return costs(time.Duration(took)) >= cost }))
	if costs(took) != cost {
		t.Fatalf("%d documents cannot cost %d", len(documents), cost)
	}
	c.told = append(c.told, spell{took, len(documents), done})
	return took
}

// submitted notes documents that are not done.
func (c *clock) submitted(customer string, documents []string) {
	if c.held[customer] == nil {
		c.held[customer] = make(map[string]bool)
	}
	for _, document := range documents {
		c.held[customer][document] = true
	}
}
