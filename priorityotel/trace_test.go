package priorityotel_test

import (
	"errors"
	"testing"

	"github.com/docpriority/priority/priorityotel"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// What becomes of the headers in real queues, TestPromises of examples/queues shows.
func TestADocumentTakesItsTraceWithIt(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })

	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	upload := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: true,
	})
	_, headers, end := priorityotel.StartSend(trace.ContextWithSpanContext(t.Context(), upload), "rabbitmq", "documents")
	end(nil)
	_, end = priorityotel.StartProcess(t.Context(), "rabbitmq", "documents", headers)
	end(errAway)
	sent, processed := spans.Ended()[0], spans.Ended()[1]
	if len(headers) != 2 || headers["traceparent"] == "" || headers["tracestate"] != "vendor=1" {
		t.Errorf("the document takes %q, want traceparent and tracestate", headers)
	}
	if sent.Parent().SpanID() != upload.SpanID() || sent.SpanContext().TraceID() != upload.TraceID() ||
		processed.Parent().SpanID() != sent.SpanContext().SpanID() || processed.SpanContext().TraceID() != upload.TraceID() {
		t.Errorf("%v is sent, and %v is worked on, want one after the other in the trace of %v", sent, processed, upload)
	}
	if sent.Name() != "send documents" || sent.SpanKind() != trace.SpanKindProducer || sent.Status().Code != codes.Unset ||
		processed.Name() != "process documents" || processed.SpanKind() != trace.SpanKindConsumer || processed.Status() != (sdktrace.Status{Code: codes.Error}) {
		t.Errorf("spans %v and %v", sent, processed)
	}
	const want = "error.type=not_counted,messaging.destination.name=documents,messaging.operation.name=process,messaging.operation.type=process,messaging.system=rabbitmq"
	if got := encoded(attribute.NewSet(processed.Attributes()...)); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

// Headers that name no trace begin one, and a program without OpenTelemetry sends none.
func TestADocumentWithoutATraceIsNoTrouble(t *testing.T) {
	_, headers, end := priorityotel.StartSend(t.Context(), "nats", "documents")
	end(errors.New("boom"))
	if len(headers) != 0 {
		t.Errorf("without a provider a document takes %q", headers)
	}
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	for _, headers := range []map[string]string{nil, {}, {"traceparent": ""}, {"traceparent": "00-nonsense"}} {
		_, end := priorityotel.StartProcess(t.Context(), "nats", "documents", headers)
		end(nil)
	}
	for _, span := range spans.Ended() {
		if span.Parent().IsValid() || !span.SpanContext().TraceID().IsValid() {
			t.Errorf("%v, want a trace of its own", span)
		}
	}
}
