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
		Lease  int64    `json:"lease_ms,omitempty"`
		Steps  []step   `json:"steps"`
	}
	policyOf struct {
		Thresholds []int64   `json:"thresholds"`
		Interval   int64     `json:"reset_interval_ms"`
		Mode       string    `json:"reset_mode"`
		Loads      []float64 `json:"loads,omitzero"`
		Turns      int       `json:"turns,omitzero"`
	}
	step struct {
		At        int64    `json:"at_ms"`
		Do        string   `json:"do"`
		Customer  string   `json:"customer"`
		N         *int     `json:"n,omitempty"`         // of next
		Documents []string `json:"documents,omitempty"` // of submit and done
		Costs     []int64  `json:"costs,omitempty"`     // of submit, where they are known
		Cost      int64    `json:"cost,omitempty"`      // of done, where it is known
		Key       string   `json:"key,omitempty"`       // of set, where it is not the count's
		Value     *string  `json:"value,omitempty"`     // of set
		TTL       int64    `json:"ttl_ms,omitempty"`    // of set
		Lease     int64    `json:"lease_ms,omitempty"`  // of the process, where it is not the case's
		Want      []result `json:"want,omitempty"`
		State     *state   `json:"state,omitempty"` // of peek
		Error     string   `json:"error,omitempty"`
	}
	// result is of one document. next has the third line, submit the fourth, done the last.
	result struct {
		Level   int64  `json:"level"`
		Ruled   int64  `json:"ruled,omitempty"` // without the override, where there is one
		Count   *int64 `json:"count,omitempty"`
		ResetIn *int64 `json:"reset_in_ms,omitempty"`
		Load    *int64 `json:"load,omitempty"` // in millionths
		Pending *int64 `json:"pending,omitempty"`
		Sojourn *int64 `json:"sojourn_ms,omitempty"`
	}
	state struct {
		Rule        string `json:"rule"`
		Level       int64  `json:"level"`
		NextLevel   int64  `json:"next_level"`
		Count       int64  `json:"count"`
		ResetIn     int64  `json:"reset_in_ms"`
		Load        int64  `json:"load"`   // in millionths
		Lately      int64  `json:"lately"` // in thousandths, as is the next
		Cost        int64  `json:"cost"`
		Pending     int64  `json:"pending"`
		PendingLast int64  `json:"pending_last"`
		Oldest      int64  `json:"oldest_ms"`
		Sojourn     int64  `json:"sojourn_ms"`
		LeaseOf     int64  `json:"lease_ms"`
		Ruled       int64  `json:"ruled,omitempty"` // this and the next ones where there is an override
		Earliest    int64  `json:"earliest,omitempty"`
		Latest      int64  `json:"latest,omitempty"`
		EndsIn      int64  `json:"override_ends_in_ms,omitempty"`
	}
	keysOf struct {
		Shown    string `json:"shown"`
		Prefix   string `json:"prefix"`
		Customer string `json:"customer_hex"`
		Count    string `json:"count_key_hex"`
		Pending  string `json:"pending_key_hex"`
		Usage    string `json:"usage_key_hex"`
		Override string `json:"override_key_hex"`
	}
)

// customers are the case's, each once.
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

// verify holds a file's cases to what they come to in memory, or on a Redis whose time
// does what the case says if memory cannot do them. The same has to come of them on Redis,
// there and where some time is lost, and on a real server.
func verify(t *testing.T, file string, cases []vector, inMemory bool) {
	t.Parallel()
	exact, _ := openMini(t)
	for i := range cases {
		if inMemory {
			cases[i].Steps = answers(t, cases[i], openMemory(t, cases[i]))
		} else {
			cases[i].Steps = answers(t, cases[i], openStretched(t, exact, cases[i]))
		}
	}
	compare(t, file, asFile(t, "cases", cases))
	t.Run("exactly", func(t *testing.T) {
		client, _ := openMini(t)
		onRedis(t, client, cases, func(int) {})
	})
	t.Run("slowly", func(t *testing.T) {
		client, lose := openMini(t)
		onRedis(t, client, cases, func(steps int) { lose(milliseconds(slip) / time.Duration(steps)) })
	})
	t.Run("on a server", func(t *testing.T) { onRedis(t, redistest.Start(t).Client(), cases, func(int) {}) })
}

// openMini starts a miniredis whose time stands still, but for what is lost.
func openMini(t *testing.T) (client *redis.Client, lose func(time.Duration)) {
	server := miniredis.RunT(t)
	server.ClockTTL(true)
	now := time.Now().Truncate(time.Millisecond)
	lose = func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
	}
	lose(0)
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return client, lose
}

// onRedis does the cases on a server. Before each of a case's steps it lets some time
// be lost.
func onRedis(t *testing.T, client *redis.Client, cases []vector, lose func(steps int)) {
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
	milliseconds(d time.Duration) int64 // of the count's time, as a case has them
	store(lease time.Duration) priority.Store
	set(s step)
	took() int64                 // milliseconds that the case has taken so far and should not have
	dump(customer string) string // what is stored, but for TTLs
}

// answers does the steps of a case and returns them with what they came to.
func answers(t *testing.T, vector vector, world world) []step {
	t.Helper()
	now := int64(0)
	steps, meters := make([]step, len(vector.Steps)), make(map[priority.Store]*meter)
	for i, s := range vector.Steps {
		world.pass(milliseconds(s.At - now))
		now = s.At
		before := world.dump(s.Customer)
		store := world.store(milliseconds(cmp.Or(s.Lease, vector.Lease)))
		if meters[store] == nil {
			meters[store] = &meter{store: store}
		}
		want := s
		s.Want, s.State, s.Error = nil, nil, ""
		err := do(t, &s, world, store, meters[store])
		switch {
		case errors.Is(err, priority.ErrCorruptCount):
			s.Error = regexp.MustCompile("CORRUPT[A-Z]*").FindString(err.Error())
			if after := world.dump(s.Customer); after != before {
				t.Errorf("step %d, %s, failed and left\n%s\nof\n%s", i, asJSON(t, s), after, before)
			}
		case err != nil:
			t.Fatalf("step %d, %s: %v", i, asJSON(t, s), err)
		}
		s.forgive(want, world.took())
		steps[i] = s
	}
	return steps
}

// forgive takes numbers for those wanted which only the time that a case has taken has
// changed.
func (s *step) forgive(want step, took int64) {
	if took == 0 {
		return
	}
	for i := range min(len(s.Want), len(want.Want)) {
		got, want := &s.Want[i], want.Want[i]
		if got.Load != nil && want.Load != nil {
			smaller(got.Load, *want.Load, *want.Load/500, took)
		}
		if got.Sojourn != nil && want.Sojourn != nil && want.Level > 0 {
			greater(got.Sojourn, *want.Sojourn, took)
		}
	}
	if got, want := s.State, want.State; got != nil && want != nil {
		smaller(&got.EndsIn, want.EndsIn, 0, took)
		smaller(&got.Load, want.Load, want.Load/500, took)
		smaller(&got.Lately, want.Lately, 100, took)
		if want.Pending > 0 {
			greater(&got.Oldest, want.Oldest, took)
		}
		if want.Sojourn > 0 {
			greater(&got.Sojourn, want.Sojourn, took+100)
			greater(&got.LeaseOf, want.LeaseOf, 20*(took+100))
		}
	}
}

func smaller(got *int64, want, by, took int64) {
	if less := want - *got; less > 0 && less <= by+want/day*took+took {
		*got = want
	}
}

func greater(got *int64, want, by int64) {
	if more := *got - want; more > 0 && more <= by {
		*got = want
	}
}

// do does a step, and notes what it came to, or returns an error.
func do(t *testing.T, s *step, world world, store priority.Store, meter *meter) error {
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
			count, resetIn := d.Count, world.milliseconds(d.ResetIn)
			s.Want = append(s.Want, result{Level: int64(d.Level), Ruled: int64(d.Ruled), Count: &count, ResetIn: &resetIn})
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
			s.Want = append(s.Want, result{Level: int64(d.Level), Ruled: int64(d.Ruled), Load: &load, Pending: &d.Pending})
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
			s.Want = append(s.Want, result{Level: int64(e.Level), Sojourn: &sojourn})
		}
		return nil
	case "peek":
		p, err := store.Peek(ctx, s.Customer)
		if err != nil {
			return err
		}
		s.State = &state{
			Rule:  map[priority.Rule]string{priority.Unknown: "unknown", priority.ByCount: "by_count", priority.ByLoad: "by_load"}[p.Rule],
			Level: int64(p.Level), NextLevel: int64(p.NextLevel), Count: p.Count, ResetIn: world.milliseconds(p.ResetIn),
			Load: int64(math.Round(p.Load * 1e6)), Lately: int64(math.Round(p.Lately * 1000)), Cost: int64(math.Round(p.Cost * 1000)),
			Pending: p.Pending, PendingLast: p.PendingLast,
			Oldest: p.Oldest.Milliseconds(), Sojourn: p.Sojourn.Milliseconds(), LeaseOf: p.Lease.Milliseconds(),
			Ruled: int64(p.Ruled), Earliest: int64(p.Override.Earliest), Latest: int64(p.Override.Latest), EndsIn: p.OverrideEndsIn.Milliseconds(),
		}
		return nil
	case "reset":
		return store.Reset(ctx, s.Customer)
	case "set":
		world.set(*s)
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

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (p policyOf) policy() priority.Policy {
	mode := map[string]priority.ResetMode{sinceLastUpdate: priority.SinceLastUpdate, sinceLastReset: priority.SinceLastReset}
	return priority.Policy{
		Thresholds: p.Thresholds, ResetInterval: milliseconds(p.Interval), ResetMode: mode[p.Mode], Loads: p.Loads, Turns: p.Turns,
	}
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
func (w *memoryWorld) took() int64                        { return 0 }

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
