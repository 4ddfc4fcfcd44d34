package bench

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// tinySize is enough to run everything and too little to tell anything.
func tinySize() size {
	return size{
		rounds: 1, customers: 100, decisions: 80, slice: 20, callers: 8, lap: 5 * time.Millisecond,
		pending: 200,
	}
}

// Every table is measured, with a figure in each cell.
func TestTables(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	var out bytes.Buffer
	if err := run(t.Context(), tinySize(), false, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") {
			t.Errorf("no figure: %s", line)
		}
	}
	for _, name := range []string{"peers", "scripts"} {
		if !strings.Contains(out.String(), "## "+name+"\n") {
			t.Errorf("there is no table %s", name)
		}
	}
	for _, name := range []string{
		floorName, plainIncrName, nextName, overriddenName, batchedName, timedName, rateName, rueidisName,
	} {
		if !strings.Contains(out.String(), "| "+name+" ") {
			t.Errorf("there is no row of %s", name)
		}
	}
}

// Each contender keeps something for each customer, and not forever; otherwise it
// would be compared with what it does not do.
func TestContenders(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	ctx := t.Context()
	b := &bench{size: tinySize(), tb: t, progress: io.Discard}
	server, err := b.startServer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	contenders, closeAll, err := openContenders(ctx, server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	names := customerNames(50)
	for _, c := range contenders {
		for kind, decide := range map[string]decide{"decide": c.decide, "counted": c.counted} {
			if err := server.clear(ctx); err != nil {
				t.Fatal(err)
			}
			if err := decideAll(ctx, b.callers, slices.Repeat(shuffled(names), 3), decide); err != nil {
				t.Fatalf("%s, %s: %v", c.name, kind, err)
			}
			keys := server.client.Keys(ctx, "*").Val()
			if len(keys) != len(names) {
				t.Errorf("%s, %s: %d keys of %d customers", c.name, kind, len(keys), len(names))
			}
			for _, key := range keys {
				if ttl := server.client.PTTL(ctx, key).Val(); ttl < 30*time.Second {
					t.Fatalf("%s, %s: %s has the TTL %v", c.name, kind, key, ttl)
				}
			}
		}
		c.sent.reset()
		if err := decideAll(ctx, b.callers, names, c.counted); err != nil {
			t.Fatal(err)
		}
		commands := 0
		for _, calls := range c.sent.calls() {
			commands += calls
		}
		if commands < len(names) {
			t.Errorf("%s: %d commands were seen for %d decisions", c.name, commands, len(names))
		}
	}
}

func TestSamples(t *testing.T) {
	ours, base := samples{3, 1, 20}, samples{2, 1, 10}
	if got := ours.over(base).String(); got != "1.50 (1.00–2.00)" {
		t.Error(got)
	}
	if got := (samples{4, 1, 3, 2}).median(); got != 2.5 {
		t.Errorf("the median of four is %v", got)
	}
	if got := ours.median(); got != 3 {
		t.Errorf("the median of three is %v", got)
	}
	if !slices.Equal(ours, samples{3, 1, 20}) {
		t.Errorf("the rounds are out of order: %v", ours)
	}
}
