package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestADocumentThatKillsItsWorkerEachTimeIsGivenUp(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	q.Send("deadly")
	// This is what the third killed worker leaves behind.
	q.exec("UPDATE river_job SET state = 'running', attempt = max_attempts, attempted_at = now() - interval '1 hour'")
	q.Serve(nil)
	q.AwaitDead("deadly")
	q.AwaitNothingPending()
}

// River tells nobody of a document that its rescuer gives up. Of this one it does.
func TestAWorkerThatPanicsSaysDoneItself(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Backoff = nil })
	took := make(chan time.Duration, 10)
	q.Store.OnDone = func(_ string, t time.Duration) { took <- t }
	q.Send("panics")
	q.Serve(func(context.Context, string) error { panic("as it does each time") })
	if took := <-took; took == 0 { // as where nobody worked on it
		t.Error("settle has said Done")
	}
}

func TestADocumentHasItsLimit(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Limit = 20 * time.Minute }) // River's own is a minute
	q.Send("long")
	left := make(chan time.Duration, 1)
	q.Serve(func(ctx context.Context, _ string) error {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return nil
	})
	if left := <-left; left < 19*time.Minute || left > 20*time.Minute {
		t.Errorf("%v are left", left)
	}
}

func TestGivenUpDocumentsAreKeptAndCanBePutBack(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Backoff = nil })
	q.Send("of last year", "served last year")
	q.exec(`UPDATE river_job SET attempt = 1, finalized_at = now() - interval '1 year',
		state = CASE args->>'document' WHEN 'of last year' THEN 'discarded' ELSE 'completed' END::river_job_state`)
	q.Serve(nil)
	trial.Await(t, "River has cleaned up", func() bool { return q.jobs("") == "1" })
	q.AwaitDead("of last year")
	listed, err := q.client.JobList(t.Context(), q.Documents.jobs("discarded"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range listed.Jobs {
		if _, err := q.client.JobRetry(t.Context(), row.ID); err != nil {
			t.Fatal(err)
		}
	}
	q.AwaitServed("of last year")
	q.AwaitDead()
}

func TestAllGivenUpDocumentsAreListed(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	var documents []string
	for number := range 25 { // more than a page has
		documents = append(documents, fmt.Sprint(number))
	}
	q.Send(documents...)
	q.exec("UPDATE river_job SET state = 'discarded', finalized_at = now(), attempt = 3")
	q.AwaitDead(documents...)
	q.Serve(nil)
	q.AwaitNothingPending()
}

func TestACancelledDocumentIsNotPending(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	q.Send("cancelled")
	listed, err := q.client.JobList(t.Context(), q.Documents.jobs("available"))
	if err != nil || len(listed.Jobs) != 1 {
		t.Fatal(listed, err)
	}
	if _, err := q.client.JobCancel(t.Context(), listed.Jobs[0].ID); err != nil {
		t.Fatal(err)
	}
	q.Serve(nil)
	q.AwaitNothingPending()
}

func TestAShutdownGivesADocumentToOthersAfterTheGrace(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Grace, o.Backoff = 100*time.Millisecond, nil })
	q.Send("long")
	begun := make(chan struct{})
	stop := q.Serve(func(ctx context.Context, _ string) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	<-begun
	stop()
	if pending := q.pending("acme"); pending != 1 {
		t.Errorf("%d are pending of a document that waits", pending)
	}
	q.Serve(nil) // it was no failed try: there is only one
	q.AwaitServed("long")
	q.AwaitNothingPending()
}

func TestAGivenUpDocumentThatWasProducedAgainIsPending(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	q.Send("invoice")
	q.exec("UPDATE river_job SET state = 'discarded', finalized_at = now(), attempt = 3")
	q.Send("invoice")
	yesterday := time.Now().Add(-24 * time.Hour) // since then, when a worker starts
	if said := q.sayDone(t.Context(), yesterday); !said || q.pending("acme") != 1 {
		t.Errorf("%d are pending of a document that waits; %t", q.pending("acme"), said)
	}
	q.exec("UPDATE river_job SET state = 'discarded', finalized_at = now(), attempt = 3")
	if said := q.sayDone(t.Context(), yesterday); !said || q.pending("acme") != 0 {
		t.Errorf("%d are pending of a document that was given up; %t", q.pending("acme"), said)
	}
}

// Without a Logger, it warns by the default one.
func TestADocumentIsInsertedOnceWhenTheReplyIsLost(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Logger = nil })
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
	if jobs := q.jobs(""); jobs != "1" {
		t.Errorf("%s jobs", jobs)
	}
}

func TestADocumentThatWasServedIsNotServedAgain(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
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
	q := open(t, nil)
	for document, commit := range map[string]bool{"kept": true, "undone": false} {
		tx, err := q.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := q.ProduceTx(t.Context(), tx, document+"'s customer", document, nil); err != nil {
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
	if q.pending("undone's customer") != 1 { // as its comment says
		t.Error("the document is not pending")
	}
	q.Serve(nil)
	q.AwaitServed("kept")
	q.AwaitNothingPending("kept's customer")

	tx, err := q.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = tx.Exec(t.Context(), "no SQL") // the transaction is over
	if err := q.ProduceTx(t.Context(), tx, "failed's customer", "failed", nil); err == nil {
		t.Error("no error in a transaction that has failed")
	}
	_ = tx.Rollback(t.Context())
	q.AwaitNothingPending("failed's customer")
}

func TestABodyThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	if err := q.Produce(t.Context(), "acme", "large", make([]byte, MaxBody+1)); err == nil {
		t.Error("a body that is too large was taken")
	}
	q.AwaitNothingPending()
	if err := q.Produce(t.Context(), "acme", "largest", make([]byte, MaxBody)); err != nil {
		t.Error(err)
	}
	if err := q.Produce(t.Context(), "\x00", "document", nil); !errors.Is(err, priority.ErrInvalidCustomer) {
		t.Error(err)
	}
	if err := q.Produce(t.Context(), "acme", "\xff", nil); !errors.Is(err, priority.ErrInvalidDocument) {
		t.Error(err)
	}
}

func TestAWrongOptionIsSaid(t *testing.T) {
	t.Parallel()
	pool := connect(t, "postgres://127.0.0.1:1/nowhere")
	refused := func(pool *pgxpool.Pool, options *Options, want string) {
		t.Helper()
		_, err := Open(t.Context(), pool, new(memory.Store), options)
		if !errors.Is(err, priority.ErrInvalidOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for want, change := range map[string]func(*Options){
		"queue name is invalid": func(o *Options) { o.Name = "My Queue" },
		"Name is empty":         func(o *Options) { o.Name = "" },
		"Workers is 0":          func(o *Options) { o.Workers = 0 },
		"Limit is 0":            func(o *Options) { o.Limit = 0 },
		"Limit is -1ns":         func(o *Options) { o.Limit = -1 }, // River's word for none
		"Grace is -1s":          func(o *Options) { o.Grace = -time.Second },
		"Schema name":           func(o *Options) { o.Schema = "my schema" },
		"Schema is empty":       func(o *Options) { o.Schema = "" },
	} {
		options := defaults("documents")
		change(options)
		refused(pool, options, want)
	}
	refused(pool, nil, "no Options")
	refused(connect(t, "postgres://127.0.0.1:1/nowhere?pool_max_conns=1"), defaults("documents"), "MaxConns 1")
}

func TestProcessesMayOpenTogether(t *testing.T) {
	t.Parallel()
	url := subject.Server(t)
	var together sync.WaitGroup
	for range 8 {
		together.Go(func() {
			pool, err := pgxpool.New(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer pool.Close()
			if _, err := Open(t.Context(), pool, new(memory.Store), defaults("together")); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
}

// The idempotent consumer: results and the job's end are one transaction.

func TestResultsAreWrittenOnceByAKilledWorkersSuccessor(t *testing.T) {
	t.Parallel()
	q := openWithResults(t, []time.Duration{0})
	q.Send("invoice")

	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(executable)
	killed.Env = append(os.Environ(), accountantsURL+"="+subject.Server(t), accountantsSchema+"="+q.options.Schema)
	killed.Stderr = os.Stderr
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	redistest.StartProgram(t, killed)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "written\n" {
		t.Errorf("the worker says %q, %v", line, err)
	}
	_ = killed.Process.Kill()
	_ = killed.Wait()
	trial.Await(t, "the worker's transaction is over", func() bool {
		return q.text("SELECT count(*)::text FROM pg_locks WHERE relation = 'results'::regclass") == "0"
	})
	if rows := q.results(); rows != "0" {
		t.Fatalf("%s results of a worker that was killed before the end of its transaction", rows)
	}
	expire(t, subject.Server(t), q.options.Schema)
	q.serveTx(func(context.Context) (Results, error) { return q.result("invoice"), nil })
	trial.Await(t, "the document is served", func() bool { return q.jobs("completed") == "1" })
	if rows := q.results(); rows != "1" {
		t.Errorf("%s results", rows)
	}
}

func TestTheFirstToEndEndsADocumentThatTwoWorkersHave(t *testing.T) {
	t.Parallel()
	for _, firstIsLate := range []bool{true, false} {
		for _, writes := range []bool{true, false} {
			t.Run(fmt.Sprintf("first is late %t, writes results %t", firstIsLate, writes), func(t *testing.T) {
				t.Parallel()
				q := openWithResults(t, slices.Repeat([]time.Duration{0}, 9))
				q.Send("invoice")
				completed := func() bool { return q.jobs("completed") == "1" }
				var tries, ended atomic.Int32
				secondBegins := make(chan struct{})
				stop := q.serveTx(func(context.Context) (Results, error) {
					defer ended.Add(1)
					late := firstIsLate
					switch tries.Add(1) {
					case 1: // the rescuer comes, and then this one goes on
						q.exec("UPDATE river_job SET state = 'available', scheduled_at = now()")
						<-secondBegins
					case 2:
						close(secondBegins)
						late = !firstIsLate
					}
					if late {
						trial.Await(t, "the other is done", completed)
					}
					if !writes {
						return nil, nil
					}
					return q.result("invoice"), nil
				})
				trial.Await(t, "the document is served", completed)
				trial.Await(t, "both have come to their end", func() bool { return ended.Load() >= 2 })
				stop()
				if rows := q.results(); writes && rows != "1" {
					t.Errorf("%s results", rows)
				}
				if tries.Load() != 2 || !completed() {
					t.Errorf("%d tries, completed: %t", tries.Load(), completed())
				}
				q.AwaitNothingPending()
			})
		}
	}
}

func TestResultsThatCannotBeWrittenAreAFailedTry(t *testing.T) {
	t.Parallel()
	q := openWithResults(t, []time.Duration{0})
	q.Send("invoice")
	var tries atomic.Int32
	q.serveTx(func(context.Context) (Results, error) {
		if tries.Add(1) == 1 {
			return func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO nowhere VALUES (1)")
				return err
			}, nil
		}
		return q.result("invoice"), nil
	})
	trial.Await(t, "the document is served", func() bool { return q.results() == "1" })
	q.AwaitNothingPending()
}

func TestADocumentIsPendingUntilItsResultsAreWritten(t *testing.T) {
	t.Parallel()
	q := openWithResults(t, []time.Duration{time.Hour})
	q.Send("invoice")
	q.serveTx(func(context.Context) (Results, error) {
		return func(context.Context, pgx.Tx) error { return errors.New("no room") }, nil
	})
	trial.Await(t, "the try has failed", func() bool { return q.jobs("retryable") == "1" })
	if pending := q.pending("acme"); pending != 1 {
		t.Errorf("%d are pending", pending)
	}
}

// In a worker's environment: it writes its results, and never comes to the end.
const accountantsURL, accountantsSchema = "RIVER_TEST_ACCOUNTANT_URL", "RIVER_TEST_ACCOUNTANT_SCHEMA"

func accountant(url string) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err == nil {
		q := new(opened)
		q.Documents, err = Open(ctx, pool, new(memory.Store), defaults(os.Getenv(accountantsSchema)))
		if err == nil {
			err = q.WorkTx(ctx, func(context.Context, string, string, []byte) (Results, error) {
				return func(ctx context.Context, tx pgx.Tx) error {
					if err := q.result("invoice")(ctx, tx); err != nil {
						return err
					}
					fmt.Println("written")
					select {}
				}, nil
			})
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// Each statement of the page is run, in their order, on a queue with a document that
// waits, one that a killed worker had in hand, and three that were given up, of which one
// was produced again.
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
	tells := []string{"available 2\n", "2 acme dead it fails each time\n", "acme in hand gone_2026\n", "UPDATE 1", "UPDATE 1", "DELETE 1"}
	if len(statements) != len(tells) {
		t.Fatalf("%d statements, want %d", len(statements), len(tells))
	}

	q := open(t, nil)
	q.Send("waits", "dead", "in hand", "old", "again")
	q.exec(`UPDATE river_job SET state = 'discarded', attempt = 3, finalized_at = now(), errors = ARRAY['{"error": "it fails each time"}'::jsonb] WHERE id = 2`)
	q.exec("UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = ARRAY['other', 'gone_2026'] WHERE id = 3")
	q.exec("UPDATE river_job SET state = 'discarded', attempt = 3, finalized_at = now() - interval '1 year' WHERE id = 4")
	q.exec("UPDATE river_job SET state = 'discarded', attempt = 3, finalized_at = now() WHERE id = 5")
	q.Send("again")
	for i, statement := range statements {
		statement = strings.ReplaceAll(statement, "documents.river_job", q.options.Schema+".river_job")
		if got := q.exec(statement); !strings.Contains(got, tells[i]) {
			t.Errorf("%s\ntells %q, want %q", statement, got, tells[i])
		}
	}
	if states := q.text("SELECT string_agg(args->>'document' || ' is ' || state || ' for ' || (max_attempts - attempt), ', ' ORDER BY id) FROM river_job"); states != "waits is available for 3, dead is available for 3, in hand is available for 2, again is discarded for 0, again is available for 3" {
		t.Errorf("in the end %s", states)
	}
}

// opened is a queue in a schema of its own.
type opened struct {
	*Documents
	*trial.Bench
	t     *testing.T
	proxy *redistest.Proxy // of what Documents does; the test's own questions go around it
	own   *pgxpool.Pool
}

func open(t *testing.T, change func(*Options)) *opened {
	t.Helper()
	options, store := defaults(fmt.Sprint("schema_", schemas.Add(1))), new(trial.Store)
	if change != nil {
		change(options)
	}
	url := subject.Server(t)
	q := &opened{t: t, own: connect(t, url)}
	server := fmt.Sprintf("127.0.0.1:%d", q.own.Config().ConnConfig.Port)
	q.proxy = redistest.StartProxy(t, server)
	var err error
	if q.Documents, err = Open(t.Context(), connect(t, strings.Replace(url, server, q.proxy.Addr, 1)), store, options); err != nil {
		t.Fatal(err)
	}
	q.Bench = trial.NewBench(t, q.Documents, store)
	return q
}

var schemas atomic.Int32

func openWithResults(t *testing.T, backoff []time.Duration) *opened {
	t.Helper()
	q := open(t, func(o *Options) { o.Backoff = backoff })
	q.exec("CREATE TABLE results (document text)")
	return q
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

func defaults(schema string) *Options {
	return &Options{
		Schema: schema, Name: "documents", Workers: 4, Limit: time.Minute,
		Backoff: []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	}
}

// serveTx has process work until stop is called, or the test ends.
func (q *opened) serveTx(process func(context.Context) (Results, error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(q.t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- q.WorkTx(ctx, func(ctx context.Context, _, _ string, _ []byte) (Results, error) { return process(ctx) })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			q.t.Errorf("work: %v", err)
		}
	})
	q.t.Cleanup(stop)
	return stop
}

// result writes a document's.
func (q *opened) result(document string) Results {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+q.named("results")+" VALUES ($1)", document)
		return err
	}
}

// exec does a statement in the schema, around the proxy, and returns what it tells: its
// rows' values, and what it has done.
func (q *opened) exec(statement string) string {
	q.t.Helper()
	var told strings.Builder
	err := pgx.BeginFunc(q.t.Context(), q.own, func(tx pgx.Tx) error {
		if _, err := tx.Exec(q.t.Context(), "SET LOCAL search_path = "+q.options.Schema); err != nil {
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

func (q *opened) results() string { return q.text("SELECT count(*)::text FROM results") }

func (q *opened) pending(customer string) int64 {
	q.t.Helper()
	now, err := q.store.Peek(q.t.Context(), customer)
	if err != nil {
		q.t.Fatal(err)
	}
	return now.Pending
}
