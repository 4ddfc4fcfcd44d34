package conformance_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/vectors"
	"github.com/docpriority/priority/internal/testing/virtualredis"
)

// The checks by the files of vectors/, whose format vectors/README.md describes.

// read reads one of the files.
func (w *world) read(file string, into any) {
	w.Helper()
	if err := vectors.Read(file, into); err != nil {
		w.Fatal(err)
	}
}

// checkKeys compares the keys of customers, or of users of accounts and their like.
func checkKeys(accounts bool) func(*world) {
	return func(w *world) {
		var file struct{ Keys []vectors.Keys }
		w.read("keys.json", &file)
		s := w.site()
		d, prefix := w.start(), ""
		for _, key := range file.Keys {
			if key.Accounts != accounts {
				continue
			}
			if key.Prefix != prefix {
				prefix = key.Prefix
				w.reopen(d, s.between.addr, enough, fields{"prefix": prefix, "accounts": accounts})
			}
			w.keysOf(d, key)
		}
	}
}

func (w *world) keysOf(d *driver, key vectors.Keys) {
	w.Helper()
	customer, err := hex.DecodeString(key.Customer)
	if err != nil {
		w.Fatal(err)
	}
	for kind, want := range map[string]string{"count": key.Count, "pending": key.Pending, "override": key.Override} {
		r := d.ask("key", fields{"customer": customer, "kind": kind})
		if r.Error != nil || hex.EncodeToString(r.Key) != want {
			wanted, _ := hex.DecodeString(want)
			w.Errorf("the %s key of %s, prefix %q, is %.80q (%s), want %.80q", kind, key.Shown, key.Prefix, r.Key, r.class(), wanted)
		}
	}
}

func checkPolicies(w *world) {
	var file vectors.Policies
	w.read("policies.json", &file)
	s := w.site()
	d := w.start()
	for _, shape := range file.Policies {
		options := fields{"policy": shape.Policy, "lease_ms": shape.Lease}
		if shape.Name == "the default" {
			options = nil
		}
		w.reopen(d, s.between.addr, enough, options)
		maps.Copy(shape.SHA, file.Always)
		for name, want := range shape.SHA {
			w.script(d, shape.Name, name, want)
		}
	}
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
		w.Errorf("policy %q: %s has the SHA-1 %s, want %s: compare the numbers in the script, and the port's defaults", policy, name, got, want)
	}
}

// checkCases runs the cases of files that are about an option of open, or about none, on a Redis
// whose time stands still.
func checkCases(option string, files ...string) func(*world) {
	return func(w *world) {
		server := virtualredis.Start(w)
		client := server.Listen()
		p := &process{world: w, d: w.start(), addr: server.Server.Addr()}
		for _, file := range files {
			var all struct{ Cases []vectors.Case }
			w.read(file, &all)
			for _, p.c = range all.Cases {
				if p.c.Option() != option {
					continue
				}
				server.Server.FlushAll()
				got, err := vectors.Run(context.Background(), p.c, vectors.World{Pass: server.Pass, Store: p.store, Redis: client})
				if err != nil {
					w.Errorf("%s: %v", p.c.Name, err)
				} else if why := p.c.Difference(got); why != "" {
					w.Error(why)
				}
			}
		}
	}
}

// process is a driver that is opened again for another policy or lease.
type process struct {
	world *world
	addr  string // of the Redis
	d     *driver
	opts  fields
	c     vectors.Case
}

func (p *process) store(lease time.Duration) priority.Store {
	opts := fields{"policy": p.c.Policy, "lease_ms": lease.Milliseconds()}
	if option := p.c.Option(); option != "" {
		opts[option] = true
	}
	if !reflect.DeepEqual(opts, p.opts) {
		p.world.reopen(p.d, p.addr, enough, opts)
		p.opts = opts
	}
	return remote{d: p.d}
}

// remote is a driver as a store, as far as its callers here need one.
type remote struct {
	priority.Store
	d *driver
}

func (r remote) NextN(_ context.Context, customer string, n int) ([]priority.Decision, error) {
	return decisionsFrom(r.d.ask("next", fields{"customer": []byte(customer), "n": n}))
}

func (r remote) SubmitN(_ context.Context, customer string, submitted []priority.Document) ([]priority.Decision, error) {
	ids, delays := make([]string, len(submitted)), make([]int64, len(submitted))
	for i, document := range submitted {
		ids[i], delays[i] = document.ID, document.Delay.Milliseconds()
	}
	return decisionsFrom(r.d.ask("submit", fields{"customer": []byte(customer), "documents": documents(ids...), "delays": delays}))
}

func decisionsFrom(r response) (decisions []priority.Decision, err error) {
	for _, d := range r.Decisions {
		decisions = append(decisions, priority.Decision{
			Level: priority.Level(d.Level), RuleLevel: priority.Level(d.RuleLevel), Count: d.Count, ResetIn: vectors.Milliseconds(d.ResetIn),
			Load: d.Load, Pending: d.Pending,
		})
	}
	return decisions, r.err()
}

func (r remote) DoneN(_ context.Context, customer string, ids []string, took time.Duration) ([]priority.Ended, error) {
	response := r.d.ask("done", fields{"customer": []byte(customer), "documents": documents(ids...), "took_ms": took.Milliseconds()})
	all, next := make([]priority.Ended, len(ids)), 0
	for _, e := range response.Ended {
		at := next + slices.Index(ids[next:], string(e.Document))
		if at < next {
			return nil, fmt.Errorf("%q has ended, which is not of the call, or not in its order", e.Document)
		}
		all[at], next = priority.Ended{Latency: vectors.Milliseconds(e.Latency), Level: priority.Level(e.Level)}, at+1
	}
	return all, response.err()
}

func (r remote) Peek(_ context.Context, customer string) (priority.State, error) {
	response := r.d.ask("peek", fields{"customer": []byte(customer)})
	s := response.State
	if s == nil {
		return priority.State{}, response.err()
	}
	return priority.State{
		Rule: map[string]priority.Rule{"by_count": priority.ByCount, "by_load": priority.ByLoad}[s.Rule], Level: priority.Level(s.Level), NextLevel: priority.Level(s.NextLevel),
		Count: s.Count, ResetIn: vectors.Milliseconds(s.ResetIn), Load: s.Load, Recent: s.Recent, Cost: s.Cost,
		Pending: s.Pending, PendingFlood: s.PendingFlood, Oldest: vectors.Milliseconds(s.Oldest), Latency: vectors.Milliseconds(s.Latency), Lease: vectors.Milliseconds(s.Lease),
		RuleLevel: priority.Level(s.RuleLevel), Bounds: priority.Bounds{Earliest: priority.Level(s.Earliest), Latest: priority.Level(s.Latest)},
		OverrideEndsIn: vectors.Milliseconds(s.EndsIn), Scheduled: s.Scheduled, AccountLoad: s.AccountLoad, AccountFlood: s.AccountFlood,
	}, nil
}

func (r remote) Reset(_ context.Context, customer string) error {
	return r.d.ask("reset", fields{"customer": []byte(customer)}).err()
}

// checkCosts looks at the costs that a driver sends to Redis.
func checkCosts(w *world) {
	var file struct{ Cases []vectors.CostCase }
	w.read("costs.json", &file)
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	for _, c := range file.Cases {
		w.reopen(d, s.between.addr, enough, nil) // which has seen no documents
		for i, step := range c.Steps {
			customer := fmt.Appendf(nil, "%s, %s", c.Name, step.Customer)
			ids := make([]string, max(step.N, len(step.Costs)))
			for j := range ids {
				ids[j] = fmt.Sprintf("invoice %d of step %d", j, i)
			}
			do, f, at := "submit", fields{"customer": customer, "documents": documents(ids...), "costs": step.Costs}, 1
			if step.Costs == nil {
				if step.Ended > 0 {
					d.must("submit", fields{"customer": customer, "documents": documents(ids[:step.Ended]...)})
				}
				do, f, at = "done", fields{"customer": customer, "documents": documents(ids...), "took_ms": step.Took}, 0
			}
			s.between.let(pass)
			d.must(do, f)
			var sent []int64
			for _, args := s.between.scripts(); at < len(args) && len(sent) < len(step.Sent); at += 2 {
				cost, _ := strconv.ParseInt(args[at], 10, 64)
				sent = append(sent, cost)
			}
			if !slices.Equal(sent, step.Sent) {
				w.Errorf("%s: step %d, %s, sends the costs %d, want %d", c.Name, i, do, sent, step.Sent)
				break // what comes after it says nothing
			}
		}
	}
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

// warm has the server know all scripts and the driver have a connection. A driver with a short
// timeout may need several calls.
func (w *world) warm(d *driver) {
	w.Helper()
	for _, do := range []string{"next", "submit", "peek", "done", "reset"} {
		w.awaitAnswer(d, do)
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
		w.awaitAnswer(d, "peek")
	}
	for _, reply := range file.Replies {
		s.between.let(reply.Reply)
		if r := d.ask("next", operations["next"]); r.class() != outcomeUnknown {
			w.Errorf("next whose reply is %s, %q, is %v, want %s", reply.Why, reply.Reply, r, outcomeUnknown)
		}
		if sent, _ := s.between.scripts(); sent != 1 {
			w.Errorf("next whose reply is %s was sent %d times", reply.Why, sent)
		}
		s.between.let(pass)
		w.awaitAnswer(d, "peek")
	}
}

// awaitAnswer waits until a call is answered: a client may have thought its connection
// broken.
func (w *world) awaitAnswer(d *driver, do string) {
	w.Helper()
	for range 10 {
		if d.ask(do, operations[do]).Error == nil {
			return
		}
	}
	w.Fatalf("no %s is answered", do)
}

func checkLost(w *world) {
	var file struct{ Cases []vectors.Loss }
	w.read("lost.json", &file)
	s := w.site()
	d, timeout := w.start(), int64(0)
	for _, loss := range file.Cases {
		wanted := int64(enough)
		if last := loss.Tries[len(loss.Tries)-1]; loss.Sent == 0 && last != pass { // it ends with its time
			wanted = short
		}
		s.between.let(pass)
		if timeout != wanted {
			timeout = wanted
			w.reopen(d, s.between.addr, timeout, nil)
		}
		w.warm(d)
		s.between.let(loss.Tries...)
		r := d.ask(loss.Do, operations[loss.Do])
		sent, _ := s.between.scripts()
		if r.class() != loss.Class {
			w.Errorf("%s: %s, whose tries are %q, is %v, want %s", loss.Name, loss.Do, loss.Tries, r, loss.Class)
		}
		if loss.Sent > 0 && sent != loss.Sent {
			w.Errorf("%s: %s, whose tries are %q, was sent %d times, want %d", loss.Name, loss.Do, loss.Tries, sent, loss.Sent)
		}
	}
}
