package priorityriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

type invoice struct{ Customer, Document string }

func (invoice) Kind() string { return "invoice" }

func customerOf(job *rivertype.JobInsertParams) (customer, document string, cost float64) {
	args, _ := job.Args.(invoice)
	return args.Customer, args.Document, 3
}

// counting is a store in memory that counts calls, and fails as told.
type counting struct {
	memory.Store
	submits []string // the documents of Submit and SubmitN
	calls   int
	took    time.Duration // what the latest Done was told
	fail    error
}

func (c *counting) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	if c.calls++; c.fail != nil {
		return priority.Decision{}, c.fail
	}
	c.submits = append(c.submits, document.ID)
	return c.Store.Submit(ctx, customer, document)
}

func (c *counting) SubmitN(ctx context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	if c.calls++; c.fail != nil {
		return nil, c.fail
	}
	for _, document := range documents {
		c.submits = append(c.submits, document.ID)
	}
	return c.Store.SubmitN(ctx, customer, documents)
}

func (c *counting) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	c.took = took
	return c.Store.Done(ctx, customer, document, took)
}

func pending(t *testing.T, store priority.Store, customer string) int64 {
	t.Helper()
	state, err := store.Peek(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	return state.Pending
}

func jobsOf(all ...invoice) (jobs []*rivertype.JobInsertParams) {
	for _, args := range all {
		jobs = append(jobs, &rivertype.JobInsertParams{Args: args, Metadata: []byte(`{"team": [1, "<ö>"]}`), Priority: 3})
	}
	return jobs
}

// inserted answers as River does for new jobs.
func inserted(jobs []*rivertype.JobInsertParams) func(context.Context) ([]*rivertype.JobInsertResult, error) {
	return func(context.Context) (results []*rivertype.JobInsertResult, err error) {
		for _, job := range jobs {
			results = append(results, &rivertype.JobInsertResult{Job: &rivertype.JobRow{Metadata: job.Metadata}})
		}
		return results, nil
	}
}

func TestInsert_Level(t *testing.T) {
	t.Parallel()
	store := new(counting)
	var all []invoice
	for range 30 {
		all = append(all, invoice{Customer: "flood"})
	}
	all = append(all, invoice{Customer: "clinic"}, invoice{})
	jobs := jobsOf(all...)
	if _, err := middleware(t, store).InsertMany(t.Context(), jobs, inserted(jobs)); err != nil {
		t.Fatal(err)
	}
	first, last := jobs[0].Priority, jobs[29].Priority
	if first != 1 || last < 2 || jobs[30].Priority != 1 {
		t.Errorf("a flood's first job has priority %d, its last %d, another customer's %d", first, last, jobs[30].Priority)
	}
	if jobs[31].Priority != 3 || string(jobs[31].Metadata) != `{"team": [1, "<ö>"]}` {
		t.Errorf("a job without a customer has priority %d and metadata %s", jobs[31].Priority, jobs[31].Metadata)
	}
	if store.calls != 2 {
		t.Errorf("%d calls for two customers", store.calls)
	}
	if pending(t, store, "flood") != 30 || pending(t, store, "clinic") != 1 {
		t.Error("not all are pending")
	}
}

func TestInsert_Later(t *testing.T) {
	t.Parallel()
	store := new(counting)
	jobs := jobsOf(invoice{Customer: "acme"}, invoice{Customer: "acme"}, invoice{Customer: "acme"})
	tomorrow, yesterday := time.Now().Add(24*time.Hour), time.Now().Add(-24*time.Hour)
	jobs[0].ScheduledAt, jobs[1].ScheduledAt = &tomorrow, &yesterday
	if _, err := middleware(t, store).InsertMany(t.Context(), jobs, inserted(jobs)); err != nil {
		t.Fatal(err)
	}
	if state, err := store.Peek(t.Context(), "acme"); state.Scheduled != 1 || err != nil {
		t.Errorf("%d documents are scheduled, want tomorrow's; error %v", state.Scheduled, err)
	}
}

func TestInsert_KeepsMetadata(t *testing.T) {
	t.Parallel()
	jobs := jobsOf(invoice{Customer: "acme"}, invoice{Customer: "acme", Document: "own"})
	jobs[1].Metadata = []byte(`null`)
	store := new(counting)
	if _, err := middleware(t, store).InsertMany(t.Context(), jobs, inserted(jobs)); err != nil {
		t.Fatal(err)
	}
	var metadata struct{ Team []any }
	if err := json.Unmarshal(jobs[0].Metadata, &metadata); err != nil || fmt.Sprint(metadata.Team) != "[1 <ö>]" {
		t.Errorf("%s, error %v", jobs[0].Metadata, err)
	}
	created, _ := documentOf(jobs[0].Metadata)
	own, _ := documentOf(jobs[1].Metadata)
	if created.Customer != "acme" || len(created.ID) < 20 || created.ID != store.submits[0] || own.ID != "own" {
		t.Errorf("documents %+v and %+v, submitted as %q", created, own, store.submits)
	}
	jobs = jobsOf(invoice{Customer: "other"})
	jobs[0].Metadata = []byte(`"no object"`)
	if _, err := middleware(t, store).InsertMany(t.Context(), jobs, inserted(jobs)); !errors.Is(err, priority.ErrInvalid) || pending(t, store, "other") != 0 {
		t.Errorf("error %v, %d pending", err, pending(t, store, "other"))
	}
}

func TestInsert_Fails(t *testing.T) {
	t.Parallel()
	store := new(counting)
	boom := errors.New("boom")
	for _, insert := range []func(context.Context) ([]*rivertype.JobInsertResult, error){
		func(context.Context) ([]*rivertype.JobInsertResult, error) { return nil, boom },
		func(context.Context) ([]*rivertype.JobInsertResult, error) { panic(boom) },
	} {
		func() {
			defer func() { _ = recover() }()
			jobs := jobsOf(invoice{Customer: "acme"}, invoice{Customer: "acme"}, invoice{Customer: "other"})
			if _, err := middleware(t, store).InsertMany(t.Context(), jobs, insert); !errors.Is(err, boom) {
				t.Errorf("error %v", err)
			}
		}()
		if pending(t, store, "acme")+pending(t, store, "other") != 0 {
			t.Error("documents without a job are pending")
		}
	}
}

func TestInsert_Duplicate(t *testing.T) {
	t.Parallel()
	metadata, err := document{Customer: "acme", ID: "own"}.addTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	over := time.Now()
	for what, c := range map[string]struct {
		existing *rivertype.JobRow
		want     int64
	}{
		"the same waits":      {&rivertype.JobRow{Metadata: metadata}, 1},
		"the same was served": {&rivertype.JobRow{Metadata: metadata, FinalizedAt: &over}, 0},
		"another's":           {&rivertype.JobRow{Metadata: []byte(`{"docpriority": {"customer": "acme", "document": "another"}}`)}, 0},
		"nobody's":            {&rivertype.JobRow{Metadata: []byte(`{}`)}, 0},
	} {
		store := new(counting)
		jobs := jobsOf(invoice{"acme", "own"})
		_, err := middleware(t, store).InsertMany(t.Context(), jobs, func(context.Context) ([]*rivertype.JobInsertResult, error) {
			return []*rivertype.JobInsertResult{{Job: c.existing, UniqueSkippedAsDuplicate: true}}, nil
		})
		if got := pending(t, store, "acme"); got != c.want || err != nil {
			t.Errorf("%s: %d pending, want %d; error %v", what, got, c.want, err)
		}
	}
	store := new(counting) // InsertManyFast does not say what it skipped
	jobs := jobsOf(invoice{"acme", "own"})
	_, err = middleware(t, store).InsertMany(t.Context(), jobs, func(context.Context) ([]*rivertype.JobInsertResult, error) {
		return make([]*rivertype.JobInsertResult, 1), nil
	})
	if pending(t, store, "acme") != 1 || err != nil {
		t.Errorf("%d pending; error %v", pending(t, store, "acme"), err)
	}
}

func TestInsert_Refused(t *testing.T) {
	t.Parallel()
	for _, fail := range []error{priority.ErrNotCounted, priority.ErrOutcomeUnknown} {
		jobs := jobsOf(invoice{Customer: "acme"}, invoice{Customer: "acme"}, invoice{Customer: "other"})
		_, err := middleware(t, &counting{fail: fail}).InsertMany(t.Context(), jobs, func(context.Context) ([]*rivertype.JobInsertResult, error) {
			t.Error("inserted")
			return nil, nil
		})
		if !errors.Is(err, fail) {
			t.Errorf("error %v", err)
		}
	}
	for _, args := range []invoice{{Customer: "\xff"}, {Customer: "a\x00b"}, {"acme", "\xff"}} {
		jobs := jobsOf(args)
		if _, err := middleware(t, new(counting)).InsertMany(t.Context(), jobs, inserted(jobs)); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%q: error %v", args, err)
		}
	}
}

func TestWork_Done(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	cancelled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	running, stopping := t.Context(), cancelled(errors.New("River's own"))
	for what, c := range map[string]struct {
		ctx     context.Context
		attempt int // of 3
		err     error
		panics  bool
		over    bool
	}{
		"success":                    {ctx: running, attempt: 1, over: true},
		"a failure":                  {ctx: running, attempt: 2, err: boom},
		"the last failure":           {ctx: running, attempt: 3, err: boom, over: true},
		"a panic":                    {ctx: running, attempt: 2, panics: true},
		"the last panic":             {ctx: running, attempt: 3, panics: true, over: true},
		"a snooze":                   {ctx: running, attempt: 3, err: fmt.Errorf("wrapped: %w", river.JobSnooze(time.Minute))},
		"JobCancel":                  {ctx: running, attempt: 1, err: fmt.Errorf("wrapped: %w", river.JobCancel(boom)), over: true},
		"an operator's cancel":       {ctx: cancelled(rivertype.ErrJobCancelledRemotely), attempt: 1, err: boom, over: true},
		"a snooze that is cancelled": {ctx: cancelled(rivertype.ErrJobCancelledRemotely), attempt: 1, err: river.JobSnooze(time.Minute), over: true},
		"a panic that is cancelled":  {ctx: cancelled(rivertype.ErrJobCancelledRemotely), attempt: 1, panics: true},
		"a shutdown":                 {ctx: stopping, attempt: 3, err: context.Canceled},
		"a failure in a shutdown":    {ctx: stopping, attempt: 3, err: boom, over: true},
		"success in a shutdown":      {ctx: stopping, attempt: 3, over: true},
		"a canceled Start":           {ctx: cancelled(nil), attempt: 3, err: context.Canceled, over: true},
	} {
		store := new(counting)
		if _, err := store.Store.Submit(running, "acme", priority.Document{ID: "own"}); err != nil {
			t.Fatal(err)
		}
		metadata, err := document{Customer: "acme", ID: "own"}.addTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		job := &rivertype.JobRow{Metadata: metadata, Attempt: c.attempt, MaxAttempts: 3}
		func() {
			defer func() {
				if reason := recover(); (reason != nil) != c.panics {
					t.Errorf("%s: panic %v", what, reason)
				}
			}()
			err := middleware(t, store).Work(c.ctx, job, func(context.Context) error {
				if c.panics {
					panic(boom)
				}
				return c.err
			})
			if err != c.err {
				t.Errorf("%s: error %v, want %v", what, err, c.err)
			}
		}()
		if over := pending(t, store, "acme") == 0; over != c.over || over && store.took <= 0 {
			t.Errorf("%s: Done was said: %t, want %t; took %v", what, over, c.over, store.took)
		}
	}
}

// A worker that inserts another job often gives it the metadata of its own.
func TestInsert_CopiedMetadata(t *testing.T) {
	t.Parallel()
	store := new(counting)
	jobs := jobsOf(invoice{"acme", "own"})
	m := middleware(t, store)
	if _, err := m.InsertMany(t.Context(), jobs, inserted(jobs)); err != nil {
		t.Fatal(err)
	}
	copied := []*rivertype.JobInsertParams{{Args: invoice{}, Metadata: jobs[0].Metadata, Priority: 3}}
	if _, err := m.InsertMany(t.Context(), copied, inserted(copied)); err != nil {
		t.Fatal(err)
	}
	if d, ok := documentOf(copied[0].Metadata); ok || string(copied[0].Metadata) != `{"team":[1,"\u003cö\u003e"]}` || copied[0].Priority != 3 {
		t.Errorf("%+v; metadata %s, priority %d", d, copied[0].Metadata, copied[0].Priority)
	}
	if _, ok := documentOf(jobs[0].Metadata); !ok {
		t.Error("the other job's metadata was changed")
	}
}

func middleware(t *testing.T, store priority.Store) *Middleware {
	t.Helper()
	m, err := New(store, customerOf)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
