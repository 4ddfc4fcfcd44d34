package priority_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/internal/script"
)

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

// isPipeliner reports whether a kind of client asks for a command's bytes before it
// has a connection.
func isPipeliner(kind string) bool { return hasAutoPipeline && strings.HasSuffix(kind, "AutoPipeline") }

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

// wantOneClass fails the test unless an error says whether its document was not
// counted or may have been, and not both.
func wantOneClass(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, priority.ErrNotCounted) {
		wantClass(t, err, priority.ErrNotCounted)
	} else {
		wantClass(t, err, priority.ErrOutcomeUnknown)
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
		"Done":  {func(s *priority.RedisStore) error { return s.Done(ctx, "acme", "a", 0) }, "0", 0, true},
		"DoneN": {func(s *priority.RedisStore) error { return s.DoneN(ctx, "acme", []string{"a", "b"}, 0) }, "0", 0, true},
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
					err3 := patient.Done(ctx, "acme", "unknown", 0)
					if err := errors.Join(err0, err1, err2, err3, patient.Reset(ctx, "c")); err != nil {
						t.Fatal(err)
					}
					holds := func() bool {
						return direct.Get(ctx, patient.Key("acme")).Val() == test.count &&
							direct.ZCard(ctx, patient.PendingKey("acme")).Val() == test.pending
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
						t.Errorf("the server holds %q and %d in the end; want %q and %d", direct.Get(ctx, patient.Key("acme")).Val(),
							direct.ZCard(ctx, patient.PendingKey("acme")).Val(), test.count, test.pending)
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
		var ended []string
		reporting := priority.WithEnded(ctx, func(e priority.Ended) { ended = append(ended, e.Document) })
		for _, test := range []struct {
			name string
			call func() error
			want int64    // pending
			ends []string // at most
		}{
			{"Submit", func() error {
				decision, err := w.Submit(ctx, "acme", "d", 0)
				return same([]priority.Decision{decision}, err, flood(4)[3:])
			}, 4, nil},
			{"SubmitN", func() error {
				decisions, err := w.SubmitN(ctx, "acme", one, nil)
				return same(decisions, err, flood(44)[4:])
			}, 44, nil},
			{"SubmitN of many", func() error { _, err := w.SubmitN(ctx, "acme", more, nil); return err }, 124, nil},
			{"Done", func() error { return w.Done(reporting, "acme", "a", 0) }, 123, []string{"a"}},
			{"DoneN", func() error { return w.DoneN(reporting, "acme", []string{"b", "c"}, 0) }, 121, []string{"b", "c"}},
			{"Peek", func() error { _, err := w.Peek(ctx, "acme"); return err }, 121, nil},
		} {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				// It needs a connection that is open already: for one command, or for many.
				redistest.Await(t, "the client works", func() bool {
					_, err := w.Peek(ctx, "acme")
					return err == nil && w.DoneN(ctx, "acme", []string{"unknown"}, 0) == nil
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
				// Whose first answer was lost is not reported, and nobody twice.
				if len(ended) > 0 && !slices.Equal(ended, test.ends) {
					t.Errorf("%q are reported, want %q at most", ended, test.ends)
				}
				ended = nil
			})
		}
	}
}

// Where a command certainly did not reach Redis, the error says so.
func TestNotSent(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	hole := redistest.StartProxy(t, server.Addr)
	hole.Set(redistest.Blackhole)
	for name, addr := range map[string]string{
		"black hole":   hole.Addr,
		"refused":      fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t)),
		"unresolvable": "redis.invalid:6379",
	} {
		for kind, newClient := range clientKinds {
			if isPipeliner(kind) {
				continue
			}
			for operation, call := range everyCall(t, openStore(t, newClient(t, addr), nil), "acme", "a") {
				t.Run(name+"/"+kind+"/"+operation, func(t *testing.T) {
					t.Parallel()
					err := call()
					wantClass(t, err, priority.ErrNotCounted)
					var batch *priority.BatchError
					isBatch := operation == "NextEach" || operation == "SubmitN" || operation == "DoneN"
					if errors.As(err, &batch) != isBatch || isBatch && len(batch.Errs) != 1 {
						t.Errorf("%#v", err)
					}
				})
			}
		}
	}
	t.Run("pool exhausted", func(t *testing.T) {
		t.Parallel()
		client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1, PoolTimeout: time.Minute})
		defer client.Close()
		only := client.Conn()
		defer only.Close()
		if err := only.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := openStore(t, client, nil).Next(ctx, "acme")
		wantClass(t, err, priority.ErrNotCounted)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v; want context.DeadlineExceeded in it", err)
		}
	})
	t.Run("no such database", func(t *testing.T) { // what Redis says while a client connects
		t.Parallel()
		client := redis.NewClient(&redis.Options{Addr: server.Addr, DB: 99})
		defer client.Close()
		_, err := openStore(t, client, patient).Next(ctx, "acme")
		wantClass(t, err, priority.ErrNotCounted)
		if err == nil || !strings.Contains(err.Error(), "DB index is out of range") {
			t.Errorf("got %v; want Redis's own words in it", err)
		}
	})
}

// A message says what a person needs at three in the morning: which address, and
// what is wrong with it.
func TestNotSent_Message(t *testing.T) {
	ctx := context.Background()
	addr := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	refused := "dial tcp " + addr + ": connect: connection refused"
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	t.Cleanup(func() { _ = cluster.Close() })
	hole := redistest.StartProxy(t, redistest.Start(t).Addr)
	hole.Set(redistest.Blackhole)
	deaf := redis.NewClient(&redis.Options{Addr: "redis.example:6379", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	t.Cleanup(func() { _ = deaf.Close() })
	for name, test := range map[string]struct {
		client priority.RedisClient
		want   string
	}{
		"Client":        {connect(t, addr), refused},
		"ClusterClient": {cluster, refused},
		"black hole":    {connect(t, hole.Addr), hole.Addr},
		"no route":      {deaf, "dial tcp redis.example:6379: no answer yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t, test.client, nil)
			for _, call := range []func() error{
				func() error { _, err := store.Next(ctx, "acme"); return err },
				func() error { _, err := store.Submit(ctx, "acme", "a", 0); return err },
				func() error { _, err := store.NextEach(ctx, []string{"acme", "b"}); return err },
			} {
				// On a busy machine even a refusal may take longer than a call has left.
				redistest.Await(t, "a message with "+test.want, func() bool {
					err := call()
					for _, err := range priority.ItemErrors(err, 2) {
						wantClass(t, err, priority.ErrNotCounted)
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("got %v; want the timeout in it", err)
						}
					}
					return strings.Contains(err.Error(), test.want)
				})
			}
		})
	}
}

// A command that its caller gave up before it was sent is never sent later, by any
// kind of client, even one that sends without regard to the context.
func TestGivenUp(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	kinds := maps.Clone(clientKinds)
	kinds["contextless Client"] = func(t *testing.T, addr string) priority.RedisClient { return contextless{slowClient(t, addr)} }
	for kind, newClient := range kinds {
		t.Run(kind, func(t *testing.T) {
			client := newClient(t, server.Addr)
			store := openStore(t, client, &priority.RedisOptions{Prefix: kind, Timeout: 100 * time.Millisecond})
			w := &world{Store: openStore(t, client, &priority.RedisOptions{Prefix: kind, Timeout: time.Minute}), slack: serverSlack}
			for operation, call := range map[string]func() error{
				"Next":     func() error { _, err := store.Next(ctx, "acme"); return err },
				"NextEach": func() error { _, err := store.NextEach(ctx, []string{"acme"}); return err },
				"Submit":   func() error { _, err := store.Submit(ctx, "acme", "b", 0); return err },
				"Reset":    func() error { return store.Reset(ctx, "acme") },
			} {
				w.reset(t, "acme")
				w.nextEach(t, []string{"acme"}, counted(0))
				w.submit(t, "acme", "a", pending(1))
				server.KillClients() // so that the next call must connect, which it cannot
				server.Signal(syscall.SIGSTOP)
				err := call()
				server.Signal(syscall.SIGCONT)
				if isPipeliner(kind) {
					wantOneClass(t, err)
				} else {
					wantClass(t, err, priority.ErrNotCounted)
				}
				redistest.Await(t, operation+" is over", func() bool { return underWay() == 0 })
				redistest.Await(t, "the client works again", func() bool { _, err := w.Peek(ctx, "acme"); return err == nil })
				w.counts(t, "acme", counted(0))
				w.pends(t, "acme", 1)
			}
		})
	}
}

// contextless is a client that does not notice that a context has ended.
type contextless struct{ *redis.Client }

func (c contextless) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.Client.Process(context.WithoutCancel(ctx), cmd)
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
			if totals.Answered+totals.Other > 0 || totals.NotCounted < callers-script.MaxCalls-script.MaxPipelines {
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

// One node of a cluster that hangs is the trouble of its own customers: others are
// answered, by Next and beside them in one NextEach.
func TestHangingNode(t *testing.T) {
	ctx := context.Background()
	const masters, slots = 3, 16384
	cluster := redistest.StartCluster(t, masters, "--cluster-node-timeout", "600000")
	newCluster := func(t *testing.T) *redis.ClusterClient {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: time.Minute})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	for kind, newClient := range map[string]func(t *testing.T) priority.RedisClient{
		"ClusterClient": func(t *testing.T) priority.RedisClient { return newCluster(t) },
		"AutoPipeline": func(t *testing.T) priority.RedisClient {
			return newPipeliner(t, newCluster(t), "AutoPipelineWithOptions", map[string]int{"NumShards": masters, "MaxBatchSize": 100})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			store := openStore(t, newClient(t), &priority.RedisOptions{Prefix: kind, Timeout: 10 * time.Second})
			within := func(d time.Duration, call func(ctx context.Context) error) error {
				ctx, cancel := context.WithTimeout(ctx, d)
				defer cancel()
				return call(ctx)
			}
			of := make([][]string, masters) // customers by their node
			slot := make(map[string]int)
			direct := cluster.Client()
			for _, customer := range customers(3000) {
				slot[customer] = int(direct.ClusterKeySlot(ctx, store.Key(customer)).Val())
				// An AutoPipeliner does not tell the nodes apart: see docs/reliability.md.
				if node := slot[customer] * masters / slots; kind == "ClusterClient" || slot[customer]*64/slots%21 != 0 {
					of[node] = append(of[node], customer)
				}
			}
			// Neighbors at the border of the hanging node are the first.
			slices.SortFunc(of[0], func(a, b string) int { return slot[b] - slot[a] })
			slices.SortFunc(of[1], func(a, b string) int { return slot[a] - slot[b] })
			redistest.Await(t, "every node answers", func() bool {
				// The first command of all asks the cluster for more than its answer.
				_, err1 := store.Next(ctx, of[0][0])
				_, err2 := store.NextEach(ctx, slices.Concat(of[0][:9], of[1][:9], of[2][:9]))
				return err1 == nil && err2 == nil
			})
			hanging := cluster.Masters[0]
			hanging.Signal(syscall.SIGSTOP)
			var stopped atomic.Bool
			var impatient sync.WaitGroup
			for caller := range 300 {
				impatient.Go(func() {
					for i := caller; !stopped.Load(); i++ {
						next := within(time.Second, func(ctx context.Context) error { _, err := store.Next(ctx, of[0][i%len(of[0])]); return err })
						each := within(time.Second, func(ctx context.Context) error { _, err := store.NextEach(ctx, of[0][i%20:i%20+1]); return err })
						if next == nil || each == nil {
							t.Error("a stopped node answers")
						}
					}
				})
			}
			redistest.Await(t, "many calls are under way", func() bool { return underWay() > 100 })
			for i := range 300 {
				for node := 1; node < masters; node++ {
					customer := of[node][i%len(of[node])]
					if _, err := store.Next(ctx, customer); err != nil {
						t.Errorf("%s of node %d: %v", customer, node, err)
					}
				}
			}
			if kind == "ClusterClient" {
				for i := range 8 {
					each := slices.Concat(of[1][10*i:10*i+10], of[0][10*i:10*i+10], of[2][10*i:10*i+10])
					err := within(3*time.Second, func(ctx context.Context) error { _, err := store.NextEach(ctx, each); return err })
					for at, err := range priority.ItemErrors(err, len(each)) {
						if ofHanging := at >= 10 && at < 20; (err != nil) != ofHanging {
							t.Errorf("entry %d of a NextEach: %v", at, err)
						}
					}
				}
			}
			stopped.Store(true)
			impatient.Wait()
			hanging.Signal(syscall.SIGCONT)
			redistest.Await(t, "none is left", func() bool { return underWay() == 0 })
		})
	}
}

// silent is a context that never says that it has ended.
type silent struct{ deadline time.Time }

func (s silent) Deadline() (time.Time, bool) { return s.deadline, !s.deadline.IsZero() }

func (silent) Done() <-chan struct{} { return nil }

func (silent) Err() error { return nil }

func (silent) Value(any) any { return nil }

// No call takes longer than the store's timeout, nor than its context's own, on
// whatever it waits and with however many customers; not by a nanosecond, as time
// is virtual here.
func TestTimeout(t *testing.T) {
	const timeout = 250 * time.Millisecond // the default
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, newDialer := range map[string]func(t *testing.T) func(ctx context.Context) (net.Conn, error){
		"refused": func(*testing.T) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) { return nil, refused }
		},
		"no route": func(*testing.T) func(context.Context) (net.Conn, error) {
			return func(ctx context.Context) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		},
		"a dialer that is deaf to its context": func(*testing.T) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) {
				time.Sleep(time.Minute)
				return nil, refused
			}
		},
		"a server that says nothing": func(*testing.T) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) {
				here, there := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, there) }()
				return here, nil
			}
		},
		"a server that loses its replies": func(t *testing.T) func(context.Context) (net.Conn, error) {
			return answering(t, func(peer *miniserver.Peer) { peer.Close() })
		},
		"a server that hangs": func(t *testing.T) func(context.Context) (net.Conn, error) {
			return answering(t, func(*miniserver.Peer) { time.Sleep(time.Minute) })
		},
		"a server that refuses for a moment": func(t *testing.T) func(context.Context) (net.Conn, error) {
			return answering(t, func(peer *miniserver.Peer) { peer.WriteError("LOADING Redis is loading the dataset in memory") })
		},
		"a server that forgets its scripts": func(t *testing.T) func(context.Context) (net.Conn, error) {
			return answering(t, func(peer *miniserver.Peer) { peer.WriteError("NOSCRIPT No matching script") })
		},
	} {
		t.Run(name, func(t *testing.T) { // not beside other tests: a bubble leaves them one CPU
			bubble.Test(t, func(t *testing.T) {
				dial := newDialer(t)
				client := redis.NewClient(&redis.Options{
					Addr:     anywhere,
					PoolSize: 2000, // so that nobody waits for a connection, which go-redis does with timers of other bubbles
					Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
				})
				store := openStore(t, client, nil)
				impatient, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				calls := everyCall(t, store, "acme", "a")
				calls["NextEach of many"] = func() error { _, err := store.NextEach(impatient, customers(25_000)); return err }
				calls["a crowd"] = func() error {
					var all sync.WaitGroup
					for range 3000 {
						all.Go(func() { _, _ = store.Next(impatient, "acme") })
					}
					all.Wait()
					_, err := store.Next(silent{}, "acme")
					return err
				}
				for operation, call := range calls {
					begun := time.Now()
					err := call()
					most := timeout
					if operation == "a crowd" {
						most *= 2
					}
					took := time.Since(begun)
					if err == nil || took > most {
						t.Errorf("%s: %v after %v", operation, err, took)
					}
					last := priority.ItemErrors(err, 1)[0]
					if took >= timeout*9/10 && !errors.Is(last, context.DeadlineExceeded) {
						t.Errorf("%s: got %v after %v; want the timeout in it", operation, last, took)
					}
				}
				for _, test := range []struct {
					name string
					own  time.Duration
					most time.Duration
				}{
					{"an earlier deadline", timeout / 5, timeout / 5},
					{"a later deadline", time.Hour, timeout},
					{"a deadline that is over", -time.Second, 0},
				} {
					begun := time.Now()
					polite, cancel := context.WithDeadline(context.Background(), begun.Add(test.own))
					for _, ctx := range []context.Context{polite, silent{begun.Add(test.own)}} {
						begun := time.Now()
						_, err := store.Next(ctx, "acme")
						_, hasEnded := ctx.(silent)
						if took := time.Since(begun); err == nil || took > test.most && (!hasEnded || took > timeout) {
							t.Errorf("%s: %v after %v", test.name, err, took)
						}
					}
					cancel()
				}
				_ = client.Close()
				time.Sleep(time.Hour) // until whatever hangs has ended
			})
		})
	}
}

// anywhere is the address that clients in a bubble have: for a name they would ask
// the network.
const anywhere = "127.0.0.1:1"

// answering dials a miniredis that does something else instead of running scripts.
func answering(t *testing.T, answer func(peer *miniserver.Peer)) func(context.Context) (net.Conn, error) {
	server := miniredis.NewMiniRedis()
	conn, err := server.Dial() // starts it
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	t.Cleanup(server.Close)
	server.Server().SetPreHook(func(peer *miniserver.Peer, command string, _ ...string) bool {
		if !strings.HasPrefix(command, "EVAL") {
			return false
		}
		answer(peer)
		return true
	})
	return func(context.Context) (net.Conn, error) { return server.Dial() }
}

// What a server refuses changes nothing, and the refusal can be read from the
// error.
func TestRefused(t *testing.T) {
	ctx := context.Background()
	t.Run("read-only replica", func(t *testing.T) {
		t.Parallel()
		master := redistest.Start(t)
		replica := redistest.StartReplica(t, master)
		w := storeOf(t, master.Client())
		w.submit(t, "acme", "a", pending(1))
		store := openStore(t, replica.Client(), patient)
		redistest.Await(t, "the replica can be asked", func() bool {
			decision, err := store.Peek(ctx, "acme")
			return err == nil && decision.Pending == 1
		})
		calls := everyCall(t, store, "acme", "a")
		delete(calls, "Peek")
		calls["Submit of another"] = func() error { _, err := store.Submit(ctx, "acme", "new", 0); return err }
		calls["Done of another"] = func() error { return store.Done(ctx, "acme", "another", 0) }
		calls["Done of another customer"] = func() error { return store.Done(ctx, "globex", "a", 0) }
		for operation, call := range calls {
			err := call()
			wantClass(t, err, priority.ErrNotCounted)
			if err := priority.ItemErrors(err, 1)[0]; !redis.IsReadOnlyError(err) {
				t.Errorf("%s: got %v; want READONLY in it", operation, err)
			}
		}
		w.pends(t, "acme", 1)
	})
	t.Run("password missing", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--requirepass", "secret")
		for operation, call := range everyCall(t, openStore(t, server.Client(), patient), "acme", "a") {
			err := call()
			wantClass(t, err, priority.ErrNotCounted)
			if err := priority.ItemErrors(err, 1)[0]; !redis.IsAuthError(err) {
				t.Errorf("%s: got %v; want NOAUTH in it", operation, err)
			}
		}
	})
	t.Run("memory full", func(t *testing.T) {
		t.Parallel()
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
				for _, err := range priority.ItemErrors(err, 2) {
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
		w.submit(t, "acme", "d", priority.Decision{Level: 2, Load: 4 * 2, Pending: 2})
		w.next(t, "acme", counted(0))
	})
	t.Run("too many connections", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--maxclients", "1")
		holder := server.Client()
		redistest.Await(t, "the only connection is taken", func() bool { return holder.Ping(ctx).Err() == nil })
		for _, call := range everyCall(t, openStore(t, server.Client(), nil), "acme", "a") {
			wantClass(t, call(), priority.ErrNotCounted)
		}
	})
	t.Run("closed client", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		w := storeOf(t, client)
		w.next(t, "acme", counted(0))
		_ = client.Close()
		for operation, call := range everyCall(t, w, "acme", "a") {
			err := call()
			wantClass(t, err, priority.ErrNotCounted)
			if !errors.Is(err, redis.ErrClosed) {
				t.Errorf("%s: got %v; want redis.ErrClosed in it", operation, err)
			}
		}
	})
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
