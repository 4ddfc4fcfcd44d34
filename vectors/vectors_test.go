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
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/internal/vectors"
	"github.com/docpriority/priority/memory"
)

var update = flag.Bool("update", false, "write the vectors anew")

func TestRuleVectors(t *testing.T)   { verify(t, "rule.json", ruleCases(), true) }
func TestSubmitVectors(t *testing.T) { verify(t, "submit.json", submitCases(), true) }
func TestEdgeVectors(t *testing.T)   { verify(t, "edges.json", edgeCases(), false) }

// verify holds a file to what its cases come to on a Redis whose time stands still, and in
// memory if memory can do them. A real server has to give the same levels where no time
// matters.
func verify(t *testing.T, file string, cases []vectors.Case, inMemory bool) {
	t.Parallel()
	for i, c := range cases {
		cases[i].Steps = answers(t, c, openRedis(t, c))
		if inMemory {
			same(t, "in memory", cases[i], answers(t, c, openMemory(t, c)))
		}
	}
	compare(t, file, asFile(t, "cases", cases))

	real := redistest.Start(t).Client()
	for _, c := range cases {
		if timeMatters(c) {
			continue
		}
		if err := real.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		world := &redisWorld{t: t, client: real, policy: c.Policy.Priority(), stores: make(map[time.Duration]*priority.RedisStore)}
		c.Steps = withoutTimes(c.Steps)
		same(t, "on a server", c, withoutTimes(answers(t, c, world)))
	}
}

// same compares what a case came to with what it has to.
func same(t *testing.T, where string, c vectors.Case, got []vectors.Step) {
	t.Helper()
	for i := range got {
		if !reflect.DeepEqual(got[i], c.Steps[i]) {
			t.Errorf("%s: %s: step %d came to\n%s\nand not\n%s", where, c.Name, i, asJSON(t, got[i]), asJSON(t, c.Steps[i]))
			return // what comes after it says nothing
		}
	}
}

// timeMatters reports whether a case comes to something else if all of it happens at once.
func timeMatters(c vectors.Case) bool {
	const least = 60_000
	return c.Policy.Interval < least || slices.ContainsFunc(c.Steps, func(s vectors.Step) bool {
		return s.At > 10_000 || s.TTL > 0 && s.TTL < least || s.Cost > 0
	})
}

// withoutTimes returns the steps without what depends on a few seconds.
func withoutTimes(steps []vectors.Step) []vectors.Step {
	steps = slices.Clone(steps)
	for i := range steps {
		s := &steps[i]
		s.Want = slices.Clone(s.Want)
		for j := range s.Want {
			s.Want[j].ResetIn, s.Want[j].Load, s.Want[j].Sojourn = nil, nil, nil
		}
		if s.State != nil {
			state := *s.State
			state.Level = 0 // of the documents of one millisecond, the latest level's
			state.ResetIn, state.Load, state.Lately, state.Oldest, state.Sojourn, state.Lease, state.EndsIn = 0, 0, 0, 0, 0, 0, 0
			s.State = &state
		}
	}
	return steps
}

// world is where the steps of a case are done, and its time.
type world interface {
	pass(d time.Duration)
	store(lease time.Duration) priority.Store
	set(s *vectors.Step)
	dump() string // what is stored
}

// answers does the steps of a case and returns them with what they came to.
func answers(t *testing.T, c vectors.Case, world world) []vectors.Step {
	t.Helper()
	now := int64(0)
	steps, meters := make([]vectors.Step, len(c.Steps)), make(map[priority.Store]*meter)
	for i, s := range c.Steps {
		world.pass(vectors.Milliseconds(s.At - now))
		now = s.At
		store := world.store(vectors.Milliseconds(cmp.Or(s.Lease, c.Lease)))
		if meters[store] == nil {
			meters[store] = &meter{store: store}
		}
		if s.Costs != nil || s.Cost > 0 {
			meters[store].warm(t)
		}
		before := world.dump()
		s.Want, s.State, s.Error = nil, nil, ""
		err := do(t, &s, world, store, meters[store])
		switch {
		case errors.Is(err, priority.ErrCorruptCount):
			s.Error = regexp.MustCompile("CORRUPT[A-Z]*").FindString(err.Error())
			if after := world.dump(); after != before {
				t.Errorf("step %d, %s, failed and left\n%s\nof\n%s", i, asJSON(t, s), after, before)
			}
		case err != nil:
			t.Fatalf("step %d, %s: %v", i, asJSON(t, s), err)
		}
		steps[i] = s
	}
	return steps
}

// do does a step, and notes what it came to, or returns an error.
func do(t *testing.T, s *vectors.Step, world world, store priority.Store, meter *meter) error {
	ctx := t.Context()
	switch s.Do {
	case "next":
		var decisions []priority.Decision
		var err error
		if *s.N == 1 {
			decisions, err = one(store.Next(ctx, s.Customer))
		} else {
			decisions, err = store.NextN(ctx, s.Customer, *s.N)
		}
		for _, d := range decisions {
			count, resetIn := d.Count, d.ResetIn.Milliseconds()
			s.Want = append(s.Want, vectors.Result{Level: int64(d.Level), Ruled: int64(d.Ruled), Count: &count, ResetIn: &resetIn})
		}
		return err
	case "submit":
		costs := meter.costs(t, s.Costs)
		var decisions []priority.Decision
		var err error
		if len(s.Documents) == 1 && costs != nil {
			decisions, err = one(store.Submit(ctx, s.Customer, s.Documents[0], costs[0]))
		} else {
			decisions, err = store.SubmitN(ctx, s.Customer, s.Documents, costs)
		}
		if err != nil {
			return err
		}
		for i, d := range decisions {
			load := int64(math.Round(d.Load * 1e6))
			s.Want = append(s.Want, vectors.Result{Level: int64(d.Level), Ruled: int64(d.Ruled), Load: &load, Pending: &d.Pending})
			if costs != nil {
				meter.told.Add(costs[i])
			}
		}
		return nil
	case "done":
		took := meter.took(t, s.Cost, len(s.Documents))
		ended := make(map[string]priority.Ended)
		ctx := priority.WithEnded(ctx, func(e priority.Ended) { ended[e.Document] = e })
		var err error
		if len(s.Documents) == 1 {
			err = store.Done(ctx, s.Customer, s.Documents[0], took)
		} else {
			err = store.DoneN(ctx, s.Customer, s.Documents, took)
		}
		if err != nil {
			return err
		}
		meter.ended(took, len(s.Documents), len(ended))
		for _, document := range s.Documents {
			e := ended[document]
			delete(ended, document) // it may be there twice
			sojourn := e.Sojourn.Milliseconds()
			s.Want = append(s.Want, vectors.Result{Level: int64(e.Level), Sojourn: &sojourn})
		}
		return nil
	case "peek":
		p, err := store.Peek(ctx, s.Customer)
		if err != nil {
			return err
		}
		s.State = &vectors.State{
			Rule:  map[priority.Rule]string{priority.Unknown: "unknown", priority.ByCount: "by_count", priority.ByLoad: "by_load"}[p.Rule],
			Level: int64(p.Level), NextLevel: int64(p.NextLevel), Count: p.Count, ResetIn: p.ResetIn.Milliseconds(),
			Load: int64(math.Round(p.Load * 1e6)), Lately: int64(math.Round(p.Lately * 1000)), Cost: int64(math.Round(p.Cost * 1000)),
			Pending: p.Pending, PendingLast: p.PendingLast,
			Oldest: p.Oldest.Milliseconds(), Sojourn: p.Sojourn.Milliseconds(), Lease: p.Lease.Milliseconds(),
			Ruled: int64(p.Ruled), Earliest: int64(p.Override.Earliest), Latest: int64(p.Override.Latest), EndsIn: p.OverrideEndsIn.Milliseconds(),
		}
		return nil
	case "reset":
		return store.Reset(ctx, s.Customer)
	case "set":
		world.set(s)
		return nil
	}
	return fmt.Errorf("no store does %q", s.Do)
}

func one(decision priority.Decision, err error) ([]priority.Decision, error) {
	if err != nil {
		return nil, err
	}
	return []priority.Decision{decision}, nil
}

// memoryWorld is a store in memory with a clock that is moved.
type memoryWorld struct {
	*memory.Store
	now time.Time
}

func openMemory(t *testing.T, c vectors.Case) *memoryWorld {
	t.Helper()
	w := &memoryWorld{now: time.UnixMilli(0)}
	var err error
	w.Store, err = memory.New(&memory.Options{
		Policy: c.Policy.Priority(), Lease: vectors.Milliseconds(c.Lease), Now: func() time.Time { return w.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *memoryWorld) pass(d time.Duration)               { w.now = w.now.Add(d) }
func (w *memoryWorld) store(time.Duration) priority.Store { return w.Store }
func (w *memoryWorld) dump() string                       { return "" }
func (w *memoryWorld) set(*vectors.Step)                  {}

// redisWorld is a Redis, whose time is moved if it is not a real one.
type redisWorld struct {
	t      *testing.T
	client *redis.Client
	still  *vectors.Redis // nil: a real server
	policy priority.Policy
	stores map[time.Duration]*priority.RedisStore // by lease
}

func openRedis(t *testing.T, c vectors.Case) *redisWorld {
	t.Helper()
	still := vectors.StartRedis(t)
	return &redisWorld{t: t, client: still.Client, still: still, policy: c.Policy.Priority(), stores: make(map[time.Duration]*priority.RedisStore)}
}

func (w *redisWorld) pass(d time.Duration) {
	if w.still != nil {
		w.still.Pass(d)
	}
}

func (w *redisWorld) dump() string {
	if w.still == nil {
		return ""
	}
	return w.still.Dump()
}

func (w *redisWorld) store(lease time.Duration) priority.Store { return w.open(lease) }

// open returns the store of a process with a lease; 0 is the default.
func (w *redisWorld) open(lease time.Duration) *priority.RedisStore {
	w.t.Helper()
	if w.stores[lease] == nil {
		store, err := priority.NewRedisStore(w.client, &priority.RedisOptions{Policy: w.policy, Lease: lease, Timeout: time.Minute, Overrides: true})
		if err != nil {
			w.t.Fatal(err)
		}
		w.stores[lease] = store
	}
	return w.stores[lease]
}

func (w *redisWorld) set(s *vectors.Step) {
	w.t.Helper()
	store := w.open(0)
	key := map[string]func(string) string{"": store.Key, "pending": store.PendingKey, "usage": store.UsageKey, "override": store.OverrideKey}[s.Key]
	if err := w.client.Set(w.t.Context(), key(s.Customer), *s.Value, vectors.Milliseconds(s.TTL)).Err(); err != nil {
		w.t.Fatal(err)
	}
}

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
	var keys []vectors.Keys
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
			keys = append(keys, vectors.Keys{
				Shown: strconv.QuoteToASCII(brief(customer)), Prefix: prefix, Customer: inHex(customer),
				Count: inHex(store.Key(customer)), Pending: inHex(store.PendingKey(customer)), Usage: inHex(store.UsageKey(customer)), Override: inHex(store.OverrideKey(customer)),
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
