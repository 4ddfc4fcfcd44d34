package priorityotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/docpriority/priority/observe"
)

// The attributes that only spans have.
const (
	itemsKey    = attribute.Key("priority.items")
	countKey    = attribute.Key("priority.count")
	loadKey     = attribute.Key("priority.load")
	pendingKey  = attribute.Key("priority.pending")
	customerKey = attribute.Key("priority.customer")
)

// spans records a span for each call.
//
// Its kind is internal, and it has no db attributes: by the conventions they belong
// to a span of kind client, for one request to a database. A call may be answered
// from memory, or make several requests; each request has its own client span
// if the Redis client is instrumented.
type spans struct {
	tracer    trace.Tracer
	customers bool
}

func newSpans(provider trace.TracerProvider, customers bool) *spans {
	return &spans{tracer: provider.Tracer(ScopeName, trace.WithSchemaURL(semconv.SchemaURL)), customers: customers}
}

// start begins a call's span, and returns the function that ends it.
func (s *spans) start(ctx context.Context, call observe.Call) (context.Context, func()) {
	ctx, span := s.tracer.Start(ctx, "priority."+call.Operation,
		trace.WithTimestamp(call.Start), trace.WithAttributes(operationKey.String(call.Operation)))
	if !span.IsRecording() {
		return ctx, func() {}
	}
	span.SetAttributes(s.attributes(call)...)
	if call.Err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(errorType(call.Err)))
		span.SetStatus(codes.Error, s.message(call.Err))
	}
	return ctx, func() { span.End(trace.WithTimestamp(call.Start.Add(call.Duration))) }
}

func (s *spans) attributes(call observe.Call) []attribute.KeyValue {
	var attributes []attribute.KeyValue
	if call.Items > 0 {
		attributes = append(attributes, itemsKey.Int(call.Items))
	}
	if call.Decisions != nil {
		attributes = append(attributes, degradedKey.Bool(anyDegraded(call)))
	}
	if len(call.Decisions) == 1 && call.Err == nil {
		decision := call.Decisions[0]
		attributes = append(attributes, levelKey.Int(int(decision.Level)))
		if decision.Pending > 0 {
			attributes = append(attributes, loadKey.Float64(decision.Load), pendingKey.Int64(decision.Pending))
		} else {
			attributes = append(attributes, countKey.Int64(decision.Count))
		}
	}
	if s.customers && call.Customers == nil {
		attributes = append(attributes, customerKey.String(call.Customer))
	}
	return attributes
}

// message is the description of a failed span: the error names the customer's key.
func (s *spans) message(err error) string {
	if s.customers {
		return err.Error()
	}
	return observe.Outcome(err)
}
