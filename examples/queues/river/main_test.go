package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/flood"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/servertest"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const expected = `archive uploads 60 documents, then bakery 3 and clinic 6; then a worker starts.

In River the levels 1 to 9 are the priorities 1 1 1 2 2 2 3 3 4.

served as no.  with the module        served as no.  without it
      1 to  7  archive 1 to 7               1 to 60  archive 1 to 60
      8 to 10  bakery 1 to 3               61 to 63  bakery 1 to 3
     11 to 16  clinic 1 to 6               64 to 69  clinic 1 to 6
     17 to 69  archive 8 to 60
`

func TestRun(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), "", &out)
	servertest.SkipIfMissing(t, err)
	if err != nil || out.String() != expected {
		t.Errorf("error %v, output\n%s\nwant\n%s", err, out.String(), expected)
	}
}

func TestOrder(t *testing.T) {
	url := servertest.Start(t, server.StartPostgres)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	schema, removeSchema, err := migrate(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range servertest.Policies {
		d := openTest(t, pool, schema, last)
		documents := servertest.Documents(last)
		for _, document := range documents {
			if err := d.add(t.Context(), document.Level, document.String()); err != nil {
				t.Fatal(err)
			}
		}
		served, err := flood.Collect(t.Context(), len(documents), d.consume)
		if err != nil {
			t.Fatal(err)
		}
		servertest.CheckOrder(t, last, 4, served)
	}

	t.Run("an urgent document overtakes", func(t *testing.T) {
		d, err := open(pool, schema, "overtaking", 9)
		if err != nil {
			t.Fatal(err)
		}
		servertest.CheckOvertaking(t, d.add, d.consume)
	})

	t.Run("a document that failed keeps its priority", func(t *testing.T) {
		d := openTest(t, pool, schema, 30)
		for level, document := range map[priority.Level]string{11: "fails", 30: "is last"} {
			if err := d.add(t.Context(), level, document); err != nil {
				t.Fatal(err)
			}
		}
		query := "SELECT priority, state FROM " + pgx.Identifier{schema, "river_job"}.Sanitize() + " WHERE args->>'document' = 'fails'"
		var kept int
		_, err := flood.Collect(t.Context(), 1, func(ctx context.Context, process func(string) error) error {
			return d.consume(ctx, func(document string) error {
				if document == "fails" {
					return errors.New("failed")
				}
				redistest.Await(t, "the job waits for its retry", func() bool {
					var state string
					err := pool.QueryRow(ctx, query).Scan(&kept, &state)
					return err == nil && (state == "retryable" || state == "available")
				})
				return process(document)
			})
		})
		if err != nil || kept != 2 {
			t.Errorf("priority %d, error %v; want 2", kept, err)
		}
	})

	t.Run("nothing is left", func(t *testing.T) {
		if err := run(t.Context(), url, &strings.Builder{}); err != nil {
			t.Fatal(err)
		}
		if err := removeSchema(); err != nil {
			t.Fatal(err)
		}
		var left int
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'priority%'").Scan(&left)
		if err != nil || left > 0 {
			t.Errorf("%d schemas, error %v", left, err)
		}
	})
}

func openTest(t *testing.T, pool *pgxpool.Pool, schema string, last priority.Level) *documents {
	t.Helper()
	d, err := open(pool, schema, fmt.Sprint("policy-", last), last)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
