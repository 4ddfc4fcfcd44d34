package priorityotel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// knowing is a store that knows what operators have set.
type knowing struct {
	*memory.Store
	status control.Status
}

func (k *knowing) Status() control.Status { return k.status }

// acmesStatus is one that names a customer wherever it can.
func acmesStatus() *knowing {
	now := time.Now()
	return &knowing{new(memory.Store), control.Status{
		Document: &control.Document{
			Version: 7,
			Rules: &control.Item[control.Rules]{
				Value: control.Rules{Tiers: map[string]priority.Policy{"acme": {}}}, Version: 6, At: now, By: "acme", Why: "acme",
			},
			Overrides: map[string]control.Item[control.Override]{"acme": {Value: control.Pin(1), Until: now.Add(time.Hour), By: "acme", Why: "acme"}},
		},
		ReadAt: now,
		Err:    errors.New("acme"),
	}}
}

func (r *recorder) observeStore(t *testing.T, store priority.Store) (stop func() error) {
	t.Helper()
	stop, err := r.ObserveStore(store)
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

// gauges returns what the metrics say whose names begin so, without "priority.", and
// their attributes.
func (r *recorder) gauges(t *testing.T, prefix string) map[string]float64 {
	t.Helper()
	values := make(map[string]float64)
	for name, metric := range r.metrics(t) {
		if !strings.HasPrefix(name, "priority."+prefix) {
			continue
		}
		name = strings.TrimPrefix(name, "priority.")
		switch data := metric.Data.(type) {
		case metricdata.Gauge[int64]:
			for _, point := range data.DataPoints {
				values[strings.TrimSpace(name+" "+encoded(point.Attributes))] = float64(point.Value)
			}
		case metricdata.Gauge[float64]:
			for _, point := range data.DataPoints {
				values[strings.TrimSpace(name+" "+encoded(point.Attributes))] = point.Value
			}
			if metric.Unit != "s" {
				t.Errorf("%s is in %q, want seconds", name, metric.Unit)
			}
		default:
			t.Errorf("%s is %+v", name, metric)
		}
	}
	return values
}

func TestOverriddenDocumentsAreRecordedByBothLevels(t *testing.T) {
	pinned, plain := priority.Decision{Level: 2, Ruled: 9}, priority.Decision{Level: 9}
	unmoved := priority.Decision{Level: 1, Ruled: 1}
	degraded := priority.Decision{Level: 2, Ruled: 9, Degraded: true}
	r := newRecorder(t, priorityotel.Options{})
	for _, call := range []observe.Call{
		{Operation: "Next", Items: 1, Decisions: []priority.Decision{pinned}},
		{Operation: "Next", Items: 1, Decisions: []priority.Decision{plain}},
		{Operation: "NextEach", Items: 5, Decisions: []priority.Decision{pinned, unmoved, plain, degraded, pinned}},
		{Operation: "Peek", Decisions: []priority.Decision{pinned}},
		{
			Operation: "SubmitN", Items: 2, Decisions: []priority.Decision{pinned, pinned},
			Err: &priority.BatchError{Errs: []error{nil, errAway}},
		},
		{Operation: "NextN", Items: 2, Err: errLost},
	} {
		r.Observe(t.Context(), call)
	}
	expect(t, "overridden", r.counter(t, "priority.overridden.documents", "{document}"), map[string]int64{
		"priority.level=2,priority.ruled.level=9": 5, "priority.level=1,priority.ruled.level=1": 1,
	})
	expect(t, "documents", r.counter(t, "priority.documents", "{document}"), map[string]int64{
		"priority.degraded=false,priority.level=2,priority.rule=count": 3, "priority.degraded=false,priority.level=2,priority.rule=load": 1,
		"priority.degraded=true,priority.level=2,priority.rule=count":  1,
		"priority.degraded=false,priority.level=1,priority.rule=count": 1, "priority.degraded=false,priority.level=9,priority.rule=count": 2,
		"error.type=not_counted": 1, "error.type=outcome_unknown": 2,
	})
}

func TestWhatOperatorsHaveSetIsRecorded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		now := time.Now()
		item := func(lasts time.Duration) control.Item[control.Override] {
			return control.Item[control.Override]{Value: control.Pin(1), Until: now.Add(lasts)}
		}
		store := &knowing{new(memory.Store), control.Status{
			Document: &control.Document{
				Version: 7,
				Overrides: map[string]control.Item[control.Override]{
					"acme": item(time.Minute), "bakery": item(0), "clinic": item(time.Hour), "dealer": item(-time.Minute),
				},
			},
			ReadAt: now.Add(-1500 * time.Millisecond),
		}}
		r := newRecorder(t, priorityotel.Options{})
		r.observeStore(t, store)
		expect(t, "overrides", r.gauges(t, "control."), map[string]float64{
			"control.age": 1.5, "control.failing": 0, "control.version": 7,
			"control.overrides": 2,
		})

		store.status.Document = &control.Document{Version: 8}
		store.status.Err = control.ErrNewerDocument
		time.Sleep(time.Minute)
		expect(t, "nothing is set, and it cannot be followed", r.gauges(t, "control."), map[string]float64{
			"control.age": 61.5, "control.failing": 1, "control.version": 8,
			"control.overrides": 0,
		})
	})
}

// A process that has never read the document says so: it has an age, from which an
// alert can tell, and no version.
func TestADocumentThatWasNeverReadGrowsOld(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRecorder(t, priorityotel.Options{})
		r.observeStore(t, &knowing{new(memory.Store), control.Status{Err: errors.New("away")}})
		time.Sleep(90 * time.Second)
		expect(t, "never read", r.gauges(t, "control."), map[string]float64{"control.age": 90, "control.failing": 1})
	})
}

// What a worker's own store knows, from operators to metrics.
func TestAStoreThatFollowsItsOperatorsIsRecorded(t *testing.T) {
	server := redistest.Start(t)
	ctx, client := t.Context(), server.Client()
	controlled, err := control.New(client, &control.Options{Store: priority.RedisOptions{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = controlled.Close(t.Context()) })
	admin, err := control.NewAdmin(client, &control.AdminOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	change := control.Change{By: "mary", Why: "a test"}
	_, err = admin.SetOverride(ctx, "acme", control.Pin(4), time.Hour, change)
	if err := errors.Join(err, controlled.Refresh(ctx)); err != nil {
		t.Fatal(err)
	}

	r := newRecorder(t, priorityotel.Options{})
	r.observeStore(t, controlled)
	store := observe.New(controlled, r.Observe)
	for _, customer := range []string{"acme", "acme", "bakery"} {
		if _, err := store.Next(ctx, customer); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "overridden", r.counter(t, "priority.overridden.documents", "{document}"),
		map[string]int64{"priority.level=4,priority.ruled.level=1": 2})
	got := r.gauges(t, "control.")
	if seconds, ok := got["control.age"]; !ok || seconds < 0 || seconds > 60 {
		t.Errorf("the document's age is %v s, want that of one just read", seconds)
	}
	delete(got, "control.age")
	expect(t, "control", got, map[string]float64{
		"control.failing": 0, "control.version": 1, "control.overrides": 1,
	})
}

func TestOneStoreIsObservedUntilItIsStopped(t *testing.T) {
	r := newRecorder(t, priorityotel.Options{})
	for what, store := range map[string]priority.Store{"no store": nil, "a nil store": (*control.Store)(nil)} {
		if _, err := r.ObserveStore(store); !errors.Is(err, priority.ErrInvalidOption) {
			t.Errorf("%s: %v, want an ErrInvalidOption", what, err)
		}
	}
	first := r.observeStore(t, acmesStatus())
	if _, err := r.ObserveStore(acmesStatus()); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("a second store: %v, want an ErrInvalidOption", err)
	}
	if err := first(); err != nil {
		t.Error(err)
	}
	expect(t, "after stop", r.gauges(t, "control."), map[string]float64{})

	r.observeStore(t, acmesStatus())
	if err := first(); err != nil { // which stops the first one only
		t.Error(err)
	}
	if _, err := r.ObserveStore(acmesStatus()); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("beside a third store: %v, want an ErrInvalidOption", err)
	}
	if got := r.gauges(t, "control.")["control.version"]; got != 7 {
		t.Errorf("the third store's version is %v, want 7", got)
	}
}

// The last level is that of the customer's own policy, by each rule; behind it are Turns.
func TestTheLastLevelIsRecorded(t *testing.T) {
	store, err := memory.New(&memory.Options{Policy: priority.Policy{Turns: 4}, Tiers: map[string]priority.Policy{
		"few": {Thresholds: []int64{0, -1}, Loads: []float64{1}},
		"one": {Thresholds: []int64{}, Loads: []float64{}},
	}, TierOf: func(customer string) string { return customer }})
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder(t, priorityotel.Options{})
	stop := r.observeStore(t, store)
	decide := func(operation string, customers []string, levels ...priority.Level) {
		call := observe.Call{Operation: operation, Customers: customers, Items: len(levels)}
		for _, level := range levels {
			call.Decisions = append(call.Decisions, priority.Decision{Level: level})
		}
		r.Observe(t.Context(), call)
	}
	decide("NextEach", []string{"few", "acme", "few", "one", "acme"}, 2, 3, 3, 1, 9)
	decide("SubmitN", []string{"acme"}, 8, 9, 13)
	decide("Submit", []string{"few"}, 2)
	if err := stop(); err != nil {
		t.Error(err)
	}
	decide("Next", []string{"acme"}, 9)
	of := func(level int, rule, last string) string {
		return fmt.Sprintf("priority.degraded=false%s,priority.level=%d,priority.rule=%s", last, level, rule)
	}
	const before, last, unknown = ",priority.last=false", ",priority.last=true", ""
	expect(t, "documents", r.counter(t, "priority.documents", "{document}"), map[string]int64{
		of(2, "count", before): 1, of(3, "count", before): 1, of(3, "count", last): 1, of(1, "count", unknown): 1, of(9, "count", last): 1,
		of(8, "load", before): 1, of(9, "load", last): 1, of(13, "load", last): 1, of(2, "load", last): 1,
		of(9, "count", unknown): 1,
	})
}
