package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/docpriority/priority/priorityotel"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// Process works on a document until it is done or the context ends: at the Limit,
// or when a shutdown has waited for the Grace. With an error, or a panic, the document
// is tried again later.
type Process = func(ctx context.Context, customer, document string, body []byte) error

// Results writes what came of a document into the database of the queue. It is
// called once the work is done, in the transaction that ends the job.
type Results = func(ctx context.Context, tx pgx.Tx) error

// ProcessTx is a Process with results.
type ProcessTx = func(ctx context.Context, customer, document string, body []byte) (Results, error)

const settleEvery = 10 * time.Second

// Work has process work on documents until the context ends, and on those that it
// has in hand to their end. It goes on through every trouble of PostgreSQL.
func (d *Documents) Work(ctx context.Context, process Process) error {
	return d.WorkTx(ctx, func(ctx context.Context, customer, document string, body []byte) (Results, error) {
		return nil, process(ctx, customer, document, body)
	})
}

// WorkTx is Work for results that are kept in the database of the queue: they are
// written exactly once, however often a document has to be worked on.
func (d *Documents) WorkTx(ctx context.Context, process ProcessTx) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, j *river.Job[job]) error {
		return d.serve(ctx, j, process)
	}))
	client, err := river.NewClient(riverpgxv5.New(d.pool), config(d.options, workers))
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	for err := d.start(ctx, client); err != nil; err = d.start(ctx, client) {
		d.options.Logger.Warn("no document can be fetched yet", "error", err)
		if sleep(ctx, pause) != nil {
			return nil
		}
	}
	since := d.settle(ctx)
	err = client.Stop(context.WithoutCancel(ctx))
	d.sayDone(context.WithoutCancel(ctx), since)
	return err
}

// start begins to work. The client is not to see the context's end: to River that is
// to stop without waiting for the documents in hand.
func (d *Documents) start(ctx context.Context, client *river.Client[pgx.Tx]) error {
	if err := d.pool.Ping(ctx); err != nil {
		return err
	}
	return client.Start(context.WithoutCancel(ctx))
}

// serve works on one document, and says Done before River knows of its end: a crash
// in between repeats the document, but leaves nothing pending.
func (d *Documents) serve(ctx context.Context, j *river.Job[job], process ProcessTx) (err error) {
	var beside metadata
	_ = json.Unmarshal(j.Metadata, &beside) // it may be another's
	ctx, end := priorityotel.StartProcess(ctx, system, d.options.Name, beside.Trace)
	defer func() { end(err) }()
	began := time.Now()
	served := false
	defer func() { // it is given up, by an error or a panic. At the end of the Grace it may not be: settle knows
		if !served && j.Attempt >= j.MaxAttempts && !errors.Is(ctx.Err(), context.Canceled) {
			d.done(ctx, j.Args, time.Since(began))
		}
	}()
	results, err := process(ctx, j.Args.Customer, j.Args.Document, j.Args.Body)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("not done within the limit of %v: %w", d.options.Limit, err)
	case err != nil:
		return err
	}
	took := time.Since(began)
	if results == nil {
		served = true
		d.done(ctx, j.Args, took)
	}
	err = d.complete(ctx, j, results, took)
	served = served || err == nil
	return err
}

// errLost: while this worker was at it, another one has ended the job, or River has
// taken it back and not given it to another one yet.
var errLost = errors.New("the document took so long that it was taken for lost")

// complete ends the job at once, together with its results. Where two workers have the
// document, the first to come here ends it: River itself does not look whose job it ends.
func (d *Documents) complete(ctx context.Context, j *river.Job[job], results Results, took time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slack)
	defer cancel()
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		var running bool // until the commit the row is this one's
		row := tx.QueryRow(ctx, "SELECT state = 'running' FROM "+d.named("river_job")+" WHERE id = $1 FOR UPDATE", j.ID)
		if err := row.Scan(&running); err != nil {
			return err
		}
		if !running {
			return errLost
		}
		if results != nil {
			if err := results(ctx, tx); err != nil {
				return err
			}
		}
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j); err != nil {
			return err
		}
		if results != nil { // now they are certain to be there, if the commit succeeds
			d.done(ctx, j.Args, took)
		}
		return nil
	})
	if err != nil && results == nil {
		d.options.Logger.Warn("a served document is confirmed later", "job", j.ID, "error", err)
		return nil // River completes the job when it can, if it is running: nothing but that is open
	}
	return err
}

// done says Done to the store.
func (d *Documents) done(ctx context.Context, of job, took time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := d.store.Done(ctx, of.Customer, of.Document, took); err != nil {
		d.options.Logger.Warn("a document counts as pending until its lease ends", "customer", of.Customer, "document", of.Document, "error", err)
	}
}

// settle says Done, until the context ends, for the documents that come to an end
// outside of any worker, of which River tells nobody: its rescuer discards one that
// has killed its worker at its last try, and operators cancel jobs. It returns until
// when it has done so.
func (d *Documents) settle(ctx context.Context) (since time.Time) {
	since = time.Now().Add(-24 * time.Hour) // no lease is longer
	for {
		now := time.Now()
		if d.sayDone(ctx, since) {
			since = now.Add(-time.Minute) // clocks differ; Done may be said twice
		}
		if sleep(ctx, settleEvery) != nil {
			return since
		}
	}
}

// sayDone says Done for the documents that ended without success since a time, and
// were not produced again: of those there is a job that blocks a third one.
func (d *Documents) sayDone(ctx context.Context, since time.Time) bool {
	ended := d.jobs(rivertype.JobStateDiscarded, rivertype.JobStateCancelled).
		Where("finalized_at > @since", river.NamedArgs{"since": since}).
		Where("NOT EXISTS (SELECT 1 FROM " + d.named("river_job") + " again WHERE again.unique_key = river_job.unique_key" +
			" AND again.unique_states IS NOT NULL AND " + d.named("river_job_state_in_bitmask") + "(again.unique_states, again.state))")
	err := d.list(ctx, ended, func(of job) { d.done(ctx, of, 0) })
	if err != nil && ctx.Err() == nil {
		d.options.Logger.Warn("given-up documents may count as pending", "error", err)
	}
	return err == nil
}

// named is the full name of what River has in the schema.
func (d *Documents) named(name string) string {
	return pgx.Identifier{d.options.Schema, name}.Sanitize()
}

// backoff is a river.ClientRetryPolicy.
type backoff []time.Duration

// NextRetry is asked by River's rescuer even after the last try.
func (b backoff) NextRetry(row *rivertype.JobRow) time.Time {
	if len(b) == 0 {
		return time.Now()
	}
	return time.Now().Add(b[min(max(row.Attempt, 1), len(b))-1])
}
