package priority_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/ledger"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// What becomes of documents when Redis or the network fails. Package laws has
// what virtual time can show.

// ownTimeout is a client's own timeout in these tests, longer than a store's.
const ownTimeout = time.Second

// clientKinds make the kinds of client that differ in when they ask for a command's bytes.
var clientKinds = map[string]func(t *testing.T, addr string) priority.RedisClient{
	"Client": func(t *testing.T, addr string) priority.RedisClient {
		client := slowClient(t, addr)
		client.AddHook(new(wire))
		return client
	},
	"AutoPipeline": func(t *testing.T, addr string) priority.RedisClient {
		return autoPipeline(t, slowClient(t, addr))
	},
}

func slowClient(t *testing.T, addr string) *redis.Client {
	return connect(t, &redis.Options{Addr: addr, ReadTimeout: ownTimeout, WriteTimeout: ownTimeout, DialTimeout: ownTimeout})
}

// A lost reply makes nothing count twice: not go-redis, not the store. A Submit or
// a Done may be made again, and changes nothing then.
func TestLostReply(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	direct := server.Client()
	calls := map[string]struct {
		document   string
		count      string // afterwards, where it was 0 before
		pending    int    // where it was 1 before
		repeatable bool
	}{
		"Next": {"", "-1", 1, false}, "NextN": {"", "-3", 1, false}, "NextEach": {"", "-1", 1, false},
		"Submit": {"b", "0", 2, true}, "SubmitN": {"b", "0", 2, true}, "Done": {"a", "0", 0, true}, "DoneN": {"a", "0", 0, true},
		"Reset": {"", "", 0, false},
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
					_, err1 := patient.Submit(ctx, "acme", priority.Document{ID: "a"})
					_, err2 := patient.NextEach(ctx, []string{"c", "d"})
					_, err3 := patient.Done(ctx, "acme", "unknown", 0)
					if err := errors.Join(err0, err1, err2, err3, patient.Reset(ctx, "c")); err != nil {
						t.Fatal(err)
					}
					holds := func() bool {
						return direct.Get(ctx, patient.Keys("acme").Count).Val() == test.count &&
							len(ledger.Pending(t, direct, patient.Keys("acme").Pending)) == test.pending
					}

					proxy.Set(fault)
					wantError(t, named.Calls(t.Context(), impatient, "acme", test.document)[operation](), priority.ErrOutcomeUnknown, "")

					// The store may have given up before the server came to it.
					redistest.Await(t, "the server holds what was sent", holds)
					proxy.Set(redistest.None)
					redistest.Await(t, "the client works again", func() bool {
						_, err := patient.Peek(ctx, "c")
						return err == nil
					})
					if test.repeatable {
						if err := named.Calls(t.Context(), patient, "acme", test.document)[operation](); err != nil {
							t.Errorf("once more: %v", err)
						}
					}
					if !holds() {
						t.Errorf("the server holds %q and %d in the end; want %q and %d", direct.Get(ctx, patient.Keys("acme").Count).Val(),
							len(ledger.Pending(t, direct, patient.Keys("acme").Pending)), test.count, test.pending)
					}
				})
			}
		}
	}
}

// Where it always takes longer to connect than a call may last, calls find the connections
// that earlier ones began to make, and those were not counted.
func TestSlowConnection(t *testing.T) {
	addr := redistest.StartCluster(t, 1).Masters[0].Addr
	const timeout, login, trip = 100 * time.Millisecond, 150 * time.Millisecond, 30 * time.Millisecond
	slowly := func(ctx context.Context) error {
		select {
		case <-time.After(login):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	onConnect := func(ctx context.Context, _ *redis.Conn) error { return slowly(ctx) }
	credentials := func(ctx context.Context) (string, string, error) { return "", "", slowly(ctx) }
	distantly := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return distant{conn, trip}, err
	}
	for name, opts := range map[string]redis.UniversalOptions{
		"OnConnect": {OnConnect: onConnect},
		"login":     {CredentialsProviderContext: credentials},
		"distance":  {Dialer: distantly, ContextTimeoutEnabled: true},
	} {
		opts.Addrs = []string{addr}
		client, cluster := redis.NewClient(opts.Simple()), redis.NewClusterClient(opts.Cluster())
		t.Cleanup(func() { _, _ = client.Close(), cluster.Close() })
		for kind, client := range map[string]priority.RedisClient{
			"Client": client, "AutoPipeline": autoPipeline(t, connect(t, opts.Simple())), "ClusterClient": cluster,
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				store := openStore(t, client, &priority.RedisOptions{Prefix: t.Name(), Timeout: timeout})
				for operation, call := range named.Calls(t.Context(), store, "acme", "a") {
					redistest.Await(t, operation+" works", func() bool {
						err := call()
						if err != nil && !errors.Is(err, priority.ErrOutcomeUnknown) {
							wantError(t, err, priority.ErrNotCounted, "")
						}
						return err == nil
					})
				}
			})
		}
	}
}

// distant is a connection to a place where each round trip takes a while.
type distant struct {
	net.Conn
	trip time.Duration
}

func (d distant) Write(b []byte) (int, error) {
	time.Sleep(d.trip)
	return d.Conn.Write(b)
}

// Idle connections that the other end has closed, and that do not show it, fail no call that may
// be made again, however many there are.
func TestClosedWhileIdle(t *testing.T) {
	server := redistest.Start(t)
	const connections = 100
	for name := range named.Calls(t.Context(), nil, "", "") {
		client := connect(t, &redis.Options{Addr: server.Addr, PoolSize: connections, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return struct{ net.Conn }{conn}, err // it hides the socket, as a TLS connection does
		}})
		call := named.Calls(t.Context(), openStore(t, client, &priority.RedisOptions{Timeout: 2 * time.Second}), "acme", "a")[name]
		check(t, call()) // loads the script
		conns := make([]*redis.Conn, connections)
		for i := range conns {
			conns[i] = client.Conn()
			check(t, conns[i].Ping(t.Context()).Err())
		}
		for _, conn := range conns {
			check(t, conn.Close())
		}
		server.KillClients()
		switch err := call(); name {
		case "Next", "NextN", "NextEach", "Reset":
			wantError(t, err, priority.ErrOutcomeUnknown, "EOF")
		default:
			check(t, err)
		}
	}
}

// What certainly did not reach Redis, or was refused there, changes nothing. The error
// says so, and why.
func TestRefused(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	nobody := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	deaf := connect(t, &redis.Options{Addr: "redis.example:6379", Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("dial tcp %s: i/o timeout", addr)
	}})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nobody}})
	t.Cleanup(func() { _ = cluster.Close() })
	busy := connect(t, &redis.Options{Addr: server.Addr, PoolSize: 1, PoolTimeout: time.Minute})
	only := busy.Conn()
	t.Cleanup(func() { _ = only.Close() })
	closed := connect(t, &redis.Options{Addr: server.Addr})
	if err := errors.Join(only.Ping(ctx).Err(), closed.Close()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		client priority.RedisClient
		want   string // in the message
	}{
		"no server":            {connect(t, &redis.Options{Addr: nobody}), "dial tcp " + nobody + ": connect: connection refused"},
		"no server, a cluster": {cluster, "dial tcp " + nobody + ": connect: connection refused"},
		"no route":             {deaf, "dial tcp redis.example:6379: "},
		"pool exhausted":       {busy, context.DeadlineExceeded.Error()},
		"closed client":        {closed, redis.ErrClosed.Error()},
	} {
		store := openStore(t, test.client, nil)
		for operation, call := range named.Calls(t.Context(), store, "acme", "a") {
			if name == "pool exhausted" && slices.Contains([]string{"NextEach", "SubmitN", "DoneN"}, operation) { // go-redis has another pool for them
				continue
			}
			t.Run(name+"/"+operation, func(t *testing.T) {
				t.Parallel()
				// On a busy machine even a refusal may take longer than a call has.
				redistest.Await(t, "a message with "+test.want, func() bool {
					err := call()
					wantError(t, err, priority.ErrNotCounted, "")
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
	store := newStore(t, direct)
	decides(t, flood(3)...)(submit(t, store, "acme", "a", "b", "c"))
	direct.ConfigSet(ctx, "maxmemory", "1")
	for _, customer := range []string{"acme", "new"} {
		_, next := store.Next(ctx, customer)
		_, again := submit(t, store, customer, "a")
		_, one := submit(t, store, customer, "d")
		_, two := submit(t, store, customer, "d", "b")
		_, each := store.NextEach(ctx, []string{customer, "another"})
		for _, err := range []error{next, again, one, two, each} {
			for _, err := range itemerrors.Of(err, 2) {
				wantError(t, err, priority.ErrNotCounted, "OOM command not allowed")
			}
		}
	}
	must(store.Done(ctx, "acme", "a", time.Second))(t)
	must(store.DoneN(ctx, "acme", []string{"b"}, time.Second))(t)
	direct.ConfigSet(ctx, "maxmemory", "0")
	decides(t, loaded(4*2, 2))(submit(t, store, "acme", "d"))
	decides(t, counted(0))(one(store.Next(ctx, "acme")))
}

// A right that is missing within a script is refused after the script may have
// written, so the store does not claim to know.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	check(t, server.Client().Do(t.Context(), "acl", "setuser", "documents", "on", "nopass", "~*", "+@all", "-pexpire").Err())
	store := newStore(t, connect(t, &redis.Options{Addr: server.Addr, Username: "documents", Password: "any"}))
	decides(t, counted(0))(one(store.Next(t.Context(), "acme"))) // SET needs no PEXPIRE
	_, err := store.Next(t.Context(), "acme")
	wantError(t, err, priority.ErrOutcomeUnknown, "")
	check(t, server.Client().Do(t.Context(), "acl", "setuser", "documents", "-zmscore").Err())
	_, err = store.Submit(t.Context(), "acme", priority.Document{ID: "invoice-1"}) // the key is not corrupt
	wantError(t, err, priority.ErrOutcomeUnknown, "")
}
