package priority_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/prioritytest"
)

var update = flag.Bool("update", false, "write vectors/*.json anew")

// The format of vectors/*.json; vectors/README.md describes it.
type (
	vectorFile struct {
		Cases []vectorCase `json:"cases"`
	}
	vectorCase struct {
		Name   string       `json:"name"`
		Policy vectorPolicy `json:"policy"`
		Lease  int64        `json:"lease_ms,omitempty"` // of a tracker
		Steps  []vectorStep `json:"steps"`
	}
	vectorPolicy struct {
		Thresholds []int64 `json:"thresholds"`
		Interval   int64   `json:"reset_interval_ms"`
		Mode       string  `json:"reset_mode"`
	}
	vectorStep struct {
		At        int64            `json:"at_ms"`
		Do        string           `json:"do"`
		Customer  string           `json:"customer"`
		N         int              `json:"n,omitempty"`         // of next
		Documents []string         `json:"documents,omitempty"` // of submit and done
		Want      []vectorDecision `json:"want,omitempty"`
	}
	vectorDecision struct {
		Level   priority.Level `json:"level"`
		Count   int64          `json:"count"`
		Pending *int64         `json:"pending,omitempty"` // of a tracker
		ResetIn int64          `json:"reset_in_ms"`
	}
	vectorKey struct {
		Shown    string `json:"shown"`
		Prefix   string `json:"prefix"`
		Customer string `json:"customer_hex"`
		Count    string `json:"count_key_hex"`
		Pending  string `json:"pending_key_hex"`
	}
)

const (
	sinceLastUpdate = "since_last_update"
	sinceLastReset  = "since_last_reset"
)

func (p vectorPolicy) policy() priority.Policy {
	mode := map[string]priority.ResetMode{sinceLastUpdate: priority.SinceLastUpdate, sinceLastReset: priority.SinceLastReset}
	return priority.Policy{
		Thresholds: p.Thresholds, ResetMode: mode[p.Mode],
		ResetInterval: time.Duration(p.Interval) * time.Millisecond,
	}
}

// The makers of steps.

func next(at int64, customer string, n int) vectorStep {
	return vectorStep{At: at, Do: "next", Customer: customer, N: n}
}

func submit(at int64, customer string, documents ...string) vectorStep {
	return vectorStep{At: at, Do: "submit", Customer: customer, Documents: documents}
}

func done(at int64, customer string, documents ...string) vectorStep {
	return vectorStep{At: at, Do: "done", Customer: customer, Documents: documents}
}

func peek(at int64, customer string) vectorStep {
	return vectorStep{At: at, Do: "peek", Customer: customer}
}

func reset(at int64, customer string) vectorStep {
	return vectorStep{At: at, Do: "reset", Customer: customer}
}

// each makes n steps, some milliseconds apart.
func each(n int, apart int64, step func(i int, at int64) vectorStep) []vectorStep {
	steps := make([]vectorStep, n)
	for i := range steps {
		steps[i] = step(i, int64(i)*apart)
	}
	return steps
}

// standard is the default policy written out.
func standard(mode string) vectorPolicy {
	return vectorPolicy{Thresholds: priority.DefaultPolicy().Thresholds, Interval: quiet.Milliseconds(), Mode: mode}
}

// ruleCases are the cases of rule.json, without what they want.
func ruleCases() []vectorCase {
	var cases []vectorCase
	interval := quiet.Milliseconds()
	for _, mode := range []string{sinceLastUpdate, sinceLastReset} {
		add := func(name string, policy vectorPolicy, steps ...vectorStep) {
			policy.Mode = mode
			cases = append(cases, vectorCase{Name: name + ", " + mode, Policy: policy, Steps: steps})
		}
		add("a new customer's first documents, a second apart", standard(mode),
			each(30, 1000, func(_ int, at int64) vectorStep { return next(at, "acme", 1) })...)
		add("exactly the interval is not more than the interval", standard(mode),
			next(0, "acme", 1), next(interval, "acme", 1), next(2*interval, "acme", 1), next(2*interval+1, "acme", 1),
			next(3*interval+1, "acme", 1), next(3*interval+2, "acme", 1), next(5*interval, "acme", 1))
		add("one millisecond more is", standard(mode),
			next(0, "acme", 4), next(interval+1, "acme", 1), next(2*interval+2, "acme", 1), next(2*interval+3, "acme", 1))
		add("a steady customer who never pauses for the interval", standard(mode),
			each(12, 500_000, func(_ int, at int64) vectorStep { return next(at, "acme", 2) })...)
		add("many documents at once", standard(mode),
			next(0, "acme", 30), next(1, "acme", 1), next(2, "other", 3), next(3, "other", 5),
			next(interval+1, "acme", 2), next(2*interval+2, "acme", 5))
		add("customers do not meet", standard(mode),
			next(0, "acme", 10), next(1, "Acme", 1), next(2, "acme ", 1), next(3, "acme", 1), next(4, "Acme", 1))
		add("a peek counts nothing and renews nothing", standard(mode),
			peek(0, "acme"), next(0, "acme", 5), peek(0, "acme"), peek(1000, "acme"), peek(interval, "acme"),
			peek(interval+1, "acme"), next(interval+1, "acme", 1), peek(interval+1, "acme"))
		add("a reset forgets", standard(mode),
			reset(0, "acme"), next(1, "acme", 22), next(1, "other", 1), reset(2, "acme"), peek(3, "acme"),
			next(4, "acme", 1), next(5, "acme", 1), next(6, "other", 1), next(interval+4, "acme", 1), next(interval+5, "acme", 1))
		add("a table and an interval of its own", vectorPolicy{Thresholds: []int64{-1, -3}, Interval: 60_000},
			next(0, "acme", 6), next(60_000, "acme", 1), next(120_001, "acme", 1))
		add("one level", vectorPolicy{Thresholds: []int64{}, Interval: 1000},
			next(0, "acme", 3), next(1000, "acme", 1), next(2001, "acme", 1))
		add("thresholds above zero", vectorPolicy{Thresholds: []int64{5, 1, 0, -1}, Interval: 1000},
			peek(0, "acme"), next(0, "acme", 3), next(2000, "acme", 1))
		add("the shortest interval", vectorPolicy{Thresholds: []int64{-1}, Interval: 1},
			next(0, "acme", 3), next(1, "acme", 1), next(3, "acme", 1), next(9, "acme", 1))
		var many []int64
		for i := range int64(40) {
			many = append(many, -i)
		}
		add("forty-one levels", vectorPolicy{Thresholds: many, Interval: 86_400_000},
			next(0, "acme", 45), next(86_400_000, "acme", 1), next(2*86_400_000+1, "acme", 1))
	}
	return cases
}

// trackerCases are the cases of tracker.json, without what they want.
func trackerCases() []vectorCase {
	var cases []vectorCase
	interval := quiet.Milliseconds()
	for _, mode := range []string{sinceLastUpdate, sinceLastReset} {
		add := func(name string, policy vectorPolicy, lease int64, steps ...vectorStep) {
			policy.Mode = mode
			cases = append(cases, vectorCase{Name: name + ", " + mode, Policy: policy, Lease: lease, Steps: steps})
		}
		named := func(i int) string { return "invoice-" + strconv.Itoa(i+1) }
		add("documents that nobody has done yet", standard(mode), 900_000,
			each(26, 1000, func(i int, at int64) vectorStep { return submit(at, "acme", named(i)) })...)
		add("documents that are done at once: the mean of two levels", standard(mode), 900_000,
			each(52, 1000, func(i int, at int64) vectorStep {
				if i%2 == 0 {
					return submit(at, "acme", named(i/2))
				}
				return done(at, "acme", named(i/2))
			})...)
		add("a document that is delivered again counts nothing", standard(mode), 900_000,
			submit(0, "acme", "a"), submit(1, "acme", "a"), submit(2, "acme", "a", "b", "a", "b"), peek(3, "acme"),
			done(4, "acme", "a"), submit(5, "acme", "a"), peek(6, "acme"))
		add("a lease ends later than exactly its length", standard(mode), 60_000,
			submit(0, "acme", "a"), submit(1000, "acme", "b"), peek(60_000, "acme"), peek(60_001, "acme"),
			submit(61_000, "acme", "c"), peek(61_001, "acme"), peek(121_000, "acme"), peek(121_001, "acme"))
		add("a delivery renews the lease", standard(mode), 60_000,
			submit(0, "acme", "a"), submit(0, "acme", "b"), submit(60_000, "acme", "a"), peek(60_001, "acme"),
			peek(120_000, "acme"), peek(120_001, "acme"), submit(120_001, "acme", "a"))
		add("done", standard(mode), 900_000,
			done(0, "acme", "unknown"), submit(1, "acme", "a", "b", "c"), done(2, "acme", "b"), peek(3, "acme"),
			done(4, "acme", "b"), peek(5, "acme"), done(6, "acme", "a", "c", "a"), peek(7, "acme"), submit(8, "acme", "b"))
		add("customers do not meet", standard(mode), 900_000,
			submit(0, "acme", "a", "b"), submit(1, "other", "a"), done(2, "other", "a"), peek(3, "acme"), peek(3, "other"))
		add("a reset forgets the count and the documents", standard(mode), 900_000,
			submit(0, "acme", "a", "b", "c", "d"), reset(1, "acme"), peek(2, "acme"), submit(3, "acme", "a"), done(4, "acme", "b"), peek(5, "acme"))
		add("documents stay pending while the count is reset", vectorPolicy{Thresholds: []int64{-1, -3}, Interval: 60_000}, 900_000,
			submit(0, "acme", "a", "b", "c", "d", "e"), peek(60_000, "acme"), peek(60_001, "acme"), submit(60_001, "acme", "a"),
			submit(60_002, "acme", "b", "f"), submit(120_002, "acme", "g"), submit(180_003, "acme", "h"))
		add("the count goes on while documents are forgotten", standard(mode), 1000,
			submit(0, "acme", "a", "b", "c", "d", "e"), submit(1001, "acme", "a"), submit(interval, "acme", "b"), submit(2*interval+1, "acme", "c"))
	}
	return cases
}

// worker is a store or a tracker, as the steps use it.
type worker interface {
	do(ctx context.Context, step vectorStep) ([]priority.Decision, error)
}

type storeWorker struct{ priority.Store }

func (w storeWorker) do(ctx context.Context, step vectorStep) ([]priority.Decision, error) {
	switch {
	case step.Do == "next" && step.N == 1:
		return one(w.Next(ctx, step.Customer))
	case step.Do == "next":
		return w.NextN(ctx, step.Customer, step.N)
	case step.Do == "peek":
		return one(w.Peek(ctx, step.Customer))
	case step.Do == "reset":
		return nil, w.Reset(ctx, step.Customer)
	}
	return nil, fmt.Errorf("a store does no %q", step.Do)
}

type trackerWorker struct{ priority.Tracker }

func (w trackerWorker) do(ctx context.Context, step vectorStep) ([]priority.Decision, error) {
	switch {
	case step.Do == "submit" && len(step.Documents) == 1:
		return one(w.Submit(ctx, step.Customer, step.Documents[0]))
	case step.Do == "submit":
		return w.SubmitN(ctx, step.Customer, step.Documents)
	case step.Do == "done" && len(step.Documents) == 1:
		return nil, w.Done(ctx, step.Customer, step.Documents[0])
	case step.Do == "done":
		return nil, w.DoneN(ctx, step.Customer, step.Documents)
	case step.Do == "peek":
		return one(w.Peek(ctx, step.Customer))
	case step.Do == "reset":
		return nil, w.Reset(ctx, step.Customer)
	}
	return nil, fmt.Errorf("a tracker does no %q", step.Do)
}

func one(decision priority.Decision, err error) ([]priority.Decision, error) {
	return []priority.Decision{decision}, err
}

// answers does the steps of a case and returns them with what they came to.
func answers(t *testing.T, vector vectorCase, worker worker, wait func(time.Duration)) []vectorStep {
	t.Helper()
	var now int64
	steps := make([]vectorStep, len(vector.Steps))
	for i, step := range vector.Steps {
		wait(time.Duration(step.At-now) * time.Millisecond)
		now = step.At
		decisions, err := worker.do(t.Context(), step)
		if err != nil {
			t.Fatalf("step %d, %+v: %v", i, step, err)
		}
		step.Want = nil
		for _, d := range decisions {
			want := vectorDecision{Level: d.Level, Count: d.Count, ResetIn: d.ResetIn.Milliseconds()}
			if vector.Lease > 0 {
				want.Pending = &d.Pending
			}
			step.Want = append(step.Want, want)
		}
		steps[i] = step
	}
	return steps
}

// verify does the steps of all cases and compares what they come to. The times
// may be longer than wanted by up to the slack.
func verify(t *testing.T, file string, slack time.Duration, open func(*testing.T, vectorCase) (worker, func(time.Duration))) {
	t.Helper()
	for _, vector := range readVectors[vectorFile](t, file).Cases {
		// Where time is moved by hand, an interval must outlast what a test takes.
		if slack > 0 && vector.Policy.Interval < time.Second.Milliseconds() {
			continue
		}
		t.Run(vector.Name, func(t *testing.T) {
			worker, wait := open(t, vector)
			for i, got := range answers(t, vector, worker, wait) {
				want := vector.Steps[i]
				for j := range min(len(got.Want), len(want.Want)) {
					more := got.Want[j].ResetIn - want.Want[j].ResetIn
					if 0 < more && more <= slack.Milliseconds() {
						got.Want[j].ResetIn = want.Want[j].ResetIn
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("step %d came to\n%s\nand not\n%s", i, asJSON(t, got), asJSON(t, want))
				}
			}
		})
	}
}

// TestVectorsAreThoseOfTheMemory runs all cases in memory, and writes what they
// come to with -update.
func TestVectorsAreThoseOfTheMemory(t *testing.T) {
	for file, cases := range map[string][]vectorCase{"rule.json": ruleCases(), "tracker.json": trackerCases()} {
		for i, vector := range cases {
			clock := new(prioritytest.Clock)
			opts := &priority.MemoryOptions{Policy: vector.Policy.policy(), Lease: time.Duration(vector.Lease) * time.Millisecond}
			var worker worker = storeWorker{prioritytest.NewStore(clock, opts)}
			if vector.Lease > 0 {
				worker = trackerWorker{prioritytest.NewTracker(clock, opts)}
			}
			cases[i].Steps = answers(t, vector, worker, clock.Advance)
		}
		golden(t, file, writeCases(t, cases))
	}

	var keys bytes.Buffer
	keys.WriteString("{\"keys\": [")
	separator := "\n  "
	for _, prefix := range []string{"priority", "fleet-1", "a:%", "größer"} {
		store := openStore(t, connect(t, "localhost:0"), &priority.RedisOptions{Prefix: prefix})
		tracker := must(priority.NewRedisTracker(connect(t, "localhost:0"), &priority.RedisOptions{Prefix: prefix}))(t)
		of := oddCustomers
		if prefix != "priority" {
			of = []string{"acme", "100%", "{a}", "\xff"}
		}
		for _, customer := range of {
			keys.WriteString(separator)
			separator = ",\n  "
			keys.WriteString(asJSON(t, vectorKey{
				Shown: strconv.QuoteToASCII(brief(customer)), Prefix: prefix,
				Customer: hex.EncodeToString([]byte(customer)),
				Count:    hex.EncodeToString([]byte(store.Key(customer))),
				Pending:  hex.EncodeToString([]byte(tracker.PendingKey(customer))),
			}))
		}
	}
	keys.WriteString("\n]}\n")
	golden(t, "keys.json", keys.Bytes())
}

func TestRuleVectorsOnRedis(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		verify(t, "rule.json", 0, func(t *testing.T, vector vectorCase) (worker, func(time.Duration)) {
			policy := vector.Policy.policy()
			w := onMiniredis(t, policy.ResetInterval)(t, rule{policy: policy})
			return storeWorker{w}, w.wait
		})
	})
	t.Run("server", func(t *testing.T) {
		client := redistest.Start(t).Client()
		verify(t, "rule.json", handSlack, func(t *testing.T, vector vectorCase) (worker, func(time.Duration)) {
			w := onServer(client, client)(t, rule{policy: vector.Policy.policy()})
			return storeWorker{w}, w.wait
		})
	})
}

func TestTrackerVectorsOnMiniredis(t *testing.T) {
	t.Parallel()
	verify(t, "tracker.json", 0, func(t *testing.T, vector vectorCase) (worker, func(time.Duration)) {
		lease := time.Duration(vector.Lease) * time.Millisecond
		policy := vector.Policy.policy()
		client, wait := slowMiniredis(t, max(lease, policy.ResetInterval))
		// The slower clock's milliseconds begin late, but not at the very beginning.
		wait(time.Second)
		tracker := must(priority.NewRedisTracker(client, &priority.RedisOptions{Policy: policy, Lease: lease, Timeout: time.Minute}))(t)
		return trackerWorker{tracker}, wait
	})
}

// The script replies what the last document of a step comes to, as the vectors'
// README tells ports.
func TestRuleVectorsOfTheScript(t *testing.T) {
	t.Parallel()
	verify(t, "rule.json", 0, func(t *testing.T, vector vectorCase) (worker, func(time.Duration)) {
		policy := vector.Policy.policy()
		client, wait := slowMiniredis(t, policy.ResetInterval)
		store := openStore(t, client, &priority.RedisOptions{Policy: policy, Timeout: -1})
		text := store.Script("")
		if reflect.DeepEqual(policy, priority.DefaultPolicy()) {
			text = script(t, "next.lua")
		}
		return scriptWorker{storeWorker{store}, store, client, text}, wait
	})
}

// scriptWorker counts as a program in another language does.
type scriptWorker struct {
	storeWorker
	store  *priority.RedisStore
	client *redis.Client
	text   string
}

func (w scriptWorker) do(ctx context.Context, step vectorStep) ([]priority.Decision, error) {
	if step.Do != "next" {
		return w.storeWorker.do(ctx, step)
	}
	policy := w.store.PolicyOf(step.Customer)
	reply, err := w.client.Eval(ctx, w.text, []string{w.store.Key(step.Customer)}, step.N).Int64Slice()
	if err != nil {
		return nil, err
	}
	last := priority.Decision{Level: priority.Level(reply[0]), Count: reply[1], ResetIn: policy.ResetInterval}
	if len(reply) > 2 {
		last.ResetIn = time.Duration(reply[2]) * time.Millisecond
	}
	decisions := make([]priority.Decision, step.N)
	for i := range decisions {
		decisions[i] = last
		decisions[i].Count += int64(step.N - 1 - i)
		decisions[i].Level = policy.Level(decisions[i].Count)
	}
	decisions[step.N-1] = last
	return decisions, nil
}

func readVectors[T any](t *testing.T, file string) T {
	t.Helper()
	text, err := os.ReadFile("vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var read T
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		t.Fatalf("vectors/%s: %v", file, err)
	}
	return read
}

// golden compares a file of vectors with what it should hold, or writes it.
func golden(t *testing.T, file string, want []byte) {
	t.Helper()
	file = "vectors/" + file
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the cases come to in memory (%v): run go test -run TestVectors -update . and look at the difference", file, err)
	}
}

// writeCases writes a step a line.
func writeCases(t *testing.T, cases []vectorCase) []byte {
	t.Helper()
	var w bytes.Buffer
	w.WriteString(`{"cases": [`)
	for i, vector := range cases {
		if i > 0 {
			w.WriteString(",")
		}
		fmt.Fprintf(&w, "\n{\n  \"name\": %s,\n  \"policy\": %s,\n", asJSON(t, vector.Name), asJSON(t, vector.Policy))
		if vector.Lease > 0 {
			fmt.Fprintf(&w, "  \"lease_ms\": %d,\n", vector.Lease)
		}
		w.WriteString(`  "steps": [`)
		for j, step := range vector.Steps {
			if j > 0 {
				w.WriteString(",")
			}
			w.WriteString("\n    " + asJSON(t, step))
		}
		w.WriteString("\n  ]\n}")
	}
	w.WriteString("\n]}\n")
	return w.Bytes()
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
