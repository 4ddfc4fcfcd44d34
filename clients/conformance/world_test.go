package conformance_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/ledger"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// port is a port to check: its driver, and which of its client libraries.
type port struct {
	tb      testing.TB
	command []string
	dir     string   // where the command runs
	env     []string // nil: this process's
	client  string   // "": the port's default
	cluster bool     // the client wants a Redis Cluster
	partial bool     // it may lack what is optional
	brief   bool     // only what it does on a cluster is checked

	mu   sync.Mutex
	idle []*driver // that checks have left
}

// patience is how long a driver may take for an answer whatever its timeout is, so
// that a slow machine is no failure and a call that hangs is one.
const patience = 30 * time.Second

// The timeouts of the calls. A call that has to succeed gets time enough for any
// machine, and one that cannot need not take long to say so.
const (
	enough = 10_000
	short  = 400
)

// world is what one check has: a port, and servers that end with the check.
type world struct {
	testing.TB
	port *port
}

// optional are the options of open that a port need not support.
var optional = []string{"overrides", "accounts", "fallback", "join"}

// site is a server and what stands between it and the port.
type site struct {
	*redistest.Server
	between *between
	client  *redis.Client
}

// site starts a server. One for a client of clusters is a cluster of one node, which
// calls itself by the address between.
func (w *world) site(args ...string) *site {
	w.Helper()
	b := listen(w)
	s := w.siteAt(b.addr, args...)
	s.between = b
	b.lead(s.Addr)
	return s
}

// siteAt starts a server without anything between, which in a cluster calls itself by
// an address; "": its own.
func (w *world) siteAt(addr string, args ...string) *site {
	w.Helper()
	if w.port.cluster {
		args = append([]string{"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"}, args...)
		if _, port, err := net.SplitHostPort(addr); err == nil {
			args = append([]string{"--cluster-announce-port", port}, args...)
		}
	}
	server := redistest.Start(w, args...)
	s := &site{Server: server, client: redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})}
	w.Cleanup(func() { _ = s.client.Close() })
	if w.port.cluster {
		if err := s.client.ClusterAddSlotsRange(context.Background(), 0, 16383).Err(); err != nil {
			w.Fatal(err)
		}
		s.awaitWhole(w)
	}
	return s
}

// awaitWhole waits until a server can be asked, as a part of its cluster.
func (s *site) awaitWhole(w *world) {
	w.Helper()
	redistest.Await(w, "the server answers", func() bool {
		return s.client.Exists(context.Background(), "any").Err() == nil
	})
}

// open starts a driver on an address and opens it with further options. A check is skipped
// where the port does not support one of them.
func (w *world) open(addr string, timeout int64, options fields) *driver {
	w.Helper()
	d := w.start()
	w.reopen(d, addr, timeout, options)
	return d
}

// reopen opens a driver again, with other options: another process would take longer.
func (w *world) reopen(d *driver, addr string, timeout int64, options fields) {
	w.Helper()
	r := d.ask("open", w.options(addr, timeout, options))
	asked := func(option string) bool { return options[option] == true }
	if w.port.partial && r.class() == unsupported && slices.ContainsFunc(optional, asked) {
		w.Skip("the port does not support ", asJSON(options))
	}
	if r.Error != nil {
		w.Fatalf("open: %v", r)
	}
}

// options returns the fields of an open.
func (w *world) options(addr string, timeout int64, options fields) fields {
	f := fields{"url": "redis://" + addr, "timeout_ms": timeout}
	if w.port.client != "" {
		f["client"] = w.port.client
	}
	maps.Copy(f, options)
	return f
}

// awaitNext counts documents until one is answered, and notes all.
func (w *world) awaitNext(d *driver, books *ledger.Ledger, customer string) decision {
	w.Helper()
	var told decision
	redistest.Await(w, "documents are counted again", func() bool {
		r := d.ask("next", fields{"customer": []byte(customer), "n": 1})
		note(books, customer, r)
		if r.Error == nil {
			told = r.Decisions[0]
		}
		return r.Error == nil
	})
	return told
}

// note notes what the caller of a call about one document was told.
func note(books *ledger.Ledger, customer string, r response) {
	var told priority.Decision
	if r.Error == nil {
		told.Count = r.Decisions[0].Count
	}
	books.Note(customer, told, r.err())
}

// audit compares what callers were told with the counts in a server.
func (w *world) audit(s *site, books *ledger.Ledger) {
	w.Helper()
	if other := books.Totals().Other; other > 0 {
		w.Errorf("%d errors are neither %s nor %s", other, notCounted, outcomeUnknown)
	}
	keys := func(customer string) priority.Keys { return s.keys(w, customer) }
	if found := books.Reconcile(w, s.client, keys); !found.Exact() {
		w.Errorf("of %+v: %+v", books.Totals(), found)
	}
}

// count returns a customer's count, false where there is none.
func (s *site) count(w *world, customer string) (int64, bool) {
	w.Helper()
	count, err := s.client.Get(context.Background(), s.keys(w, customer).Count).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		w.Fatal(err)
	}
	return count, err == nil
}

// keys returns a customer's keys as the module names them.
func (s *site) keys(w *world, customer string) priority.Keys {
	w.Helper()
	store, err := priority.NewRedisStore(s.client, nil)
	if err != nil {
		w.Fatal(err)
	}
	return store.Keys(customer)
}

// pending returns the ids of a customer's pending documents.
func (s *site) pending(w *world, customer string) []string {
	w.Helper()
	return ledger.Pending(w, s.client, s.keys(w, customer).Pending)
}

func (s *site) flush(w *world) {
	w.Helper()
	if err := s.client.FlushAll(context.Background()).Err(); err != nil {
		w.Fatal(err)
	}
}
