// Package vectors_test holds the module's stores to the vectors that other languages
// are tested with.
package vectors_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
)

var update = flag.Bool("update", false, "write the vectors anew")

// The format of the files; README.md describes it.
type (
	vector struct {
		Name   string   `json:"name"`
		Policy policyOf `json:"policy"`
		Lease  int64    `json:"lease_ms,omitempty"` // where documents are pending
		Steps  []step   `json:"steps"`
	}
	policyOf struct {
		Thresholds []int64 `json:"thresholds"`
		Interval   int64   `json:"reset_interval_ms"`
		Mode       string  `json:"reset_mode"`
	}
	step struct {
		At        int64      `json:"at_ms"`
		Do        string     `json:"do"`
		Customer  string     `json:"customer"`
		N         *int       `json:"n,omitempty"`         // of next
		Documents []string   `json:"documents,omitempty"` // of submit and done
		Cost      int64      `json:"cost,omitempty"`      // of done, where it is known
		Key       string     `json:"key,omitempty"`       // of set, where it is not the count's
		Value     *string    `json:"value,omitempty"`     // of set
		TTL       int64      `json:"ttl_ms,omitempty"`    // of set
		Lease     int64      `json:"lease_ms,omitempty"`  // of the process, where it is not the case's
		Want      []decision `json:"want,omitempty"`
		MadeOf    *madeOf    `json:"made_of,omitempty"` // of a peek
		Error     string     `json:"error,omitempty"`
	}
	madeOf struct {
		Usage    int64 `json:"usage"`    // in hundredths
		Ordinary int64 `json:"ordinary"` // documents
		Cost     int64 `json:"cost"`     // in thousandths
		Lease    int64 `json:"lease_ms"`
	}
	decision struct {
		Level   priority.Level `json:"level"`
		Count   int64          `json:"count"`
		Pending *int64         `json:"pending,omitempty"` // where the case has a lease
		ResetIn int64          `json:"reset_in_ms"`
	}
	keysOf struct {
		Shown    string `json:"shown"`
		Prefix   string `json:"prefix"`
		Customer string `json:"customer_hex"`
		Count    string `json:"count_key_hex"`
		Pending  string `json:"pending_key_hex"`
		Usage    string `json:"usage_key_hex"`
	}
)

// customers are those of the case, each once.
func (v vector) customers() []string {
	var customers []string
	for _, step := range v.Steps {
		customers = append(customers, step.Customer)
	}
	slices.Sort(customers)
	return slices.Compact(customers)
}

func TestRuleVectors(t *testing.T)   { verify(t, "rule.json", ruleCases(), true) }
func TestSubmitVectors(t *testing.T) { verify(t, "submit.json", submitCases(), true) }
func TestEdgeVectors(t *testing.T)   { verify(t, "edges.json", edgeCases(), false) }

// verify holds a file's cases to what they come to on a miniredis and on a real
// server, and before in memory, which writes what they want, where it can do them.
func verify(t *testing.T, file string, cases []vector, inMemory bool) {
	t.Parallel()
	if inMemory {
		for i := range cases {
			cases[i].Steps = answers(t, cases[i], openMemory(t, cases[i]))
		}
	}
	compare(t, file, asFile(t, "cases", cases))
	t.Run("miniredis", func(t *testing.T) {
		server := miniredis.RunT(t)
		server.ClockTTL(true)
		now := time.Now()
		onRedis(t, redis.NewClient(&redis.Options{Addr: server.Addr()}), cases, func(steps int) {
			now = now.Add(milliseconds(slip) / time.Duration(steps))
			server.SetTime(now)
		})
	})
	t.Run("server", func(t *testing.T) { onRedis(t, redistest.Start(t).Client(), cases, func(int) {}) })
}

// onRedis does the cases on a server. Before each of a case's steps it lets some time
// be lost.
func onRedis(t *testing.T, client *redis.Client, cases []vector, lose func(steps int)) {
	t.Cleanup(func() { _ = client.Close() })
	for _, vector := range cases {
		t.Run(vector.Name, func(t *testing.T) {
			world := openStretched(t, client, vector)
			world.lose = func() { lose(len(vector.Steps)) }
			for i, got := range answers(t, vector, world) {
				if want := vector.Steps[i]; !reflect.DeepEqual(got, want) {
					t.Fatalf("step %d came to\n%s\nand not\n%s", i, asJSON(t, got), asJSON(t, want))
				}
			}
		})
	}
}

// world is where the steps of a case are done, and its time.
type world interface {
	pass(d time.Duration)
	milliseconds(d time.Duration) int64 // of the world's time, as a case has them
	store(lease time.Duration) priority.Store
	set(s step)
	madeOf(s step, lease time.Duration) *madeOf // of a peek
	dump(customer string) string                // what is stored, but for TTLs
}

// answers does the steps of a case and returns them with what they came to.
func answers(t *testing.T, vector vector, world world) []step {
	t.Helper()
	now := int64(0)
	steps, clocks := make([]step, len(vector.Steps)), make(map[priority.Store]*clock)
	held := make(map[string]map[string]bool)
	for i, s := range vector.Steps {
		world.pass(milliseconds(s.At - now))
		now = s.At
		before := world.dump(s.Customer)
		lease := milliseconds(cmp.Or(s.Lease, vector.Lease))
		store := world.store(lease)
		if clocks[store] == nil {
			clocks[store] = &clock{store: store, held: held}
		}
		decisions, err := do(t, s, world, store, clocks[store])
		s.Want, s.Error = nil, ""
		switch {
		case errors.Is(err, priority.ErrCorruptCount):
			s.Error = regexp.MustCompile("CORRUPT[A-Z]*").FindString(err.Error())
			if after := world.dump(s.Customer); after != before {
				t.Errorf("step %d, %s, failed and left\n%s\nof\n%s", i, asJSON(t, s), after, before)
			}
		case err != nil:
			t.Fatalf("step %d, %s: %v", i, asJSON(t, s), err)
		}
		for _, d := range decisions {
			want := decision{Level: d.Level, Count: d.Count, ResetIn: world.milliseconds(d.ResetIn)}
			if vector.Lease > 0 {
				want.Pending = &d.Pending
			}
			s.Want = append(s.Want, want)
		}
		if s.MadeOf != nil {
			s.MadeOf = world.madeOf(s, lease)
		}
		steps[i] = s
	}
	return steps
}

// do does a step and returns its decisions, or an error.
func do(t *testing.T, s step, world world, store priority.Store, clock *clock) ([]priority.Decision, error) {
	ctx := t.Context()
	switch s.Do {
	case "next":
		if *s.N == 1 {
			return one(store.Next(ctx, s.Customer))
		}
		return store.NextN(ctx, s.Customer, *s.N)
	case "submit":
		clock.submitted(s.Customer, s.Documents)
		if len(s.Documents) == 1 {
			return one(store.Submit(ctx, s.Customer, s.Documents[0], 0))
		}
		decisions, err := store.SubmitN(ctx, s.Customer, s.Documents, nil)
		return all(decisions, err)
	case "done":
		took := clock.took(t, s.Customer, s.Cost, s.Documents)
		if len(s.Documents) == 1 {
			return nil, store.Done(ctx, s.Customer, s.Documents[0], took)
		}
		return nil, store.DoneN(ctx, s.Customer, s.Documents, took)
	case "peek":
		return one(store.Peek(ctx, s.Customer))
	case "reset":
		delete(clock.held, s.Customer)
		return nil, store.Reset(ctx, s.Customer)
	case "set":
		world.set(s)
		return nil, nil
	}
	return nil, fmt.Errorf("no store does %q", s.Do)
}

func one(decision priority.Decision, err error) ([]priority.Decision, error) {
	return all([]priority.Decision{decision}, err)
}

func all(decisions []priority.Decision, err error) ([]priority.Decision, error) {
	if err != nil {
		return nil, err
	}
	return decisions, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (p policyOf) policy() priority.Policy {
	mode := map[string]priority.ResetMode{sinceLastUpdate: priority.SinceLastUpdate, sinceLastReset: priority.SinceLastReset}
	return priority.Policy{Thresholds: p.Thresholds, ResetInterval: milliseconds(p.Interval), ResetMode: mode[p.Mode]}
}

// memoryWorld is a store in memory with a clock that is moved.
type memoryWorld struct {
	*memory.Store
	now time.Time
}

func openMemory(t *testing.T, vector vector) *memoryWorld {
	t.Helper()
	w := &memoryWorld{now: time.UnixMilli(0)}
	var err error
	w.Store, err = memory.New(&memory.Options{
		Policy: vector.Policy.policy(), Lease: milliseconds(vector.Lease), Now: func() time.Time { return w.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *memoryWorld) pass(d time.Duration)               { w.now = w.now.Add(d) }
func (w *memoryWorld) milliseconds(d time.Duration) int64 { return d.Milliseconds() }
func (w *memoryWorld) store(time.Duration) priority.Store { return w.Store }
func (w *memoryWorld) dump(string) string                 { return "" }
func (w *memoryWorld) set(step)                           {}
func (w *memoryWorld) madeOf(step, time.Duration) *madeOf { return nil }

// oddCustomers would share a key, or a hash tag, or be cut short, where a key is made
// without care.
var oddCustomers = []string{
	"acme", "Acme", "acme ", " acme",
	"{", "}", "{}", "}{", "{{", "}}", "{acme}", "acme}", "{acme", "a}b", "a{b",
	"%", "%%", "%25", "%7D", "%7d", "%257D", "a%7Db", "a%b", "%s", "%!d",
	"acme}:count", "acme:count", ":", "acme:{x}",
	"\x00", "a\x00", "a\x00b", "\n", "\r\n", "a\r\nb", "*1\r\n$4\r\nPING\r\n", "\t", " ",
	"\xff", "\xfe\xff", "a\xffb", "\xc3\x28", "\xed\xa0\x80", "ü", "u\u0308", "客户", "\U0001F4C4",
	"\"", "'", "\\", "0", "-1", "]]", "--", "nil",
	strings.Repeat("x", 511), strings.Repeat("x", 512), strings.Repeat("}", 512), strings.Repeat("\x00", 512),
}

func TestKeyVectors(t *testing.T) {
	var keys []keysOf
	for _, prefix := range []string{"priority", "fleet-1", "a:%", "größer"} {
		store, err := priority.NewRedisStore(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), &priority.RedisOptions{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		customers := oddCustomers
		if prefix != "priority" {
			customers = []string{"acme", "100%", "{a}", "\xff"}
		}
		inHex := func(text string) string { return hex.EncodeToString([]byte(text)) }
		for _, customer := range customers {
			keys = append(keys, keysOf{
				Shown: strconv.QuoteToASCII(brief(customer)), Prefix: prefix, Customer: inHex(customer),
				Count: inHex(store.Key(customer)), Pending: inHex(store.PendingKey(customer)), Usage: inHex(store.UsageKey(customer)),
			})
		}
	}
	compare(t, "keys.json", asFile(t, "keys", keys))
}

func brief(customer string) string {
	if len(customer) > 40 {
		return fmt.Sprintf("%s… (%d bytes)", customer[:30], len(customer))
	}
	return customer
}

// asFile returns an object as JSON, with a line for each item of its lists. Its fields
// are names, each followed by a value.
func asFile(t *testing.T, fields ...any) []byte {
	t.Helper()
	var parts []string
	for i := 0; i < len(fields); i += 2 {
		text := asJSON(t, fields[i+1])
		if items := reflect.ValueOf(fields[i+1]); items.Kind() == reflect.Slice {
			lines := make([]string, items.Len())
			for i := range lines {
				lines[i] = asJSON(t, items.Index(i).Interface())
			}
			text = "[\n" + strings.Join(lines, ",\n") + "\n]"
		}
		parts = append(parts, asJSON(t, fields[i])+": "+text)
	}
	return []byte("{" + strings.Join(parts, ",\n") + "}\n")
}

// compare compares a file with what it should be, or writes it.
func compare(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what its cases come to (%v): run go test ./vectors -update and look at the difference", file, err)
	}
}

// asJSON is JSON in one line, with < and > as they are.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
