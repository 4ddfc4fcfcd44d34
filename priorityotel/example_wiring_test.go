package priorityotel_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
)

// wire returns a member of the fleet, and lets Prometheus scrape /metrics. The spans go to an
// exporter such as otlptracegrpc.
func wire(client *redis.Client, spans trace.SpanExporter, mux *http.ServeMux) *fleet.Member {
	registry := prometheus.NewRegistry()                                                                            // of github.com/prometheus/client_golang/prometheus
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo()) // of go.opentelemetry.io/otel/exporters/prometheus
	if err != nil {
		log.Fatal(err)
	}
	instrumentation, err := priorityotel.New(&priorityotel.Options{
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(exporter)), // of go.opentelemetry.io/otel/sdk/metric
		TracerProvider: trace.NewTracerProvider(trace.WithBatcher(spans)),    // of go.opentelemetry.io/otel/sdk/trace
	})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, // the other formats have no exemplars
	}))

	member, err := fleet.Join(client, &fleet.Options{
		Observers: []observe.Func{instrumentation.Observe},
		Fallback:  fallback.Options{OnError: instrumentation.ObserveError},
		Logger:    slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := instrumentation.ObserveStore(member); err != nil {
		log.Fatal(err)
	}

	return member
}

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	member := wire(client, tracetest.NewNoopExporter(), http.DefaultServeMux)
	defer member.Close(context.Background())

	decision, err := member.Next(context.Background(), "acme")
	fmt.Println(decision.Level, err)
}
