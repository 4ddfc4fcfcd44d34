package coalesce_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/memory"
)

// pinned is a store of which operators may pin acme's level, as in a control.Store.
type pinned struct {
	*memory.Store
	level atomic.Int64
}

func (p *pinned) override(decision priority.Decision) priority.Decision {
	if level := priority.Level(p.level.Load()); level > 0 {
		decision.Ruled, decision.Level = decision.Level, level
	}
	return decision
}

func (p *pinned) Next(ctx context.Context, customer string) (priority.Decision, error) {
	decision, err := p.Store.Next(ctx, customer)
	return p.override(decision), err
}

func (p *pinned) Settle(ctx context.Context, owed []priority.Owed) ([]priority.Decision, error) {
	decisions, err := p.Store.Settle(ctx, owed)
	for i := range decisions {
		decisions[i] = p.override(decisions[i])
	}
	return decisions, err
}

func TestAnOverrideIsNoticedWithinTwoIntervalsAndSoIsItsEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := &pinned{Store: memory.Like(new(priority.RedisStore))}
		s, err := coalesce.New(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		heat(t, s, "acme")
		is := func(level, ruled priority.Level, n int) {
			t.Helper()
			for range n {
				decision, err := s.Next(t.Context(), "acme")
				if err != nil || decision.Level != level || decision.Ruled != ruled {
					t.Fatalf("%+v, %v; want level %d, ruled %d", decision, err, level, ruled)
				}
				time.Sleep(100 * ms)
			}
		}
		is(9, 0, 30)
		for _, level := range []priority.Level{2, 9} { // 9 is the last, and may end at any time
			store.level.Store(int64(level))
			for range 20 {
				if _, err := s.Next(t.Context(), "acme"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * ms)
			}
			is(level, 9, 30)
			store.level.Store(0)
			is(9, 0, 30) // at once: who has an override is not answered from memory
		}
		shut(t, s)
	})
}
