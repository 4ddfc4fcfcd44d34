package soak

import (
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

func options(address string) Options {
	return Options{Redis: address, Timeout: time.Minute, For: time.Hour, Callers: 16, Customers: 100, calls: 4000, prefix: "soaked"}
}

func TestALoadWithoutFaultsIsExact(t *testing.T) {
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, 3)
	for name, change := range map[string]func(*Options){
		"plain":        func(*Options) {},
		"autopipeline": func(o *Options) { o.AutoPipeline = true },
		"fallback":     func(o *Options) { o.Fallback = true },
		"one customer": func(o *Options) { o.Customers = 1 },
		"cluster":      func(o *Options) { o.Redis, o.AutoPipeline = strings.Join(cluster.Addrs(), ","), true },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(server.Addr)
			change(&o)
			found, err := Run(t.Context(), o)
			if err != nil || found.Err() != nil {
				t.Fatal(err, found.Err())
			}
			if all := found.Operations[len(found.Operations)-1]; all.Calls != o.calls || all.P50 > all.P99 || all.P99 > all.Max || all.Max == 0 ||
				len(found.Errors) > 0 || found.Documents.Answered != found.Documents.Documents {
				t.Errorf("%+v", found)
			}
			if keys := server.Client().DBSize(t.Context()).Val(); keys != 0 {
				t.Errorf("%d keys were left", keys)
			}
		})
	}
}

// awaitCount waits until the first customer has more documents than callers may wait for.
func awaitCount(t *testing.T, server *redistest.Server) (key string) {
	t.Helper()
	client := server.Client()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: "soaked"})
	if err != nil {
		t.Fatal(err)
	}
	key = store.Key("customer-0")
	redistest.Await(t, "the load has begun", func() bool {
		count, err := client.Get(t.Context(), key).Int64()
		return err == nil && count < -16*(mostDocuments+1)
	})
	return key
}

func TestWhatIsWrongIsFound(t *testing.T) {
	for _, test := range []struct {
		name  string
		harm  func(t *testing.T, server *redistest.Server)
		found string
	}{
		{"a document that nobody sent", func(t *testing.T, server *redistest.Server) {
			if err := server.Client().Decr(t.Context(), awaitCount(t, server)).Err(); err != nil {
				t.Error(err)
			}
		}, "1 extra"},
		{"a server that forgets", func(t *testing.T, server *redistest.Server) {
			awaitCount(t, server)
			server.Kill()
			server.Restart()
			awaitCount(t, server)
		}, "missing"},
		{"goroutines", func(t *testing.T, server *redistest.Server) {
			awaitCount(t, server)
			over := make(chan struct{})
			for range 20 { // the test's own come and go
				go func() { <-over }()
			}
			t.Cleanup(func() { close(over) })
		}, "goroutines are left"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.Start(t)
			o := options(server.Addr)
			o.calls, o.grace = 30_000, 2*time.Second
			var found *Report
			var err error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				found, err = Run(t.Context(), o)
			}()
			test.harm(t, server)
			<-ended
			if err != nil || found.Err() == nil || !strings.Contains(found.Err().Error(), test.found) {
				t.Errorf("want %q: %v, %v", test.found, err, found)
			}
		})
	}
}
