package priorityotel_test

import (
	"context"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"
)

// BenchmarkObserve is what the metrics of a call cost, without spans.
func BenchmarkObserve(b *testing.B) {
	instrumentation, err := priorityotel.New(&priorityotel.Options{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		TracerProvider: noop.NewTracerProvider(),
	})
	if err != nil {
		b.Fatal(err)
	}
	for name, store := range map[string]priority.Store{
		"plain":    new(memory.Store),
		"observed": observe.New(new(memory.Store), instrumentation.Observe),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = store.Next(context.Background(), "acme")
			}
		})
	}
}
