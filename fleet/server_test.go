package fleet_test

import (
	"maps"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
)

func TestReportsOfTwoMembersAddUp(t *testing.T) {
	server, ctx := redistest.Start(t), t.Context()
	one := join(t, server.Client(), &fleet.Options{Name: "one"})
	two := join(t, server.Client(), &fleet.Options{Name: "two"})
	must(one.NextN(ctx, "acme", 22))(t)
	must(one.Submit(ctx, "globex", "d1", 0))(t)
	must(two.NextEach(ctx, []string{"acme", "initech"}))(t)
	must(two.SubmitN(ctx, "globex", []string{"d2", "d3"}, nil))(t)
	check(t, two.DoneN(ctx, "globex", []string{"d1", "d2"}, 0))

	reader := server.Client()
	redistest.Await(t, "the reports have it", func() bool {
		reports := byName(t, reader)
		return len(reports) == 2 && reports["one"].Documents() == 23 && reports["two"].Waits[1].Count() == 1
	})
	total := fleet.Add(must(fleet.Read(ctx, reader, ""))(t))
	if want := (map[priority.Level]int64{1: 4, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 6, 9: 2}); !maps.Equal(total.ByCount, want) {
		t.Errorf("by count: %v, want %v", total.ByCount, want)
	}
	if total.Reports != 2 || total.Documents() != 27 || total.Waits[2].Count() != 1 || total.Window <= 0 || total.Following[0] != 2 {
		t.Errorf("%+v", total)
	}
	if b := total.Busiest[0]; b.Customer != "acme" || b.Documents != 23 || b.Level != 9 || b.Rule != priority.ByCount {
		t.Errorf("the busiest: %+v", b)
	}
	check(t, one.Close(ctx))
	if reports := byName(t, reader); len(reports) != 1 || reports["two"].ID == "" {
		t.Errorf("after Close of one: %v", reports)
	}
}
