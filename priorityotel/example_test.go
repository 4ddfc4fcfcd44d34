package priorityotel_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})

	exporter, err := prometheus.New() // of go.opentelemetry.io/otel/exporters/prometheus
	if err != nil {
		log.Fatal(err)
	}
	instrumentation, err := priorityotel.New(&priorityotel.Options{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(exporter)), // of go.opentelemetry.io/otel/sdk/metric
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/metrics", promhttp.Handler())

	store, err := priority.NewRedisStore(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	answering, err := fallback.New(observe.New(store, observe.LogCorrupt(slog.Default())), nil, &fallback.Options{
		OnError: instrumentation.ObserveError,
		OnChange: func(open bool, cause error) {
			instrumentation.ObserveCircuit(open, cause)
			slog.Warn("the circuit to the fleet's counts has changed", "open", open, "cause", cause)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	observed := observe.New(answering, instrumentation.Observe) // the store to use

	decision, err := observed.Next(context.Background(), "acme")
	fmt.Println(decision.Level, err)
}

// The example compiles.
func TestTheDocumentShowsTheExample(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(read(t, "../docs/observability.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d Go blocks in the document, want one", len(blocks))
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	body := regexp.MustCompile(`(?m)^\t`).ReplaceAllString(string(source), "")
	if !strings.Contains(body, blocks[0][1]) {
		t.Errorf("the example is not what the document shows:\n%s", blocks[0][1])
	}
}
