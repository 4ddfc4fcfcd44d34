package priority_test

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// The servers and clients that the tests run on.

// clients are those of the kinds that differ in how they send a command.
var clients = map[string]func(t *testing.T) priority.RedisClient{
	"miniredis": func(t *testing.T) priority.RedisClient { return onMiniredis(t) },
	"Client":    func(t *testing.T) priority.RedisClient { return redistest.Start(t).Client() },
	"AutoPipeline": func(t *testing.T) priority.RedisClient {
		return autoPipeline(t, redistest.Start(t).Client())
	},
	"Ring": func(t *testing.T) priority.RedisClient {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": redistest.Start(t).Addr, "two": redistest.Start(t).Addr}})
		t.Cleanup(func() { _ = ring.Close() })
		return ring
	},
	"ClusterClient": func(t *testing.T) priority.RedisClient { return redistest.StartCluster(t, 3).Client() },
}

// connect returns a client that is closed with the test.
func connect(t testing.TB, opts *redis.Options) *redis.Client {
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// onMiniredis returns a client that has patience: with -race miniredis is slow.
func onMiniredis(t testing.TB) *redis.Client {
	return connect(t, &redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute})
}

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

func openStore(t testing.TB, client priority.RedisClient, opts *priority.RedisOptions) *priority.RedisStore {
	t.Helper()
	return must(priority.NewRedisStore(client, opts))(t)
}

// newStore makes a store with a prefix of its own, and a timeout that only a test that hangs
// can reach.
func newStore(t testing.TB, client priority.RedisClient) *priority.RedisStore {
	t.Helper()
	return openStore(t, client, &priority.RedisOptions{Prefix: fmt.Sprint("test", prefixes.Add(1)), Timeout: time.Minute})
}

var prefixes atomic.Int64
