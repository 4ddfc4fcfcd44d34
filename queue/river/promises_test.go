package priorityriver

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/brokertest"
	"github.com/docpriority/priority/memory"
)

func TestMain(m *testing.M) { brokertest.Main(m, subject) }

func TestPromises(t *testing.T) {
	t.Parallel()
	server, url := start(t)
	onServer := *subject
	onServer.Start = func(testing.TB) (brokertest.Broker, string) { return server, url }
	brokertest.Run(t, &onServer)
	t.Run("Settle", func(t *testing.T) { testSettle(t, url) })
}

func BenchmarkFlood(b *testing.B) { subject.Flood(b) }

var subject = &brokertest.Subject{Start: start, Open: openQueue, Tries: tries, Expire: expire}

const tries = 3

func start(tb testing.TB) (brokertest.Broker, string) {
	tb.Helper()
	server := brokertest.StartPostgres(tb)
	pool, err := pgxpool.New(tb.Context(), server.URL)
	if err != nil {
		tb.Fatal(err)
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := migrator.Migrate(tb.Context(), rivermigrate.DirectionUp, nil); err != nil {
		tb.Fatal(err)
	}
	return server, server.URL
}

// program is what a team writes around a river.Client.
type program struct {
	client *river.Client[pgx.Tx]
	pool   *pgxpool.Pool
	handle func(context.Context, string) error
}

func openQueue(ctx context.Context, url string, store priority.Store) (brokertest.Queue, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	middleware, err := New(store, customerOf)
	if err != nil {
		return nil, err
	}
	p := &program{pool: pool}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[invoice]) error {
		return p.handle(ctx, job.Args.Document)
	}))
	p.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		Middleware: []rivertype.Middleware{middleware},
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		Workers:    workers, Logger: slog.New(slog.DiscardHandler),
		MaxAttempts: tries, RetryPolicy: atOnce{},
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
	})
	return p, err
}

type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

func (p *program) Publish(ctx context.Context, customer, document string) error {
	_, err := p.client.Insert(ctx, invoice{customer, document}, nil)
	return err
}

// Work hides the end of the context from the client, which would stop without waiting for
// the jobs in hand.
func (p *program) Work(ctx context.Context, handle func(context.Context, string) error) error {
	p.handle = handle
	if err := p.client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	return p.client.Stop(context.WithoutCancel(ctx))
}

func (p *program) Close() { p.pool.Close() }

// expire makes the jobs in hand overdue, and takes away the lead, because River's rescuer
// looks for such jobs when a worker begins to lead.
func expire(tb testing.TB, url string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(tb.Context()))
	for _, statement := range []string{
		"UPDATE river_job SET attempted_at = now() - interval '2 hours' WHERE state = 'running'",
		"DELETE FROM river_leader",
	} {
		if _, err := conn.Exec(tb.Context(), statement); err != nil {
			tb.Fatal(err)
		}
	}
}

// Nothing but Settle sees the end of a job that an operator cancels. A document has not
// ended while another job of it waits.
func testSettle(t *testing.T, url string) {
	store := new(memory.Store)
	opened, err := openQueue(t.Context(), url, store)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	client := opened.(*program).client
	for _, job := range []struct {
		document  string
		cancelled bool
	}{{"over", true}, {"waits", false}, {"sent again", true}, {"sent again", false}} {
		inserted, err := client.Insert(t.Context(), invoice{"acme", job.document}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if job.cancelled {
			if _, err := client.JobCancel(t.Context(), inserted.Job.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := settle(t.Context(), client, store, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if pending := pending(t, store, "acme"); pending != 2 {
		t.Errorf("%d pending, want 2", pending)
	}

	// Waiting jobs are read once for many that have ended.
	for i := range 100 {
		inserted, err := client.Insert(t.Context(), invoice{"bakery", fmt.Sprint(i)}, nil)
		if err == nil {
			_, err = client.JobCancel(t.Context(), inserted.Job.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := opened.(*program).pool.Stat().AcquireCount()
	err = settle(t.Context(), client, store, time.Now().Add(-time.Hour))
	if n := opened.(*program).pool.Stat().AcquireCount() - before; err != nil || n > 10 || pending(t, store, "bakery") != 0 {
		t.Errorf("%d queries, %d pending, %v", n, pending(t, store, "bakery"), err)
	}
}
