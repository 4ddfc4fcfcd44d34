package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// recorded are the spans of all tests of the process.
var recorded = sync.OnceValue(func() *tracetest.SpanRecorder {
	recorder := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	return recorder
})

// traced: a document's trace begins before Submit, goes through the queue and a second
// try, and ends at Done.
func traced(t *testing.T, s *Subject) {
	spans := recorded()
	instrumentation, err := priorityotel.New(&priorityotel.Options{MeterProvider: metric.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	store := new(Store)
	b := s.bench(t, store, func(config *program.Config) { config.Store = observe.New(store, instrumentation.Observe) })
	ctx, upload := otel.Tracer("test").Start(t.Context(), "upload")
	if err := b.queue.Produce(ctx, "acme", "traced", nil); err != nil {
		t.Fatal(err)
	}
	upload.End()
	tries := 0
	stop := b.Serve(func(ctx context.Context, _ string) error {
		_, work := otel.Tracer("test").Start(ctx, "work")
		defer work.End()
		if tries++; tries == 1 {
			return errors.New("fails once")
		}
		return nil
	})
	b.AwaitServed("traced")
	stop()

	name := strings.ToLower(queueOf(t) + "0")
	want := []string{
		"upload < ", "send " + name + " < upload", "priority.submit < send " + name,
		"process " + name + " < send " + name + ", failed", "work < process " + name,
		"process " + name + " < send " + name, "work < process " + name, "priority.done < process " + name,
	}
	slices.Sort(want)
	got := tree(spans.Ended(), upload.SpanContext().TraceID())
	if !slices.Equal(got, want) {
		t.Errorf("the spans of the trace, with their parents:\n%q, want\n%q", got, want)
	}
}

// tree returns the spans of a trace, as "name < parent's name" in lower case: River's
// queues have no other.
func tree(spans []sdktrace.ReadOnlySpan, id trace.TraceID) (all []string) {
	names := make(map[trace.SpanID]string)
	for _, span := range spans {
		names[span.SpanContext().SpanID()] = span.Name()
	}
	for _, span := range spans {
		if span.SpanContext().TraceID() != id {
			continue
		}
		line := strings.ToLower(fmt.Sprint(span.Name(), " < ", names[span.Parent().SpanID()]))
		if span.Status().Code == codes.Error {
			line += ", failed"
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}
