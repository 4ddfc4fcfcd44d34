package vectors_test

import (
	"sort"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/fair"
)

// clock knows how long documents must take to cost so much: a store is told a time,
// and works the cost out from all the times that it was told.
type clock struct {
	store counter
	told  []spell
}

type spell struct {
	took      time.Duration
	documents int
}

// took returns the time for documents that cost so many thousandths each, or 0 for
// what is not known.
func (c *clock) took(t *testing.T, cost int64, documents int) time.Duration {
	t.Helper()
	if cost == 0 {
		return 0
	}
	for len(c.told) < 10 { // A store needs some documents: these are nobody's.
		spell := spell{100 * time.Second, 100}
		if err := c.store.DoneN(t.Context(), "nobody", batch("d", spell.documents), spell.took); err != nil {
			t.Fatal(err)
		}
		c.told = append(c.told, spell)
	}
	costs := func(took time.Duration) int64 {
		var mean fair.Mean
		for _, spell := range c.told {
			mean.Relative(spell.took, spell.documents)
		}
		return mean.Relative(took, documents)
	}
	took := time.Duration(sort.Search(1<<62, func(took int) bool { return costs(time.Duration(took)) >= cost }))
	if costs(took) != cost {
		t.Fatalf("%d documents cannot cost %d", documents, cost)
	}
	c.told = append(c.told, spell{took, documents})
	return took
}
