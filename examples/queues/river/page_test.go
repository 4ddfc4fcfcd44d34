package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Each statement of the page is run, in their order, on a queue with a document that
// waits, one that a killed worker had in hand, and three that were given up, of which one
// was produced again.
func TestTheLinesOfThePageDoWhatTheySay(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/queues/river.md")
	if err != nil {
		t.Fatal(err)
	}
	var statements []string
	for _, block := range regexp.MustCompile("(?ms)^```sql\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		for statement := range strings.SplitSeq(strings.TrimSpace(block[1]), ";") {
			if statement != "" {
				statements = append(statements, statement)
			}
		}
	}
	tells := []string{"available 2\n", "2 acme dead it fails each time\n", "acme in hand gone_2026\n", "UPDATE 1", "UPDATE 1", "DELETE 1"}
	if len(statements) != len(tells) {
		t.Fatalf("%d statements, want %d", len(statements), len(tells))
	}

	d := open(t, nil)
	for _, document := range []string{"waits", "dead", "in hand", "old", "again"} {
		produce(t, d, "acme", document)
	}
	d.exec(t, `UPDATE river_job SET state = 'discarded', attempt = 3, finalized_at = now(), errors = ARRAY['{"error": "it fails each time"}'::jsonb] WHERE id = 2`)
	d.exec(t, "UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = ARRAY['other', 'gone_2026'] WHERE id = 3")
	d.exec(t, "UPDATE river_job SET state = 'discarded', attempt = 3, finalized_at = now() - interval '1 year' WHERE id = 4")
	d.exec(t, "UPDATE river_job SET state = 'discarded', attempt = 3, finalized_at = now() WHERE id = 5")
	produce(t, d, "acme", "again")
	for i, statement := range statements {
		statement = strings.ReplaceAll(statement, "documents.river_job", d.options.Schema+".river_job")
		if got := told(t, d, statement); !strings.Contains(got, tells[i]) {
			t.Errorf("%s\ntells %q, want %q", statement, got, tells[i])
		}
	}
	if states := d.text(t, "SELECT string_agg(args->>'document' || ' is ' || state || ' for ' || (max_attempts - attempt), ', ' ORDER BY id) FROM river_job"); states != "waits is available for 3, dead is available for 3, in hand is available for 2, again is discarded for 0, again is available for 3" {
		t.Errorf("in the end %s", states)
	}
}

// told returns what a statement tells: its rows' values, and what it has done.
func told(t *testing.T, d *opening, statement string) string {
	t.Helper()
	var text strings.Builder
	err := d.inSchema(t, func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), statement)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return err
			}
			fmt.Fprintln(&text, values...)
		}
		text.WriteString(rows.CommandTag().String())
		return rows.Err()
	})
	if err != nil {
		t.Errorf("%s: %v", statement, err)
	}
	return text.String()
}
