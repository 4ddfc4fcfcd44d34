package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/prioritytest"
)

// The history adds up to what all callers got, although replies to reports are lost, until a day
// later. What else is in its keys is no part of it.
func TestHistory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v, ctx := newVirtual(t), context.Background()
		reader := v.Client(nil)
		opts := &fleet.Options{Logger: slog.New(slog.DiscardHandler)}
		members := []*fleet.Member{v.member(opts), v.member(opts)}
		time.Sleep(time.Second)
		documents, ended := make(map[priority.Level]int64), make(map[priority.Level]int64)
		for range 12 {
			for _, m := range members {
				for _, d := range must(m.NextN(ctx, "acme", 2))(t) {
					documents[d.Level]++
				}
				documents[must(m.Submit(ctx, "bolt", priority.Document{ID: "d"}))(t).Level]++
				time.Sleep(3 * time.Second)
				ended[must(m.Done(ctx, "bolt", "d", 0))(t).Level]++
			}
			v.Faults.Fail(prioritytest.Fault{Customer: "fleet", Class: priority.ErrOutcomeUnknown, Counted: true, Calls: 2})
			time.Sleep(time.Minute)
		}
		for _, m := range members {
			documents[must(m.Next(ctx, "acme"))(t).Level]++
			v.Faults.Fail(prioritytest.Fault{Customer: "fleet", Class: priority.ErrOutcomeUnknown, Counted: true, Calls: 1})
			check(t, m.Close(ctx))
		}
		key := ""
		for _, name := range reader.Keys(ctx, "priority:{fleet}:history:*").Val() {
			key = max(key, name)
			if ttl := reader.PTTL(ctx, name).Val(); ttl > 25*time.Hour || ttl < 24*time.Hour {
				t.Errorf("%s lasts for %v", name, ttl)
			}
		}
		check(t, reader.HSet(ctx, key, "", 1, "d0", 1, "d256", 1, "d200", "many", "d2.1", 1, "w1", 1, "w1.28", 1, "later1", 1, "w1.1", -5, "d201", "1e9").Err())
		read := func() (all [2]map[priority.Level]int64, slots []fleet.Slot) {
			all = [2]map[priority.Level]int64{{}, {}} // that got a level, and that ended
			slots = must(fleet.History(ctx, reader, ""))(t)
			for i, slot := range slots {
				if slot.Began.UnixMilli()%300_000 != 0 || i > 0 && !slots[i-1].Began.Before(slot.Began) {
					t.Errorf("slot %d began at %v", i, slot.Began)
				}
				for level, n := range slot.Documents {
					all[0][level] += n
				}
				for level, h := range slot.Waits {
					all[1][level] += h.Count()
					if h.P95() < 3*time.Second || h.P95() > 5*time.Second {
						t.Errorf("level %d: %v", level, h)
					}
				}
			}
			return all, slots
		}
		all, slots := read()
		if !maps.Equal(all[0], documents) || !maps.Equal(all[1], ended) || len(slots) < 3 || time.Since(slots[len(slots)-1].Began) > 5*time.Minute {
			t.Errorf("%d slots: %+v, not %v and %v", len(slots), all, documents, ended)
		}
		wrong := "priority:{fleet}:history:" + fmt.Sprint(slots[0].Began.UnixMilli()/300_000)
		check(t, reader.Del(ctx, wrong).Err())
		check(t, reader.Set(ctx, wrong, "x", time.Hour).Err())
		if others, err := fleet.History(ctx, reader, ""); err == nil || !strings.Contains(err.Error(), wrong) || len(others) != len(slots)-1 {
			t.Errorf("beside another kind of key: %d slots, %v", len(others), err)
		}
		time.Sleep(24 * time.Hour)
		if _, slots := read(); len(slots) != 1 {
			t.Errorf("a day later: %+v", slots)
		}
	})
}
