package main

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/vectors"
	"github.com/docpriority/priority/lua"
)

// The checks by the files of vectors/, whose format vectors/README.md describes.

// read reads one of the files.
func (w *world) read(file string, into any) {
	w.Helper()
	if err := vectors.Read(file, into); err != nil {
		w.Fatal(err)
	}
}

func checkKeys(w *world) {
	var file struct{ Keys []vectors.Keys }
	w.read("keys.json", &file)
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

// checkPolicies has a driver for each policy, and refuses wrong ones.
func checkPolicies(w *world) {
	var file vectors.Policies
	w.read("policies.json", &file)
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
				w.level(s, d, shape, level[0], level[1])
			}
		}
		d.kill()
	}
	d := start(w, w.port)
	refused := func(what string, options fields) {
		if r := d.ask("open", w.options(s.between.addr, enough, options)); r.class() != invalid {
			w.Errorf("open, where %s, is %s, want %s", what, r.class(), invalid)
		}
	}
	for _, wrong := range file.Refused {
		refused(wrong.Why, fields{"policy": wrong.Policy, "lease_ms": wrong.Lease})
	}
	for _, prefix := range []string{"{", "a}b", "{x}"} {
		refused("the prefix is "+prefix, fields{"prefix": prefix})
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
func (w *world) level(s *site, d *driver, shape vectors.Shape, count, level int64) {
	w.Helper()
	if count == 0 {
		return // which no document takes it to
	}
	s.set(w, keys("acme")[0], fmt.Sprint(count+1))
	if got := d.next("acme"); got.Count != count || got.Level != level {
		w.Errorf("policy %q: the count %d has level %d, want %d", shape.Name, got.Count, got.Level, level)
	}
	s.set(w, keys("acme")[0], fmt.Sprint(count+3))
	policy := shape.Policy.Priority()
	for i, got := range d.must("next", fields{"customer": []byte("acme"), "n": 4}).Decisions {
		if want := count + 2 - int64(i); got.Count != want || got.Level != int64(policy.Level(want)) {
			w.Errorf("policy %q: of 4 at once, number %d has the count %d and level %d, want %d and %d",
				shape.Name, i+1, got.Count, got.Level, want, policy.Level(want))
		}
	}
}

func (s *site) set(w *world, key, value string) {
	w.Helper()
	if err := s.client.Set(context.Background(), key, value, time.Hour).Err(); err != nil {
		w.Fatal(err)
	}
}

// A process reads overrides in the cases that have one.
const withoutOverride, withOverride = false, true

// checkCases runs a file's cases with an override, or its cases without one, on a Redis
// whose time stands still.
func checkCases(file string, override bool) func(*world) {
	return func(w *world) {
		var all struct{ Cases []vectors.Case }
		w.read(file, &all)
		cases := slices.DeleteFunc(all.Cases, func(c vectors.Case) bool { return c.HasOverride() != override })
		redis := vectors.StartRedis(w)
		drivers := make(map[string]*driver)
		for i, c := range cases {
			redis.FlushAll()
			run := &oneCase{world: w, redis: redis, Case: c, drivers: drivers}
			run.run()
			for name, d := range drivers { // there are many policies
				if !slices.ContainsFunc(cases[i+1:], func(c vectors.Case) bool { return needs(c, name) }) {
					d.kill()
					delete(drivers, name)
				}
			}
		}
	}
}

// needs reports whether a step of a case is done by the process of a name.
func needs(c vectors.Case, process string) bool {
	return slices.ContainsFunc(c.Steps, func(s vectors.Step) bool { return processOf(c, s) == process })
}

// processOf names the process that does a step: each policy and lease has one.
func processOf(c vectors.Case, s vectors.Step) string { return asJSON([]any{c.Policy, leaseOf(c, s)}) }

func leaseOf(c vectors.Case, s vectors.Step) int64 { return cmp.Or(s.Lease, c.Lease, 86_400_000) }

// oneCase runs one case.
type oneCase struct {
	*world
	vectors.Case
	redis   *vectors.Redis
	drivers map[string]*driver // by their processes
}

func (c *oneCase) run() {
	c.Helper()
	now := int64(0)
	for i, step := range c.Steps {
		c.redis.Pass(vectors.Milliseconds(step.At - now))
		now = step.At
		if why := c.step(step); why != "" {
			c.Errorf("%s: step %d, %s: %s", c.Name, i, shown(fieldsOf(step)), why)
			return // what comes after it says nothing
		}
	}
}

// step does a step and returns what is wrong with what it came to.
func (c *oneCase) step(s vectors.Step) string {
	c.Helper()
	switch {
	case s.Do == "set":
		key := map[string]func(string) string{
			"": reference.Key, "pending": reference.PendingKey, "usage": reference.UsageKey, "override": reference.OverrideKey,
		}[s.Key]
		if err := c.redis.Client.Set(context.Background(), key(s.Customer), *s.Value, vectors.Milliseconds(s.TTL)).Err(); err != nil {
			c.Fatal(err)
		}
		return ""
	case s.Cost > 0 || s.Costs != nil: // which the protocol cannot say
		return c.elsewhere(s)
	}
	r := c.driver(s).ask(s.Do, fieldsOf(s))
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
	got := s
	got.Want, got.State = resultsOf(s, r), stateOf(r.State)
	if !reflect.DeepEqual(got, s) {
		return fmt.Sprintf("is %v, in whole numbers %s, want %s", r, asJSON(got), asJSON(s))
	}
	return ""
}

// resultsOf is what a response says of each document of a step.
func resultsOf(s vectors.Step, r response) (results []vectors.Result) {
	for _, d := range r.Decisions {
		of := vectors.Result{Level: d.Level, Ruled: d.Ruled}
		if s.Do == "next" {
			of.Count, of.ResetIn = &d.Count, &d.ResetIn
		} else {
			load := millionths(d.Load)
			of.Load, of.Pending = &load, &d.Pending
		}
		results = append(results, of)
	}
	if s.Do != "done" {
		return results
	}
	ended := r.Ended
	for _, document := range s.Documents {
		of := vectors.Result{Sojourn: new(int64)}
		if len(ended) > 0 && ended[0].Level > 0 && string(ended[0].Document) == document {
			of.Level, of.Sojourn, ended = ended[0].Level, &ended[0].Sojourn, ended[1:]
		}
		results = append(results, of)
	}
	for _, more := range ended { // which the step does not name
		results = append(results, vectors.Result{Level: more.Level})
	}
	return results
}

// stateOf returns the state in whole numbers.
func stateOf(s *state) *vectors.State {
	if s == nil {
		return nil
	}
	return &vectors.State{
		Rule: s.Rule, Level: s.Level, NextLevel: s.NextLevel, Count: s.Count, ResetIn: s.ResetIn,
		Load: millionths(s.Load), Lately: millionths(s.Lately) / 1000, Cost: millionths(s.Cost) / 1000,
		Pending: s.Pending, PendingLast: s.PendingLast, Oldest: s.Oldest, Sojourn: s.Sojourn, Lease: s.Lease,
		Ruled: s.Ruled, Earliest: s.Earliest, Latest: s.Latest, EndsIn: s.EndsIn,
	}
}

func millionths(number float64) int64 { return int64(math.Round(number * 1e6)) }

func fieldsOf(s vectors.Step) fields {
	f := fields{"customer": []byte(s.Customer)}
	switch s.Do {
	case "next":
		f["n"] = *s.N
	case "submit":
		f["documents"] = documents(s.Documents...)
	case "done":
		f["documents"], f["took_ms"] = documents(s.Documents...), 0
	}
	return f
}

// elsewhere does in the port's place what another process of the fleet might do.
func (c *oneCase) elsewhere(s vectors.Step) string {
	text, named, args := lua.Done, keys(s.Customer)[1:3], []any{}
	if s.Do == "done" {
		args = append(args, s.Cost)
	} else {
		named = keys(s.Customer)[1:]
		text = newReference(&priority.RedisOptions{Policy: c.Policy.Priority(), Lease: vectors.Milliseconds(leaseOf(c.Case, s))}).SubmitScript(s.Customer)
	}
	for i, document := range s.Documents {
		args = append(args, document)
		if s.Do == "submit" {
			args = append(args, s.Costs[i])
		}
	}
	err := c.redis.Client.Eval(context.Background(), text, named, args...).Err()
	if (err != nil) != (s.Error != "") || err != nil && !strings.HasPrefix(err.Error(), s.Error) {
		return fmt.Sprint(err)
	}
	return ""
}

// driver returns the one of a step's process.
func (c *oneCase) driver(s vectors.Step) *driver {
	c.Helper()
	name := processOf(c.Case, s)
	if c.drivers[name] == nil {
		c.drivers[name] = c.open(c.redis.Addr(), enough, fields{"policy": c.Policy, "lease_ms": leaseOf(c.Case, s), "overrides": c.HasOverride()})
	}
	return c.drivers[name]
}

// checkMeans tells a driver costs and times. A new customer's load tells what it has sent.
func checkMeans(w *world) {
	var file struct{ Cases []vectors.MeanCase }
	w.read("mean.json", &file)
	redis := vectors.StartRedis(w)
	for _, c := range file.Cases {
		redis.FlushAll()
		d := w.open(redis.Addr(), enough, nil)
		for i, step := range c.Steps {
			var why string
			if step.Costs != nil {
				why = w.told(d, fmt.Sprint("customer ", i), step)
			} else {
				why = w.took(redis, d, fmt.Sprint("customer ", i), step)
			}
			if why != "" {
				w.Errorf("%s: step %d: %s", c.Name, i, why)
				break // what comes after it says nothing
			}
		}
		d.kill()
	}
}

// told submits documents of a new customer, and returns what is wrong with the costs that
// were sent.
func (w *world) told(d *driver, customer string, step vectors.MeanStep) string {
	w.Helper()
	ids := make([]string, len(step.Costs))
	for i := range ids {
		ids[i] = fmt.Sprint("invoice ", i)
	}
	r := d.must("submit", fields{"customer": []byte(customer), "documents": documents(ids...), "costs": step.Costs})
	pending := int64(0)
	for i, got := range r.Decisions {
		want := fair.Load(1000*int64(i+1), pending+1, cmp.Or(step.Sent[i], 1000))
		if millionths(got.Load) != want {
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
func (w *world) took(redis *vectors.Redis, d *driver, customer string, step vectors.MeanStep) string {
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
	usage, err := redis.Client.Get(context.Background(), keys(customer)[2]).Int64()
	if err != nil {
		w.Fatal(err)
	}
	if got := usage % 1_000_000; got != want || len(r.Ended) != step.Ended {
		return fmt.Sprintf("%d of %d documents have ended, which took %d ms, and the average cost is %d, want %d and %d: a cost of %d is sent",
			len(r.Ended), step.N, step.Took, got, step.Ended, want, step.Sent[0])
	}
	return ""
}

func asJSON(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
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
	var file struct {
		Answers []vectors.Answer
		Replies []vectors.Reply
	}
	w.read("errors.json", &file)
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

func checkLost(w *world) {
	var file struct{ Cases []vectors.Loss }
	w.read("lost.json", &file)
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
