package priorityotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/observe"
)

// The attributes beside error.type, of metrics and of spans.
const (
	operationKey = attribute.Key("priority.operation")
	ruleKey      = attribute.Key("priority.rule")
	levelKey     = attribute.Key("priority.level")
	degradedKey  = attribute.Key("priority.degraded")
	ruleLevelKey = attribute.Key("priority.rule.level")
)

// The bounds of the histograms' buckets, in seconds.
var (
	// Fine where a nearby Redis answers; with the default timeout and its half,
	// which the alerts use.
	callBounds = []float64{0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.125, 0.25, 0.5, 1, 2.5}

	// With the shortest lease, and the longest.
	workBounds    = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 180, 600, 3600}
	latencyBounds = []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 180, 600, 1800, 3600, 10_800, 43_200, 86_400}
)

// errorTypes are the values of error.type of one document.
var errorTypes = []string{"invalid", "not_counted", "outcome_unknown", "corrupt", "_OTHER"}

type metrics struct {
	meter      metric.Meter
	documents  metric.Int64Counter
	overridden metric.Int64Counter
	calls      metric.Float64Histogram
	work       metric.Float64Histogram
	latency    metric.Float64Histogram
	absorbed   metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter(ScopeName, metric.WithSchemaURL(semconv.SchemaURL))
	var errs [6]error
	m := &metrics{meter: meter}
	m.documents, errs[0] = meter.Int64Counter("priority.documents", metric.WithUnit("{document}"),
		metric.WithDescription("Documents of calls that count: by rule and level, or by error type if they were not counted."))
	// A separate counter: an attribute of priority.documents would double its
	// series, and this counter has no series unless there is an override.
	m.overridden, errs[1] = meter.Int64Counter("priority.overridden.documents", metric.WithUnit("{document}"),
		metric.WithDescription("Counted documents whose level an override changed, by both levels."))
	m.absorbed, errs[2] = meter.Int64Counter("priority.absorbed.errors", metric.WithUnit("{error}"),
		metric.WithDescription("Errors that no caller saw, because a fallback answered."))
	seconds := func(name, description string, bounds []float64, err *error) (histogram metric.Float64Histogram) {
		histogram, *err = meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		return histogram
	}
	m.calls = seconds("priority.call.duration", "Duration of the calls of a store.", callBounds, &errs[3])
	m.work = seconds("priority.document.duration", "Processing time of documents, by Done.", workBounds, &errs[4])
	m.latency = seconds("priority.document.latency", "Time from when a document was due until Done, by the level that Submit gave.", latencyBounds, &errs[5])
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// All series begin at 0. A rate cannot see the event that begins a series, and
	// one corrupt count is worth an alert; a share of documents is absent, not 0,
	// without the series. Every policy has the first level.
	for _, rule := range []string{byCount, byLoad} {
		for _, degraded := range []bool{false, true} {
			begun := outcome{rule: rule, level: priority.First, degraded: degraded}
			m.documents.Add(context.Background(), 0, metric.WithAttributeSet(begun.attributes()))
		}
	}
	for _, kind := range errorTypes {
		m.documents.Add(context.Background(), 0, metric.WithAttributes(semconv.ErrorTypeKey.String(kind)))
		m.absorbed.Add(context.Background(), 0, metric.WithAttributes(semconv.ErrorTypeKey.String(kind)))
	}
	return m, nil
}

func (m *metrics) record(ctx context.Context, call observe.Call) {
	attributes := make([]attribute.KeyValue, 0, 3)
	attributes = append(attributes, operationKey.String(call.Operation), degradedKey.Bool(anyDegraded(call)))
	if call.Err != nil {
		attributes = append(attributes, semconv.ErrorTypeKey.String(errorType(call.Err)))
	}
	m.calls.Record(ctx, call.Duration.Seconds(), metric.WithAttributeSet(attribute.NewSet(attributes...)))

	switch call.Operation {
	case "Next", "NextN", "NextEach":
		m.recordDocuments(ctx, call, byCount)
	case "Submit", "SubmitN":
		m.recordDocuments(ctx, call, byLoad)
	case "Done", "DoneN":
		m.recordWork(ctx, call)
		for _, ended := range call.Ended {
			if ended.Level == 0 { // it was not pending
				continue
			}
			m.latency.Record(ctx, ended.Latency.Seconds(), metric.WithAttributes(levelKey.Int(int(ended.Level))))
		}
	}
}

// recordDocuments counts a call's documents by outcome, with one addition for each
// outcome.
func (m *metrics) recordDocuments(ctx context.Context, call observe.Call, rule string) {
	var batch *priority.BatchError
	if call.Err != nil && !errors.As(call.Err, &batch) {
		m.add(ctx, outcome{errorType: errorType(call.Err)}, int64(call.Items))
		return
	}
	if batch == nil && len(call.Decisions) == 1 {
		m.add(ctx, outcomeOf(rule, call.Decisions[0]), 1)
		return
	}
	documents := make(map[outcome]int64)
	for i, decision := range call.Decisions {
		if batch == nil || i < len(batch.Errs) && batch.Errs[i] == nil {
			documents[outcomeOf(rule, decision)]++
		}
	}
	if batch != nil {
		for _, err := range batch.Errs {
			if err != nil {
				documents[outcome{errorType: errorType(err)}]++
			}
		}
	}
	for outcome, n := range documents {
		m.add(ctx, outcome, n)
	}
}

func (m *metrics) add(ctx context.Context, outcome outcome, n int64) {
	m.documents.Add(ctx, n, metric.WithAttributeSet(outcome.attributes()))
	if outcome.level != outcome.ruleLevel {
		m.overridden.Add(ctx, n, metric.WithAttributes(levelKey.Int(int(outcome.level)), ruleLevelKey.Int(int(outcome.ruleLevel))))
	}
}

// recordWork records for each document of a call the average time, so that the
// histogram counts documents and its sum is the whole time. A failed Done is
// repeated, and recorded then.
func (m *metrics) recordWork(ctx context.Context, call observe.Call) {
	if call.Took <= 0 || call.Items == 0 {
		return
	}
	each := call.Took.Seconds() / float64(call.Items)
	for _, err := range itemerrors.Of(call.Err, call.Items) {
		if err == nil {
			m.work.Record(ctx, each)
		}
	}
}

func (m *metrics) recordAbsorbed(err error) {
	m.absorbed.Add(context.Background(), 1, metric.WithAttributes(semconv.ErrorTypeKey.String(errorType(err))))
}

// The values of priority.rule.
const (
	byCount = "count" // Next
	byLoad  = "load"  // Submit
)

// outcome is the outcome of a document: a level or an error.
type outcome struct {
	rule      string
	level     priority.Level
	ruleLevel priority.Level
	degraded  bool
	errorType string
}

func outcomeOf(rule string, decision priority.Decision) outcome {
	return outcome{rule: rule, level: decision.Level, ruleLevel: decision.RuleLevel, degraded: decision.Degraded}
}

func (o outcome) attributes() attribute.Set {
	if o.errorType != "" {
		return attribute.NewSet(semconv.ErrorTypeKey.String(o.errorType))
	}
	return attribute.NewSet(ruleKey.String(o.rule), levelKey.Int(int(o.level)), degradedKey.Bool(o.degraded))
}
