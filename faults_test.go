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
	"github.com/docpriority/priority/internal/testing/redistest"
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

// What certainly did not reach Redis, or was refused there, changes nothing. The error
// says so, and why.
func TestRefused(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	nobody := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	deaf := connectWith(t, &redis.Options{Addr: "redis.example:6379", Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("dial tcp %s: i/o timeout", addr)
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
		"no route":             {deaf, "dial tcp redis.example:6379: "},
		"pool exhausted":       {busy, context.DeadlineExceeded.Error()},
		"closed client":        {closed, redis.ErrClosed.Error()},
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
