package priorityotel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// StartSend starts a span around Submit and the sending of a document to a queue, and
// returns the headers that have to travel with it: traceparent and perhaps tracestate, or
// no headers if spans are not recorded. The system is the queue's kind, such as "rabbitmq".
// End the span with the error of sending. The tracer comes from OpenTelemetry's global
// provider.
func StartSend(ctx context.Context, system, queue string) (_ context.Context, headers map[string]string, end func(err error)) {
	ctx, end = start(ctx, trace.SpanKindProducer, "send", system, queue)
	headers = make(map[string]string)
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(headers))
	return ctx, headers, end
}

// StartProcess starts a span around the work on a document and its Done, in the trace
// that the document's headers name, so that a trace begins at Submit and ends at Done. A
// document without such headers begins a new trace. End the span with the error of the
// work. The tracer comes from OpenTelemetry's global provider.
func StartProcess(ctx context.Context, system, queue string, headers map[string]string) (_ context.Context, end func(err error)) {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(headers))
	return start(ctx, trace.SpanKindConsumer, "process", system, queue)
}

// start starts a span by OpenTelemetry's conventions for queues.
func start(ctx context.Context, kind trace.SpanKind, operation, system, queue string) (context.Context, func(err error)) {
	ctx, span := otel.Tracer(ScopeName, trace.WithSchemaURL(semconv.SchemaURL)).Start(ctx, operation+" "+queue,
		trace.WithSpanKind(kind), trace.WithAttributes(
			semconv.MessagingOperationTypeKey.String(operation), semconv.MessagingOperationName(operation),
			semconv.MessagingSystemKey.String(system), semconv.MessagingDestinationName(queue)))
	return ctx, func(err error) {
		if err != nil {
			span.SetAttributes(semconv.ErrorTypeKey.String(errorType(err)))
			span.SetStatus(codes.Error, "") // the message may name a customer
		}
		span.End()
	}
}
