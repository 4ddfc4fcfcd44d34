// Package priorityotel records OpenTelemetry metrics and spans for the calls of a
// priority.Store:
//
//	instrumentation, err := priorityotel.New(nil)
//	…
//	observed, err := observe.New(store, instrumentation.Observe)
//
// [Instrumentation.ObserveStore] also records what a store knows of its fallback and of the
// operators' policies, and [Instrumentation.ObserveFleet] what all processes report.
// docs/operate.md lists the metrics; each has a description.
//
// error.type has the values of [observe.Outcome], with _OTHER for "error". A customer
// is never an attribute of a metric, and neither is a document.
package priorityotel

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/docpriority/priority/observe"
)

// ScopeName is the name of the instrumentation scope of all metrics and spans.
const ScopeName = "github.com/docpriority/priority/priorityotel"

// Options configures an [Instrumentation]. The zero value works.
type Options struct {
	// MeterProvider makes the metrics. Default: OpenTelemetry's global one, which
	// must be set before New.
	MeterProvider metric.MeterProvider

	// TracerProvider makes the spans. Default: OpenTelemetry's global one. A
	// provider of package trace/noop makes no spans.
	TracerProvider trace.TracerProvider

	// Customers adds to spans the customer, and error messages, which name the
	// customer's key. Metrics never have them. Default: spans have neither.
	Customers bool
}

// Instrumentation records metrics and spans. It is safe for concurrent use.
type Instrumentation struct {
	metrics *metrics
	spans   *spans
	store   atomic.Bool // a store is observed
	fleet   atomic.Bool // a fleet is observed
}

// New returns an Instrumentation. Nil opts are the defaults. An error comes from
// the meter provider.
func New(opts *Options) (*Instrumentation, error) {
	if opts == nil {
		opts = &Options{}
	}
	meters, tracers := opts.MeterProvider, opts.TracerProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	metrics, err := newMetrics(meters)
	if err != nil {
		return nil, err
	}
	return &Instrumentation{metrics: metrics, spans: newSpans(tracers, opts.Customers)}, nil
}

// Observe records a call. It is an [observe.Func] for the outermost store, so that
// each document is counted once and as its caller sees it: around a fallback, not
// inside it.
func (i *Instrumentation) Observe(ctx context.Context, call observe.Call) {
	ctx, end := i.spans.start(ctx, call)
	i.metrics.record(ctx, call) // with the span, so that an exemplar leads to it
	end()
}

// ObserveError records an error that no caller sees. Pass it as OnError in
// fallback.Options.
func (i *Instrumentation) ObserveError(err error) {
	if err != nil {
		i.metrics.recordAbsorbed(err)
	}
}

// errorType returns the value of error.type for an error.
func errorType(err error) string {
	if outcome := observe.Outcome(err); outcome != "error" {
		return outcome
	}
	return "_OTHER"
}

// anyDegraded reports whether a fallback had a part in the answer.
func anyDegraded(call observe.Call) bool {
	for _, decision := range call.Decisions {
		if decision.Degraded {
			return true
		}
	}
	return false
}
