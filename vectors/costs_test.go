package vectors_test

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/vectors"
)

// meter knows what to tell a store so that it sends a cost: a store is told a number or a
// time, and compares it with all that it was told.
type meter struct {
	store      priority.Store
	told, time fair.Mean // as the store has them
	used       bool
}

// warm tells the store of a hundred documents, which are nobody's.
func (m *meter) warm(t *testing.T) {
	t.Helper()
	if m.used {
		return
	}
	m.used = true
	const n, cost, seconds = 100, 1e6, 1000
	costs := make([]float64, n)
	for i := range costs {
		costs[i] = cost
		m.told.Add(cost)
		m.time.Add(seconds / n)
	}
	if _, err := m.store.SubmitN(t.Context(), "nobody", batch("d", n), costs); err != nil {
		t.Fatal(err)
	}
	if err := m.store.DoneN(t.Context(), "nobody", batch("d", n), seconds*time.Second); err != nil {
		t.Fatal(err)
	}
}

// costs returns what to tell a Submit about documents that cost so many thousandths; nil
// if nothing is known.
func (m *meter) costs(t *testing.T, thousandths []int64) []float64 {
	t.Helper()
	if thousandths == nil {
		return nil
	}
	m.warm(t)
	costs := make([]float64, len(thousandths))
	for i, cost := range thousandths {
		if cost > 0 {
			costs[i] = float64(search(t, cost, func(told int64) int64 { return m.told.Relative(float64(told)) }))
		}
	}
	return costs
}

// took returns the time that n documents took which cost so many thousandths each, or 0
// for what is not known.
func (m *meter) took(t *testing.T, cost int64, n int) time.Duration {
	t.Helper()
	if cost == 0 {
		return 0
	}
	m.warm(t)
	return vectors.Milliseconds(search(t, cost, func(took int64) int64 { return m.time.Relative(fair.Each(vectors.Milliseconds(took), n)) }))
}

// ended is what a Done came to.
func (m *meter) ended(took time.Duration, n, ended int) {
	for range ended {
		m.time.Add(fair.Each(took, n))
	}
}

// search returns the least number that costs so much.
func search(t *testing.T, cost int64, costs func(int64) int64) int64 {
	t.Helper()
	number := int64(sort.Search(1<<40, func(number int) bool { return costs(int64(number)) >= cost }))
	if costs(number) != cost {
		t.Fatal(fmt.Sprint("nothing costs ", cost))
	}
	return number
}
