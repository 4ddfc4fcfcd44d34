package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

func TestPromises(t *testing.T) { trial.Run(t, subject) }

var subject = &trial.Subject{
	Example: example,
	Flags:   []string{"-schema", "NAME", "-limit", "3s"},
	More: map[string][]string{
		"AKilledWorkersDocumentsAreServedByOthers": {"-limit", "9s"}, // three times what the document in hand takes
		"ALongDocumentIsBegunOnce":                 {"-limit", "45s"},
	},
	Classes: 4,
	Long:    32 * time.Second, // River's rescuer comes by meanwhile, every 30 s
	Refuses: func(name string) bool { return !utf8.ValidString(name) || strings.ContainsRune(name, 0) },
	Expire:  expire,
}

// expire has the documents in hand be overdue, and the next worker that starts look for
// them at once: River's rescuer comes by when somebody begins to lead.
func expire(tb testing.TB, url, name string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(tb.Context()))
	for _, statement := range []string{
		"SET search_path = " + pgx.Identifier{strings.ToLower(name)}.Sanitize(),
		"UPDATE river_job SET attempted_at = now() - interval '1 hour' WHERE state = 'running'",
		"DELETE FROM river_leader",
	} {
		if _, err := conn.Exec(tb.Context(), statement); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestAWrongAddressIsSaid(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://nobody@127.0.0.1:1/none": "connection refused",
		"postgres://127.0.0.1:no-port/none":  "invalid port",
		"no address":                         "cannot parse",
		subject.Server(t) + "&user=nobody":   `role "nobody" does not exist`,
	} {
		err := program.Run(t.Context(), example(), []string{"work", "-url", url, "-redis", "redis://127.0.0.1:1"}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
