package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/internal/redistest"
)

// The faults of docs/reliability.md that a port must stand.

func checkDefaults(w *world) {
	s := w.site()
	d := start(w, w.port)
	f := w.options(s.between.addr, 0, nil)
	delete(f, "timeout_ms")
	if r := d.ask("open", f); r.Error != nil {
		w.Fatalf("open without options: %v", r)
	}
	var told decision
	redistest.Await(w, "a document is counted", func() bool {
		r := d.ask("next", operations["next"])
		if r.Error == nil {
			told = r.Decisions[0]
		}
		return r.Error == nil
	})
	count, held := s.count(w, "acme")
	level := int64(priority.DefaultPolicy().Level(count))
	if want := (decision{Level: level, Count: count, ResetIn: 1_500_000}); !held || told != want {
		w.Errorf("a new customer's decision is %s, and the count in Redis %d (%t)", asJSON(told), count, held)
	}
	redistest.Await(w, "a document is submitted", func() bool { return d.ask("submit", operations["submit"]).Error == nil })
	var got response
	redistest.Await(w, "a peek is answered", func() bool {
		got = d.ask("peek", operations["peek"])
		return got.Error == nil
	})
	if got.State.Rule != "by_load" || got.State.Level != 1 || got.State.NextLevel != 2 || got.State.Lease != 86_400_000 {
		w.Errorf("after the first submit the state is %s", asJSON(got.State))
	}
}

func checkWrongCalls(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	s.between.let(pass)
	long := []byte(strings.Repeat("x", 513))
	for _, customer := range [][]byte{{}, long} {
		for do, request := range operations {
			f := maps.Clone(request)
			f["customer"] = customer
			w.wrong(d, do, f)
		}
	}
	for _, document := range [][]byte{{}, long} {
		for _, do := range []string{"submit", "done"} {
			w.wrong(d, do, fields{"customer": []byte("acme"), "documents": [][]byte{document}, "took_ms": 0})
			w.wrong(d, do, fields{"customer": []byte("acme"), "documents": [][]byte{[]byte("fine"), document}, "took_ms": 0})
		}
	}
	for _, costs := range []string{"-1", "1e999", "-1e999", "-0.001"} {
		one, two := documents("fine"), documents("fine", "fine too")
		w.wrong(d, "submit", fields{"customer": []byte("acme"), "documents": one, "costs": []json.Number{json.Number(costs)}})
		w.wrong(d, "submit", fields{"customer": []byte("acme"), "documents": two, "costs": []json.Number{"1", json.Number(costs)}})
	}
	w.wrong(d, "submit", fields{"customer": []byte("acme"), "documents": documents("a", "b"), "costs": []float64{1}})
	w.wrong(d, "submit", fields{"customer": []byte("acme"), "documents": documents("a"), "costs": []float64{1, 2}})
	w.wrong(d, "next", fields{"customer": []byte("acme"), "n": 1_000_001})
	w.wrong(d, "done", fields{"customer": []byte("acme"), "documents": documents("invoice-1"), "took_ms": -1})
	if sent := s.between.scripts(); sent > 0 {
		w.Errorf("%d scripts were sent for wrong calls", sent)
	}
	d.must("next", fields{"customer": []byte(strings.Repeat("x", 512)), "n": 1})
	d.must("submit", fields{"customer": []byte("acme"), "documents": [][]byte{[]byte(strings.Repeat("x", 512))}})
}

func (w *world) wrong(d *driver, do string, f fields) {
	w.Helper()
	if r := d.ask(do, f); r.class() != invalid {
		w.Errorf("%s %.200s is %v, want %s", do, shown(f), r, invalid)
	}
}

func checkHostileNames(w *world) {
	var file struct {
		Keys []struct {
			Shown, Prefix string
			Customer      string `json:"customer_hex"`
		}
	}
	w.vectors("keys.json", &file)
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	var names []string
	for _, key := range file.Keys {
		if key.Prefix != "priority" {
			continue
		}
		name, err := hex.DecodeString(key.Customer)
		if err != nil {
			w.Fatal(err)
		}
		names = append(names, string(name))
		for want := int64(0); want > -2; want-- {
			if got := d.next(string(name)); got.Count != want {
				w.Errorf("document %d of the customer %s has the count %d", 1-want, key.Shown, got.Count)
			}
		}
		if count, held := s.count(w, string(name)); !held || count != -1 {
			w.Errorf("after two documents of the customer %s the count in Redis is %d (%t)", key.Shown, count, held)
		}
	}
	// The same names as documents.
	all := documents(names...)
	d.must("submit", fields{"customer": []byte("acme corporation"), "documents": all})
	pending := keys("acme corporation")[1]
	held, err := s.client.ZRange(context.Background(), pending, 0, -1).Result()
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(held)
	slices.Sort(names)
	if !slices.Equal(held, names) {
		w.Errorf("of %d documents with odd names %d are pending, or others", len(names), len(held))
	}
	d.must("done", fields{"customer": []byte("acme corporation"), "documents": all, "took_ms": 0})
	if left := s.client.ZCard(context.Background(), pending).Val(); left != 0 {
		w.Errorf("%d documents with odd names are pending after their Done", left)
	}
}

func checkManyAtOnce(w *world) {
	const each, customers = 200, 3
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	var asking sync.WaitGroup
	var books ledger.Ledger
	var submitted submissions
	for i := range each * customers {
		customer, id := fmt.Sprint("customer ", i%customers), fmt.Sprint("invoice ", i)
		asking.Go(func() {
			f, do := fields{"customer": []byte(customer), "n": 1}, "next"
			if i%2 == 1 {
				f, do = fields{"customer": []byte(customer), "documents": documents(id)}, "submit"
			}
			r, err := d.try(do, f)
			switch {
			case err != nil || r.Error != nil:
				w.Errorf("%s is %v (%v)", do, r, err)
			case do == "next":
				note(&books, customer, r)
			default:
				submitted.note(customer, id, r)
			}
		})
	}
	asking.Wait()
	w.audit(s, &books)
	w.auditSubmissions(s, &submitted)
}

// checkOutage has documents counted before, while and after a server is away.
func checkOutage(begin, end func(*world, *site), want ...string) func(*world) {
	return func(w *world) {
		s := w.site(durable...)
		d := w.open(s.between.addr, short, nil)
		var books ledger.Ledger
		w.awaitNext(d, &books, "acme")
		begin(w, s)
		w.duringOutage(d, &books, want...)
		end(w, s)
		w.afterOutage(s, d, &books)
	}
}

// checkRefused has a server be gone. A call may find out by a connection that it had,
// and then does not know what became of it. The next ones know.
func checkRefused(w *world) {
	s := w.siteAt("", durable...)
	d := w.open(s.Addr, short, nil)
	var books ledger.Ledger
	w.awaitNext(d, &books, "acme")
	s.Kill()
	redistest.Await(w, "what cannot be sent is not counted", func() bool {
		r := d.ask("next", operations["next"])
		note(&books, "acme", r)
		return r.class() == notCounted
	})
	w.duringOutage(d, &books, notCounted)
	s.Restart()
	s.awaitWhole(w)
	w.afterOutage(s, d, &books)
}

// duringOutage makes calls that cannot be answered.
func (w *world) duringOutage(d *driver, books *ledger.Ledger, want ...string) {
	w.Helper()
	for _, do := range []string{"next", "submit", "done", "peek"} {
		wanted := want
		if do == "peek" {
			wanted = []string{notCounted}
		}
		var r response
		for range 10 { // a port may wait longer for a connection than a call has time
			r = d.ask(do, operations[do])
			if do == "next" {
				note(books, "acme", r)
			}
			if r.class() != notCounted || slices.Contains(wanted, notCounted) {
				break
			}
		}
		if !slices.Contains(wanted, r.class()) {
			w.Errorf("%s during the outage is %v, want %s", do, r, strings.Join(wanted, " or "))
		}
	}
}

// afterOutage counts documents again, and compares what callers were told with what
// the server holds.
func (w *world) afterOutage(s *site, d *driver, books *ledger.Ledger) {
	w.Helper()
	w.awaitNext(d, books, "acme")
	for range 20 {
		note(books, "acme", d.ask("next", operations["next"]))
	}
	d.end()
	w.audit(s, books)
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func stop(_ *world, s *site)     { s.Signal(syscall.SIGSTOP) }
func resume(_ *world, s *site)   { s.Signal(syscall.SIGCONT) }
func silence(_ *world, s *site)  { s.between.silence(true) }
func speak(_ *world, s *site)    { s.between.silence(false); s.between.cut() }
func holdAll(_ *world, s *site)  { s.between.let(hold) }
func giveUp(_ *world, s *site)   { s.between.let(pass); s.between.cut(); s.between.release() }
func halveAll(_ *world, s *site) { s.between.let(halve) }
func wholeAll(_ *world, s *site) { s.between.let(pass) }

func checkRestartWithoutPersistence(w *world) {
	s := w.site()
	d := w.open(s.between.addr, short, nil)
	for range 5 {
		w.awaitNext(d, new(ledger.Ledger), "acme")
	}
	s.Kill()
	s.Restart()
	s.awaitWhole(w)
	var books ledger.Ledger
	if told := w.awaitNext(d, &books, "acme"); told.Count < -int64(books.Totals().OutcomeUnknown) {
		w.Errorf("the first document after a restart without data has the count %d", told.Count)
	}
	w.audit(s, &books)
}

// checkLateAnswers has answers come when nobody waits for them any more.
func checkLateAnswers(w *world) {
	s := w.site()
	d := w.open(s.between.addr, short, nil)
	w.warmly(d)
	s.client.Del(context.Background(), keys("acme")...)
	s.between.let(hold)
	r := d.ask("next", operations["next"])
	if r.class() != outcomeUnknown {
		w.Errorf("next whose answer does not come in time is %v, want %s", r, outcomeUnknown)
	}
	if count, held := s.count(w, "acme"); !held || count != 0 {
		w.Errorf("next whose answer does not come in time has left the count %d (%t), want 0", count, held)
	}
	s.between.let(pass)
	s.between.release()
	for i := range 20 {
		customer := fmt.Sprint("another ", i)
		s.set(w, keys(customer)[0], fmt.Sprint(-1000-100*i))
		r := d.ask("next", fields{"customer": []byte(customer), "n": 1})
		if count := int64(-1001 - 100*i); r.Error == nil && r.Decisions[0].Count != count {
			w.Fatalf("after a late answer, next of another customer has the count %d, want %d", r.Decisions[0].Count, count)
		}
	}
	w.awaitNext(d, new(ledger.Ledger), "acme")
}

func checkTrickle(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	s.between.let(trickle)
	for i := range 3 {
		if got := d.next("slow"); got.Count != -int64(i) || got.Level != 1 {
			w.Errorf("next number %d, whose answer comes byte by byte, is %s", i+1, asJSON(got))
		}
	}
	got := d.must("submit", fields{"customer": []byte("slow"), "documents": documents("a", "b", "c")}).Decisions
	if want := (decision{Level: 3, Load: 9, Pending: 3}); got[2] != want {
		w.Errorf("submit, whose answer comes byte by byte, is %s", asJSON(got))
	}
	if got := d.must("peek", fields{"customer": []byte("slow")}).State; got.Count != -2 || got.Lately != 3 || got.Pending != 3 {
		w.Errorf("peek, whose answer comes byte by byte, is %s", asJSON(got))
	}
}

func checkForgottenScripts(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	ctx := context.Background()
	for range 3 {
		for do, request := range operations {
			if err := s.client.ScriptFlush(ctx).Err(); err != nil {
				w.Fatal(err)
			}
			d.must(do, request)
		}
	}
	s.flush(w)
	w.underLoad(s, d, func() { s.client.ScriptFlush(ctx) }, false)
}

func checkKilledConnections(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	s.flush(w)
	w.underLoad(s, d, s.between.cut, true)
}

// underLoad does harm, again and again, while documents are counted. Without
// permission to fail, each of them has to be answered.
func (w *world) underLoad(s *site, d *driver, harm func(), mayFail bool) {
	w.Helper()
	const lanes, rounds = 8, 15
	var books ledger.Ledger
	var submitted submissions
	var asked atomic.Int64
	var over atomic.Bool
	var lane sync.WaitGroup
	for at := range lanes {
		lane.Go(func() {
			for i := 0; !over.Load(); i++ {
				customer, id := fmt.Sprint("customer ", i%3), fmt.Sprint(at, " ", i)
				f, do := fields{"customer": []byte(customer), "n": 1}, "next"
				if i%2 == 1 {
					f, do = fields{"customer": []byte(customer), "documents": documents(id)}, "submit"
				}
				r, err := d.try(do, f)
				if err != nil {
					w.Errorf("%v", err)
					return
				}
				if do == "next" {
					note(&books, customer, r)
				} else {
					submitted.note(customer, id, r)
				}
				if r.Error != nil && !mayFail {
					w.Errorf("%s is %v", do, r)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range rounds {
		harm()
		before := asked.Load()
		redistest.Await(w, "documents are counted meanwhile", func() bool { return asked.Load() >= before+lanes || w.Failed() })
	}
	over.Store(true)
	lane.Wait()
	d.end()
	w.audit(s, &books)
	w.auditSubmissions(s, &submitted)
}

// checkStandstill has many calls wait for a server that stands still.
func checkStandstill(w *world) {
	const calls = 500
	s := w.site(durable...)
	d := w.open(s.between.addr, short, nil)
	w.warmly(d)
	s.flush(w)
	var books ledger.Ledger
	s.Signal(syscall.SIGSTOP)
	var asking sync.WaitGroup
	for i := range calls {
		customer := fmt.Sprint("customer ", i%5)
		asking.Go(func() {
			r, err := d.try("next", fields{"customer": []byte(customer), "n": 1})
			if err != nil {
				w.Errorf("of %d calls at once: %v", calls, err)
				return
			}
			note(&books, customer, r)
		})
	}
	asking.Wait()
	s.Signal(syscall.SIGCONT)
	w.awaitNext(d, &books, "customer 0")
	d.end()
	w.audit(s, &books)
}

// checkReadOnly has the server become a replica, which one of a cluster cannot. Nothing
// is changed by what it refuses.
func checkReadOnly(w *world) {
	s := w.site()
	d := w.open(s.between.addr, short, nil)
	w.warmly(d)
	s.flush(w)
	ctx := context.Background()
	if err := s.client.Do(ctx, "REPLICAOF", "127.0.0.1", fmt.Sprint(redistest.FreePort(w))).Err(); err != nil {
		w.Fatal(err)
	}
	for _, do := range []string{"next", "submit"} {
		if r := w.untilNotCounted(d, do); r.class() != notCounted {
			w.Errorf("%s on a read-only replica is %v, want %s", do, r, notCounted)
		}
	}
	w.awaitAnswer(d)
	if err := s.client.Do(ctx, "REPLICAOF", "no", "one").Err(); err != nil {
		w.Fatal(err)
	}
	if got := w.awaitNext(d, new(ledger.Ledger), "acme"); got.Count != 0 {
		w.Errorf("a read-only replica has counted: the next document has the count %d", got.Count)
	}
	if there := s.client.Exists(ctx, keys("acme")[1:3]...).Val(); there != 0 {
		w.Errorf("a read-only replica has made a document pending")
	}
}

func checkFullMemory(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	d.must("next", operations["next"])
	d.must("submit", operations["submit"])
	ctx := context.Background()
	s.client.ConfigSet(ctx, "maxmemory-policy", "noeviction")
	if err := s.client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		w.Fatal(err)
	}
	before, _ := s.count(w, "acme")
	f := fields{"customer": []byte("acme"), "documents": documents("invoice-2")}
	for do, request := range map[string]fields{"next": operations["next"], "submit": f} {
		if r := d.ask(do, request); r.class() != notCounted {
			w.Errorf("%s where memory is full is %v, want %s", do, r, notCounted)
		}
	}
	if r := d.ask("done", operations["done"]); r.Error != nil {
		w.Errorf("done where memory is full is %v", r)
	}
	if after, _ := s.count(w, "acme"); after != before {
		w.Errorf("the count is %d, and was %d before memory was full", after, before)
	}
	if err := s.client.ZScore(ctx, keys("acme")[1], "invoice-2").Err(); !errors.Is(err, redis.Nil) {
		w.Errorf("a document is pending that was not counted, as memory was full (%v)", err)
	}
	s.client.ConfigSet(ctx, "maxmemory", "0")
	if got := d.next("acme"); got.Count != before-1 {
		w.Errorf("the next document has the count %d, want %d", got.Count, before-1)
	}
}

func checkCorruptKeys(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	ctx := context.Background()
	spoil := map[int]struct {
		key   string
		calls []string
	}{
		0: {"}:count", []string{"next", "peek"}},
		1: {"}:pending", []string{"submit", "done", "peek"}},
		2: {"}:usage", []string{"submit", "done", "peek"}},
	}
	for at, spoilt := range spoil {
		key := keys("acme")[at]
		for _, write := range []func() error{
			func() error { return s.client.Set(ctx, key, "something else", 0).Err() },
			func() error { return s.client.RPush(ctx, key, "something", "else").Err() },
		} {
			s.flush(w)
			if err := write(); err != nil {
				w.Fatal(err)
			}
			kind := s.client.Type(ctx, key).Val()
			for _, do := range spoilt.calls {
				r := d.ask(do, operations[do])
				if r.class() != corrupt {
					w.Errorf("%s, where %s is a %s, is %v, want %s", do, key, kind, r, corrupt)
				} else if !strings.Contains(r.Error.Message, spoilt.key) {
					w.Errorf("%s, where %s is a %s: the message %q does not name the key", do, key, kind, r.Error.Message)
				}
			}
			if now := s.client.Type(ctx, key).Val(); now != kind || s.client.DBSize(ctx).Val() != 1 {
				w.Errorf("%s was a %s, and is a %s now, or other keys are there", key, kind, now)
			}
			if at == 0 { // which is nothing to the other rule
				d.must("submit", operations["submit"])
			}
			d.must("reset", operations["reset"])
			if got := d.next("acme"); got.Count != 0 {
				w.Errorf("after a reset the count is %d", got.Count)
			}
		}
	}
}

// checkSubmittedAgain has documents be delivered again and again, which counts nothing.
func checkSubmittedAgain(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	var books submissions
	for i := range 10 {
		id := fmt.Sprint("invoice ", i)
		f := fields{"customer": []byte("acme"), "documents": documents(id)}
		for again := range 3 {
			r := d.must("submit", f)
			if got := r.Decisions[0]; got.Pending != int64(i+1) {
				w.Errorf("submit number %d of document %d is %s, want %d pending", again+1, i+1, asJSON(got), i+1)
			}
			books.note("acme", id, r)
		}
	}
	for i := range 5 {
		id := fmt.Sprint("invoice ", i)
		for again := range 2 {
			r := d.must("done", fields{"customer": []byte("acme"), "documents": documents(id, "unknown", id), "took_ms": 0})
			if len(r.Ended) != 1-again {
				w.Errorf("done number %d of document %d has ended %s", again+1, i+1, asJSON(r.Ended))
			}
			books.noteDone(id, r)
		}
	}
	w.auditSubmissions(s, &books)
}

// checkEnd has a driver end while its server stands still, which a store's close must
// not wait for.
func checkEnd(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	d.end()
	d = w.open(s.between.addr, short, nil)
	w.awaitAnswer(d)
	s.Signal(syscall.SIGSTOP)
	d.ask("next", operations["next"])
	d.end()
	s.Signal(syscall.SIGCONT)
}

// checkNodes has customers live on three nodes of a cluster.
func checkNodes(w *world) {
	c := redistest.StartCluster(w, 3)
	d := w.open(c.Masters[0].Addr, enough, nil)
	for i := range 60 {
		customer := []byte(fmt.Sprint("customer ", i))
		for n := range 2 {
			if got := d.next(string(customer)); got.Count != -int64(n) {
				w.Errorf("document %d of %s has the count %d", n+1, customer, got.Count)
			}
		}
		got := d.must("submit", fields{"customer": customer, "documents": documents("invoice")}).Decisions[0]
		if want := (decision{Level: 1, Load: 1, Pending: 1}); got != want {
			w.Errorf("submit of %s is %s", customer, asJSON(got))
		}
		if got := d.must("peek", fields{"customer": customer}).State; got.Rule != "by_load" || got.Count != -1 {
			w.Errorf("peek of %s is %s", customer, asJSON(got))
		}
		if got := d.must("done", fields{"customer": customer, "documents": documents("invoice"), "took_ms": 0}).Ended; len(got) != 1 {
			w.Errorf("done of %s has ended %s", customer, asJSON(got))
		}
		d.must("reset", fields{"customer": customer})
	}
}
