package conformance_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/docpriority/priority/internal/testing/ledger"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/internal/testing/vectors"
)

// The faults of docs/reliability.md that a port must stand.

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
	acme := func(do string, f fields) {
		f["customer"] = []byte("acme")
		w.wrong(d, do, f)
	}
	for _, document := range []string{"", string(long)} {
		for _, do := range []string{"submit", "done"} {
			acme(do, fields{"documents": documents(document), "took_ms": 0})
			acme(do, fields{"documents": documents("fine", document), "took_ms": 0})
		}
	}
	for _, cost := range []json.Number{"-1", "1e999", "-1e999", "-0.001"} {
		acme("submit", fields{"documents": documents("fine"), "costs": []json.Number{cost}})
		acme("submit", fields{"documents": documents("fine", "fine too"), "costs": []json.Number{"1", cost}})
	}
	acme("submit", fields{"documents": documents("a", "b"), "costs": []float64{1}})
	acme("submit", fields{"documents": documents("a"), "costs": []float64{1, 2}})
	for _, delay := range []int64{-1, 31_536_000_001} {
		acme("submit", fields{"documents": documents("fine"), "delays": []int64{delay}})
	}
	acme("next", fields{"n": 1_000_001})
	acme("done", fields{"documents": documents("invoice-1"), "took_ms": -1})
	if sent, _ := s.between.scripts(); sent > 0 {
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
	var file struct{ Keys []vectors.Keys }
	w.read("keys.json", &file)
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	var names []string
	for _, key := range file.Keys {
		if key.Prefix != "priority" || key.Accounts {
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
	held := s.pending(w, "acme corporation")
	slices.Sort(held)
	slices.Sort(names)
	if !slices.Equal(held, names) {
		w.Errorf("of %d documents with odd names %d are pending, or others", len(names), len(held))
	}
	d.must("done", fields{"customer": []byte("acme corporation"), "documents": all, "took_ms": 0})
	if left := s.pending(w, "acme corporation"); len(left) != 0 {
		w.Errorf("%d documents with odd names are pending after their Done", len(left))
	}
}

// checkOutage has documents counted before, while and after a server stands still.
func checkOutage(w *world) {
	s := w.site(durable...)
	d := w.open(s.between.addr, short, nil)
	var books ledger.Ledger
	w.awaitNext(d, &books, "acme")
	s.Signal(syscall.SIGSTOP)
	w.duringOutage(d, &books, notCounted, outcomeUnknown)
	s.Signal(syscall.SIGCONT)
	w.afterOutage(s, d, &books)
}

// checkRefused has a server be gone. A call may find out by a connection that it had,
// and then does not know what became of it. The next ones know.
func checkRefused(w *world) {
	s := w.siteAt("", durable...)
	d := w.open(s.Addr, short, nil)
	var books ledger.Ledger
	w.awaitNext(d, &books, "acme")
	s.Kill()
	var refused response
	redistest.Await(w, "what cannot be sent is not counted", func() bool {
		refused = d.ask("next", operations["next"])
		note(&books, "acme", refused)
		return refused.class() == notCounted
	})
	if why := refused.Error.Message; !strings.Contains(why, s.keys(w, "acme").Count) || !strings.Contains(why, s.Addr) && !w.port.cluster {
		w.Errorf("the message %q names no key or no address", why)
	}
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
		r := d.ask(do, operations[do])
		if do == "next" {
			note(books, "acme", r)
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

// checkKilledConnections cuts connections, again and again, while documents are counted.
func checkKilledConnections(w *world) {
	const lanes, rounds = 8, 6
	s := w.siteAt("")
	d := w.open(s.Addr, enough, nil)
	w.warm(d)
	s.flush(w)
	var books ledger.Ledger
	var asked atomic.Int64
	var over atomic.Bool
	var lane sync.WaitGroup
	for at := range lanes {
		lane.Go(func() {
			for i := 0; !over.Load() && !w.Failed(); i++ {
				w.count(d, &books, at, i)
				asked.Add(1)
			}
		})
	}
	for range rounds {
		s.KillClients()
		before := asked.Load()
		redistest.Await(w, "documents are counted meanwhile", func() bool { return asked.Load() >= before+lanes || w.Failed() })
	}
	over.Store(true)
	lane.Wait()
	d.end()
	s.awaitWhole(w) // its own connection was killed too
	w.audit(s, &books)
}

// count counts a document, or submits the only one of a customer.
func (w *world) count(d *driver, books *ledger.Ledger, lane, i int) {
	customer, do := fmt.Sprint("customer ", i%3), "next"
	f := fields{"n": 1}
	if i%2 == 1 {
		customer, do, f = fmt.Sprint("submitter ", lane, " ", i), "submit", fields{"documents": documents("invoice")}
	}
	f["customer"] = []byte(customer)
	if r, err := d.try(do, f); err != nil {
		w.Errorf("%v", err)
	} else {
		note(books, customer, r)
	}
}

func checkCorruptKeys(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	ctx, acme := context.Background(), s.keys(w, "acme")
	for key, calls := range map[string][]string{acme.Count: {"next", "peek"}, acme.Pending: {"submit", "done", "peek"}} {
		for _, write := range []func() error{
			func() error { return s.client.Set(ctx, key, "something else", 0).Err() },
			func() error { return s.client.RPush(ctx, key, "something", "else").Err() },
		} {
			s.flush(w)
			if err := write(); err != nil {
				w.Fatal(err)
			}
			kind := s.client.Type(ctx, key).Val()
			for _, do := range calls {
				r := d.ask(do, operations[do])
				if r.class() != corrupt {
					w.Errorf("%s, where %s is a %s, is %v, want %s", do, key, kind, r, corrupt)
				} else if !strings.Contains(r.Error.Message, key) {
					w.Errorf("%s, where %s is a %s: the message %q does not name the key", do, key, kind, r.Error.Message)
				}
			}
			if now := s.client.Type(ctx, key).Val(); now != kind || s.client.DBSize(ctx).Val() != 1 {
				w.Errorf("%s was a %s, and is a %s now, or other keys are there", key, kind, now)
			}
			if key == acme.Count { // which is nothing to the other rule
				d.must("submit", operations["submit"])
			}
			d.must("reset", operations["reset"])
			if got := d.next("acme"); got.Count != 0 {
				w.Errorf("after a reset the count is %d", got.Count)
			}
		}
	}
}

// checkConnecting has a connection take longer than a call may, as over a distance or by a slow login.
func checkConnecting(w *world) {
	s := w.site()
	s.between.holdGreetings(w)
	d := w.open(s.between.addr+"/1", short, nil) // the database makes each client send something first
	if r := d.ask("next", operations["next"]); r.class() != notCounted {
		w.Errorf("without a connection, next is %v", r)
	}
	redistest.Await(w, "a later call finds the connection that an earlier one has begun", func() bool {
		s.between.greet(make(chan struct{})) // nobody who comes later
		return d.ask("next", operations["next"]).Error == nil
	})
}

// checkEnd has a driver end while its server stands still, which a store's close must
// not wait for.
func checkEnd(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	w.warm(d)
	d.end()
	d = w.open(s.between.addr, short, nil)
	w.awaitAnswer(d, "peek")
	s.Signal(syscall.SIGSTOP)
	d.ask("next", operations["next"])
	d.end()
	s.Signal(syscall.SIGCONT)
}

// checkNodes has customers live on three nodes of a cluster.
func checkNodes(w *world) {
	c := redistest.StartCluster(w, 3)
	d := w.open(c.Masters[0].Addr, enough, nil)
	var customers []string
	for i := range 60 {
		customers = append(customers, fmt.Sprint("customer ", i))
		customer := []byte(customers[i])
		for n := range 2 {
			if got := d.next(customers[i]); got.Count != -int64(n) {
				w.Errorf("document %d of %s has the count %d", n+1, customer, got.Count)
			}
		}
		got := d.must("submit", fields{"customer": customer, "documents": documents("invoice")}).Decisions[0]
		if want := (decision{Level: 1, RuleLevel: 1, Load: 1, Pending: 1}); got != want {
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
	w.standStill(c, d, customers)
	w.moveSlots(c, d)
}

// standStill has a node stand still: that is the trouble of its own customers.
func (w *world) standStill(c *redistest.Cluster, d *driver, customers []string) {
	w.reopen(d, c.Masters[0].Addr, enough/4, nil)
	client, still := c.Client(), c.Masters[1]
	for _, customer := range customers { // each node is connected
		w.awaitNext(d, new(ledger.Ledger), customer)
	}
	if err := still.Client().Do(context.Background(), "CLIENT", "PAUSE", enough, "WRITE").Err(); err != nil {
		w.Fatal(err)
	}
	var calling sync.WaitGroup
	for _, customer := range customers {
		calling.Go(func() {
			r, err := d.try("next", fields{"customer": []byte(customer), "n": 1})
			master, failed := client.MasterForKey(context.Background(), "priority:{"+customer+"}:count")
			if err != nil || failed != nil || (master.Options().Addr == still.Addr) != (r.Error != nil) || r.Error != nil && r.class() != notCounted && r.class() != outcomeUnknown {
				w.Errorf("while a node stands still, next of %s is %v %v %v", customer, r, err, failed)
			}
		})
	}
	calling.Wait()
	if err := still.Client().Do(context.Background(), "CLIENT", "UNPAUSE").Err(); err != nil {
		w.Fatal(err)
	}
}

// moveSlots has slots move, key by key: no count is lost and none doubled, nor an override.
func (w *world) moveSlots(c *redistest.Cluster, d *driver) {
	w.reopen(d, c.Masters[0].Addr, enough, fields{"overrides": true})
	for customer, override := range map[string]string{"acme": "", "globex": "=7 by mary"} {
		n, key := int64(0), "priority:{"+customer+"}:"
		if override != "" {
			if err := c.Client().Set(context.Background(), key+"override", override, 0).Err(); err != nil {
				w.Fatal(err)
			}
		}
		both := func() {
			counted := d.next(customer)
			submitted := d.must("submit", fields{"customer": []byte(customer), "documents": documents(fmt.Sprint(n))}).Decisions[0]
			overridden := override != ""
			if counted.Count != -n || submitted.Pending != n+1 || (counted.Level == 7) != overridden || (submitted.Level == 7) != overridden {
				w.Errorf("document %d of %s is %s and %s", n+1, customer, asJSON(counted), asJSON(submitted))
			}
			n++
		}
		both()
		c.MoveSlot(key+"count", both)
		both()
		both()
	}
}

// checkPart has Redis refuse one customer's documents while it counts another's: the first one's
// levels go on in memory.
func checkPart(w *world) {
	const each = 25
	s := w.site()
	d := w.open(s.between.addr, enough, fields{"fallback": true})
	w.warm(d)
	s.between.let(slices.Repeat([]string{"OOM command not allowed when used memory > 'maxmemory'.", pass}, each)...)
	for n := range int64(each) {
		for _, customer := range []string{"refused", "counted"} {
			if got := d.next(customer); got.Count != -n || got.Degraded != (customer == "refused") {
				w.Errorf("document %d of the customer who is %s is %s", n+1, customer, asJSON(got))
			}
		}
	}
	// Once Redis has counted the refused one, memory has forgotten them.
	for _, fate := range []string{pass, "OOM command not allowed when used memory > 'maxmemory'."} {
		s.between.let(fate)
		if got := d.next("refused"); got.Count != 0 || got.Degraded != (fate != pass) {
			w.Errorf("behind it, a document is %s", asJSON(got))
		}
	}
}

// checkFallback has callers go on while the server stands still, and then while it is gone.
// None gets an error, each is told that the level is a fallback's, and a flood does not
// reach others. The server decides again when it is back, and has counted nothing while
// it was gone.
func checkFallback(w *world) {
	const callers, rounds, batch = 8, 15, 4
	s := w.site(durable...)
	d := w.open(s.between.addr, short, fields{"fallback": true})
	w.warm(d)
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"stands still", func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) }},
		{"is gone", s.Kill, func() { s.Restart(); s.awaitWhole(w) }},
	} {
		// ask makes a call, and returns the level of the first document.
		ask := func(do, customer string, ids ...string) int64 {
			f := fields{"customer": []byte(customer), "n": 1}
			if do != "next" {
				f = fields{"customer": []byte(customer), "documents": documents(ids...), "took_ms": 0}
			}
			r, err := d.try(do, f)
			if err != nil || r.Error != nil {
				w.Errorf("while the server %s, %s of %s is %v %v", outage.name, do, customer, r, err)
				return 0
			}
			if do == "done" {
				return 0
			}
			if !r.Decisions[0].Degraded {
				w.Errorf("while the server %s, %s of %s is %v", outage.name, do, customer, r)
			}
			return r.Decisions[0].Level
		}
		// A customer of its own: calls that the outage before gave up may be counted even now.
		again := "again, while it " + outage.name
		outage.begin()
		var calling sync.WaitGroup
		for at := range callers {
			calling.Go(func() {
				small := fmt.Sprint("small ", at)
				for i := range rounds {
					var ids []string
					for n := range batch {
						ids = append(ids, fmt.Sprint(outage.name, " ", at, " ", i, " ", n))
					}
					if at%2 == 0 {
						ask("submit", "flood", ids...)
						continue
					}
					if level := ask("submit", small, ids[0]); level > 6 {
						w.Errorf("while the server %s, a customer with one document pending has level %d", outage.name, level)
					}
					ask("done", small, ids[0])
					ask("next", again)
				}
			})
		}
		calling.Wait()
		if level := ask("submit", "flood", outage.name); level < 7 {
			w.Errorf("while the server %s, a document after a flood of %d has level %d", outage.name, callers/2*rounds*batch, level)
		}
		outage.end()
		if count, ok := s.count(w, again); outage.name == "is gone" && ok {
			w.Errorf("while the server was gone it counted to %d", count)
		}
		redistest.Await(w, "the server decides again", func() bool {
			r := d.ask("next", fields{"customer": []byte(again), "n": 1})
			return r.Error == nil && !r.Decisions[0].Degraded
		})
		d.must("reset", fields{"customer": []byte("flood")})
	}
	d.end()
}

// A document that is done is not pending, whatever the server missed or got late.

// checkDones has the server miss Dones: it gets them later, and they do not end what was submitted since.
func checkDones(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, fields{"fallback": true})
	w.warm(d)
	acme := fields{"customer": []byte("acme"), "documents": documents("missed", "submitted again"), "took_ms": 0}
	d.must("submit", acme)
	s.between.let("OOM command not allowed when used memory > 'maxmemory'.")
	d.must("done", acme)
	other := w.open(s.Addr, enough, nil)
	other.must("submit", fields{"customer": []byte("acme"), "documents": documents("submitted again")})
	s.between.let(pass)
	redistest.Await(w, "the server gets the Dones", func() bool { return !slices.Contains(s.pending(w, "acme"), "missed") })
	late := fields{"customer": []byte("acme"), "documents": documents("done before the end"), "took_ms": 0}
	d.must("submit", late)
	s.between.let("OOM command not allowed when used memory > 'maxmemory'.")
	d.must("done", late)
	s.between.let(pass)
	d.end()
	if held := s.pending(w, "acme"); !slices.Equal(held, []string{"submitted again"}) {
		w.Errorf("%q are pending", held)
	}
}

// checkLate has the server stand still with Submits in flight, whose documents are done meanwhile.
// It runs them after their calls have ended: that must not make the documents pending again.
func checkLate(w *world) {
	const calls, each = 9, 100
	s := w.siteAt("")
	d := w.open(s.Addr, short, fields{"fallback": true})
	w.warm(d)
	ask := func(do string) {
		var calling sync.WaitGroup
		for at := range calls {
			calling.Go(func() {
				var ids []string
				for n := range each {
					ids = append(ids, fmt.Sprint(at, " ", n))
				}
				r, err := d.try(do, fields{"customer": []byte("acme"), "documents": documents(ids...), "took_ms": 0})
				if err != nil || r.Error != nil || do == "submit" && !r.Decisions[0].Degraded {
					w.Errorf("while the server stands still, a %s is %v %v", do, r, err)
				}
			})
		}
		calling.Wait()
	}
	s.Signal(syscall.SIGSTOP)
	ask("submit")
	// What a process thinks of the server's clock is wrong by less than a call takes, and this is one.
	// After it, the tenth failure, no Done waits for the server.
	d.ask("peek", operations["peek"])
	ask("done")
	s.Signal(syscall.SIGCONT)
	redistest.Await(w, "the server decides again", func() bool {
		r := d.ask("next", operations["next"])
		return r.Error == nil && !r.Decisions[0].Degraded
	})
	d.end()
	if held := s.pending(w, "acme"); len(held) > 0 {
		w.Errorf("%d documents are pending that are done", len(held))
	}
}

// checkScripts has a driver's first calls come at once, to a server that does not know their script.
func checkScripts(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, nil)
	next := func(calls int) {
		var calling sync.WaitGroup
		for range calls {
			calling.Go(func() {
				if r, err := d.try("next", operations["next"]); err != nil || r.Error != nil {
					w.Errorf("next is %v %v", r, err)
				}
			})
		}
		calling.Wait()
	}
	next(20)
	if loads := s.between.loads(); loads != 1 {
		w.Errorf("20 first calls have loaded their script %d times", loads)
	}
	if err := s.client.ScriptFlush(context.Background()).Err(); err != nil {
		w.Fatal(err)
	}
	next(1)
	if ran := s.client.Info(context.Background(), "commandstats").Val(); strings.Contains(ran, "cmdstat_eval:") {
		w.Error("a script that Redis has lost was not loaded, but sent along: Redis 7.4 and later forget it again")
	}
	s.between.refuseLoads()
	w.reopen(d, s.between.addr, enough, nil)
	if err := s.client.ScriptFlush(context.Background()).Err(); err != nil {
		w.Fatal(err)
	}
	next(1)
}
