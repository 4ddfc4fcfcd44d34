package insight_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
)

func TestPassesCountWhatCameBetweenThem(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, tiered("team"))
	next := func(customer string, n int) {
		t.Helper()
		if _, err := inspector.Store.NextN(t.Context(), customer, n); err != nil {
			t.Fatal(err)
		}
	}
	survey := insight.NewSurvey(insight.SurveyOptions{Busiest: 2})
	pass := func() insight.Snapshot {
		t.Helper()
		if done, err := survey.Advance(t.Context(), inspector, time.Time{}); !done || err != nil || survey.Midway() {
			t.Fatalf("the pass is done: %v, %v", done, err)
		}
		return survey.Last()
	}
	next("acme", 30)
	next("bakery", 1)
	next("gold mine", 50)
	client.Set(t.Context(), "team:{bad}:count", "x", 0)
	first := pass()
	// By the policy of others, 50 documents would be at the last level too.
	if first.Levels[8] != (insight.LevelLoad{Level: 9, Customers: 1, Documents: 9}) || first.Levels[0] != (insight.LevelLoad{Level: 1, Customers: 2, Documents: 54}) {
		t.Errorf("got %+v", first.Levels)
	}
	if want := "3 customers, 81 documents since their resets, 1 key corrupt"; survey.Status() != want {
		t.Errorf("got %s", survey.Status())
	}
	if len(first.Busiest) != 2 || first.Busiest[0].Customer != "acme" || first.Busiest[0].Documents != 30 || first.Busiest[1].Customer != "gold mine" {
		t.Errorf("got %+v", first.Busiest)
	}
	before, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}

	next("acme", 2)
	next("new", 3)
	second := pass()
	if second.Busiest[0].Customer != "acme" || second.Busiest[0].Documents != 2 || second.Busiest[1].Customer != "new" || second.Since <= 0 || !strings.HasPrefix(second.String(), "4 customers, 5 documents in the last ") {
		t.Errorf("got %+v, %s", second, second)
	}
	if after, err := json.Marshal(first); err != nil || string(after) != string(before) {
		t.Errorf("the first snapshot has changed: %s", after)
	}
}

// Those who submit are counted by their loads, once each, whatever keys they have.
func TestAPassHasThoseWhoAreCountedByLoad(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, priority.RedisOptions{})
	submit := func(customer string, n int) {
		t.Helper()
		documents := make([]string, n)
		for i := range documents {
			documents[i] = fmt.Sprint(i)
		}
		if _, err := inspector.Store.SubmitN(t.Context(), customer, documents, nil); err != nil {
			t.Fatal(err)
		}
	}
	survey := insight.NewSurvey(insight.SurveyOptions{Busiest: 2})
	pass := func(want string) insight.Snapshot {
		t.Helper()
		if done, err := survey.Advance(t.Context(), inspector, time.Time{}); !done || err != nil {
			t.Fatalf("the pass is done: %v, %v", done, err)
		}
		if got := survey.Last(); got.String() != want {
			t.Errorf("got %s, not %s", got, want)
		}
		return survey.Last()
	}
	submit("clinic", 11)
	submit("hospital", 14)
	submit("quiet", 3)
	if err := inspector.Store.DoneN(t.Context(), "quiet", []string{"0", "1", "2"}, 0); err != nil {
		t.Fatal(err)
	}
	got := pass("3 customers, 25 pending")
	if len(got.Busiest) != 2 || got.Busiest[0].Customer != "hospital" || got.Busiest[1].Customer != "clinic" || got.Busiest[0].Load < 100 || got.ByLoad != 3 || got.ByCount != 0 {
		t.Errorf("got %+v", got)
	}
	if level := got.Levels[got.Busiest[0].NextLevel-1]; level.Customers != 2 || level.Pending != 25 || level.Documents != 0 {
		t.Errorf("got %+v", level)
	}
	// An override moves the customer, and not what is queued.
	inspector = steered(t, client, priority.RedisOptions{})
	if _, err := inspector.Admin.SetOverride(t.Context(), "clinic", control.Pin(1), time.Hour, change); err != nil {
		t.Fatal(err)
	}
	inspector = followed(t, inspector)
	moved := pass("3 customers, 25 pending")
	if ruled := moved.Busiest[1].RuledLevel; ruled == 0 || moved.Levels[ruled-1].Customers != 1 || moved.Levels[ruled-1].Pending != 25 || moved.Busiest[1].NextLevel != 1 {
		t.Errorf("got %+v", moved)
	}
	if _, err := inspector.Store.NextN(t.Context(), "acme", 40); err != nil {
		t.Fatal(err)
	}
	client.RPush(t.Context(), inspector.Store.PendingKey("quiet"), "x")
	if done, err := survey.Advance(t.Context(), inspector, time.Time{}); !done || err != nil {
		t.Fatalf("the pass is done: %v, %v", done, err)
	}
	got = survey.Last()
	if text := got.String(); !strings.HasPrefix(text, "3 customers, 40 documents in the last ") || !strings.HasSuffix(text, ", 25 pending, 1 key corrupt") {
		t.Errorf("got %s", text)
	}
	if got.Busiest[0].Customer != "acme" || got.Busiest[1].Customer != "hospital" || got.ByLoad != 2 || got.ByCount != 1 {
		t.Errorf("got %+v", got.Busiest)
	}
}

func TestAPassStopsAtItsDeadlineAndGoesOn(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := inspectorOf(t, client, tiered(""))
	const customers = 3000
	pipeline := client.Pipeline()
	for i := range customers {
		pipeline.Set(t.Context(), fmt.Sprintf("%s:{%d}:count", insight.DefaultPrefix, i), "-1", time.Hour)
	}
	if _, err := pipeline.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	survey := insight.NewSurvey(insight.SurveyOptions{})
	steps := 1
	for {
		done, err := survey.Advance(t.Context(), inspector, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if done {
			break
		}
		if !survey.Midway() || !survey.Last().At.IsZero() || !strings.Contains(survey.Status(), "% of 3,000 keys") {
			t.Fatalf("step %d: got %s", steps, survey.Status())
		}
		steps++
	}
	if last := survey.Last(); last.Levels[0].Customers != customers || steps < 3 {
		t.Errorf("%d steps, %s", steps, last)
	}
}
