package priorityotel_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// wire returns the store to use, and lets Prometheus scrape /metrics. The spans go to an
// exporter such as otlptracegrpc.
func wire(client *redis.Client, spans trace.SpanExporter, mux *http.ServeMux) priority.Store {
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

	store, err := priority.NewRedisStore(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	answering, err := fallback.New(observe.New(store, observe.LogCorrupt(slog.Default())), nil, &fallback.Options{
		OnError: instrumentation.ObserveError,
		OnChange: func(open bool, cause error) {
			slog.Warn("the circuit to the fleet's counts has changed", "open", open, "cause", cause)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	observed := observe.New(answering, instrumentation.Observe) // the store to use
	if _, err := instrumentation.ObserveStore(observed); err != nil {
		log.Fatal(err)
	}

	return observed
}

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	store := wire(client, tracetest.NewNoopExporter(), http.DefaultServeMux)

	decision, err := store.Next(context.Background(), "acme")
	fmt.Println(decision.Level, err)
}
