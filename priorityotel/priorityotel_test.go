package priorityotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/prioritytest"
)

var (
	errLost    = fmt.Errorf("%w: Next \"priority:{acme}:count\": lost", priority.ErrOutcomeUnknown)
	errAway    = fmt.Errorf("%w: Next \"priority:{acme}:count\": away", priority.ErrNotCounted)
	errCorrupt = fmt.Errorf("%w: Next \"priority:{acme}:count\": a list", priority.ErrCorrupt)
)

// recorder is an instrumentation and what it has recorded.
type recorder struct {
	*priorityotel.Instrumentation
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
}

func newRecorder(t *testing.T, opts priorityotel.Options) *recorder {
	t.Helper()
	r := &recorder{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	r.tracer = tracers.Tracer("test")
	opts.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	opts.TracerProvider = tracers
	instrumentation, err := priorityotel.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Instrumentation = instrumentation
	return r
}

// metrics returns what is recorded under each metric's name.
func (r *recorder) metrics(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != priorityotel.ScopeName || scope.Scope.SchemaURL == "" {
			t.Errorf("a scope %+v", scope.Scope)
		}
		for _, metric := range scope.Metrics {
			byName[metric.Name] = metric
		}
	}
	return byName
}

// counter returns the points of a counter that are not 0, by their attributes.
func (r *recorder) counter(t *testing.T, name, unit string) map[string]int64 {
	t.Helper()
	metric := r.metrics(t)[name]
	sum, ok := metric.Data.(metricdata.Sum[int64])
	if !ok || !sum.IsMonotonic || metric.Unit != unit {
		t.Fatalf("%s is %+v; want a counter in %s", name, metric, unit)
	}
	points := make(map[string]int64)
	for _, point := range sum.DataPoints {
		if point.Value != 0 {
			points[encoded(point.Attributes)] = point.Value
		}
	}
	return points
}

// histogram returns the points of a histogram.
func (r *recorder) histogram(t *testing.T, name string) []metricdata.HistogramDataPoint[float64] {
	t.Helper()
	metric, ok := r.metrics(t)[name]
	if !ok {
		return nil // nothing is recorded
	}
	histogram, ok := metric.Data.(metricdata.Histogram[float64])
	if !ok || metric.Unit != "s" {
		t.Fatalf("%s is %+v; want a histogram in seconds", name, metric)
	}
	return histogram.DataPoints
}

// durations returns how many calls were recorded, by their attributes.
func (r *recorder) durations(t *testing.T) map[string]uint64 {
	t.Helper()
	points := make(map[string]uint64)
	for _, point := range r.histogram(t, "priority.call.duration") {
		points[encoded(point.Attributes)] = point.Count
	}
	return points
}

func encoded(attributes attribute.Set) string {
	return attributes.Encoded(attribute.DefaultEncoder())
}

func expect[V comparable](t *testing.T, what string, got, want map[string]V) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s:\n%v, want\n%v", what, got, want)
	}
}

func TestEachDocumentAndCallIsRecordedOnce(t *testing.T) {
	r := newRecorder(t, priorityotel.Options{})
	ctx := t.Context()
	store := observed(t, new(memory.Store), r.Observe)
	for range 4 {
		_, _ = store.Next(ctx, "acme")
	}
	_, _ = store.NextN(ctx, "bakery", 30)
	_, _ = store.NextN(ctx, "bakery", -1)
	_, _ = store.NextN(ctx, "bakery", 2_000_000_000)
	_, _ = store.NextEach(ctx, []string{"clinic", "dealer", "clinic"})
	_, _ = store.Next(ctx, "")
	_, _ = store.Peek(ctx, "acme")
	_ = store.Reset(ctx, "acme")
	_, _ = store.Submit(ctx, "embassy", priority.Document{ID: "1"})
	_, _ = store.SubmitN(ctx, "embassy", named.Documents("2", "3"))
	_, _ = store.Peek(ctx, "embassy")
	_, _ = store.Done(ctx, "embassy", "1", time.Second)
	_, _ = store.DoneN(ctx, "embassy", []string{"2", "3"}, time.Second)
	_ = store.Reset(ctx, "embassy")

	level := func(level int) string {
		return fmt.Sprintf("priority.degraded=false,priority.level=%d,priority.rule=count", level)
	}
	byLoad := func(n int) string { return strings.Replace(level(n), "count", "load", 1) }
	expect(t, "documents", r.counter(t, "priority.documents", "{document}"), map[string]int64{
		level(1): 3 + 3 + 3, level(2): 1 + 2, level(3): 2, level(4): 2, level(5): 2,
		level(6): 2, level(7): 2, level(8): 6, level(9): 9, "error.type=invalid": 1,
		byLoad(1): 2, byLoad(2): 1,
	})
	call := func(operation string) string {
		return "priority.degraded=false,priority.operation=" + operation
	}
	expect(t, "durations", r.durations(t), map[string]uint64{
		call("Next"): 4, call("NextN"): 1, call("NextEach"): 1, call("Peek"): 2, call("Reset"): 2,
		call("Submit"): 1, call("SubmitN"): 1, call("Done"): 1, call("DoneN"): 1,
		"error.type=invalid," + call("Next"):  1,
		"error.type=invalid," + call("NextN"): 2,
	})
}

func TestFailuresAreRecordedByTheirType(t *testing.T) {
	decision, degraded := priority.Decision{Level: 3}, priority.Decision{Level: 5, Degraded: true}
	const level3, level5 = "priority.degraded=false,priority.level=3,priority.rule=count", "priority.degraded=true,priority.level=5,priority.rule=count"
	batch := func(errs ...error) error { return &priority.BatchError{Errs: errs} }
	for duration, test := range map[string]struct {
		call      observe.Call
		documents map[string]int64
	}{
		"error.type=outcome_unknown,priority.degraded=false,priority.operation=NextN": {
			observe.Call{Operation: "NextN", Items: 7, Err: errLost}, map[string]int64{"error.type=outcome_unknown": 7},
		},
		"error.type=_OTHER,priority.degraded=false,priority.operation=Next": {
			observe.Call{Operation: "Next", Items: 1, Err: errors.New("boom")}, map[string]int64{"error.type=_OTHER": 1},
		},
		"error.type=partial,priority.degraded=false,priority.operation=NextEach": {
			observe.Call{Operation: "NextEach", Items: 4, Decisions: []priority.Decision{decision, {}, {}, decision}, Err: batch(nil, errLost, errCorrupt, nil)},
			map[string]int64{"error.type=outcome_unknown": 1, "error.type=corrupt": 1, level3: 2},
		},
		"error.type=not_counted,priority.degraded=false,priority.operation=SubmitN": {
			observe.Call{Operation: "SubmitN", Items: 2, Decisions: make([]priority.Decision, 2), Err: batch(errAway, errAway)},
			map[string]int64{"error.type=not_counted": 2},
		},
		"priority.degraded=true,priority.operation=NextEach": {
			observe.Call{Operation: "NextEach", Items: 2, Decisions: []priority.Decision{decision, degraded}}, map[string]int64{level3: 1, level5: 1},
		},
		"error.type=outcome_unknown,priority.degraded=false,priority.operation=DoneN": { // such documents are not counted
			observe.Call{Operation: "DoneN", Items: 2, Err: errLost}, map[string]int64{},
		},
	} {
		r := newRecorder(t, priorityotel.Options{})
		r.Observe(t.Context(), test.call)
		expect(t, "documents", r.counter(t, "priority.documents", "{document}"), test.documents)
		expect(t, "durations", r.durations(t), map[string]uint64{duration: 1})
	}
}

func TestTheTimeoutAndItsHalfAreBoundsOfTheDurations(t *testing.T) {
	r := newRecorder(t, priorityotel.Options{})
	r.Observe(t.Context(), observe.Call{Operation: "Peek", Duration: 125 * time.Millisecond})
	point := r.histogram(t, "priority.call.duration")[0]
	at := slices.Index(point.Bounds, 0.125)
	if point.Sum != 0.125 || at < 0 || point.BucketCounts[at] != 1 || !slices.Contains(point.Bounds, 0.25) {
		t.Errorf("%+v; want one duration up to the bound 0.125 s, and a bound of 0.25 s", point)
	}
}

// How long a document was worked on is recorded once for each that is done, without a name,
// and where it is known.
func TestWorkIsRecorded(t *testing.T) {
	r := newRecorder(t, priorityotel.Options{})
	for _, call := range []observe.Call{
		{Operation: "Done", Items: 1, Took: 1500 * time.Millisecond},
		{Operation: "DoneN", Items: 4, Took: 10 * time.Second, Err: &priority.BatchError{Errs: []error{nil, errAway, nil, errAway}}},
		{Operation: "Done", Items: 1, Took: time.Second, Err: errAway},
		{Operation: "Done", Items: 1, Took: -time.Second, Err: priority.ErrInvalid},
		{Operation: "Done", Items: 1},
		{Operation: "DoneN", Took: time.Second},
		{Operation: "Next", Items: 1, Took: time.Second},
	} {
		call.Customer = "acme"
		r.Observe(t.Context(), call)
	}
	points := r.histogram(t, "priority.document.duration")
	if len(points) != 1 || points[0].Count != 3 || points[0].Sum != 6.5 || points[0].Attributes.Len() > 0 || !slices.Contains(points[0].Bounds, 180) {
		t.Errorf("%+v; want three documents of 6.5 s, no attribute, and three minutes, the shortest lease, as a bound", points)
	}
}

// What a document waited is recorded by the level that it had.
func TestLatenciesAreRecordedByLevel(t *testing.T) {
	r := newRecorder(t, priorityotel.Options{})
	clock := new(prioritytest.Clock)
	store := observed(t, prioritytest.NewStore(clock, nil), r.Observe)
	_, submitted := store.SubmitN(t.Context(), "acme", named.Documents("1", "2", "3"))
	clock.Advance(90 * time.Second)
	_, done := store.DoneN(t.Context(), "acme", []string{"2", "3", "4", "3"}, 0)
	if err := errors.Join(submitted, done); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, point := range r.histogram(t, "priority.document.latency") {
		got[encoded(point.Attributes)] = point.Sum
		if point.Count != 1 || !slices.Contains(point.Bounds, 180) {
			t.Errorf("%+v; want one document, and three minutes, the shortest lease, as a bound", point)
		}
	}
	expect(t, "latencies", got, map[string]float64{"priority.level=1": 90, "priority.level=2": 90})
}

// The alerts and the dashboard need a series of each error, and of documents that are
// degraded, from the start: a rate cannot see the first of one that begins with it, and a
// share of what is not there is not 0 but nothing.
func TestCountersBeginAtZero(t *testing.T) {
	r := newRecorder(t, priorityotel.Options{})
	errorTypes := []string{
		"error.type=_OTHER", "error.type=corrupt", "error.type=invalid", "error.type=not_counted", "error.type=outcome_unknown",
	}
	for name, want := range map[string][]string{
		"priority.documents": append(slices.Clone(errorTypes),
			"priority.degraded=false,priority.level=1,priority.rule=count", "priority.degraded=false,priority.level=1,priority.rule=load",
			"priority.degraded=true,priority.level=1,priority.rule=count", "priority.degraded=true,priority.level=1,priority.rule=load"),
		"priority.absorbed.errors": errorTypes,
	} {
		var begun []string
		for _, point := range r.metrics(t)[name].Data.(metricdata.Sum[int64]).DataPoints {
			begun = append(begun, encoded(point.Attributes))
			if point.Value != 0 {
				t.Errorf("%s begins with %+v", name, point)
			}
		}
		slices.Sort(begun)
		if !slices.Equal(begun, want) {
			t.Errorf("%s begins with %q, want %q", name, begun, want)
		}
	}
}

// failing is a store of which all calls that count fail.
type failing struct {
	*memory.Store
	err error
}

func (f failing) Next(context.Context, string) (priority.Decision, error) {
	return priority.Decision{}, f.err
}

func (f failing) Done(context.Context, string, string, time.Duration) (priority.Ended, error) {
	return priority.Ended{}, f.err
}

// A fallback keeps errors from its callers, and degrades decisions instead.
func TestAFallbacksErrorsAreRecorded(t *testing.T) {
	r := newRecorder(t, priorityotel.Options{})
	opened := make(chan struct{})
	degraded, err := fallback.New(failing{new(memory.Store), errLost}, &fallback.Options{
		MaxFailures: 2, RetryAfter: time.Millisecond, OnError: r.ObserveError, OnChange: func(bool, error) { close(opened) },
	})
	if err != nil {
		t.Fatal(err)
	}
	store := observed(t, degraded, r.Observe)
	r.observeStore(t, store)
	expect(t, "degraded", r.gauges(t, "degraded"), map[string]float64{"degraded": 0})
	for range 2 {
		_, _ = store.Next(t.Context(), "acme")
	}
	<-opened
	r.ObserveError(nil)
	expect(t, "documents", r.counter(t, "priority.documents", "{document}"),
		map[string]int64{"priority.degraded=true,priority.level=1,priority.rule=count": 2})
	expect(t, "absorbed errors", r.counter(t, "priority.absorbed.errors", "{error}"),
		map[string]int64{"error.type=outcome_unknown": 2})
	expect(t, "durations", r.durations(t), map[string]uint64{"priority.degraded=true,priority.operation=Next": 2})
	expect(t, "degraded", r.gauges(t, "degraded"), map[string]float64{"degraded": 1})
	if err := degraded.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEachCallHasASpan(t *testing.T) {
	begin := time.Now().Add(-time.Minute)
	decision := priority.Decision{Level: 3, Count: -5}
	for _, test := range []struct {
		call       observe.Call
		attributes string
		status     sdktrace.Status
	}{
		{
			observe.Call{Operation: "Next", Customer: "acme", Items: 1, Decisions: []priority.Decision{decision}},
			"priority.count=-5,priority.degraded=false,priority.items=1,priority.level=3,priority.operation=Next", sdktrace.Status{},
		},
		{
			observe.Call{
				Operation: "Submit", Customer: "acme", Items: 1,
				Decisions: []priority.Decision{{Level: 2, Load: 4.5, Pending: 2, Degraded: true}},
			},
			"priority.degraded=true,priority.items=1,priority.level=2,priority.load=4.5,priority.operation=Submit,priority.pending=2",
			sdktrace.Status{},
		},
		{
			observe.Call{Operation: "NextEach", Customers: []string{"a", "b"}, Items: 2, Decisions: []priority.Decision{decision, decision}},
			"priority.degraded=false,priority.items=2,priority.operation=NextEach", sdktrace.Status{},
		},
		{
			observe.Call{Operation: "Reset", Customer: "acme", Err: errAway},
			"error.type=not_counted,priority.operation=Reset", sdktrace.Status{Code: codes.Error, Description: "not_counted"},
		},
	} {
		r := newRecorder(t, priorityotel.Options{})
		ctx, parent := r.tracer.Start(t.Context(), "an upload")
		test.call.Start, test.call.Duration = begin, time.Second
		r.Observe(ctx, test.call)
		span := r.spans.Ended()[0]
		if span.Name() != "priority."+test.call.Operation || span.SpanKind() != trace.SpanKindInternal ||
			span.Parent().SpanID() != parent.SpanContext().SpanID() || span.InstrumentationScope().Name != priorityotel.ScopeName {
			t.Errorf("%s: span %q of kind %v", test.call.Operation, span.Name(), span.SpanKind())
		}
		if !span.StartTime().Equal(begin) || !span.EndTime().Equal(begin.Add(time.Second)) {
			t.Errorf("%s: from %v to %v, want the call's second", test.call.Operation, span.StartTime(), span.EndTime())
		}
		if got := encoded(attribute.NewSet(span.Attributes()...)); got != test.attributes {
			t.Errorf("%s: %s, want\n%s", test.call.Operation, got, test.attributes)
		}
		if span.Status() != test.status || len(span.Events()) != 0 {
			t.Errorf("%s: %+v, %+v", test.call.Operation, span.Status(), span.Events())
		}
	}
}

// An exemplar of a duration leads to the span of its call.
func TestADurationLeadsToItsSpan(t *testing.T) {
	r := newRecorder(t, priorityotel.Options{})
	r.Observe(t.Context(), observe.Call{Operation: "Next", Items: 1, Decisions: []priority.Decision{{Level: 1}}})
	exemplars := r.histogram(t, "priority.call.duration")[0].Exemplars
	id := r.spans.Ended()[0].SpanContext().SpanID()
	if len(exemplars) != 1 || string(exemplars[0].SpanID) != string(id[:]) {
		t.Errorf("exemplars %+v, want one of span %v", exemplars, id)
	}
}

// The customer and the customer's key are in spans only where they were asked for,
// and never in metrics.
func TestCustomersStayOut(t *testing.T) {
	for _, asked := range []bool{false, true} {
		r := newRecorder(t, priorityotel.Options{Customers: asked})
		store := observed(t, failing{new(memory.Store), errLost}, r.Observe)
		_, _ = store.Next(t.Context(), "acme")
		_, _ = store.Peek(t.Context(), "acme")
		_, _ = store.NextEach(t.Context(), []string{"acme", "acme"})
		r.ObserveError(errLost)
		r.observeStore(t, acmesStatus())
		var spans strings.Builder
		for _, span := range r.spans.Ended() {
			fmt.Fprintln(&spans, span.Name(), encoded(attribute.NewSet(span.Attributes()...)), span.Status(), span.Events())
		}
		mentions := strings.Count(spans.String(), "acme")
		if want := map[bool]int{false: 0, true: 3}[asked]; mentions != want {
			t.Errorf("asked %v: spans name the customer %d times, want %d:\n%s", asked, mentions, want, spans.String())
		}
		if metrics := fmt.Sprintf("%+v", r.metrics(t)); strings.Contains(metrics, "acme") {
			t.Errorf("metrics name the customer: %s", metrics)
		}
	}
}

func observed(t *testing.T, store priority.Store, observers ...observe.Func) *observe.Store {
	t.Helper()
	s, err := observe.New(store, observers...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
