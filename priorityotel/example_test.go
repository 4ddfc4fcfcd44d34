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
	"github.com/docpriority/priority/control"
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

func ExampleInstrumentation_ObserveControl() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	counts, err := priority.NewRedisStore(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	instrumentation, err := priorityotel.New(nil)
	if err != nil {
		log.Fatal(err)
	}

	store, err := control.New(counts, &control.Options{
		OnError: func(err error) { slog.Warn("what operators have set cannot be followed", "error", err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	stop, err := instrumentation.ObserveControl(store)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	decision, err := observe.New(store, instrumentation.Observe).Next(context.Background(), "acme")
	fmt.Println(decision.Level, decision.Ruled, err)
}

// The examples compile.
func TestTheDocumentShowsTheExamples(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(read(t, "../docs/observability.md"), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d Go blocks in the document, want two", len(blocks))
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	body := regexp.MustCompile(`(?m)^\t`).ReplaceAllString(string(source), "")
	for _, block := range blocks {
		if !strings.Contains(body, block[1]) {
			t.Errorf("no example is what the document shows:\n%s", block[1])
		}
	}
}
