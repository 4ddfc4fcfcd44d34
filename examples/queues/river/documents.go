package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/docpriority/priority"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// Options of a queue. Producers and consumers have the same.
type Options struct {
	Schema  string          // of PostgreSQL, with River's tables. Its own: one consumer's Limit holds for all jobs in it
	Name    string          // of River's queue: small letters and digits, with "-" or "_" between them
	Workers int             // documents at a time in this process
	Limit   time.Duration   // how long a document may take, above 0. A killed worker's documents wait for as long
	Grace   time.Duration   // how long a shutdown waits for documents in hand before it gives them to others; 0: to their end
	Backoff []time.Duration // how long a document waits after its first failure, after its second, …; then it is given up
	Logger  *slog.Logger    // nil: slog.Default
}

// Documents is a queue of River. Levels are the priorities of its jobs.
type Documents struct {
	pool    *pgxpool.Pool
	store   priority.Store
	options *Options
	client  *river.Client[pgx.Tx] // to insert and to look; it is never started
}

const (
	patience  = 5 * time.Second        // for one answer of PostgreSQL
	pause     = 500 * time.Millisecond // before the same is tried again
	openTries = 5

	// slack is how long after the Limit a document that has not come to an end is taken
	// for a killed worker's: what ends in time has so long to be confirmed.
	slack = 2 * patience
)

// job is a document in River's table. Customer and document make it unique.
type job struct {
	Customer string `json:"customer" river:"unique"`
	Document string `json:"document" river:"unique"`
	Body     []byte `json:"body"`
}

// Kind names the jobs in River's table.
func (job) Kind() string { return "document" }

// Open creates River's tables where they do not exist, or are those of an earlier
// version. Where the program may not, "river migrate-up" has to come first.
func Open(ctx context.Context, pool *pgxpool.Pool, store priority.Store, options *Options) (*Documents, error) {
	options, err := checked(pool, options)
	if err != nil {
		return nil, fmt.Errorf("river: %w: %w", priority.ErrInvalidOption, err)
	}
	driver := riverpgxv5.New(pool)
	client, err := river.NewClient(driver, config(options, river.NewWorkers()))
	if err != nil {
		return nil, fmt.Errorf("river: %w: %w", priority.ErrInvalidOption, err)
	}
	for try := 1; ; try++ { // PostgreSQL may be starting again; a wrong address is to be told soon
		err := migrate(ctx, pool, driver, options)
		if err == nil {
			break
		}
		if try == openTries || sleep(ctx, pause) != nil {
			return nil, fmt.Errorf("river: the tables in schema %s: %w", options.Schema, err)
		}
	}
	return &Documents{pool, store, options, client}, nil
}

// checked returns a copy of the options, or why they cannot work. River itself checks
// how names are written.
func checked(pool *pgxpool.Pool, options *Options) (*Options, error) {
	if options == nil {
		return nil, errors.New("there are no Options")
	}
	own := *options
	own.Logger = cmp.Or(own.Logger, slog.Default())
	switch {
	case own.Schema == "":
		return nil, errors.New("the Schema is empty")
	case own.Name == "":
		return nil, errors.New("the Name is empty")
	case own.Workers < 1:
		return nil, fmt.Errorf("the number of Workers is %d, less than 1", own.Workers)
	case own.Limit <= 0:
		return nil, fmt.Errorf("the Limit is %v, not above 0", own.Limit)
	case own.Grace < 0:
		return nil, fmt.Errorf("the Grace is %v, less than 0", own.Grace)
	case pool.Config().MaxConns < 2: // one connection is kept to listen
		return nil, errors.New("the pool has MaxConns 1, less than 2")
	}
	return &own, nil
}

// config is how documents are worked on.
func config(options *Options, workers *river.Workers) *river.Config {
	return &river.Config{
		Schema:              options.Schema,
		Queues:              map[string]river.QueueConfig{options.Name: {MaxWorkers: options.Workers}},
		Workers:             workers,
		SkipUnknownJobCheck: true,                  // producers have no workers
		FetchCooldown:       10 * time.Millisecond, // River's 100 ms leave workers idle between short documents

		JobTimeout:                  options.Limit, // else a minute
		RescueStuckJobsAfter:        options.Limit + slack,
		RetryPolicy:                 backoff(options.Backoff),
		DiscardedJobRetentionPeriod: -1, // else given-up documents are gone after a week
		SoftStopTimeout:             options.Grace,
		Logger:                      options.Logger,
	}
}

func migrate(ctx context.Context, pool *pgxpool.Pool, driver *riverpgxv5.Driver, options *Options) error {
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: options.Schema, Logger: options.Logger})
	if err != nil {
		return err
	}
	if found, err := migrator.Validate(ctx, nil); err != nil || found.OK {
		return err
	}
	lock := fnv.New64a() // processes that start together: the others wait here, and find the tables
	lock.Write([]byte("river migrate " + options.Schema))
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lock.Sum64())); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{options.Schema}.Sanitize()); err != nil {
			return err
		}
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	})
}

// Dead returns the documents that were given up. River calls them discarded, and
// has the reason of each failure in their errors.
func (d *Documents) Dead(ctx context.Context) ([]string, error) {
	var dead []string
	err := d.list(ctx, d.jobs(rivertype.JobStateDiscarded), func(of job) { dead = append(dead, of.Document) })
	return dead, err
}

// jobs selects those of the queue in any of the states.
func (d *Documents) jobs(states ...rivertype.JobState) *river.JobListParams {
	return river.NewJobListParams().Queues(d.options.Name).Kinds(job{}.Kind()).States(states...)
}

// list calls each for all selected jobs.
func (d *Documents) list(ctx context.Context, selected *river.JobListParams, each func(job)) error {
	for page := selected.First(10); ; { // of up to MaxBody each, within the patience
		try, cancel := context.WithTimeout(ctx, patience)
		found, err := d.client.JobList(try, page)
		cancel()
		if err != nil {
			return fmt.Errorf("river: list %s: %w", d.options.Name, err)
		}
		for _, row := range found.Jobs {
			var of job
			if err := json.Unmarshal(row.EncodedArgs, &of); err != nil {
				d.options.Logger.Warn("a job is not a document", "job", row.ID, "error", err)
				continue
			}
			each(of)
		}
		if found.LastCursor == nil {
			return nil
		}
		page = page.After(found.LastCursor)
	}
}

// Remove deletes the queue and all that is in it, but for jobs that a killed worker
// has left running. River's tables stay.
func (d *Documents) Remove(ctx context.Context) error {
	for {
		deleted, err := d.client.JobDeleteMany(ctx, river.NewJobDeleteManyParams().Queues(d.options.Name).First(1000))
		if err != nil {
			return fmt.Errorf("river: remove %s: %w", d.options.Name, err)
		}
		if len(deleted.Jobs) == 0 {
			return nil // River itself deletes the empty queue's line after a day
		}
	}
}

// Close does nothing: the pool is the caller's.
func (d *Documents) Close() error { return nil }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
