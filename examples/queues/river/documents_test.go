package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/riverdb"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	priorityriver "github.com/docpriority/priority/queue/river"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

func TestADocumentThatKillsItsWorkerEachTimeIsGivenUp(t *testing.T) {
	t.Parallel()
	q := start(t)
	q.Send("deadly")
	// This is what the third killed worker leaves behind.
	q.exec("UPDATE river_job SET state = 'running', attempt = max_attempts, attempted_at = now() - interval '1 hour'")
	q.Serve(nil)
	q.AwaitDead("deadly")
	q.AwaitNothingPending()
}

func TestACancelledDocumentIsNotPending(t *testing.T) {
	t.Parallel()
	q := start(t)
	q.Send("cancelled")
	listed, err := q.Client.JobList(t.Context(), nil)
	if err != nil || len(listed.Jobs) != 1 {
		t.Fatal(listed, err)
	}
	if _, err := q.Client.JobCancel(t.Context(), listed.Jobs[0].ID); err != nil {
		t.Fatal(err)
	}
	q.Serve(nil)
	q.AwaitNothingPending()
}

// Settle goes through the jobs in the order of their ends: when the last one's document is
// done, so is its look at the others.
func TestAGivenUpDocumentThatWasInsertedAgainIsPending(t *testing.T) {
	t.Parallel()
	q := start(t)
	q.Send("invoice")
	q.discard("now() - interval '2 hours'")
	q.Send("invoice")
	if err := q.Produce(t.Context(), "other", "order", nil); err != nil {
		t.Fatal(err)
	}
	q.exec("UPDATE river_job SET state = 'cancelled', finalized_at = now() WHERE args->>'document' = 'order'")
	ctx, cancel := context.WithCancel(t.Context())
	var settled sync.WaitGroup
	settled.Go(func() { q.Letters().Settle(ctx) })
	q.AwaitNothingPending("other")
	cancel()
	settled.Wait()
	if pending := q.pending("acme"); pending != 1 {
		t.Errorf("%d are pending of a document that waits", pending)
	}

	// Its old job stays where it is: the new one is in its place.
	dead, err := q.Letters().Dead(t.Context())
	if err != nil || len(dead) != 1 {
		t.Fatal(dead, err)
	}
	if err := q.Letters().Retry(t.Context(), dead[0]); err == nil || !strings.Contains(err.Error(), "unique") {
		t.Errorf("retry: error %v", err)
	}
	if pending := q.pending("acme"); pending != 1 || q.jobs("discarded") != "1" || q.jobs("available") != "1" {
		t.Errorf("%d are pending; %s given up, %s wait", pending, q.jobs("discarded"), q.jobs("available"))
	}
}

func TestDeadLettersAreRetriedAsNewDocuments(t *testing.T) {
	t.Parallel()
	q := start(t)
	q.Send("invoice")
	q.discard("now()")
	q.exec(`INSERT INTO river_job (state, kind, args, max_attempts, attempt, priority, finalized_at, errors)
		VALUES ('discarded', 'mail', '{}', 1, 1, 3, now() + interval '1 second', ARRAY['{"error": "no address"}'::jsonb])`)
	letters := q.Letters()
	dead, err := letters.Dead(t.Context())
	if err != nil || len(dead) != 2 {
		t.Fatal(dead, err)
	}
	invoice, mail := dead[0], dead[1]
	if invoice.Customer != "acme" || invoice.Document != "invoice" || invoice.Reason != "it fails each time" || invoice.Tries != 3 || time.Since(invoice.At) > time.Minute {
		t.Errorf("%+v", invoice)
	}
	if mail.Customer != "" || mail.Reason != "no address" || mail.Job.Kind != "mail" {
		t.Errorf("%+v", mail)
	}

	away := errors.New("the store is away")
	q.Bench.Store.OnSubmit = func(string, string) error { return away }
	if err := letters.Retry(t.Context(), invoice); !errors.Is(err, away) || !errors.Is(err, priorityriver.ErrSubmit) || q.jobs("discarded") != "2" {
		t.Errorf("error %v; %s are given up", err, q.jobs("discarded"))
	}
	q.Bench.Store.OnSubmit = nil

	if err := q.Bench.Store.Done(t.Context(), "acme", "invoice", 0); err != nil { // as Settle says it
		t.Fatal(err)
	}
	for number := range 40 { // the customer has become a flood
		if _, err := q.Bench.Store.Submit(t.Context(), "acme", fmt.Sprint(number), 0); err != nil {
			t.Fatal(err)
		}
	}
	var retried, refused atomic.Int32
	var operators sync.WaitGroup
	for range 4 {
		operators.Go(func() {
			switch err := letters.Retry(t.Context(), invoice); {
			case err == nil:
				retried.Add(1)
			case errors.Is(err, rivertype.ErrNotFound):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	operators.Wait()
	if err := letters.Retry(t.Context(), mail); err != nil {
		t.Error(err)
	}
	job := q.text("SELECT state || ' ' || priority || ' ' || attempt || ' ' || coalesce(cardinality(errors), 0) FROM river_job WHERE kind = 'document'")
	if retried.Load() != 1 || refused.Load() != 3 || job != "available 2 0 0" && job != "available 3 0 0" && job != "available 4 0 0" {
		t.Errorf("retried by %d operators, refused to %d; the job is %s", retried.Load(), refused.Load(), job)
	}
	if mail := q.text("SELECT state || ' ' || priority FROM river_job WHERE kind = 'mail'"); mail != "available 3" {
		t.Errorf("another program's job is %s", mail)
	}
	if pending := q.pending("acme"); pending != 41 {
		t.Errorf("%d are pending, want 41", pending)
	}
	q.Serve(nil)
	q.AwaitServed("invoice")
	trial.Await(t, "it is not pending any more", func() bool { return q.pending("acme") == 40 })
}

func TestAllGivenUpDocumentsAreListed(t *testing.T) {
	t.Parallel()
	q := start(t)
	var documents []string
	var jobs []river.InsertManyParams
	for number := range 150 { // more than a page has
		documents = append(documents, fmt.Sprint(number))
		jobs = append(jobs, river.InsertManyParams{Args: args{"acme", documents[number], nil}})
	}
	if _, err := q.Client.InsertMany(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if pending := q.pending("acme"); pending < 100 {
		t.Errorf("%d are pending", pending)
	}
	if priorities := q.text("SELECT string_agg(DISTINCT priority::text, ' ') FROM river_job"); !strings.HasPrefix(priorities, "1 2") {
		t.Errorf("the jobs have the priorities %s", priorities)
	}
	q.discard("now()")
	q.AwaitDead(documents...)
	q.Serve(nil)
	q.AwaitNothingPending()
}

func TestAShutdownGivesADocumentToOthers(t *testing.T) {
	t.Parallel()
	q := start(t)
	begun := make(chan struct{})
	client := q.client(func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}, func(c *river.Config) { c.SoftStopTimeout = 100 * time.Millisecond })
	q.Send("long")
	q.exec("UPDATE river_job SET max_attempts = 1")
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pending := q.pending("acme"); pending != 1 {
		t.Errorf("%d are pending of a document that waits", pending)
	}
	q.Serve(nil) // it was no failed try: there is only one
	q.AwaitServed("long")
	q.AwaitNothingPending()
}

func TestASnoozedDocumentIsPending(t *testing.T) {
	t.Parallel()
	q := start(t)
	q.Send("early")
	client := q.client(func(context.Context) error { return river.JobSnooze(time.Hour) }, nil)
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	trial.Await(t, "it is snoozed", func() bool { return q.jobs("scheduled") == "1" })
	if pending := q.pending("acme"); pending != 1 {
		t.Errorf("%d are pending", pending)
	}
	if err := client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The second insert is skipped, as the job is unique: its document has another id.
func TestADocumentNeedsNoIdOfItsOwn(t *testing.T) {
	t.Parallel()
	q := start(t)
	served := make(chan struct{}, 10)
	client := q.client(func(context.Context) error {
		served <- struct{}{}
		return nil
	}, func(c *river.Config) {
		c.Middleware = []rivertype.Middleware{priorityriver.New(q.Bench.Store, func(job *rivertype.JobInsertParams) (string, string, float64) {
			return job.Args.(args).Customer, "", 0
		})}
	})
	for range 2 {
		_, err := client.Insert(t.Context(), args{"acme", "same", nil}, &river.InsertOpts{
			Queue: q.DB.Queue, Metadata: []byte(`{"team": "billing"}`), UniqueOpts: river.UniqueOpts{ByArgs: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		if pending := q.pending("acme"); pending != 1 {
			t.Errorf("%d are pending", pending)
		}
	}
	if team := q.text("SELECT metadata->>'team' FROM river_job"); team != "billing" {
		t.Errorf("the team's metadata is %q", team)
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-served
	q.AwaitNothingPending()
	if err := client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestADocumentIsInsertedOnceWhenTheReplyIsLost(t *testing.T) {
	t.Parallel()
	q := start(t)
	q.exec("CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$")
	q.exec("CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON river_job DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()")
	commit, err := q.own.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := commit.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)"); err != nil {
		t.Fatal(err)
	}
	produced := make(chan error)
	go func() { produced <- q.Produce(t.Context(), "acme", "once", nil) }()
	trial.Await(t, "PostgreSQL is about to commit the document", func() bool {
		return q.text("SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted") == "1"
	})
	q.proxy.Set(redistest.Cut)
	if err := commit.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	trial.Await(t, "PostgreSQL has the document", func() bool { return q.jobs("") == "1" })
	q.proxy.Set(redistest.None)
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	if jobs, pending := q.jobs(""), q.pending("acme"); jobs != "1" || pending != 1 {
		t.Errorf("%s jobs, %d pending", jobs, pending)
	}
}

func TestADocumentThatWasServedIsNotServedAgain(t *testing.T) {
	t.Parallel()
	q := start(t)
	q.Serve(nil)
	q.Send("once")
	trial.Await(t, "the job is completed", func() bool { return q.jobs("completed") == "1" })
	q.Send("once")
	q.AwaitNothingPending()
	q.Send("another")
	q.AwaitServed("once", "another")
}

func TestARolledBackTransactionLeavesNoDocument(t *testing.T) {
	t.Parallel()
	q := start(t)
	insert := func(document string, commit bool) {
		tx, err := q.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Client.InsertTx(t.Context(), tx, args{document + "'s customer", document, nil}, &river.InsertOpts{Queue: q.DB.Queue}); err != nil {
			t.Fatal(err)
		}
		if commit {
			err = tx.Commit(t.Context())
		} else {
			err = tx.Rollback(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	insert("kept", true)
	insert("undone", false)
	if q.pending("undone's customer") != 1 { // until its lease ends, as the page says
		t.Error("the document is not pending")
	}
	q.Serve(nil)
	q.AwaitServed("kept")
	q.AwaitNothingPending("kept's customer")

	tx, err := q.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = tx.Exec(t.Context(), "no SQL") // the transaction is over
	if _, err := q.Client.InsertTx(t.Context(), tx, args{"failed's customer", "failed", nil}, nil); err == nil {
		t.Error("no error in a transaction that has failed")
	}
	_ = tx.Rollback(t.Context())
	q.AwaitNothingPending("failed's customer")
}

// The first try's transaction fails, after it has written its results.
func TestResultsAndTheEndOfAJobAreOneTransaction(t *testing.T) {
	t.Parallel()
	q := start(t)
	q.exec("CREATE TABLE results (document text)")
	q.Send("invoice")
	workers := river.NewWorkers()
	var tries atomic.Int32
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[args]) error {
		return pgx.BeginFunc(ctx, q.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO "+q.Schema+".results VALUES ($1)", job.Args.Document); err != nil {
				return err
			}
			if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
				return err
			}
			if tries.Add(1) == 1 {
				return errors.New("no commit")
			}
			return nil
		})
	}))
	client := q.client(nil, func(c *river.Config) { c.Workers = workers })
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	trial.Await(t, "the document is served", func() bool { return q.jobs("completed") == "1" })
	q.AwaitNothingPending()
	if rows := q.text("SELECT count(*)::text FROM results"); rows != "1" || tries.Load() != 2 {
		t.Errorf("%s results of %d tries", rows, tries.Load())
	}
	if err := client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Each statement of the page is run, in their order, on a queue with a document that
// waits, one that a killed worker had in hand, and two that were given up.
func TestTheLinesOfThePageDoWhatTheySay(t *testing.T) {
	t.Parallel()
	var statements []string
	for _, block := range markdown.Read(t, "../../../docs/queues/river.md").Blocks("sql") {
		for statement := range strings.SplitSeq(strings.TrimSpace(block), ";") {
			if statement != "" {
				statements = append(statements, statement)
			}
		}
	}
	tells := []string{"1 available 2\n", "acme dead it fails each time\n", "acme in hand gone_2026\n", "UPDATE 1", "DELETE 1"}
	if len(statements) != len(tells) {
		t.Fatalf("%d statements, want %d", len(statements), len(tells))
	}
	q := start(t)
	q.Send("old")
	q.discard("now() - interval '1 year'")
	q.Send("dead")
	q.exec(`UPDATE river_job SET state = 'discarded', attempt = 3, finalized_at = now(), errors = ARRAY['{"error": "it fails each time"}'::jsonb] WHERE id = 2`)
	q.Send("in hand", "waits", "waits too")
	q.exec("UPDATE river_job SET priority = 1")
	q.exec("UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = ARRAY['other', 'gone_2026'] WHERE id = 3")
	for i, statement := range statements {
		statement = strings.ReplaceAll(statement, "river_job", q.Schema+".river_job")
		if got := q.exec(statement); !strings.Contains(got, tells[i]) {
			t.Errorf("%s\ntells %q, want %q", statement, got, tells[i])
		}
	}
}

// opened is the program's queue in a schema of its own.
type opened struct {
	*riverdb.Queue
	*trial.Bench
	t     *testing.T
	proxy *redistest.Proxy // of what the program does; the test's own questions go around it
	own   *pgxpool.Pool
}

// start opens a queue. Documents have three tries.
func start(t *testing.T) *opened {
	t.Helper()
	url, store, schema := subject.Server(t), new(trial.Store), fmt.Sprint("schema_", schemas.Add(1))
	own, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	server := fmt.Sprintf("127.0.0.1:%d", own.Config().ConnConfig.Port)
	q := &opened{t: t, own: own, proxy: redistest.StartProxy(t, server)}
	db, err := riverdb.Open(t.Context(), &program.Config{
		URL: strings.Replace(url, server, q.proxy.Addr, 1), Store: store, Name: "documents", Workers: 4, Limit: time.Minute,
		Backoff: []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	}, schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Pool.Close)
	queue, err := open(db)
	if err != nil {
		t.Fatal(err)
	}
	q.Queue = queue.(*riverdb.Queue)
	q.Bench = trial.NewBench(t, q.Queue, store)
	return q
}

var schemas atomic.Int32

// client returns a client of a team with another configuration.
func (q *opened) client(work func(context.Context) error, change func(*river.Config)) *river.Client[pgx.Tx] {
	q.t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[args]) error { return work(ctx) }))
	config := &river.Config{
		Middleware: []rivertype.Middleware{priorityriver.New(q.Bench.Store, customerOf)},
		Queues:     map[string]river.QueueConfig{q.DB.Queue: {MaxWorkers: 1}},
		Workers:    workers, Schema: q.Schema, Logger: slog.New(slog.DiscardHandler), RetryPolicy: q.DB,
	}
	if change != nil {
		change(config)
	}
	client, err := river.NewClient(riverpgxv5.New(q.Pool), config)
	if err != nil {
		q.t.Fatal(err)
	}
	return client
}

// discard has all documents be given up.
func (q *opened) discard(when string) {
	q.t.Helper()
	q.exec(`UPDATE river_job SET state = 'discarded', finalized_at = ` + when + `, attempt = 3, errors = ARRAY['{"error": "it fails each time"}'::jsonb]`)
}

// exec does a statement in the schema, around the proxy, and returns what it tells: its
// rows' values, and what it has done.
func (q *opened) exec(statement string) string {
	q.t.Helper()
	var told strings.Builder
	err := pgx.BeginFunc(q.t.Context(), q.own, func(tx pgx.Tx) error {
		if _, err := tx.Exec(q.t.Context(), "SET LOCAL search_path = "+q.Schema); err != nil {
			return err
		}
		rows, err := tx.Query(q.t.Context(), statement)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return err
			}
			fmt.Fprintln(&told, values...)
		}
		told.WriteString(rows.CommandTag().String())
		return rows.Err()
	})
	if err != nil {
		q.t.Errorf("%s: %v", statement, err)
	}
	return told.String()
}

// text returns the only value that a query has.
func (q *opened) text(query string) string {
	q.t.Helper()
	value, _, _ := strings.Cut(q.exec(query), "\n")
	return value
}

// jobs is how many jobs are in a state. "": in any.
func (q *opened) jobs(state string) string {
	q.t.Helper()
	return q.text(fmt.Sprintf("SELECT count(*)::text FROM river_job WHERE '%[1]s' IN ('', state::text)", state))
}

func (q *opened) pending(customer string) int64 {
	q.t.Helper()
	now, err := q.Bench.Store.Peek(q.t.Context(), customer)
	if err != nil {
		q.t.Fatal(err)
	}
	return now.Pending
}
