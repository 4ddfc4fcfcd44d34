package priority_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/redis/go-redis/v9"
)

// fleet is a client of some kind, and what its servers' operators use.
type fleet struct {
	client priority.RedisClient
	nodes  []*redis.Client
}

// fleets are those with the kinds of client that differ in how they send a command.
var fleets = map[string]func(t *testing.T) fleet{
	"miniredis": func(t *testing.T) fleet {
		client := connectToMiniredis(t, miniredis.RunT(t))
		return fleet{client, []*redis.Client{client}}
	},
	"Client": func(t *testing.T) fleet {
		client := redistest.Start(t).Client()
		return fleet{client, []*redis.Client{client}}
	},
	"AutoPipeline": func(t *testing.T) fleet {
		client := redistest.Start(t).Client()
		return fleet{autoPipeline(t, client), []*redis.Client{client}}
	},
	"Ring": func(t *testing.T) fleet {
		one, two := redistest.Start(t), redistest.Start(t)
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": one.Addr, "two": two.Addr}})
		t.Cleanup(func() { _ = ring.Close() })
		return fleet{ring, []*redis.Client{one.Client(), two.Client()}}
	},
	"ClusterClient": func(t *testing.T) fleet {
		cluster := redistest.StartCluster(t, 3)
		f := fleet{client: cluster.Client()}
		for _, master := range cluster.Masters {
			f.nodes = append(f.nodes, master.Client())
		}
		return f
	},
}

// openMemory makes a memory.Store.
func openMemory(t *testing.T, r rule) *world {
	t.Helper()
	return &world{must(memory.New(&memory.Options{Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf, Lease: r.leaseOf()}))(t), serverSlack}
}

// onServer makes RedisStores on a client.
func onServer(client priority.RedisClient) opener {
	return func(t *testing.T, r rule) *world {
		t.Helper()
		return &world{newStore(t, client, r), serverSlack}
	}
}

// serverSlack is more than a test takes on a real server.
const serverSlack = 2 * time.Minute

var prefixes atomic.Int64

// newStore makes a RedisStore with a prefix of its own and a timeout that only a
// test that hangs can reach.
func newStore(t testing.TB, client priority.RedisClient, r rule) *priority.RedisStore {
	t.Helper()
	return openStore(t, client, &priority.RedisOptions{
		Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf, Lease: r.leaseOf(), Overrides: r.overrides,
		Prefix: fmt.Sprint("test", prefixes.Add(1)), Timeout: time.Minute,
	})
}

func openStore(t testing.TB, client priority.RedisClient, opts *priority.RedisOptions) *priority.RedisStore {
	t.Helper()
	return must(priority.NewRedisStore(client, opts))(t)
}

// patient are options of a store on the default keys, without a timeout.
var patient = &priority.RedisOptions{Timeout: -1}

// storeOf is a store on the default keys of a client, without a timeout.
func storeOf(t testing.TB, client priority.RedisClient) *world {
	t.Helper()
	return &world{Store: openStore(t, client, patient), slack: serverSlack}
}

// connect makes a client, closed with the test.
func connect(t testing.TB, addr string) *redis.Client {
	return connectWith(t, &redis.Options{Addr: addr})
}

// connectToMiniredis makes a client that has patience: with -race it is slow.
func connectToMiniredis(t testing.TB, server *miniredis.Miniredis) *redis.Client {
	return connectWith(t, &redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
}

func connectWith(t testing.TB, opts *redis.Options) *redis.Client {
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// onEachServer runs a test on miniredis and on a real server.
func onEachServer(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, connectToMiniredis(t, miniredis.RunT(t)))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Client())
	})
}

// heldBy reads counts from a server past the store. Of a customer who submits, it is the
// count that as many pending documents would have.
func heldBy(client redis.Cmdable, store *priority.RedisStore) func(string) (int64, bool) {
	return func(customer string) (int64, bool) {
		ctx := context.Background()
		count, err := client.Get(ctx, store.Keys(customer).Count).Int64()
		if errors.Is(err, redis.Nil) {
			count = 1 - heldPending(client, store, customer)
			err = nil
		}
		if err != nil {
			panic(err)
		}
		return count, count < 1
	}
}

// heldPending reads how many documents of a customer are not done, past the store.
func heldPending(client redis.Cmdable, store *priority.RedisStore, customer string) int64 {
	members, err := client.ZRange(context.Background(), store.Keys(customer).Pending, 0, -1).Result()
	if err != nil {
		panic(err)
	}
	return int64(len(slices.DeleteFunc(members, func(member string) bool { return member == ":fades" || member == ":averages" })))
}

// timeOf returns when the document of a score was submitted.
func timeOf(score float64) time.Time { return time.UnixMilli(int64(math.Abs(score)) / 256) }

// levelOf returns the level that the document of a score was given.
func levelOf(score float64) priority.Level { return priority.Level(int64(math.Abs(score)) % 256) }

// oddCustomers are customers that would share a key, or a hash tag, or be cut
// short, where a key is made without care.
var oddCustomers = []string{
	"acme", "Acme", "acme ", "{", "}", "{}", "}{", "{acme}", "acme}", "a}b",
	"%", "%25", "%7D", "%7d", "%257D", "a%7Db", "%s", "acme}:count", "acme:count", ":",
	"\x00", "a\x00b", "\r\n", "*1\r\n$4\r\nPING\r\n", " ", "\xff", "\xc3\x28", "ü", "u\u0308", "客户", "\"", "\\", "0", "-1", "]]", "nil",
	strings.Repeat("x", 511), strings.Repeat("x", 512), strings.Repeat("}", 512), strings.Repeat("\x00", 512),
}

// oddDocuments are ids that a script or a sorted set could take for something
// else.
var oddDocuments = append(slices.Clone(oddCustomers), "-inf", "(1", "[a", "1e400", "NX", "GT", "INCR", "1700000000000", "-0", "1.0", "count")

// go-redis has AutoPipeliners since v9.22, and the module supports older ones. So the tests
// look for them; on an older go-redis they use the client itself in their place.
var _, hasAutoPipeline = reflect.TypeFor[*redis.Client]().MethodByName("AutoPipeline")

// autoPipeline returns an AutoPipeliner of a client, whose callers wait for their answers.
func autoPipeline(t testing.TB, client *redis.Client) priority.RedisClient {
	t.Helper()
	if !hasAutoPipeline {
		return client
	}
	returned := reflect.ValueOf(client).MethodByName("AutoPipeline").Call(nil)
	if err, _ := returned[1].Interface().(error); err != nil {
		t.Fatal(err)
	}
	return returned[0].Interface().(priority.RedisClient)
}
