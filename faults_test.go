package priority_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/internal/script"
)

// What becomes of documents when Redis or the network fails. Internal/laws has what
// virtual time can show.

// ownTimeout is a client's own timeout in these tests, longer than a store's.
const ownTimeout = time.Second

// clientKinds make the kinds of client that differ in when they ask for a command's bytes.
var clientKinds = map[string]func(t *testing.T, addr string) priority.RedisClient{
	"Client": func(t *testing.T, addr string) priority.RedisClient {
		client := slowClient(t, addr)
		client.AddHook(tracing{})
		return client
	},
	"AutoPipeline": func(t *testing.T, addr string) priority.RedisClient {
		return autoPipeline(t, slowClient(t, addr))
	},
}

func slowClient(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: addr, ReadTimeout: ownTimeout, WriteTimeout: ownTimeout, DialTimeout: ownTimeout,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// tracing is a hook that looks at commands before they are sent, as the hooks of
// tracing libraries do.
type tracing struct{}

func (tracing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (tracing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		_, _ = cmd.Args(), cmd.String()
		return next(ctx, cmd)
	}
}

func (tracing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			_, _ = cmd.Args(), cmd.String()
		}
		return next(ctx, cmds)
	}
}

// scriptsRun returns how often a server was asked to run a script.
func scriptsRun(t testing.TB, server *redis.Client) int {
	told := redistest.Calls(t, server)
	return told["evalsha"] + told["eval"]
}

// underWay returns how many goroutines of stores wait for Redis.
func underWay() int {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	total := 0
	for record := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(record, "script.(*Runner).do.func") || strings.Contains(record, "script.(*Runner).doOne.func") {
			at := strings.LastIndex(record[:strings.Index(record, " @")], "\n") + 1
			n, err := strconv.Atoi(record[at:strings.Index(record, " @")])
			if err != nil {
				panic(err)
			}
			total += n
		}
	}
	return total
}

// A lost reply makes nothing count twice: not go-redis, not the store. A Submit or
// a Done may be made again, and changes nothing then.
func TestLostReply(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	direct := server.Client()
	calls := map[string]struct {
		call       func(*priority.RedisStore) error
		count      string // afterwards, where it was 0 before
		pending    int64  // where it was 1 before
		repeatable bool
	}{
		"Next":  {func(s *priority.RedisStore) error { _, err := s.Next(ctx, "acme"); return err }, "-1", 1, false},
		"NextN": {func(s *priority.RedisStore) error { _, err := s.NextN(ctx, "acme", 5); return err }, "-5", 1, false},
		"NextEach": {func(s *priority.RedisStore) error {
			_, err := s.NextEach(ctx, []string{"acme", "b", "acme"})
			return err
		}, "-2", 1, false},
		"Submit": {func(s *priority.RedisStore) error { _, err := s.Submit(ctx, "acme", "b", 0); return err }, "0", 2, true},
		"SubmitN": {func(s *priority.RedisStore) error {
			_, err := s.SubmitN(ctx, "acme", documentIDs("invoice", 120), nil)
			return err
		}, "0", 121, true},
		"Done":  {func(s *priority.RedisStore) error { _, err := s.Done(ctx, "acme", "a", 0); return err }, "0", 0, true},
		"DoneN": {func(s *priority.RedisStore) error { _, err := s.DoneN(ctx, "acme", []string{"a", "b"}, 0); return err }, "0", 0, true},
		"Reset": {func(s *priority.RedisStore) error { return s.Reset(ctx, "acme") }, "", 0, false},
	}
	for faultName, fault := range map[string]redistest.Fault{
		"cut": redistest.Cut, "swallow": redistest.Swallow,
	} {
		for kind, newClient := range clientKinds {
			for operation, test := range calls {
				name := faultName + "/" + kind + "/" + operation
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					proxy := redistest.StartProxy(t, server.Addr)
					client := newClient(t, proxy.Addr)
					patient := openStore(t, client, &priority.RedisOptions{Prefix: name, Timeout: time.Minute})
					impatient := openStore(t, client, &priority.RedisOptions{Prefix: name, Timeout: 200 * time.Millisecond})
					// First calls open the connections and load the scripts.
					_, err0 := patient.Next(ctx, "acme")
					_, err1 := patient.Submit(ctx, "acme", "a", 0)
					_, err2 := patient.NextEach(ctx, []string{"c", "d"})
					_, err3 := patient.Done(ctx, "acme", "unknown", 0)
					if err := errors.Join(err0, err1, err2, err3, patient.Reset(ctx, "c")); err != nil {
						t.Fatal(err)
					}
					holds := func() bool {
						return direct.Get(ctx, patient.Keys("acme").Count).Val() == test.count &&
							heldPending(direct, patient, "acme") == test.pending
					}

					proxy.Set(fault)
					wantClass(t, test.call(impatient), priority.ErrOutcomeUnknown)

					// The store may have given up before the server came to it.
					redistest.Await(t, "the server holds what was sent", holds)
					proxy.Set(redistest.None)
					redistest.Await(t, "the client works again", func() bool {
						_, err := patient.Peek(ctx, "c")
						return err == nil
					})
					if test.repeatable {
						if err := test.call(patient); err != nil {
							t.Errorf("once more: %v", err)
						}
					}
					if !holds() {
						t.Errorf("the server holds %q and %d in the end; want %q and %d", direct.Get(ctx, patient.Keys("acme").Count).Val(),
							heldPending(direct, patient, "acme"), test.count, test.pending)
					}
				})
			}
		}
	}
}

// What is as good twice as once is sent again within the timeout: its outcome is
// known as soon as Redis is back.
func TestLostReply_SentAgain(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	direct := server.Client()
	for kind, newClient := range clientKinds {
		proxy := redistest.StartProxy(t, server.Addr)
		w := &world{Store: openStore(t, newClient(t, proxy.Addr), &priority.RedisOptions{Prefix: kind, Timeout: time.Minute}), slack: serverSlack}
		w.submitN(t, "acme", []string{"a", "b", "c"}, flood(3)...)
		more := documentIDs("e", 120)
		one := more[:40] // in one command, which decides the same again
		same := func(got []priority.Decision, err error, want []priority.Decision) error {
			if err == nil && !slices.EqualFunc(got, want, func(a, b priority.Decision) bool {
				return a.Level == b.Level && w.alike(a.Load, b.Load)
			}) {
				t.Errorf("sent again it decides %v, want %v", got, want)
			}
			return err
		}
		var ended []priority.Ended
		for _, test := range []struct {
			name string
			call func() error
			want int64 // pending
		}{
			{"Submit", func() error {
				decision, err := w.Submit(ctx, "acme", "d", 0)
				return same([]priority.Decision{decision}, err, flood(4)[3:])
			}, 4},
			{"SubmitN", func() error {
				decisions, err := w.SubmitN(ctx, "acme", one, nil)
				return same(decisions, err, flood(44)[4:])
			}, 44},
			{"SubmitN of many", func() error { _, err := w.SubmitN(ctx, "acme", more, nil); return err }, 124},
			{"Done", func() error {
				e, err := w.Done(ctx, "acme", "a", 0)
				ended = append(ended, e)
				return err
			}, 123},
			{"DoneN", func() error {
				e, err := w.DoneN(ctx, "acme", []string{"b", "c"}, 0)
				ended = append(ended, e...)
				return err
			}, 121},
			{"Peek", func() error { _, err := w.Peek(ctx, "acme"); return err }, 121},
		} {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				// It needs a connection that is open already: for one command, or for many.
				redistest.Await(t, "the client works", func() bool {
					_, one := w.Peek(ctx, "acme")
					_, many := w.DoneN(ctx, "acme", []string{"unknown"}, 0)
					return one == nil && many == nil
				})
				// The reply may be faster than the end of the fault: then it is not lost.
				redistest.Await(t, "its reply is lost, and it is sent again", func() bool {
					before := scriptsRun(t, direct)
					proxy.Set(redistest.Cut)
					answer := make(chan error, 1)
					go func() { answer <- test.call() }()
					redistest.Await(t, "it is sent", func() bool { return scriptsRun(t, direct) > before })
					proxy.Set(redistest.None)
					if err := <-answer; err != nil {
						t.Error(err)
					}
					return scriptsRun(t, direct) >= before+2
				})
				w.pends(t, "acme", test.want)
				// The first answer said what ended, and was lost.
				if slices.ContainsFunc(ended, func(e priority.Ended) bool { return e != priority.Ended{} }) {
					t.Errorf("%v have ended again", ended)
				}
				ended = nil
			})
		}
	}
}

// What certainly did not reach Redis, or was refused there, changes nothing. The error
// says so, and why.
func TestRefused(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	hole := redistest.StartProxy(t, server.Addr)
	hole.Set(redistest.Blackhole)
	nobody := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	deaf := connectWith(t, &redis.Options{Addr: "redis.example:6379", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nobody}})
	t.Cleanup(func() { _ = cluster.Close() })
	busy := connectWith(t, &redis.Options{Addr: server.Addr, PoolSize: 1, PoolTimeout: time.Minute})
	only := busy.Conn()
	t.Cleanup(func() { _ = only.Close() })
	closed := connect(t, server.Addr)
	if err := errors.Join(only.Ping(ctx).Err(), closed.Close()); err != nil {
		t.Fatal(err)
	}
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master).Client()
	storeOf(t, master.Client()).submit(t, "acme", "a", pending(1))
	redistest.Await(t, "the replica has it", func() bool {
		state, err := openStore(t, replica, patient).Peek(ctx, "acme")
		return err == nil && state.Pending == 1
	})
	for name, test := range map[string]struct {
		client priority.RedisClient
		want   string // in the message
	}{
		"no server":            {connect(t, nobody), "dial tcp " + nobody + ": connect: connection refused"},
		"no server, a cluster": {cluster, "dial tcp " + nobody + ": connect: connection refused"},
		"no route":             {deaf, "dial tcp redis.example:6379: no answer yet"},
		"black hole":           {connect(t, hole.Addr), hole.Addr},
		"pool exhausted":       {busy, context.DeadlineExceeded.Error()},
		"closed client":        {closed, redis.ErrClosed.Error()},
		"password missing":     {redistest.Start(t, "--requirepass", "secret").Client(), "NOAUTH"},
		"read-only replica":    {replica, "READONLY"},
	} {
		store := openStore(t, test.client, nil)
		for operation, call := range everyCall(t, store, "acme", "a") {
			if name == "read-only replica" && operation == "Peek" ||
				name == "pool exhausted" && slices.Contains([]string{"NextEach", "SubmitN", "DoneN"}, operation) { // go-redis has another pool for them
				continue
			}
			t.Run(name+"/"+operation, func(t *testing.T) {
				t.Parallel()
				// On a busy machine even a refusal may take longer than a call has.
				redistest.Await(t, "a message with "+test.want, func() bool {
					err := call()
					wantClass(t, err, priority.ErrNotCounted)
					return err != nil && strings.Contains(itemerrors.Of(err, 1)[0].Error(), test.want)
				})
			})
		}
	}
}

// A Redis whose memory is full counts nothing, and says so. What frees memory works.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	direct := redistest.Start(t, "--maxmemory-policy", "noeviction").Client()
	w := storeOf(t, direct)
	w.submitN(t, "acme", []string{"a", "b", "c"}, flood(3)...)
	direct.ConfigSet(ctx, "maxmemory", "1")
	for _, customer := range []string{"acme", "new"} {
		_, next := w.Next(ctx, customer)
		_, again := w.Submit(ctx, customer, "a", 0)
		_, submit := w.Submit(ctx, customer, "d", 0)
		_, submitN := w.SubmitN(ctx, customer, []string{"d", "b"}, nil)
		_, each := w.NextEach(ctx, []string{customer, "another"})
		for _, err := range []error{next, again, submit, submitN, each} {
			for _, err := range itemerrors.Of(err, 2) {
				wantClass(t, err, priority.ErrNotCounted)
				if !strings.Contains(err.Error(), "OOM command not allowed") {
					t.Errorf("got %v; want OOM in it", err)
				}
			}
		}
	}
	// What frees memory works.
	w.done(t, "acme", "a")
	w.doneN(t, "acme", "b")
	direct.ConfigSet(ctx, "maxmemory", "0")
	w.submit(t, "acme", "d", byLoad(4*2, 2))
	w.next(t, "acme", counted(0))
}

// A right that is missing within a script is refused after the script may have
// written, so the store does not claim to know.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rules := []any{"acl", "setuser", "documents", "on", "nopass", "~*", "+@all", "-pexpire"}
	if err := server.Client().Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "documents", Password: "any"})
	t.Cleanup(func() { _ = client.Close() })
	w := storeOf(t, client)
	w.next(t, "acme", counted(0)) // SET needs no PEXPIRE
	_, err := w.Next(t.Context(), "acme")
	wantClass(t, err, priority.ErrOutcomeUnknown)
}

// While Redis hangs, what is left under way is bounded, whoever calls; the others
// wait for their turn. When Redis is back none is left.
func TestStopped(t *testing.T) {
	const callers, each = 5000, 10 // every tenth calls NextEach
	ctx := context.Background()
	server := redistest.Start(t)
	call := func(store *priority.RedisStore, book *ledger.Ledger, caller int) {
		customer := "customer " + strconv.Itoa(caller)
		switch caller % each {
		case 0:
			both := []string{customer, customer + "+"}
			decisions, err := store.NextEach(ctx, both)
			book.NoteEach(both, decisions, err)
		case 1:
			decision, err := store.Submit(ctx, customer, "a", 0)
			book.Note(customer, decision, err)
		default:
			decision, err := store.Next(ctx, customer)
			book.Note(customer, decision, err)
		}
	}
	crowd := func(store *priority.RedisStore) (*ledger.Ledger, *sync.WaitGroup) {
		book, all := new(ledger.Ledger), new(sync.WaitGroup)
		for caller := range callers {
			all.Go(func() { call(store, book, caller) })
		}
		return book, all
	}
	for kind, newClient := range clientKinds {
		t.Run(kind, func(t *testing.T) {
			store := openStore(t, newClient(t, server.Addr), &priority.RedisOptions{Prefix: kind})
			redistest.Await(t, "the server answers", func() bool { _, err := store.Next(ctx, "warm"); return err == nil })
			server.Signal(syscall.SIGSTOP)
			book, all := crowd(store)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				all.Wait()
			}()
			most := 0
			for running := true; running; {
				select {
				case <-ended:
					running = false
				case <-time.After(10 * time.Millisecond):
				}
				most = max(most, underWay())
			}
			server.Signal(syscall.SIGCONT)
			totals := book.Totals()
			t.Logf("%d at most under way; %v", most, totals)
			if most > script.MaxCalls+script.MaxPipelines {
				t.Errorf("%d are under way, more than %d and %d", most, script.MaxCalls, script.MaxPipelines)
			}
			// How many are sent depends on how long callers take to come.
			if totals.Answered+totals.Other > 0 || totals.NotCounted == 0 {
				t.Errorf("%v", totals)
			}
			redistest.Await(t, "none is left", func() bool { return underWay() == 0 })
			if r := book.Reconcile(heldBy(server.Client(), store)); !r.Exact() {
				t.Errorf("%v; %v", totals, r)
			}
		})
	}
	t.Run("all have their turn", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute, PoolTimeout: time.Minute})
		defer client.Close()
		store := openStore(t, client, &priority.RedisOptions{Prefix: "turn", Timeout: time.Minute})
		for _, hangs := range []bool{false, true} {
			if hangs {
				server.Signal(syscall.SIGSTOP)
			}
			book, all := crowd(store)
			if hangs {
				redistest.Await(t, "every place is taken", func() bool { return underWay() == script.MaxCalls+script.MaxPipelines })
				server.Signal(syscall.SIGCONT)
			}
			all.Wait()
			if totals := book.Totals(); totals.Answered != totals.Documents {
				t.Errorf("hangs %t: %v", hangs, totals)
			}
		}
	})
}

// traffic is a mixed load of several workers, and what they were told. Some
// customers' documents are counted by the rule alone. Those of others are submitted,
// each until there is an answer, as the contract allows; and half of them are done,
// in the same way.
type traffic struct {
	customers []string
	book      ledger.Ledger

	mu         sync.Mutex
	submitters map[string]*account
	given      [submitters]int64 // documents to each of those who submit at a time
	failed     int               // documents of Submits and Dones that failed for a moment
	other      int               // of these, with an error of no class, or of several

	t       *testing.T
	stopped atomic.Bool
	workers sync.WaitGroup
	names   atomic.Int64
}

const submitters = 10

// account is what a customer's submitted documents came to. What is uncertain is
// what had no answer when the traffic was stopped. A customer submits fewer documents
// than the 512 that are remembered, so that Redis tells how many it has counted.
type account struct{ counted, maybeCounted, pending, maybePending int64 }

// startTraffic lets four workers send documents until the traffic is stopped. Two of
// them only count. The other two submit, and each stays with its documents until they
// have an answer. If one worker did both, a test that holds up a submitter's documents
// while it awaits counted ones could wait forever.
func startTraffic(t *testing.T, stores ...*priority.RedisStore) *traffic {
	tr := &traffic{t: t, customers: customers(20), submitters: make(map[string]*account)}
	for worker := range 2 {
		store := stores[worker%len(stores)]
		tr.workers.Go(func() {
			for !tr.stopped.Load() {
				if err := tr.count(store); err != nil {
					time.Sleep(time.Millisecond) // a refusal that costs nothing must not become a busy loop
				}
			}
		})
		tr.workers.Go(func() {
			for !tr.stopped.Load() {
				tr.submit(store)
			}
		})
	}
	t.Cleanup(tr.stop)
	return tr
}

// count has the rule count some documents.
func (tr *traffic) count(store priority.Store) error {
	ctx := context.Background()
	customer := func() string { return tr.customers[rand.IntN(len(tr.customers))] }
	switch rand.IntN(4) {
	case 0:
		customer, n := customer(), 1+rand.IntN(3)
		decisions, err := store.NextN(ctx, customer, n)
		tr.book.NoteN(customer, n, decisions, err)
		return err
	case 1:
		each := []string{customer(), customer(), customer(), customer()}
		decisions, err := store.NextEach(ctx, each)
		tr.book.NoteEach(each, decisions, err)
		return err
	default:
		customer := customer()
		decision, err := store.Next(ctx, customer)
		tr.book.Note(customer, decision, err)
		return err
	}
}

// submit submits one document, or some that may be more than one command, and says
// of half of them that they are done.
func (tr *traffic) submit(store priority.Store) {
	ctx := context.Background()
	documents := make([]string, 1+rand.IntN(2)*rand.IntN(80))
	for i := range documents {
		documents[i] = strconv.FormatInt(tr.names.Add(1), 10)
	}
	n := int64(len(documents))
	submitter := tr.submitter(n)
	answered := tr.persist(documents, func(documents []string) error {
		if len(documents) == 1 {
			_, err := store.Submit(ctx, submitter, documents[0], 0)
			return err
		}
		_, err := store.SubmitN(ctx, submitter, documents, nil)
		return err
	})
	sum := account{counted: answered, maybeCounted: n - answered, pending: answered, maybePending: n - answered}
	if answered == n && rand.IntN(2) == 0 {
		done := tr.persist(documents, func(documents []string) error {
			if len(documents) == 1 {
				_, err := store.Done(ctx, submitter, documents[0], time.Second)
				return err
			}
			_, err := store.DoneN(ctx, submitter, documents, time.Second)
			return err
		})
		sum.pending, sum.maybePending = 0, n-done
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	a := tr.submitters[submitter]
	a.counted += sum.counted
	a.maybeCounted += sum.maybeCounted
	a.pending += sum.pending
	a.maybePending += sum.maybePending
}

// submitter returns a customer who submits n documents more.
func (tr *traffic) submitter(n int64) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	of := rand.IntN(submitters)
	tr.given[of] += n
	name := fmt.Sprintf("submitter %d.%d", of, tr.given[of]/400)
	if tr.submitters[name] == nil {
		tr.submitters[name] = new(account)
	}
	return name
}

// persist makes a call again for the documents that failed, until none does or the
// traffic is stopped. It returns how many have an answer.
func (tr *traffic) persist(documents []string, call func(documents []string) error) (answered int64) {
	all := len(documents)
	for {
		var left []string
		other := 0
		for i, err := range itemerrors.Of(call(documents), len(documents)) {
			if err == nil {
				continue
			}
			left = append(left, documents[i])
			if errors.Is(err, priority.ErrNotCounted) == errors.Is(err, priority.ErrOutcomeUnknown) {
				other++
			}
		}
		tr.mu.Lock()
		tr.failed += len(left)
		tr.other += other
		tr.mu.Unlock()
		if documents = left; len(documents) == 0 || tr.stopped.Load() {
			return int64(all - len(documents))
		}
		time.Sleep(time.Millisecond)
	}
}

// await waits until so many more documents were counted.
func (tr *traffic) await(more int) {
	tr.t.Helper()
	until := tr.book.Totals().Answered + more
	redistest.Await(tr.t, fmt.Sprintf("%d more documents are counted", more), func() bool {
		return tr.book.Totals().Answered >= until
	})
}

func (tr *traffic) stop() {
	tr.stopped.Store(true)
	tr.workers.Wait()
}

// reconcile stops the traffic and compares what was told with what Redis holds. It
// fails the test if anything is counted that nobody was told of. What Redis forgot is
// missing, Dones included.
func (tr *traffic) reconcile(held redis.Cmdable, store *priority.RedisStore) (missing int) {
	tr.t.Helper()
	tr.stop()
	r := tr.book.Reconcile(heldBy(held, store))
	tr.t.Logf("%v; %v", tr.book.Totals(), r)
	if other := tr.book.Totals().Other + tr.other; other != 0 {
		tr.t.Errorf("%d documents failed with an error of no class, or of two", other)
	}
	if r.Extra != 0 {
		tr.t.Errorf("%d documents were counted that nobody was told of", r.Extra)
	}
	missing = r.Missing + r.Twice
	documents, retried := int64(0), tr.failed
	for submitter, a := range tr.submitters {
		pending := heldPending(held, store, submitter)
		fades, err := held.ZScore(context.Background(), store.Keys(submitter).Pending, ":fades").Result()
		counted := int64(0)
		if err == nil { // some of it has faded since
			recent := math.Exp2(time.Until(time.UnixMilli(int64(fades))).Hours()/24 - 1)
			counted = int64(math.Round(recent + recent*serverSlack.Hours()/24/2))
		} else if !errors.Is(err, redis.Nil) {
			tr.t.Fatal(err)
		}
		if counted > a.counted+a.maybeCounted || pending > a.pending+a.maybePending+a.counted {
			tr.t.Errorf("%s has %d counted and %d pending, more than %+v", submitter, counted, pending, *a)
		}
		// A Done that Redis forgot leaves a document pending.
		lostDones := max(0, pending-a.pending-a.maybePending)
		missing += int(max(0, a.counted-counted) + max(0, a.pending-pending) + lostDones)
		documents += a.counted
	}
	if documents == 0 {
		tr.t.Error("no document was submitted")
	}
	tr.t.Logf("%d documents submitted, with %d failures on the way; in all, %d missing", documents, retried, missing)
	return missing
}

// mustBeExact reconciles, where nothing may be missing.
func (tr *traffic) mustBeExact(held redis.Cmdable, store *priority.RedisStore) {
	tr.t.Helper()
	if missing := tr.reconcile(held, store); missing != 0 {
		tr.t.Errorf("%d documents are missing", missing)
	}
}

// twoStores are stores with a client each, one with an AutoPipeliner.
func twoStores(t *testing.T, addr string) (first, second *priority.RedisStore) {
	t.Helper()
	plain, pipeliner := twoClients(t, addr)
	return openStore(t, plain, nil), openStore(t, pipeliner, nil)
}

// A Redis that is killed under load loses what it had not kept, and nothing counts twice.
func TestKilled(t *testing.T) {
	t.Run("with every write on disk", func(t *testing.T) {
		server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		first, second := twoStores(t, server.Addr)
		tr := startTraffic(t, first, second)
		for range 3 {
			tr.await(300)
			server.Kill()
			server.Restart()
		}
		tr.await(300)
		tr.mustBeExact(server.Client(), first)
	})
	t.Run("without persistence", func(t *testing.T) {
		server := redistest.Start(t)
		first, second := twoStores(t, server.Addr)
		tr := startTraffic(t, first, second)
		tr.await(1000)
		server.Kill()
		server.Restart()
		tr.await(300)
		// Redis lost all counts: they begin again, and nothing is counted twice.
		if tr.reconcile(server.Client(), first) == 0 {
			t.Error("want documents missing that Redis forgot")
		}
	})
}

// The connections are killed under load, again and again, with replies on their way.
func TestKilled_Connections(t *testing.T) {
	killing := func(t *testing.T, held redis.Cmdable, servers []*redistest.Server, stores ...*priority.RedisStore) {
		tr := startTraffic(t, stores...)
		for range 40 {
			tr.await(30)
			for _, server := range servers {
				server.KillClients()
			}
		}
		tr.mustBeExact(held, stores[0])
		if tr.book.Totals().OutcomeUnknown == 0 {
			t.Errorf("%v; want some whose answer was lost", tr.book.Totals())
		}
	}
	t.Run("Client and AutoPipeliner", func(t *testing.T) {
		server := redistest.Start(t)
		first, second := twoStores(t, server.Addr)
		killing(t, server.Client(), []*redistest.Server{server}, first, second)
	})
	t.Run("ClusterClient and its AutoPipeliner", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3)
		pipeliner := autoPipeline(t, cluster.Client())
		killing(t, cluster.Client(), cluster.Masters, openStore(t, cluster.Client(), nil), openStore(t, pipeliner, nil))
	})
}

// A failover under load loses what the replica never got, and nothing counts twice.
func TestFailover(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	sentinel := redistest.StartSentinel(t, master)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.MasterName, SentinelAddrs: []string{sentinel},
	})
	defer client.Close()
	store := openStore(t, client, nil)
	tr := startTraffic(t, store)
	tr.await(1000)
	master.Kill()
	tr.await(300)
	// What the master acknowledged and the replica never got is lost with it.
	missing := tr.reconcile(replica.Client(), store)
	if all := tr.book.Totals().Answered + int(tr.names.Load()); missing > all/2 {
		t.Errorf("%d of %d documents are missing, more than what was under way", missing, all)
	}
}

// Slots of a cluster move under load, and no document is lost or counts twice.
func TestSlotMigration(t *testing.T) {
	ctx := context.Background()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	store := openStore(t, client, nil)
	tr := startTraffic(t, store)
	tr.await(100)
	owner := func(slot int) *redistest.Server { return cluster.Masters[slot*3/16384] }
	for customer := range strings.SplitSeq(strings.Join(tr.customers, ",")+",submitter 0.0,submitter 1.0", ",") {
		slot := int(client.ClusterKeySlot(ctx, store.Keys(customer).Count).Val())
		from := owner(slot)
		to := cluster.Masters[(slot*3/16384+1)%3]
		cluster.MoveSlot(slot, from, to, func() { tr.await(30) })
	}
	tr.await(300)
	tr.mustBeExact(cluster.Client(), store)
}
