package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/redistest"
)

// tinySize is enough to run everything and too little to tell anything.
func tinySize() size {
	return size{
		rounds: 1, customers: 100, decisions: 80, slice: 20, callers: 8, lap: 5 * time.Millisecond,
		pending: 200,
	}
}

// Every table is measured, with a figure in each cell, and leaves no server behind.
func TestTables(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), Options{Tables: Tables()}, tinySize(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") {
			t.Errorf("no figure: %s", line)
		}
	}
	for _, name := range Tables() {
		if !strings.Contains(out.String(), "## "+name+"\n") {
			t.Errorf("there is no table %s", name)
		}
	}
	for _, name := range []string{
		floorName, plainIncrName, nextName, overriddenName, batchedName, timedName, rateName, rateBatchedName, limiterName, rueidisName,
	} {
		if !strings.Contains(out.String(), "| "+name+" ") {
			t.Errorf("there is no row of %s", name)
		}
	}
	wantNothingLeft(t)
}

// Whenever it is interrupted, it ends, and so do its servers.
func TestInterrupt(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	for _, table := range Tables() {
		t.Setenv("TMPDIR", t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		progress := writerFunc(func(line []byte) (int, error) { cancel(); return len(line), nil })
		err := run(ctx, Options{Tables: []string{table}}, fullSize(9), io.Discard, progress)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", table, err)
		}
		wantNothingLeft(t)
	}
}

// wantNothingLeft looks for the directories of servers.
func wantNothingLeft(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("%s is left", entry.Name())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

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

// All are measured on the same mixture, and every slice of it is alike.
func TestDocuments(t *testing.T) {
	b := &bench{size: tinySize()}
	documents := b.documents(b.slice, "")
	if len(documents.slices) != b.decisions/b.slice {
		t.Errorf("%d slices", len(documents.slices))
	}
	known := make(map[string]bool)
	for _, name := range documents.before {
		known[name] = true
	}
	for _, slice := range documents.slices {
		fresh, seen := 0, make(map[string]bool)
		for _, name := range slice {
			if seen[name] {
				t.Errorf("%s is in a slice twice", name)
			}
			seen[name] = true
			if !known[name] {
				fresh++
			}
			known[name] = true
		}
		if len(slice) != b.slice || fresh != b.slice/newCustomers {
			t.Errorf("a slice of %d with %d new customers", len(slice), fresh)
		}
	}
}

// What scripts call is listed by the server beside what clients call, and is part
// of the script's time already.
func TestTimePerDecision(t *testing.T) {
	perCall := map[string]float64{"evalsha": 4, "get": 1, "set": 1.5, "time": 0.5}
	for _, test := range []struct {
		name string
		sent map[string]int
		want float64
	}{
		{"one script", map[string]int{"evalsha": 10}, 4},
		{"some commands", map[string]int{"time": 10, "get": 10, "evalsha": 5}, 3.5},
	} {
		got, err := timePerDecision(perCall, test.sent, 10)
		if err != nil || got != test.want {
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		}
	}
	for name, sent := range map[string]map[string]int{
		"fewer commands than decisions": {"evalsha": 9},
		"a command without statistics":  {"evalsha": 10, "ping": 1},
	} {
		if got, err := timePerDecision(perCall, sent, 10); err == nil {
			t.Errorf("%s: %v and no error", name, got)
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

func TestBar(t *testing.T) {
	for _, test := range []struct {
		bar bar
		met bool
	}{
		{bar{figure: 1.154, bound: 1.15}, true}, // printed as 1.15
		{bar{figure: 1.156, bound: 1.15}, false},
		{bar{figure: 500, bound: 500, atLeast: true}, true},
		{bar{figure: 1.9, bound: 2, atLeast: true}, false},
	} {
		verdict := test.bar.row()[3]
		if (verdict == "met") != test.met {
			t.Errorf("%+v: %s", test.bar, verdict)
		}
	}
}

func TestFigures(t *testing.T) {
	for want, got := range map[string]string{
		"1.15": ratio(1.154), "12.3": ratio(12.34), "10.0": ratio(9.999), "100": ratio(99.99),
		"1,234,567": whole(1234567), "999": whole(999), "62.3": thousands(samples{62_340}),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Tables: []string{"nothing"}, Rounds: 1}, {Tables: Tables()}} {
		if err := o.Validate(); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestCPUList(t *testing.T) {
	got, err := cpuList("0-2,5")
	if err != nil || !slices.Equal(got, []string{"0", "1", "2", "5"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := cpuList("all"); err == nil {
		t.Errorf("%q and no error", got)
	}
}
