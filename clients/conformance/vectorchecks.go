package main

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/lua"
)

// The checks by the files of vectors/, whose format vectors/README.md describes.

func checkKeys(w *world) {
	var file struct {
		Keys []struct {
			Shown, Prefix string
			Customer      string `json:"customer_hex"`
			Count         string `json:"count_key_hex"`
			Pending       string `json:"pending_key_hex"`
			Usage         string `json:"usage_key_hex"`
			Override      string `json:"override_key_hex"`
		}
	}
	w.vectors("keys.json", &file)
	s := w.site()
	drivers := make(map[string]*driver)
	for _, key := range file.Keys {
		d := drivers[key.Prefix]
		if d == nil {
			d = w.open(s.between.addr, enough, fields{"prefix": key.Prefix})
			drivers[key.Prefix] = d
		}
		customer, err := hex.DecodeString(key.Customer)
		if err != nil {
			w.Fatal(err)
		}
		for kind, want := range map[string]string{"count": key.Count, "pending": key.Pending, "usage": key.Usage, "override": key.Override} {
			r := d.ask("key", fields{"customer": customer, "kind": kind})
			if r.Error != nil || hex.EncodeToString(r.Key) != want {
				wanted, _ := hex.DecodeString(want)
				w.Errorf("the %s key of %s, prefix %q, is %.80q (%s), want %.80q", kind, key.Shown, key.Prefix, r.Key, r.class(), wanted)
			}
		}
	}
}

// policy is the policy of an open.
type policy struct {
	Thresholds []int64   `json:"thresholds"`
	Interval   int64     `json:"reset_interval_ms"`
	Mode       string    `json:"reset_mode"`
	Loads      []float64 `json:"loads,omitzero"`
	Turns      int       `json:"turns,omitzero"`
}

// level is the definition.
func (p policy) level(count int64) int64 {
	level := int64(1)
	for _, threshold := range p.Thresholds {
		if count < threshold {
			level++
		}
	}
	return level
}

type policyVectors struct {
	Policies []struct {
		Name   string
		Policy policy
		Lease  int64 `json:"lease_ms"`
		Levels [][2]int64
		SHA    map[string]string `json:"sha1"`
	}
	Always  map[string]string
	Refused []struct {
		Why    string
		Policy policy
		Lease  int64 `json:"lease_ms"`
	}
}

// checkPolicies has a driver for each policy.
func checkPolicies(w *world) {
	var file policyVectors
	w.vectors("policies.json", &file)
	s := w.site()
	for _, shape := range file.Policies {
		options := fields{"policy": shape.Policy, "lease_ms": shape.Lease}
		if shape.Name == "the default" {
			options = nil
		}
		d := w.open(s.between.addr, enough, options)
		for name, want := range file.Always {
			w.script(d, shape.Name, name, want)
		}
		for name, want := range shape.SHA {
			w.script(d, shape.Name, name, want)
		}
		if shape.Policy.Interval >= 1000 { // else a count is gone before it can be looked at
			for _, level := range shape.Levels {
				w.level(s, d, shape.Name, shape.Policy, level[0], level[1])
			}
		}
		d.kill()
	}
}

// script asks for a script, and compares its SHA-1.
func (w *world) script(d *driver, policy, name, want string) {
	w.Helper()
	r := d.ask("script", fields{"name": name})
	sum := sha1.Sum([]byte(r.Script))
	got := hex.EncodeToString(sum[:])
	switch {
	case r.Error != nil:
		w.Errorf("script %s: %v", name, r)
	case r.SHA1 != got:
		w.Errorf("policy %q: the driver says that %s has the SHA-1 %s, but its text has %s", policy, name, r.SHA1, got)
	case got != want:
		w.Errorf("policy %q: %s has the SHA-1 %s, want %s; its blocks are\n%s", policy, name, got, want, blocksOf(r.Script))
	}
}

// blocksOf are the lines that a port writes into a script, for a reader.
func blocksOf(script string) string {
	var blocks strings.Builder
	for _, name := range []string{"policy", "levels", "lease", "turns", "queue", "loads"} {
		if _, rest, found := strings.Cut(script, "-- begin "+name+"\n"); found {
			lines, _, _ := strings.Cut(rest, "-- end")
			blocks.WriteString(lines)
		}
	}
	return blocks.String()
}

// level has the server, and the port itself, which makes the first decisions of a next
// of many, find the level of a count.
func (w *world) level(s *site, d *driver, name string, policy policy, count, level int64) {
	w.Helper()
	if count == 0 {
		return // which no document takes it to
	}
	s.set(w, keys("acme")[0], fmt.Sprint(count+1))
	if got := d.next("acme"); got.Count != count || got.Level != level {
		w.Errorf("policy %q: the count %d has level %d, want %d", name, got.Count, got.Level, level)
	}
	s.set(w, keys("acme")[0], fmt.Sprint(count+3))
	for i, got := range d.must("next", fields{"customer": []byte("acme"), "n": 4}).Decisions {
		if want := count + 2 - int64(i); got.Count != want || got.Level != policy.level(want) {
			w.Errorf("policy %q: of 4 at once, number %d has the count %d and level %d, want %d and %d",
				name, i+1, got.Count, got.Level, want, policy.level(want))
		}
	}
}

func (s *site) set(w *world, key, value string) {
	w.Helper()
	if err := s.client.Set(context.Background(), key, value, time.Hour).Err(); err != nil {
		w.Fatal(err)
	}
}

func checkRefusedPolicies(w *world) {
	var file policyVectors
	w.vectors("policies.json", &file)
	s := w.site()
	d := start(w, w.port)
	for _, refused := range file.Refused {
		r := d.ask("open", w.options(s.between.addr, enough, fields{"policy": refused.Policy, "lease_ms": refused.Lease}))
		if r.class() != invalid {
			w.Errorf("open, where %s, is %s, want %s", refused.Why, r.class(), invalid)
		}
	}
	for _, prefix := range []string{"{", "a}b", "{x}"} {
		if r := d.ask("open", w.options(s.between.addr, enough, fields{"prefix": prefix})); r.class() != invalid {
			w.Errorf("open with the prefix %q is %s, want %s", prefix, r.class(), invalid)
		}
	}
}

// The cases.
type (
	vector struct {
		Name   string
		Policy policy
		Lease  int64 `json:"lease_ms"`
		Steps  []step
	}
	step struct {
		At        int64 `json:"at_ms"`
		Do        string
		Customer  string
		N         int
		Documents []string
		Costs     []int64
		Cost      int64
		Key       string
		Value     string
		TTL       int64 `json:"ttl_ms"`
		Lease     int64 `json:"lease_ms"`
		Want      []result
		State     *wholeState
		Error     string
	}
	// result is what a document of a next, a submit or a done comes to.
	result struct {
		Level   int64
		Ruled   int64
		Count   int64
		ResetIn int64 `json:"reset_in_ms"`
		Load    int64 // in millionths
		Pending int64
		Sojourn int64 `json:"sojourn_ms"`
	}
	// wholeState is a state whose load is in millionths, and lately and cost in thousandths.
	wholeState struct {
		Rule        string
		Level       int64
		NextLevel   int64 `json:"next_level"`
		Count       int64
		ResetIn     int64 `json:"reset_in_ms"`
		Load        int64
		Lately      int64
		Cost        int64
		Pending     int64
		PendingLast int64 `json:"pending_last"`
		Oldest      int64 `json:"oldest_ms"`
		Sojourn     int64 `json:"sojourn_ms"`
		Lease       int64 `json:"lease_ms"`
		Ruled       int64
		Earliest    int64
		Latest      int64
		EndsIn      int64 `json:"override_ends_in_ms"`
	}
)

const (
	day = 86_400_000

	// stretch is how many milliseconds of the count's time stand for one of a case.
	stretch = 50_000
)

// A process reads overrides in the cases that have one.
const withoutOverride, withOverride = false, true

func (v vector) hasOverride() bool {
	return slices.ContainsFunc(v.Steps, func(s step) bool { return s.Key == "override" })
}

// checkCases runs a file's cases with an override, or its cases without one.
func checkCases(file string, override bool) func(*world) {
	return func(w *world) {
		var vectors struct{ Cases []vector }
		w.vectors(file, &vectors)
		vectors.Cases = slices.DeleteFunc(vectors.Cases, func(v vector) bool { return v.hasOverride() != override })
		s := w.site()
		passing := redis.NewScript(w.text("vectors/pass.lua"))
		drivers := make(map[string]*driver)
		for i, v := range vectors.Cases {
			s.flush(w)
			c := &oneCase{world: w, site: s, vector: v, passing: passing, drivers: drivers, began: time.Now()}
			c.run()
			for name, d := range drivers { // there are many policies
				if !slices.ContainsFunc(vectors.Cases[i+1:], func(v vector) bool { return v.needs(name) }) {
					d.kill()
					delete(drivers, name)
				}
			}
		}
	}
}

// needs reports whether a step of the case is done by the process of a name.
func (v vector) needs(process string) bool {
	return slices.ContainsFunc(v.Steps, func(s step) bool { return v.process(s) == process })
}

// process names the process that does a step: each policy and lease has one.
func (v vector) process(s step) string { return asJSON([]any{v.Policy, v.lease(s)}) }

func (v vector) lease(s step) int64 { return cmp.Or(s.Lease, v.Lease, day) }

func (s *site) flush(w *world) {
	w.Helper()
	if err := s.client.FlushAll(context.Background()).Err(); err != nil {
		w.Fatal(err)
	}
}

// text returns a file of the repository.
func (w *world) text(file string) string {
	w.Helper()
	root, err := repository()
	if err != nil {
		w.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

// oneCase runs one case.
type oneCase struct {
	*world
	site    *site
	vector  vector
	passing *redis.Script
	drivers map[string]*driver // by their processes
	began   time.Time
}

func (c *oneCase) run() {
	c.Helper()
	now := int64(0)
	for i, step := range c.vector.Steps {
		if step.At > now {
			c.pass(step.At - now)
			now = step.At
		}
		if why := c.step(step); why != "" {
			c.Errorf("%s: step %d, %s: %s", c.vector.Name, i, shown(step.fields()), why)
			return // what comes after it says nothing
		}
	}
}

func (c *oneCase) pass(d int64) {
	c.Helper()
	passed := make(map[string]bool)
	for _, step := range c.vector.Steps {
		if passed[step.Customer] {
			continue
		}
		passed[step.Customer] = true
		if err := c.passing.Run(context.Background(), c.site.client, keys(step.Customer), d, stretch).Err(); err != nil {
			c.Fatal(err)
		}
	}
}

// step does a step and returns what is wrong with what it came to.
func (c *oneCase) step(s step) string {
	c.Helper()
	switch {
	case s.Do == "set":
		return c.set(s)
	case s.Cost > 0 || s.Costs != nil: // which the protocol cannot say
		return c.elsewhere(s)
	}
	r := c.driver(s).ask(s.Do, s.fields())
	switch {
	case s.Error != "" && r.class() != corrupt:
		return fmt.Sprintf("%s, want %s", r.class(), corrupt)
	case s.Error != "" && !strings.Contains(r.Error.Message, strings.ToLower(strings.TrimPrefix(s.Error, "CORRUPT"))):
		return fmt.Sprintf("the message %q does not name the key", r.Error.Message)
	case s.Error != "":
		return ""
	case r.Error != nil:
		return fmt.Sprintf("%s: %s", r.class(), r.Error.Message)
	}
	took := time.Since(c.began).Milliseconds() + 1
	if s.State != nil {
		got, whole := r.State.whole()
		got.ResetIn /= stretch
		got.forgive(*s.State, took)
		if !whole || got != *s.State {
			return fmt.Sprintf("is %s, in whole numbers %s, want %s", asJSON(r.State), asJSON(got), asJSON(s.State))
		}
		return ""
	}
	got, whole := r.results(s)
	for i := range min(len(got), len(s.Want)) {
		got[i].ResetIn /= stretch
		got[i].forgive(s.Want[i], took)
	}
	if !whole || !slices.Equal(got, s.Want) {
		return fmt.Sprintf("is %v, in whole numbers %s, want %v", r, asJSON(got), asJSON(s.Want))
	}
	return ""
}

// results are what a response says of each document of a step. whole is false if a load is
// no whole number of millionths, or something has ended that the step does not name.
func (r response) results(s step) (results []result, whole bool) {
	whole = true
	for _, d := range r.Decisions {
		load, ok := millionths(d.Load)
		whole = whole && ok
		results = append(results, result{Level: d.Level, Ruled: d.Ruled, Count: d.Count, ResetIn: d.ResetIn, Load: load, Pending: d.Pending})
	}
	if s.Do != "done" {
		return results, whole
	}
	ended := r.Ended
	for _, document := range s.Documents {
		var of result
		if len(ended) > 0 && string(ended[0].Document) == document && ended[0].Level > 0 {
			of.Level, of.Sojourn, ended = ended[0].Level, ended[0].Sojourn, ended[1:]
		}
		results = append(results, of)
	}
	return results, len(ended) == 0
}

// whole returns the state in whole numbers, and whether that changes none.
func (s *state) whole() (wholeState, bool) {
	load, ok1 := millionths(s.Load)
	lately, ok2 := millionths(s.Lately)
	cost, ok3 := millionths(s.Cost)
	return wholeState{
		s.Rule, s.Level, s.NextLevel, s.Count, s.ResetIn, load, lately / 1000, cost / 1000,
		s.Pending, s.PendingLast, s.Oldest, s.Sojourn, s.Lease,
		s.Ruled, s.Earliest, s.Latest, s.EndsIn,
	}, ok1 && ok2 && ok3 && lately%1000 == 0 && cost%1000 == 0
}

// forgive takes numbers for those wanted which only the milliseconds that a case has taken
// have changed: vectors/README.md says by how much.
func (r *result) forgive(want result, took int64) {
	less(&r.Load, want.Load, want.Load/500, took)
	if want.Level > 0 {
		more(&r.Sojourn, want.Sojourn, took)
	}
}

func (s *wholeState) forgive(want wholeState, took int64) {
	less(&s.Load, want.Load, want.Load/500, took)
	less(&s.Lately, want.Lately, 100, took)
	less(&s.EndsIn, want.EndsIn, took, took)
	if want.Pending > 0 {
		more(&s.Oldest, want.Oldest, took)
	}
	if want.Sojourn > 0 {
		more(&s.Sojourn, want.Sojourn, took+100)
		more(&s.Lease, want.Lease, 20*(took+100))
	}
}

func less(got *int64, want, by, took int64) {
	if *got < want && want-*got <= by+int64(float64(want)*float64(took)/day) {
		*got = want
	}
}

func more(got *int64, want, by int64) {
	if *got > want && *got-want <= by {
		*got = want
	}
}

func (s step) fields() fields {
	f := fields{"customer": []byte(s.Customer)}
	switch s.Do {
	case "next":
		f["n"] = s.N
	case "submit":
		f["documents"] = documents(s.Documents...)
	case "done":
		f["documents"], f["took_ms"] = documents(s.Documents...), 0
	}
	return f
}

func (c *oneCase) set(s step) string {
	key, ttl := keys(s.Customer)[0], s.TTL
	switch s.Key {
	case "pending":
		key = keys(s.Customer)[1]
	case "usage":
		key = keys(s.Customer)[2]
	case "override":
		key = keys(s.Customer)[3]
	default:
		if ttl > 0 {
			ttl = stretched(ttl)
		}
	}
	if err := c.site.client.Set(context.Background(), key, s.Value, time.Duration(ttl)*time.Millisecond).Err(); err != nil {
		c.Fatal(err)
	}
	return ""
}

func stretched(ms int64) int64 { return stretch*ms + stretch/2 }

// elsewhere does in the port's place what another program of the fleet might do.
func (c *oneCase) elsewhere(s step) string {
	text, named, args := lua.Done, keys(s.Customer)[1:3], []any{}
	if s.Do == "done" {
		args = append(args, s.Cost)
	} else {
		named = keys(s.Customer)[1:]
		text = newReference(c.vector.options(s)).SubmitScript(s.Customer)
	}
	for i, document := range s.Documents {
		args = append(args, document)
		if s.Do == "submit" {
			args = append(args, s.Costs[i])
		}
	}
	err := c.site.client.Eval(context.Background(), text, named, args...).Err()
	if (err != nil) != (s.Error != "") || err != nil && !strings.HasPrefix(err.Error(), s.Error) {
		return fmt.Sprint(err)
	}
	return ""
}

// options returns the module's options for a step's process.
func (v vector) options(s step) *priority.RedisOptions {
	return &priority.RedisOptions{
		Policy: priority.Policy{Thresholds: v.Policy.Thresholds, Loads: v.Policy.Loads, Turns: v.Policy.Turns},
		Lease:  time.Duration(v.lease(s)) * time.Millisecond,
	}
}

// driver returns the one of a step's process.
func (c *oneCase) driver(s step) *driver {
	c.Helper()
	name := c.vector.process(s)
	if c.drivers[name] == nil {
		policy := c.vector.Policy
		policy.Interval = stretched(policy.Interval)
		c.drivers[name] = c.open(c.site.between.addr, enough, fields{"policy": policy, "lease_ms": c.vector.lease(s), "overrides": c.vector.hasOverride()})
	}
	return c.drivers[name]
}

// checkMeans tells a driver costs and times. A new customer's load tells what it has sent.
func checkMeans(w *world) {
	var file struct {
		Cases []struct {
			Name  string
			Steps []meanStep
		}
	}
	w.vectors("mean.json", &file)
	s := w.site()
	for _, c := range file.Cases {
		s.flush(w)
		d := w.open(s.between.addr, enough, nil)
		for i, step := range c.Steps {
			var why string
			if step.Costs != nil {
				why = w.told(d, fmt.Sprint("customer ", i), step)
			} else {
				why = w.took(s, d, fmt.Sprint("customer ", i), step)
			}
			if why != "" {
				w.Errorf("%s: step %d: %s", c.Name, i, why)
				break // what comes after it says nothing
			}
		}
		d.kill()
	}
}

type meanStep struct {
	Costs    []float64
	Took     int64 `json:"took_ms"`
	N, Ended int
	Sent     []int64
}

// told submits documents of a new customer, and returns what is wrong with the costs that
// were sent.
func (w *world) told(d *driver, customer string, step meanStep) string {
	w.Helper()
	ids := make([]string, len(step.Costs))
	for i := range ids {
		ids[i] = fmt.Sprint("invoice ", i)
	}
	r := d.must("submit", fields{"customer": []byte(customer), "documents": documents(ids...), "costs": step.Costs})
	pending := int64(0)
	for i, got := range r.Decisions {
		load, _ := millionths(got.Load)
		want := fair.Load(1000*int64(i+1), pending+1, cmp.Or(step.Sent[i], 1000))
		if less(&load, want, want/500, 1000); load != want {
			return fmt.Sprintf("told costs, of document %d of %d, which costs %v, the load is %v, want %v: a cost of %d is sent",
				i+1, len(ids), step.Costs[i], got.Load, float64(want)/1e6, step.Sent[i])
		}
		if got.Level < 9 {
			pending++
		}
	}
	return ""
}

// took has documents of a new customer be done, and returns what is wrong with the cost
// that was sent.
func (w *world) took(s *site, d *driver, customer string, step meanStep) string {
	w.Helper()
	ids := make([]string, step.N)
	for i := range ids {
		ids[i] = fmt.Sprint("invoice ", i)
	}
	ended := ids[:step.Ended]
	if len(ended) > 0 {
		d.must("submit", fields{"customer": []byte(customer), "documents": documents(ended...)})
	} else { // so that a cost has a place to go
		d.must("submit", fields{"customer": []byte(customer), "documents": documents("another")})
	}
	r := d.must("done", fields{"customer": []byte(customer), "documents": documents(ids...), "took_ms": step.Took})
	want := int64(1000)
	for range r.Ended {
		if step.Sent[0] > 0 {
			want = max((9*want+step.Sent[0]+5)/10, 1)
		}
	}
	usage, err := s.client.Get(context.Background(), keys(customer)[2]).Int64()
	if err != nil {
		w.Fatal(err)
	}
	if got := usage % 1_000_000; got != want || len(r.Ended) != step.Ended {
		return fmt.Sprintf("%d of %d documents have ended, which took %d ms, and the average cost is %d, want %d and %d: a cost of %d is sent",
			len(r.Ended), step.N, step.Took, got, step.Ended, want, step.Sent[0])
	}
	return ""
}

// checkReplies has the server answer what the test says.
func checkReplies(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	answer := func(numbers ...int64) string {
		reply := fmt.Sprintf("*%d\r\n", len(numbers))
		for _, n := range numbers {
			reply += fmt.Sprintf(":%d\r\n", n)
		}
		return reply
	}
	of := func(do string, numbers ...int64) response {
		s.between.let(answer(numbers...))
		defer s.between.let(pass)
		return d.must(do, operations[do])
	}
	for _, load := range []int64{1, 999, 1000, 333_333, 1_000_001, 72_000_001, 32_768_000_001, 123_456_789_012_347, 999_999_999_999_999, 1_000_000_000_000_000} {
		want := decision{Level: 9, Ruled: 0, Load: float64(load) / 1e6, Pending: 1_000_000}
		if got := of("submit", 9, load, 1_000_000, 0).Decisions[0]; got != want {
			w.Errorf("a submit that is answered with a load of %d millionths is %s, want %s", load, asJSON(got), asJSON(want))
		}
		for rule, name := range []string{"unknown", "by_count", "by_load"} {
			want := state{name, 3, 4, -17, 1_499_999, float64(load) / 1e6, 511.999, 0.001, 70, 60, 86_399_999, 99_999_900, 180_000, 0, 0, 0, 0, false}
			got := of("peek", int64(rule), 3, 4, -17, 1_499_999, load, 511_999, 1, 70, 60, 86_399_999, 99_999_900, 180_000, 0, 0, 0, 0).State
			if *got != want {
				w.Errorf("a peek that is answered so is %s, want %s", asJSON(got), asJSON(want))
			}
		}
	}
	got := of("done", 86_399_999, 22).Ended
	if want := (ended{[]byte("invoice-1"), 86_399_999, 22}); len(got) != 1 || asJSON(got[0]) != asJSON(want) {
		w.Errorf("a done that is answered with 86399999 ms and level 22 is %s", asJSON(got))
	}
	if got := of("done", 0, 0).Ended; len(got) > 0 {
		w.Errorf("a done that is answered with 0 and 0 is %s, and nothing has ended", asJSON(got))
	}
	if got := of("done", 0, 1).Ended; len(got) != 1 {
		w.Errorf("a done within a millisecond is %s, and one document has ended", asJSON(got))
	}
}

func asJSON(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// answerVectors is what errors.json holds.
type answerVectors struct {
	Answers []struct{ Answer, Class, Then string }
	Replies []struct{ Why, Reply string }
}

// operations are what a driver does, each with what it needs.
var operations = map[string]fields{
	"next":   {"customer": []byte("acme"), "n": 1},
	"submit": {"customer": []byte("acme"), "documents": documents("invoice-1")},
	"done":   {"customer": []byte("acme"), "documents": documents("invoice-1"), "took_ms": 0},
	"peek":   {"customer": []byte("acme")},
	"reset":  {"customer": []byte("acme")},
}

// warm has the server know all scripts and the driver have a connection.
func (w *world) warm(d *driver) {
	w.Helper()
	for _, do := range []string{"next", "submit", "peek", "done", "reset"} {
		d.must(do, operations[do])
	}
}

func checkErrors(w *world) {
	var file answerVectors
	w.vectors("errors.json", &file)
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	for _, answer := range file.Answers {
		if w.port.cluster && (strings.HasPrefix(answer.Answer, "MOVED") || strings.HasPrefix(answer.Answer, "ASK")) {
			continue // a client of a cluster follows them
		}
		for do, request := range operations {
			want := []string{answer.Class}
			if do == "peek" && answer.Class == outcomeUnknown {
				want = []string{notCounted}
			}
			fates := []string{answer.Answer}
			if answer.Then != "" {
				fates = append(fates, pass)
				want = append(want, answered)
			}
			if answer.Then == "text" {
				want = []string{answered}
			}
			s.between.let(fates...)
			r := d.ask(do, request)
			if !slices.Contains(want, r.class()) {
				w.Errorf("%s answered with %q is %v, want %s", do, answer.Answer, r, strings.Join(want, " or "))
			}
		}
		s.between.let(pass)
		w.awaitAnswer(d)
	}
	for _, reply := range file.Replies {
		s.between.let(reply.Reply)
		if r := d.ask("next", operations["next"]); r.class() != outcomeUnknown {
			w.Errorf("next whose reply is %s, %q, is %v, want %s", reply.Why, reply.Reply, r, outcomeUnknown)
		}
		if sent := s.between.scripts(); sent != 1 {
			w.Errorf("next whose reply is %s was sent %d times", reply.Why, sent)
		}
		s.between.let(pass)
		w.awaitAnswer(d)
	}
}

// awaitAnswer waits until a call is answered: a client may have thought its connection
// broken.
func (w *world) awaitAnswer(d *driver) {
	w.Helper()
	for range 10 {
		if d.ask("peek", operations["peek"]).Error == nil {
			return
		}
	}
	w.Fatal("after an error no peek is answered any more")
}

// checkRefusedForGood has a refusal for a moment last. Nothing is counted. A call says
// so, unless its last try was not answered yet when its time was over.
func checkRefusedForGood(w *world) {
	s := w.site()
	d := w.open(s.between.addr, short, nil)
	w.warmly(d)
	s.set(w, keys("acme")[0], "-5")
	for _, answer := range []string{"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica."} {
		for _, do := range []string{"next", "submit", "done", "reset", "peek"} {
			s.between.let(pass)
			w.awaitAnswer(d)
			s.between.let(answer)
			if r := w.untilNotCounted(d, do); r.class() != notCounted {
				w.Errorf("%s always answered with %q is %v, want %s", do, answer, r, notCounted)
			}
		}
	}
	if count, _ := s.count(w, "acme"); count != -5 {
		w.Errorf("what was refused has left the count %d, and it was -5", count)
	}
}

// untilNotCounted makes a call, again if its outcome is unknown. A client of a cluster
// sends again by itself, and may not tell how often.
func (w *world) untilNotCounted(d *driver, do string) response {
	w.Helper()
	var r response
	for range 5 {
		if r = d.ask(do, operations[do]); r.class() != outcomeUnknown {
			return r
		}
	}
	if w.port.cluster {
		r.Error.Class = notCounted
	}
	return r
}

func checkLost(w *world) {
	var file struct {
		Cases []struct {
			Name, Do, Class string
			Tries           []string
			Sent            int
		}
	}
	w.vectors("lost.json", &file)
	s := w.site()
	patient, hasty := w.open(s.between.addr, enough, nil), w.open(s.between.addr, short, nil)
	for _, loss := range file.Cases {
		d := patient
		if last := loss.Tries[len(loss.Tries)-1]; loss.Sent == 0 && last != pass { // it ends with its time
			d = hasty
		}
		s.between.let(pass)
		w.warmly(d)
		s.between.let(loss.Tries...)
		r := d.ask(loss.Do, operations[loss.Do])
		sent := s.between.scripts()
		if r.class() != loss.Class {
			w.Errorf("%s: %s, whose tries are %q, is %v, want %s", loss.Name, loss.Do, loss.Tries, r, loss.Class)
		}
		if loss.Sent > 0 && sent != loss.Sent {
			w.Errorf("%s: %s, whose tries are %q, was sent %d times, want %d", loss.Name, loss.Do, loss.Tries, sent, loss.Sent)
		}
	}
}

// warmly warms a driver whose calls may be too slow the first time.
func (w *world) warmly(d *driver) {
	w.Helper()
	for _, do := range []string{"next", "submit", "peek", "done", "reset"} {
		for range 10 {
			if d.ask(do, operations[do]).Error == nil {
				break
			}
		}
	}
}
