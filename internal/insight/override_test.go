package insight_test

import (
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
)

// What documents get is what the customer's key holds. Who wrote it down, or that nobody
// did, or that something else was recorded, is said beside it.
func TestAnOverrideIsWhatDocumentsGet(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, priority.RedisOptions{})
	if _, err := inspector.Store.NextN(t.Context(), "acme", 30); err != nil {
		t.Fatal(err)
	}
	key := inspector.Store.Keys("acme").Override
	for _, test := range []struct {
		name          string
		written, held string
		next, ruled   priority.Level
		row, why      string
	}{
		{"in force", "=2", "=2", 2, 9, "override  pinned to level 2, for 1h more\n", `by mary: "a test": pinned to level 2. The next document gets level 2. Queued documents keep their level. Without the override: acme is slow`},
		{"gone", "=2", "", 9, 9, "override  pinned to level 2, not in force: its key is gone\n", `by mary: "a test": pinned to level 2, but it is not in force: its key is gone. acme is slow`},
		{"by hand", "", ">=3", 9, 9, "override  level 3 at the earliest, without an end\n", "without an end, which is not on record: level 3 at the earliest."},
		{"another", "=2", "<=4", 4, 9, "override  level 4 at the latest, without an end\n", "which is not on record: level 4 at the latest."},
		{"corrupt", "", "= 2", 9, 9, "override  nothing is recorded, not in force: its key holds \"= 2\" instead\n", `The key of its override holds "= 2", which workers ignore. acme is slow`},
		{"none", "", "", 9, 9, "next      level 9 of 1 to 9: count < -20\n", "acme is slow because"},
	} {
		client.Del(t.Context(), key, "priority:{control}:overrides")
		if test.written != "" {
			var override priority.Override
			if err := override.UnmarshalText([]byte(test.written)); err != nil {
				t.Fatal(err)
			}
			if _, err := inspector.Admin.SetOverride(t.Context(), "acme", override, time.Hour, change); err != nil {
				t.Fatal(err)
			}
		}
		switch test.held {
		case test.written:
		case "":
			client.Del(t.Context(), key)
		default:
			client.Set(t.Context(), key, test.held, 0)
		}
		found := lookup(t, followed(t, inspector), "acme")
		if found.NextLevel != test.next || found.RuleLevel != test.ruled || !strings.Contains(strings.ReplaceAll(found.String(), "59m59s", "1h"), test.row) || !strings.Contains(found.Why(), test.why) {
			t.Errorf("%s: level %d, %d; got\n%s\n%s", test.name, found.NextLevel, found.RuleLevel, found, found.Why())
		}
		all, err := inspector.Overrides(t.Context())
		if err != nil || len(all) != min(len(test.written), 1) || len(all) == 1 && all[0].InForce != (test.written == test.held) {
			t.Errorf("%s: got %+v, %v", test.name, all, err)
		}
	}
	if got := insight.Says(pin(3)); got != "pinned to level 3" {
		t.Errorf("got %s", got)
	}
}
