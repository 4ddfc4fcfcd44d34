package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/internal/redistest"
)

// Processes in three languages count documents of the same customers on one server,
// while all kinds of things break. In the end Redis has counted what was answered, and
// besides only what nobody knows of; no count was told twice; and what was not counted
// is not there.
func TestAFleetOfThreeLanguagesIsExact(t *testing.T) {
	long(t)
	w := &world{TB: t}
	f := &processes{world: w, site: w.siteAt("", durable...), recent: new(ledger.Ledger), over: make(chan struct{})}
	for _, p := range []port{
		self(t, "the module"), python(t, "redis"), python(t, "asyncio"), node(t, "node-redis"), node(t, "ioredis"),
	} {
		f.join(p)
	}
	f.work()
	t.Cleanup(f.stop)
	const rounds = 2
	for range rounds {
		f.cutConnections()
		f.loseAnswers()
		f.killProcesses()
		f.forgetScripts()
		f.killServer()
		f.fillMemory()
		f.stopServer()
		f.holdAnswers()
		f.silenceNetwork()
	}
	f.stop()
	f.leave()
	w.audit(f.site, &f.books)
	f.auditSubmissions(f.site, &f.submitted)
	f.report()
}

// processes are those on one server.
type processes struct {
	*world
	site    *site
	members []*member
	books   ledger.Ledger  // of all the time
	recent  *ledger.Ledger // since the last pause
	working sync.RWMutex   // held for reading while a call is made
	lanes   sync.WaitGroup
	over    chan struct{}
	ending  sync.Once

	submitted submissions
}

// member is a process, and the ones before it that were killed.
type member struct {
	port     port
	between  *between
	answered atomic.Int64 // calls
	refused  atomic.Int64 // calls that were not counted
	unknown  atomic.Int64

	mu     sync.Mutex
	driver *driver
	begun  chan struct{} // closed when another driver takes its place
	killed int
}

// current returns the driver, and what tells that there is another one.
func (m *member) current() (*driver, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.driver, m.begun
}

func (f *processes) join(p port) {
	f.Helper()
	m := &member{port: p, between: listen(f)}
	m.between.lead(f.site.Addr)
	f.members = append(f.members, m)
	f.begin(m)
}

// begin starts a member's process, again where it was killed.
func (f *processes) begin(m *member) {
	f.Helper()
	w := &world{TB: f, port: m.port}
	d := w.open(m.between.addr, 1000, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.driver = d
	if m.begun != nil {
		close(m.begun)
	}
	m.begun = make(chan struct{})
}

// fleetCustomers are the customers of all members. Most documents are of the first.
var fleetCustomers = []string{"100% {acme}", "100% {acme}", "100% {acme}", "größer", "\xff\x00", "acme"}

// work has each member count in lanes.
func (f *processes) work() {
	const lanes = 4
	for at, m := range f.members {
		for lane := range lanes {
			f.lanes.Go(func() { f.lane(m, fmt.Sprintf("%d of process %d", lane, at)) })
		}
	}
	f.progress()
}

func (f *processes) lane(m *member, name string) {
	var pending []string
	for i := 0; !f.isOver(); i++ {
		f.working.RLock()
		customer := fleetCustomers[rand.N(len(fleetCustomers))]
		id := fmt.Sprintf("document %d of lane %s", i, name)
		switch i % 5 {
		case 0, 1:
			f.next(m, customer, 1)
		case 2:
			f.next(m, customer, 3)
		case 3:
			if f.submit(m, customer, id) == answered {
				pending = append(pending, id)
			}
		case 4:
			if len(pending) > 3 {
				f.done(m, pending[0])
				pending = pending[1:]
			}
		}
		f.working.RUnlock()
	}
}

// stop ends the lanes.
func (f *processes) stop() {
	f.ending.Do(func() { close(f.over) })
	f.lanes.Wait()
}

func (f *processes) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return f.Failed()
	}
}

func (f *processes) next(m *member, customer string, n int) {
	r := f.call(m, "next", fields{"customer": []byte(customer), "n": n})
	told := make([]priority.Decision, len(r.Decisions))
	for i, d := range r.Decisions {
		told[i].Count = d.Count
	}
	f.books.NoteN(customer, n, told, r.err())
	f.recent.NoteN(customer, n, told, r.err())
}

func (f *processes) submit(m *member, customer, id string) string {
	r := f.call(m, "submit", fields{"customer": []byte(customer), "documents": documents(id)})
	f.submitted.note(customer, id, r)
	return r.class()
}

func (f *processes) done(m *member, id string) {
	request := fields{"customer": []byte(f.submitted.customerOf(id)), "documents": documents(id), "took_ms": 100}
	f.submitted.noteDone(id, f.call(m, "done", request))
}

// call makes one call. What becomes of one whose process is killed is not known.
func (f *processes) call(m *member, do string, request fields) response {
	d, begun := m.current()
	r, err := d.try(do, request)
	switch {
	case errors.Is(err, errGone):
		select {
		case <-begun:
		case <-f.over:
		}
		r = response{Error: &failure{outcomeUnknown, err.Error()}}
	case err != nil:
		f.Errorf("%v%s", err, d.said)
		r = response{Error: &failure{outcomeUnknown, err.Error()}}
	}
	switch r.class() {
	case answered:
		m.answered.Add(1)
	case notCounted:
		m.refused.Add(1)
	default:
		m.unknown.Add(1)
	}
	return r
}

// progress waits until each process has had some more answers.
func (f *processes) progress() {
	f.Helper()
	f.await("calls are answered", 15, (*member).answers, f.members...)
}

func (m *member) answers() int64  { return m.answered.Load() }
func (m *member) refusals() int64 { return m.refused.Load() }
func (m *member) unknowns() int64 { return m.unknown.Load() }
func (m *member) failures() int64 { return m.refused.Load() + m.unknown.Load() }

// await waits until so many more calls of some members have ended in a way.
func (f *processes) await(what string, more int64, of func(*member) int64, members ...*member) {
	f.Helper()
	before := make([]int64, len(members))
	for i, m := range members {
		before[i] = of(m)
	}
	redistest.Await(f, what, func() bool {
		for i, m := range members {
			if of(m) < before[i]+more {
				return f.Failed()
			}
		}
		return true
	})
	if f.Failed() {
		f.FailNow()
	}
}

// The faults. After each, every process has answers again.

func (f *processes) cutConnections() {
	f.Helper()
	for range 3 {
		for _, m := range f.members {
			m.between.cut()
		}
		f.site.KillClients()
		f.progress()
	}
}

// loseAnswers has scripts run whose answers are lost. Here next to nothing that is of
// unknown outcome was not counted, so that what is counted twice cannot hide there.
func (f *processes) loseAnswers() {
	f.Helper()
	counted := f.pause(nil)
	for _, m := range f.members {
		m.between.letEach(func() string {
			switch rand.N(8) {
			case 0:
				return lose
			case 1:
				return halve
			}
			return pass
		})
	}
	f.await("answers are lost", 5, (*member).unknowns, f.members...)
	f.progress()
	for _, m := range f.members {
		m.between.let(pass)
	}
	f.pause(counted)
	f.progress()
}

// pause lets no call begin until none is on its way, and returns how many documents of
// each customer are counted then. Since an earlier pause this has to be what callers
// were told.
func (f *processes) pause(earlier map[string]int64) map[string]int64 {
	f.Helper()
	f.working.Lock()
	defer f.working.Unlock()
	redistest.Await(f, "no call is on its way", func() bool {
		return !slices.ContainsFunc(f.members, func(m *member) bool { return !m.between.idle() })
	})
	counts := make(map[string]int64)
	for _, customer := range fleetCustomers {
		if count, held := f.site.count(f.world, customer); held {
			counts[customer] = 1 - count
		}
	}
	if earlier != nil {
		found := f.recent.Reconcile(func(customer string) (int64, bool) { return 1 - counts[customer] + earlier[customer], true })
		if !found.Exact() {
			f.Errorf("while answers were lost, of %v: %v", f.recent.Totals(), found)
		}
	}
	f.recent = new(ledger.Ledger)
	return counts
}

func (f *processes) killProcesses() {
	f.Helper()
	for _, m := range f.members {
		d, _ := m.current()
		d.kill()
		m.killed++
		f.begin(m)
	}
	f.progress()
}

func (f *processes) forgetScripts() {
	f.Helper()
	for range 3 {
		if err := f.site.client.ScriptFlush(context.Background()).Err(); err != nil {
			f.Fatal(err)
		}
		f.progress()
	}
}

func (f *processes) killServer() {
	f.Helper()
	f.site.Kill()
	f.await("calls find no server", 1, (*member).refusals, f.members...)
	f.site.Restart()
	f.site.awaitWhole(f.world)
	f.progress()
}

func (f *processes) fillMemory() {
	f.Helper()
	f.limitMemory("1")
	f.await("calls are refused", 1, (*member).refusals, f.members...)
	f.limitMemory("0")
	f.progress()
}

func (f *processes) limitMemory(bytes string) {
	f.Helper()
	if err := f.site.client.ConfigSet(context.Background(), "maxmemory", bytes).Err(); err != nil {
		f.Fatal(err)
	}
}

func (f *processes) stopServer() {
	f.Helper()
	f.site.Signal(syscall.SIGSTOP)
	f.await("calls wait in vain", 1, (*member).failures, f.members...)
	f.site.Signal(syscall.SIGCONT)
	f.progress()
}

func (f *processes) holdAnswers() {
	f.Helper()
	for _, m := range f.members {
		m.between.let(hold)
	}
	f.await("calls have no answer", 1, (*member).unknowns, f.members...)
	for _, m := range f.members {
		m.between.let(pass)
		m.between.release()
	}
	f.progress()
}

func (f *processes) silenceNetwork() {
	f.Helper()
	m := f.members[rand.N(len(f.members))]
	m.between.silence(true)
	f.await("calls go nowhere", 1, (*member).failures, m)
	m.between.silence(false)
	m.between.cut()
	f.progress()
}

// leave ends all processes, and waits until the server has nothing more to do for them.
func (f *processes) leave() {
	f.Helper()
	for _, m := range f.members {
		d, _ := m.current()
		d.end()
		m.between.cut()
	}
	redistest.Await(f, "the server is alone", func() bool {
		list, err := f.site.client.ClientList(context.Background()).Result()
		return err == nil && strings.Count(list, "\n") == 1
	})
}

// report says what happened.
func (f *processes) report() {
	totals := f.books.Totals()
	f.Logf("%v; %d were submitted", totals, len(f.submitted.byID))
	for _, m := range f.members {
		f.Logf("%s %s: %d calls answered, %d not counted, %d of unknown outcome; killed %d times",
			filepath.Base(m.port.command[0]), m.port.client, m.answers(), m.refusals(), m.unknowns(), m.killed)
	}
}
