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
		for kind, want := range map[string]string{"count": key.Count, "pending": key.Pending, "usage": key.Usage} {
			r := d.ask("key", fields{"customer": customer, "kind": kind})
			if r.Error != nil || hex.EncodeToString(r.Key) != want {
				wanted, _ := hex.DecodeString(want)
				w.Errorf("the %s key of %s, prefix %q, is %.80q (%s), want %.80q", kind, key.Shown, key.Prefix, r.Key, r.class(), wanted)
			}
		}
	}
}

// policy is that of an open.
type policy struct {
	Thresholds []int64 `json:"thresholds"`
	Interval   int64   `json:"reset_interval_ms"`
	Mode       string  `json:"reset_mode"`
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
	for _, name := range []string{"policy", "levels", "lease", "scale"} {
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
		Known     int64
		Documents []string
		Cost      int64
		Key       string
		Value     string
		TTL       int64 `json:"ttl_ms"`
		Lease     int64 `json:"lease_ms"`
		Want      []decision
		Error     string
	}
)

const (
	day = 86_400_000

	// stretch is how many milliseconds of the count's time stand for one of a case.
	stretch = 50_000
)

func checkCases(file string) func(*world) {
	return func(w *world) {
		var vectors struct{ Cases []vector }
		w.vectors(file, &vectors)
		s := w.site()
		passing := redis.NewScript(w.text("vectors/pass.lua"))
		drivers := make(map[string]*driver)
		for _, v := range vectors.Cases {
			s.flush(w)
			c := &oneCase{world: w, site: s, vector: v, passing: passing, drivers: drivers}
			c.run()
		}
	}
}

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
	drivers map[string]*driver // by policy and lease
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
	case s.Do == "done" && s.Cost > 0: // which the protocol cannot say
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
	case s.Do == "reset" || s.Do == "done":
		return ""
	}
	for i := range r.Decisions {
		r.Decisions[i].ResetIn /= stretch
	}
	if !slices.Equal(r.Decisions, s.Want) {
		return fmt.Sprintf("is %v, want %v", asJSON(r.Decisions), asJSON(s.Want))
	}
	return ""
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
	args := []any{s.Cost}
	for _, document := range s.Documents {
		args = append(args, document)
	}
	err := c.site.client.Eval(context.Background(), lua.Done, keys(s.Customer)[1:], args...).Err()
	if (err != nil) != (s.Error != "") || err != nil && !strings.HasPrefix(err.Error(), s.Error) {
		return fmt.Sprint(err)
	}
	return ""
}

// driver returns the one of a process with the step's lease.
func (c *oneCase) driver(s step) *driver {
	c.Helper()
	lease := cmp.Or(s.Lease, c.vector.Lease, day)
	policy := c.vector.Policy
	policy.Interval = stretched(policy.Interval)
	name := fmt.Sprint(policy, lease)
	if c.drivers[name] == nil {
		c.drivers[name] = c.open(c.site.between.addr, enough, fields{"policy": policy, "lease_ms": lease})
	}
	return c.drivers[name]
}

func asJSON(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// answerVectors are those of errors.json.
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
