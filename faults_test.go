package priority_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/internal/redistest"
)

// ownTimeout is a client's own timeout in these tests, longer than a store's.
const ownTimeout = time.Second

// clientKinds make the kinds of client for one address.
var clientKinds = map[string]func(t *testing.T, addr string) priority.RedisClient{
	"Client": func(t *testing.T, addr string) priority.RedisClient { return slowClient(t, addr) },
	"Ring": func(t *testing.T, addr string) priority.RedisClient {
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{"one": addr}, ReadTimeout: ownTimeout, WriteTimeout: ownTimeout, DialTimeout: ownTimeout,
		})
		t.Cleanup(func() { _ = ring.Close() })
		return ring
	},
	"AutoPipeline": func(t *testing.T, addr string) priority.RedisClient {
		pipeliner, err := slowClient(t, addr).AutoPipeline()
		if err != nil {
			t.Fatal(err)
		}
		return pipeliner
	},
	"AsyncAutoPipeline": func(t *testing.T, addr string) priority.RedisClient {
		pipeliner, err := slowClient(t, addr).AsyncAutoPipeline()
		if err != nil {
			t.Fatal(err)
		}
		return pipeliner
	},
}

func slowClient(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: addr, ReadTimeout: ownTimeout, WriteTimeout: ownTimeout, DialTimeout: ownTimeout,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func wantClass(t *testing.T, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got error %v; want %v", err, class)
	}
	for _, other := range []error{priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorruptCount, priority.ErrInvalid} {
		if other != class && errors.Is(err, other) {
			t.Errorf("error %v is %v too", err, other)
		}
	}
}

// A lost reply must not make anything count twice: not go-redis, not the store.
func TestLostReplyCountsOnce(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	direct := server.Client()
	calls := map[string]struct {
		call func(*priority.RedisStore) error
		held string // afterwards, where it was 0 before
	}{
		"Next":  {func(s *priority.RedisStore) error { _, err := s.Next(ctx, "acme"); return err }, "-1"},
		"NextN": {func(s *priority.RedisStore) error { _, err := s.NextN(ctx, "acme", 5); return err }, "-5"},
		"NextEach": {func(s *priority.RedisStore) error {
			_, err := s.NextEach(ctx, []string{"acme", "b", "acme"})
			return err
		}, "-2"},
		"Reset": {func(s *priority.RedisStore) error { return s.Reset(ctx, "acme") }, ""},
	}
	for faultName, fault := range map[string]redistest.Fault{
		"cut": redistest.Cut, "truncate": redistest.Truncate, "swallow": redistest.Swallow, "delay": redistest.Delay,
	} {
		for kind, newClient := range clientKinds {
			for operation, test := range calls {
				name := faultName + "/" + kind + "/" + operation
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					proxy := redistest.StartProxy(t, server.Addr)
					client := newClient(t, proxy.Addr)
					patient := openStore(t, client, &priority.RedisOptions{Prefix: name, Timeout: time.Minute})
					impatient := openStore(t, client, &priority.RedisOptions{Prefix: name, Timeout: 100 * time.Millisecond})
					// First calls open the connections and load the scripts.
					_, err1 := patient.Next(ctx, "acme")
					_, err2 := patient.NextEach(ctx, []string{"c", "d"})
					if err := errors.Join(err1, err2, patient.Reset(ctx, "c")); err != nil {
						t.Fatal(err)
					}

					proxy.Set(fault)
					wantClass(t, test.call(impatient), priority.ErrOutcomeUnknown)

					// The store may have given up before the server came to it.
					redistest.Await(t, "the server holds "+test.held, func() bool {
						return direct.Get(ctx, patient.Key("acme")).Val() == test.held
					})
					proxy.Set(redistest.None)
					redistest.Await(t, "the client works again", func() bool {
						_, err := patient.Next(ctx, "c")
						return err == nil
					})
					if held := direct.Get(ctx, patient.Key("acme")).Val(); held != test.held {
						t.Errorf("the server holds %q in the end; want %q", held, test.held)
					}
				})
			}
		}
	}
}

// A Peek may be lost too, but there is nothing that it could have counted.
func TestLostPeekIsTriedAgain(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
	defer client.Close()
	store := openStore(t, client, &priority.RedisOptions{Timeout: 10 * time.Second})
	if _, err := store.Next(context.Background(), "acme"); err != nil {
		t.Fatal(err)
	}
	proxy.Set(redistest.Cut)
	done := make(chan error, 1)
	go func() {
		_, err := store.Peek(context.Background(), "acme")
		done <- err
	}()
	redistest.Await(t, "a Peek is cut", func() bool { return redistest.Calls(t, server.Client())["evalsha"] >= 2 })
	proxy.Set(redistest.None)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Where a command surely did not reach Redis, the error says so.
func TestNothingSentIsNotCounted(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	hole := redistest.StartProxy(t, server.Addr)
	hole.Set(redistest.Blackhole)
	for name, addr := range map[string]string{
		"blackhole":    hole.Addr,
		"refused":      fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t)),
		"unresolvable": "redis.invalid:6379",
	} {
		for _, kind := range []string{"Client", "Ring"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				store := openStore(t, clientKinds[kind](t, addr), nil)
				_, err := store.Next(ctx, "acme")
				wantClass(t, err, priority.ErrNotCounted)
				_, err = store.NextN(ctx, "acme", 3)
				wantClass(t, err, priority.ErrNotCounted)
				_, err = store.NextEach(ctx, []string{"acme", "b"})
				wantClass(t, err, priority.ErrNotCounted)
				var batch *priority.BatchError
				if !errors.As(err, &batch) || len(batch.Errs) != 2 || batch.Errs[0] == nil || batch.Errs[1] == nil {
					t.Errorf("got %v; want a BatchError of two", err)
				}
				_, err = store.Peek(ctx, "acme")
				wantClass(t, err, priority.ErrNotCounted)
				wantClass(t, store.Reset(ctx, "acme"), priority.ErrNotCounted)
			})
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
	})
}

// An AutoPipeliner looks at a command before it has a connection, so that a call
// that ends while it connects is of unknown outcome. It is bounded all the same.
func TestAutoPipelinerWithoutAConnection(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	for _, kind := range []string{"AutoPipeline", "AsyncAutoPipeline"} {
		_, err := openStore(t, clientKinds[kind](t, addr), nil).Next(context.Background(), "acme")
		if !errors.Is(err, priority.ErrOutcomeUnknown) && !errors.Is(err, priority.ErrNotCounted) {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

// A command that its caller gave up before it was sent must not be sent later.
func TestGivenUpBeforeSendingIsNeverCounted(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1, PoolTimeout: time.Minute})
	defer client.Close()
	store := openStore(t, contextless{client}, nil)
	if _, err := store.Next(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	conn := client.Conn()
	if err := conn.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := store.Next(ctx, "acme")
	wantClass(t, err, priority.ErrNotCounted)
	before := redistest.Calls(t, server.Client())["evalsha"]
	if err := conn.Close(); err != nil { // now the connection is free, and the command is sent
		t.Fatal(err)
	}
	redistest.Await(t, "the late command has been sent", func() bool {
		return redistest.Calls(t, server.Client())["evalsha"] > before
	})
	if decision, err := store.Next(ctx, "acme"); err != nil || decision.Count != -1 {
		t.Errorf("the next document has %+v, %v; want count -1", decision, err)
	}
}

// contextless is a client that does not notice that a context has ended, as an
// AutoPipeliner does not.
type contextless struct{ *redis.Client }

func (c contextless) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.Client.Process(context.WithoutCancel(ctx), cmd)
}

// A canceled context ends a call at once, before and while it waits for an answer.
func TestCanceledContext(t *testing.T) {
	server := redistest.Start(t)
	direct := server.Client()
	for kind, newClient := range clientKinds {
		t.Run(kind, func(t *testing.T) {
			proxy := redistest.StartProxy(t, server.Addr)
			store := openStore(t, newClient(t, proxy.Addr), &priority.RedisOptions{Timeout: -1, Prefix: kind})
			ctx, cancel := context.WithCancel(context.Background())
			if _, err := store.Next(ctx, "acme"); err != nil {
				t.Fatal(err)
			}
			sent := redistest.Calls(t, direct)["evalsha"]
			proxy.Set(redistest.Swallow)
			done := make(chan error, 1)
			go func() {
				_, err := store.Next(ctx, "acme")
				done <- err
			}()
			redistest.Await(t, "the command has been sent", func() bool { return redistest.Calls(t, direct)["evalsha"] > sent })
			cancel()
			err := <-done
			wantClass(t, err, priority.ErrOutcomeUnknown)
			if !errors.Is(err, context.Canceled) { // and not the client's own timeout
				t.Errorf("got %v; want context.Canceled in it", err)
			}
			_, err = store.Next(ctx, "acme")
			wantClass(t, err, priority.ErrNotCounted)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v; want context.Canceled in it", err)
			}
		})
	}
}

// While Redis hangs under load, calls end by the store's timeout, the goroutines
// that wait for answers are bounded, and none is left when Redis is back.
func TestHangingServerLeavesBoundedGoroutines(t *testing.T) {
	server := redistest.Start(t)
	for kind, newClient := range clientKinds {
		t.Run(kind, func(t *testing.T) {
			client := newClient(t, server.Addr)
			ctx := context.Background()
			store := openStore(t, client, &priority.RedisOptions{Timeout: 20 * time.Millisecond, Prefix: kind})
			redistest.Await(t, "the server answers", func() bool {
				_, err := store.Next(ctx, "warm")
				return err == nil
			})
			const callers, each = 64, 50 // 3200 calls, more than may be left waiting
			before := runtime.NumGoroutine()
			server.Signal(syscall.SIGSTOP)
			var book ledger.Ledger
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range each {
						decision, err := store.Next(ctx, "acme")
						book.Note("acme", decision, err)
					}
				})
			}
			wg.Wait()
			during := runtime.NumGoroutine() - before
			server.Signal(syscall.SIGCONT)
			totals := book.Totals()
			if totals.Answered != 0 || totals.Other != 0 {
				t.Errorf("%v; want none answered by a stopped server", totals)
			}
			// 1024 of the store's own, and what the client keeps for itself.
			if during > 1024+200 {
				t.Errorf("%d goroutines are left waiting", during)
			}
			redistest.Await(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before+20 })
			if r := book.Reconcile(heldBy(server.Client(), store)); !r.Exact() {
				t.Errorf("%v\n%v", totals, r)
			}
		})
	}
}

// A server that loads its data refuses; the store tries again within its timeout.
func TestLoadingServer(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t, "--rdbcompression", "no", "--loading-process-events-interval-bytes", "1024")
	direct := server.Client()
	for i := range 200 {
		direct.Set(ctx, fmt.Sprint("filler", i), make([]byte, 1024), 0)
	}
	if err := direct.Save(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Launch("--key-load-delay", "20000") // 20 ms a key: 4 s
	redistest.Await(t, "the server says that it is loading", func() bool {
		return redis.IsLoadingError(direct.Ping(ctx).Err())
	})
	patient := openStore(t, server.Client(), &priority.RedisOptions{Timeout: time.Minute})
	answer := make(chan error, 1)
	go func() {
		_, err := patient.Next(ctx, "acme")
		answer <- err
	}()
	// A server that loads answers only now and then, so some calls get no answer.
	impatient := openStore(t, server.Client(), nil)
	redistest.Await(t, "a call ends with LOADING and its deadline", func() bool {
		_, err := impatient.Next(ctx, "acme")
		if errors.Is(err, priority.ErrOutcomeUnknown) {
			return false
		}
		wantClass(t, err, priority.ErrNotCounted)
		return redis.IsLoadingError(err) && errors.Is(err, context.DeadlineExceeded)
	})
	if err := <-answer; err != nil {
		t.Errorf("with a minute to wait: %v", err)
	}
	if decision, err := patient.Next(ctx, "acme"); err != nil || decision.Count != -1 {
		t.Errorf("got %+v, %v; want count -1", decision, err)
	}
}

// What a server refuses is not counted, and the refusal can be read from the error.
func TestRefusals(t *testing.T) {
	ctx := context.Background()
	t.Run("read-only replica", func(t *testing.T) {
		master := redistest.Start(t)
		replica := redistest.StartReplica(t, master)
		store := openStore(t, replica.Client(), nil)
		_, err := store.Next(ctx, "acme")
		wantClass(t, err, priority.ErrNotCounted)
		if !redis.IsReadOnlyError(err) {
			t.Errorf("got %v; want READONLY in it", err)
		}
		if _, err := store.Peek(ctx, "acme"); err != nil {
			t.Errorf("a replica can be asked: %v", err)
		}
	})
	t.Run("password missing", func(t *testing.T) {
		server := redistest.Start(t, "--requirepass", "secret")
		_, err := openStore(t, server.Client(), nil).Next(ctx, "acme")
		wantClass(t, err, priority.ErrNotCounted)
		if !redis.IsAuthError(err) {
			t.Errorf("got %v; want NOAUTH in it", err)
		}
	})
	t.Run("memory full", func(t *testing.T) {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		direct := server.Client()
		store := openStore(t, direct, nil)
		if _, err := store.Next(ctx, "acme"); err != nil {
			t.Fatal(err)
		}
		direct.ConfigSet(ctx, "maxmemory", "1")
		for _, customer := range []string{"acme", "new"} {
			_, err := store.Next(ctx, customer)
			wantClass(t, err, priority.ErrNotCounted)
			if !redis.IsOOMError(err) {
				t.Errorf("got %v; want OOM in it", err)
			}
		}
		_, err := store.NextEach(ctx, []string{"acme", "new"})
		wantClass(t, err, priority.ErrNotCounted)
		direct.ConfigSet(ctx, "maxmemory", "0")
		if decision, err := store.Next(ctx, "acme"); err != nil || decision.Count != -1 {
			t.Errorf("got %+v, %v; want count -1", decision, err)
		}
	})
	t.Run("too many connections", func(t *testing.T) {
		server := redistest.Start(t, "--maxclients", "1")
		holder := server.Client()
		redistest.Await(t, "the only connection is taken", func() bool { return holder.Ping(ctx).Err() == nil })
		_, err := openStore(t, server.Client(), nil).Next(ctx, "acme")
		wantClass(t, err, priority.ErrNotCounted)
	})
	t.Run("closed client", func(t *testing.T) {
		server := redistest.Start(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		store := openStore(t, client, nil)
		if _, err := store.Next(ctx, "acme"); err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		_, err := store.Next(ctx, "acme")
		wantClass(t, err, priority.ErrNotCounted)
		if !errors.Is(err, redis.ErrClosed) {
			t.Errorf("got %v; want redis.ErrClosed in it", err)
		}
	})
}

// heldBy reads counts from a server past the store.
func heldBy(client redis.Cmdable, store *priority.RedisStore) func(string) (int64, bool) {
	return func(customer string) (int64, bool) {
		count, err := client.Get(context.Background(), store.Key(customer)).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			panic(err)
		}
		return count, err == nil
	}
}
