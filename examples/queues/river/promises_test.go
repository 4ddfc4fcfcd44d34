package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// These are the promises that only River makes, or keeps in its own way.

func TestADocumentThatKillsItsWorkerEachTimeIsGivenUp(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	produce(t, d, "acme", "deadly")
	// This is what the third killed worker leaves behind.
	d.exec(t, "UPDATE river_job SET state = 'running', attempt = max_attempts, attempted_at = now() - interval '1 hour'")
	if d.pending(t, "acme") != 1 {
		t.Fatal("a document in hand is pending")
	}
	d.work(t, nothing)
	d.awaitDead(t, "deadly")
	d.awaitNothingPending(t, "acme")
}

func TestAPanicIsAFailedTry(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	produce(t, d, "acme", "panics")
	produce(t, d, "acme", "serves")
	var tries, served atomic.Int32
	told := &tookOfDone{Store: d.store}
	d.Documents.store = told
	d.work(t, func(_ context.Context, _, document string, _ []byte) error {
		if document == "panics" {
			tries.Add(1)
			panic("as it does each time")
		}
		served.Add(1)
		return nil
	})
	d.awaitDead(t, "panics")
	d.awaitNothingPending(t, "acme")
	if tries.Load() != 3 || served.Load() != 1 {
		t.Errorf("%d tries, and the other was served %d times", tries.Load(), served.Load())
	}
	if took, said := told.first.Load("panics"); !said || took == time.Duration(0) { // it is 0 where nobody worked on it
		t.Errorf("the worker itself said Done: %t, %v", said, took)
	}
}

// tookOfDone is a store that keeps what the first Done of each document said.
type tookOfDone struct {
	priority.Store
	first sync.Map
}

func (s *tookOfDone) Done(ctx context.Context, customer, document string, took time.Duration) error {
	s.first.LoadOrStore(document, took)
	return s.Store.Done(ctx, customer, document, took)
}

func TestADocumentHasItsLimit(t *testing.T) {
	t.Parallel()
	d := open(t, func(o *Options) { o.Limit = 20 * time.Minute }) // River's own is a minute
	produce(t, d, "acme", "long")
	left := make(chan time.Duration, 1)
	d.work(t, func(ctx context.Context, _, _ string, _ []byte) error {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return nil
	})
	if left := <-left; left < 19*time.Minute || left > 20*time.Minute {
		t.Errorf("%v are left", left)
	}
}

func TestADocumentThatTakesTooLongIsAFailedTry(t *testing.T) {
	t.Parallel()
	d := open(t, func(o *Options) { o.Limit = 100 * time.Millisecond })
	produce(t, d, "acme", "too long")
	var tries atomic.Int32
	d.work(t, func(ctx context.Context, _, _ string, _ []byte) error {
		tries.Add(1)
		<-ctx.Done()
		return ctx.Err()
	})
	d.awaitDead(t, "too long")
	d.awaitNothingPending(t, "acme")
	if reason := d.text(t, "SELECT errors[1]->>'error' FROM river_job"); tries.Load() != 3 || !strings.Contains(reason, "limit of 100ms") {
		t.Errorf("%d tries, the first failed with %q", tries.Load(), reason)
	}
}

func TestAFailedDocumentKeepsItsPriority(t *testing.T) {
	t.Parallel()
	d := open(t, func(o *Options) { o.Backoff = []time.Duration{time.Hour} })
	for number := range 40 {
		produce(t, d, "flood", fmt.Sprint(number))
	}
	given := d.text(t, "SELECT priority::text FROM river_job WHERE args->>'document' = '39'")
	if given == "1" {
		t.Fatal("a flood's last document has the first priority")
	}
	var first atomic.Bool
	d.work(t, func(_ context.Context, _, document string, _ []byte) error {
		if document == "39" && !first.Swap(true) {
			return errors.New("fails once")
		}
		return nil
	})
	redistest.Await(t, "the document waits for its retry", func() bool {
		return d.text(t, "SELECT max(priority)::text FROM river_job WHERE state = 'retryable'") == given
	})
}

func TestGivenUpDocumentsAreKeptAndCanBePutBack(t *testing.T) {
	t.Parallel()
	d := open(t, func(o *Options) { o.Backoff = nil })
	produce(t, d, "acme", "of last year")
	produce(t, d, "acme", "served last year")
	d.exec(t, `UPDATE river_job SET attempt = 1, finalized_at = now() - interval '1 year',
		state = CASE args->>'document' WHEN 'of last year' THEN 'discarded' ELSE 'completed' END::river_job_state`)
	served := make(chan string, 1)
	d.work(t, func(_ context.Context, _, document string, _ []byte) error {
		served <- document
		return nil
	})
	redistest.Await(t, "River has cleaned up", func() bool { return d.text(t, "SELECT count(*)::text FROM river_job") == "1" })
	d.awaitDead(t, "of last year")
	listed, err := d.client.JobList(t.Context(), d.jobs("discarded"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range listed.Jobs {
		if _, err := d.client.JobRetry(t.Context(), row.ID); err != nil {
			t.Fatal(err)
		}
	}
	if document := <-served; document != "of last year" {
		t.Errorf("%q was served", document)
	}
	d.awaitDead(t)
}

func TestAllGivenUpDocumentsAreListed(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	var documents []string
	for number := range 25 { // more than a page has
		documents = append(documents, fmt.Sprint(number))
		produce(t, d, "acme", documents[number])
	}
	d.exec(t, "UPDATE river_job SET state = 'discarded', finalized_at = now(), attempt = 3")
	d.awaitDead(t, documents...)
	d.work(t, nothing)
	d.awaitNothingPending(t, "acme")
}

func TestACancelledDocumentIsNotPending(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	produce(t, d, "acme", "cancelled")
	listed, err := d.client.JobList(t.Context(), d.jobs("available"))
	if err != nil || len(listed.Jobs) != 1 {
		t.Fatal(listed, err)
	}
	if _, err := d.client.JobCancel(t.Context(), listed.Jobs[0].ID); err != nil {
		t.Fatal(err)
	}
	d.work(t, nothing)
	d.awaitNothingPending(t, "acme")
}

func TestAShutdownWaitsForADocumentInHand(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	produce(t, d, "acme", "long")
	begun := make(chan struct{})
	var cut error
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- d.Work(ctx, func(ctx context.Context, _, _ string, _ []byte) error {
			close(begun)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			cut = ctx.Err()
			return cut
		})
	}()
	<-begun
	cancel()
	if err := <-ended; err != nil || cut != nil || d.text(t, "SELECT state::text FROM river_job") != "completed" {
		t.Errorf("work: %v; the document's context: %v", err, cut)
	}
}

func TestAShutdownGivesADocumentToOthersAfterTheGrace(t *testing.T) {
	t.Parallel()
	d := open(t, func(o *Options) { o.Grace, o.Backoff = 100*time.Millisecond, nil })
	produce(t, d, "acme", "long")
	begun := make(chan struct{})
	stop := d.work(t, func(ctx context.Context, _, _ string, _ []byte) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	<-begun
	stop()
	if pending := d.pending(t, "acme"); pending != 1 {
		t.Errorf("%d are pending of a document that waits", pending)
	}
	served := make(chan struct{})
	d.work(t, func(context.Context, string, string, []byte) error { // it was no failed try: there is only one
		close(served)
		return nil
	})
	<-served
	d.awaitNothingPending(t, "acme")
}

func TestAGivenUpDocumentThatWasProducedAgainIsPending(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	produce(t, d, "acme", "invoice")
	d.exec(t, "UPDATE river_job SET state = 'discarded', finalized_at = now(), attempt = 3")
	produce(t, d, "acme", "invoice")
	yesterday := time.Now().Add(-24 * time.Hour) // since then, when a worker starts
	if said := d.sayDone(t.Context(), yesterday); !said || d.pending(t, "acme") != 1 {
		t.Errorf("%d are pending of a document that waits; %t", d.pending(t, "acme"), said)
	}
	d.exec(t, "UPDATE river_job SET state = 'discarded', finalized_at = now(), attempt = 3")
	if said := d.sayDone(t.Context(), yesterday); !said || d.pending(t, "acme") != 0 {
		t.Errorf("%d are pending of a document that was given up; %t", d.pending(t, "acme"), said)
	}
}

func TestADocumentIsInsertedOnceWhenTheReplyIsLost(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	d.exec(t, "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$")
	d.exec(t, "CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON river_job DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()")
	commit, err := d.own.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := commit.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)"); err != nil {
		t.Fatal(err)
	}
	produced := make(chan error)
	go func() { produced <- d.Produce(t.Context(), "acme", "once", nil) }()
	redistest.Await(t, "PostgreSQL is about to commit the document", func() bool {
		return d.text(t, "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == "1"
	})
	d.proxy.Set(redistest.Cut)
	if err := commit.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "PostgreSQL has the document", func() bool { return d.text(t, "SELECT count(*)::text FROM river_job") == "1" })
	d.proxy.Set(redistest.None)
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	if jobs := d.text(t, "SELECT count(*)::text FROM river_job"); jobs != "1" {
		t.Errorf("%s jobs", jobs)
	}
}

func TestADocumentThatWasServedIsNotServedAgain(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	served := make(chan string, 10)
	d.work(t, func(_ context.Context, _, document string, _ []byte) error {
		served <- document
		return nil
	})
	produce(t, d, "acme", "once")
	<-served
	redistest.Await(t, "the job is completed", func() bool { return d.text(t, "SELECT state::text FROM river_job") == "completed" })
	produce(t, d, "acme", "once")
	d.awaitNothingPending(t, "acme")
	produce(t, d, "acme", "another")
	if document := <-served; document != "another" {
		t.Errorf("%q was served again", document)
	}
}

func TestARolledBackTransactionLeavesNoDocument(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	for document, commit := range map[string]bool{"kept": true, "undone": false} {
		tx, err := d.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.ProduceTx(t.Context(), tx, document+"'s customer", document, nil); err != nil {
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
	if d.pending(t, "undone's customer") != 1 { // as its comment says
		t.Error("the document is not pending")
	}
	served := make(chan string, 2)
	d.work(t, func(_ context.Context, _, document string, _ []byte) error {
		served <- document
		return nil
	})
	if document := <-served; document != "kept" {
		t.Errorf("%q was served", document)
	}
	d.awaitNothingPending(t, "kept's customer")

	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = tx.Exec(t.Context(), "no SQL") // the transaction is over
	if err := d.ProduceTx(t.Context(), tx, "failed's customer", "failed", nil); err == nil {
		t.Error("no error in a transaction that has failed")
	}
	_ = tx.Rollback(t.Context())
	d.awaitNothingPending(t, "failed's customer")
}

func TestHostileNamesComeBackUnchanged(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	names := []string{"a\nb", `"quoted" 'twice'`, `\u0000`, "{a}:%7D", "🗎 Ж", "<&>", " ", "\x7f\x01", "\u2028", strings.Repeat("ü", 256)}
	type served struct{ customer, document, body string }
	came := make(chan served, len(names))
	body := "\x00\xff not text"
	for _, name := range names {
		if err := d.Produce(t.Context(), name, name, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	d.work(t, func(_ context.Context, customer, document string, body []byte) error {
		came <- served{customer, document, string(body)}
		return nil
	})
	for range names {
		if s := <-came; s.customer != s.document || !slices.Contains(names, s.document) || s.body != body {
			t.Errorf("%q", s)
		}
	}
	for _, name := range names {
		d.awaitNothingPending(t, name)
	}
}

func TestANameThatJSONCannotCarryIsRefused(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	for _, name := range []string{"\x00", "a\x00b", "\xff", "caf\xe9"} {
		if err := d.Produce(t.Context(), name, "document", nil); !errors.Is(err, priority.ErrInvalidCustomer) {
			t.Errorf("customer %q: %v", name, err)
		}
		if err := d.Produce(t.Context(), "acme", name, nil); !errors.Is(err, priority.ErrInvalidDocument) {
			t.Errorf("document %q: %v", name, err)
		}
	}
	if err := d.Produce(t.Context(), "acme", "large", make([]byte, MaxBody+1)); err == nil {
		t.Error("a body that is too large was taken")
	}
	if now, err := d.store.Peek(t.Context(), "acme"); err != nil || now.ResetIn != 0 {
		t.Errorf("something was counted: %+v, %v", now, err)
	}
	if err := d.Produce(t.Context(), "acme", "largest", make([]byte, MaxBody)); err != nil {
		t.Error(err)
	}
}

func TestProducersAndConsumersWaitForTheServer(t *testing.T) {
	t.Parallel()
	own, err := server.StartPostgres(t.Context())
	skipIfMissing(t, err)
	t.Cleanup(own.Stop)
	d := openAt(t, own.URL, nil)
	own.Kill()
	d.work(t, nothing)() // a shutdown does not wait for a server
	produced := make(chan error)
	go func() { produced <- d.Produce(t.Context(), "acme", "patient", nil) }()
	served := make(chan struct{})
	d.work(t, func(context.Context, string, string, []byte) error {
		close(served)
		return nil
	})
	impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := d.Produce(impatient, "acme", "impatient", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("produce: %v", err)
	}
	if err := own.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	<-served
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

func TestAQueueNeedsNoLogger(t *testing.T) {
	t.Parallel()
	d := open(t, func(o *Options) { o.Logger = nil })
	d.proxy.Set(redistest.Cut)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := d.Produce(ctx, "acme", "during an outage", nil); !errors.Is(err, context.DeadlineExceeded) { // it warns, and goes on
		t.Error(err)
	}
}

func TestWhatTheStoreDidNotCountIsNotQueued(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	d.Documents.store = deafStore{d.store}
	if err := d.Produce(t.Context(), "acme", "invoice", nil); !errors.Is(err, errDeaf) {
		t.Errorf("produce: %v", err)
	}
	if jobs := d.text(t, "SELECT count(*)::text FROM river_job"); jobs != "0" {
		t.Errorf("%s jobs", jobs)
	}
}

type deafStore struct{ priority.Store }

var errDeaf = errors.New("no answer")

func (deafStore) Submit(context.Context, string, string) (priority.Decision, error) {
	return priority.Decision{}, errDeaf
}

func TestProcessesMayOpenTogether(t *testing.T) {
	t.Parallel()
	url := startPostgres(t)
	options := *open(t, nil).options
	options.Schema = schema()
	var together sync.WaitGroup
	for range 8 {
		together.Go(func() {
			pool, err := pgxpool.New(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer pool.Close()
			if _, err := Open(t.Context(), pool, new(memory.Store), &options); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
}

// The idempotent consumer: results and the job's end are one transaction.

func TestResultsAreWrittenOnceByAKilledWorkersSuccessor(t *testing.T) {
	t.Parallel()
	d := openWithResults(t)
	produce(t, d, "acme", "invoice")

	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(executable)
	killed.Env = append(os.Environ(), accountantsURL+"="+d.url, accountantsSchema+"="+d.options.Schema)
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
	if rows := d.text(t, "SELECT count(*)::text FROM results"); rows != "0" {
		t.Fatalf("%s results of a worker that was killed before the end of its transaction", rows)
	}

	// The rescuer comes by when somebody begins to lead, and then every 30 s.
	redistest.Await(t, "the document is overdue, and the killed worker leads no more", func() bool {
		overdue := fmt.Sprintf("SELECT count(*)::text FROM river_job WHERE attempted_at < now() - interval '%v'", d.options.Limit+slack)
		return d.text(t, overdue) == "1" && d.text(t, "SELECT count(*)::text FROM river_leader WHERE expires_at > now()") == "0"
	})
	d.workTx(t, func(context.Context, string, string, []byte) (Results, error) { return d.result("invoice"), nil })
	redistest.Await(t, "the document is served", func() bool { return d.text(t, "SELECT state::text FROM river_job") == "completed" })
	if rows := d.text(t, "SELECT count(*)::text FROM results"); rows != "1" {
		t.Errorf("%s results", rows)
	}
}

func TestTheFirstToEndEndsADocumentThatTwoWorkersHave(t *testing.T) {
	t.Parallel()
	for _, firstIsLate := range []bool{true, false} {
		for _, writes := range []bool{true, false} {
			t.Run(fmt.Sprintf("first is late %t, writes results %t", firstIsLate, writes), func(t *testing.T) {
				t.Parallel()
				d := openWithResults(t)
				d.options.Backoff = slices.Repeat([]time.Duration{0}, 9)
				produce(t, d, "acme", "invoice")
				completed := func() bool { return d.text(t, "SELECT state::text FROM river_job") == "completed" }
				var tries, ended atomic.Int32
				secondBegins := make(chan struct{})
				stop := d.workTx(t, func(context.Context, string, string, []byte) (Results, error) {
					defer ended.Add(1)
					late := firstIsLate
					switch tries.Add(1) {
					case 1: // the rescuer comes, and then this one goes on
						d.exec(t, "UPDATE river_job SET state = 'available', scheduled_at = now()")
						<-secondBegins
					case 2:
						close(secondBegins)
						late = !firstIsLate
					}
					if late {
						redistest.Await(t, "the other is done", completed)
					}
					if !writes {
						return nil, nil
					}
					return d.result("invoice"), nil
				})
				redistest.Await(t, "the document is served", completed)
				redistest.Await(t, "both have come to their end", func() bool { return ended.Load() >= 2 })
				stop()
				if rows := d.text(t, "SELECT count(*)::text FROM results"); writes && rows != "1" {
					t.Errorf("%s results", rows)
				}
				if tries.Load() != 2 || !completed() {
					t.Errorf("%d tries, and the job is %s", tries.Load(), d.text(t, "SELECT state::text FROM river_job"))
				}
				if pending := d.pending(t, "acme"); pending != 0 {
					t.Errorf("%d are pending", pending)
				}
			})
		}
	}
}

func TestResultsThatCannotBeWrittenAreAFailedTry(t *testing.T) {
	t.Parallel()
	d := openWithResults(t)
	produce(t, d, "acme", "invoice")
	var tries atomic.Int32
	d.workTx(t, func(context.Context, string, string, []byte) (Results, error) {
		if tries.Add(1) == 1 {
			return func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO nowhere VALUES (1)")
				return err
			}, nil
		}
		return d.result("invoice"), nil
	})
	redistest.Await(t, "the document is served", func() bool { return d.text(t, "SELECT count(*)::text FROM results") == "1" })
	d.awaitNothingPending(t, "acme")
}

func TestADocumentIsPendingUntilItsResultsAreWritten(t *testing.T) {
	t.Parallel()
	d := openWithResults(t)
	d.options.Backoff = []time.Duration{time.Hour}
	produce(t, d, "acme", "invoice")
	d.workTx(t, func(context.Context, string, string, []byte) (Results, error) {
		return func(context.Context, pgx.Tx) error { return errors.New("no room") }, nil
	})
	redistest.Await(t, "the try has failed", func() bool { return d.text(t, "SELECT state::text FROM river_job") == "retryable" })
	if pending := d.pending(t, "acme"); pending != 1 {
		t.Errorf("%d are pending", pending)
	}
}

// In a worker's environment: it writes its results, and never comes to the end.
const accountantsURL, accountantsSchema = "RIVER_TEST_ACCOUNTANT_URL", "RIVER_TEST_ACCOUNTANT_SCHEMA"

func accountant(url string) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err == nil {
		d := &opening{url: url}
		d.Documents, err = Open(ctx, pool, new(memory.Store), defaults(os.Getenv(accountantsSchema)))
		if err == nil {
			err = d.WorkTx(ctx, func(context.Context, string, string, []byte) (Results, error) {
				return func(ctx context.Context, tx pgx.Tx) error {
					if err := d.result("invoice")(ctx, tx); err != nil {
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
