package priorityotel

import (
	"context"
	"errors"

	"github.com/docpriority/priority"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The attributes beside error.type, of metrics and of spans.
const (
	operationKey = attribute.Key("priority.operation")
	levelKey     = attribute.Key("priority.level")
	degradedKey  = attribute.Key("priority.degraded")
)

// durations are the bounds of the histogram's buckets, in seconds: fine where a
// Redis nearby answers, and with the default timeout and its half as bounds, which
// the alerts ask about.
var durations = []float64{0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.125, 0.25, 0.5, 1, 2.5}

// errorTypes are the values of error.type of one document.
var errorTypes = []string{"invalid", "not_counted", "outcome_unknown", "corrupt_count", "_OTHER"}

type metrics struct {
	documents metric.Int64Counter
	durations metric.Float64Histogram
	absorbed  metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter(ScopeName, metric.WithSchemaURL(semconv.SchemaURL))
	documents, err1 := meter.Int64Counter("priority.documents",
		metric.WithUnit("{document}"),
		metric.WithDescription("Documents that were to be counted: by level, or by error type where they were not."))
	durations, err2 := meter.Float64Histogram("priority.call.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Duration of the calls of a store or a tracker."),
		metric.WithExplicitBucketBoundaries(durations...))
	absorbed, err3 := meter.Int64Counter("priority.absorbed.errors",
		metric.WithUnit("{error}"),
		metric.WithDescription("Errors that a Fallback or a Coalescer met and no caller was told."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	m := &metrics{documents: documents, durations: durations, absorbed: absorbed}
	// A rate cannot see the first of a series that begins with it, and one corrupt
	// count is worth an alert.
	for _, kind := range errorTypes {
		m.documents.Add(context.Background(), 0, metric.WithAttributes(semconv.ErrorTypeKey.String(kind)))
		m.absorbed.Add(context.Background(), 0, metric.WithAttributes(semconv.ErrorTypeKey.String(kind)))
	}
	return m, nil
}

func (m *metrics) record(ctx context.Context, call priority.Call) {
	attributes := make([]attribute.KeyValue, 0, 3)
	attributes = append(attributes, operationKey.String(call.Operation), degradedKey.Bool(anyDegraded(call)))
	if call.Err != nil {
		attributes = append(attributes, semconv.ErrorTypeKey.String(errorType(call.Err)))
	}
	m.durations.Record(ctx, call.Duration.Seconds(), metric.WithAttributeSet(attribute.NewSet(attributes...)))

	switch call.Operation {
	case "Next", "NextN", "NextEach", "Submit", "SubmitN":
		m.recordDocuments(ctx, call)
	}
}

// recordDocuments adds what became of the documents of a call, with one addition
// for all that have the same attributes.
func (m *metrics) recordDocuments(ctx context.Context, call priority.Call) {
	var batch *priority.BatchError
	if call.Err != nil && !errors.As(call.Err, &batch) {
		m.add(ctx, fate{errorType: errorType(call.Err)}, int64(call.Items))
		return
	}
	if batch == nil && len(call.Decisions) == 1 {
		m.add(ctx, fateOf(call.Decisions[0]), 1)
		return
	}
	documents := make(map[fate]int64)
	for i, decision := range call.Decisions {
		if batch == nil || i < len(batch.Errs) && batch.Errs[i] == nil {
			documents[fateOf(decision)]++
		}
	}
	if batch != nil {
		for _, err := range batch.Errs {
			if err != nil {
				documents[fate{errorType: errorType(err)}]++
			}
		}
	}
	for fate, n := range documents {
		m.add(ctx, fate, n)
	}
}

func (m *metrics) add(ctx context.Context, fate fate, n int64) {
	m.documents.Add(ctx, n, metric.WithAttributeSet(fate.attributes()))
}

func (m *metrics) recordAbsorbed(err error) {
	m.absorbed.Add(context.Background(), 1, metric.WithAttributes(semconv.ErrorTypeKey.String(errorType(err))))
}

// fate is what became of a document: a level or an error.
type fate struct {
	level     priority.Level
	degraded  bool
	errorType string
}

func fateOf(decision priority.Decision) fate {
	return fate{level: decision.Level, degraded: decision.Degraded}
}

func (f fate) attributes() attribute.Set {
	if f.errorType != "" {
		return attribute.NewSet(semconv.ErrorTypeKey.String(f.errorType))
	}
	return attribute.NewSet(levelKey.Int(int(f.level)), degradedKey.Bool(f.degraded))
}
