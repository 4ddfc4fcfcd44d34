package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// opening is a queue in a schema of its own, on a server for all tests.
type opening struct {
	*Documents
	url   string
	proxy *redistest.Proxy // of what Documents does; the test's own questions go around it
	own   *pgxpool.Pool
	stop  func()
}

func open(t *testing.T, change func(*Options)) *opening {
	t.Helper()
	return openAt(t, startPostgres(t), change)
}

func openAt(t *testing.T, url string, change func(*Options)) *opening {
	t.Helper()
	options := defaults(schema())
	if change != nil {
		change(options)
	}
	own := connect(t, url)
	proxy := redistest.StartProxy(t, fmt.Sprintf("127.0.0.1:%d", own.Config().ConnConfig.Port))
	through := connect(t, strings.Replace(url, fmt.Sprintf("127.0.0.1:%d", own.Config().ConnConfig.Port), proxy.Addr, 1))
	documents, err := Open(t.Context(), through, new(memory.Store), options)
	if err != nil {
		t.Fatal(err)
	}
	return &opening{Documents: documents, url: url, proxy: proxy, own: own}
}

func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func openWithResults(t *testing.T) *opening {
	t.Helper()
	d := open(t, func(o *Options) { o.Limit = time.Second })
	d.exec(t, "CREATE TABLE results (document text)")
	return d
}

func defaults(schema string) *Options {
	return &Options{
		Schema: schema, Name: "documents", Workers: 4, Limit: time.Minute,
		Backoff: []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	}
}

var schemas atomic.Int32

func schema() string { return fmt.Sprint("schema_", schemas.Add(1)) }

func produce(t *testing.T, d *opening, customer, document string) {
	t.Helper()
	if err := d.Produce(t.Context(), customer, document, nil); err != nil {
		t.Fatal(err)
	}
}

func nothing(context.Context, string, string, []byte) error { return nil }

// work has process work until stop is called, or the test ends.
func (d *opening) work(t *testing.T, process Process) (stop func()) {
	t.Helper()
	return d.workTx(t, func(ctx context.Context, customer, document string, body []byte) (Results, error) {
		return nil, process(ctx, customer, document, body)
	})
}

func (d *opening) workTx(t *testing.T, process func(context.Context, string, string, []byte) (Results, error)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.WorkTx(ctx, process) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("work: %v", err)
		}
	})
	t.Cleanup(d.stop)
	return d.stop
}

// result writes a document's.
func (d *opening) result(document string) Results {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+pgx.Identifier{d.options.Schema, "results"}.Sanitize()+" VALUES ($1)", document)
		return err
	}
}

// exec and text do SQL in the schema, around the proxy.
func (d *opening) exec(t *testing.T, sql string) {
	t.Helper()
	err := d.inSchema(t, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (d *opening) text(t *testing.T, sql string) string {
	t.Helper()
	var found *string
	err := d.inSchema(t, func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), sql).Scan(&found) })
	if err != nil {
		t.Fatal(err)
	}
	if found == nil {
		return ""
	}
	return *found
}

func (d *opening) inSchema(t *testing.T, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(t.Context(), d.own, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL search_path = "+d.options.Schema); err != nil {
			return err
		}
		return do(tx)
	})
}

func (d *opening) pending(t *testing.T, customer string) int64 {
	t.Helper()
	now, err := d.store.Peek(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	return now.Pending
}

func (d *opening) awaitNothingPending(t *testing.T, customer string) {
	t.Helper()
	redistest.Await(t, "nothing of "+customer+" is pending", func() bool { return d.pending(t, customer) == 0 })
}

func (d *opening) awaitDead(t *testing.T, documents ...string) {
	t.Helper()
	redistest.Await(t, fmt.Sprintf("%q are given up", documents), func() bool {
		dead, err := d.Dead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.Equal(dead, documents)
	})
}

// shared is a PostgreSQL for as long as a test has need of it.
var shared struct {
	sync.Mutex
	server *server.Server
	users  int
}

func startPostgres(t *testing.T) (url string) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.users == 0 {
		var err error
		shared.server, err = server.StartPostgres(context.Background())
		skipIfMissing(t, err)
	}
	shared.users++
	t.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.users--; shared.users == 0 {
			shared.server.Stop()
		}
	})
	return shared.server.URL
}

func skipIfMissing(t *testing.T, err error) {
	t.Helper()
	if missing := (*server.MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}
