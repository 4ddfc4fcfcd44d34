package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// Redis is killed, or hangs. A Prometheus with the rules raises one alert about a service
// with a fallback, whose documents are degraded, and another about one without, whose
// calls fail. Before, both services are on the panel "Degraded", at 0.
func TestAnOutageRaisesAnAlertWithAFallbackAndWithout(t *testing.T) {
	program := redistest.Find(t, "prometheus", "prometheus")
	for name, begin := range map[string]func(*redistest.Server){
		"killed": func(server *redistest.Server) { server.Kill() },
		"hangs":  func(server *redistest.Server) { server.Signal(syscall.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			with, metrics, closeStore, err := open(server.Addr, slog.New(slog.NewTextHandler(io.Discard, nil)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(closeStore)
			api := startPrometheus(t, program, quickened(alerts(t)), map[string][]string{
				"with": {show(t, metrics)}, "without": {show(t, countWithoutAFallback(t, server))},
			})
			countOn(t, with)

			panel := strings.NewReplacer("$__rate_interval", "2s", "$job", ".*").Replace(expression(t, "Degraded"))
			redistest.Await(t, "both services are on the panel, and not degraded", func() bool {
				shares := api.query(t, panel, "job")
				return len(shares) == 2 && shares["with"] == 0 && shares["without"] == 0
			})
			begin(server)
			for job, alert := range map[string]string{"with": "PriorityDegraded", "without": "PriorityWithoutLevel"} {
				redistest.Await(t, "the alert "+alert+" fires", func() bool {
					return api.query(t, `ALERTS{alertname="`+alert+`",alertstate="firing"}`, "job")[job] == 1
				})
			}
			for alert, other := range map[string]string{"PriorityDegraded": "without", "PriorityWithoutLevel": "with"} {
				if jobs := api.query(t, `ALERTS{alertname="`+alert+`"}`, "job"); jobs[other] != 0 {
					t.Errorf("%s is raised about the service %s a fallback", alert, other)
				}
			}
		})
	}
}

// quickened are the rules with two seconds for each minute.
func quickened(rules string) string {
	return regexp.MustCompile(`\b(\d+)m\b`).ReplaceAllStringFunc(rules, func(minutes string) string {
		d, _ := time.ParseDuration(minutes)
		return (d / 30).String()
	})
}

// countWithoutAFallback counts documents in a store that is observed and no more, and
// returns its metrics.
func countWithoutAFallback(t *testing.T, server *redistest.Server) http.Handler {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	instrumentation, err := priorityotel.New(&priorityotel.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := priority.NewRedisStore(server.Client(), nil)
	if err != nil {
		t.Fatal(err)
	}
	countOn(t, observe.New(store, instrumentation.Observe))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// countOn counts documents until the test ends, whether that works or not.
func countOn(t *testing.T, store priority.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = store.Next(context.Background(), customer())
			rest(ctx, 10*time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// show serves metrics, and returns where.
func show(t *testing.T, metrics http.Handler) string {
	t.Helper()
	server := httptest.NewServer(metrics)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// expression is what a panel of the dashboard asks, by job and not by instance.
func expression(t *testing.T, title string) string {
	t.Helper()
	for _, query := range queries(t) {
		if query.what == title {
			return strings.ReplaceAll(query.expr, "(instance)", "(job)")
		}
	}
	t.Fatalf("there is no panel %q", title)
	return ""
}

// query is what the dashboard asks, and for which panel or annotation.
type query struct{ what, expr string }

func queries(t *testing.T) (all []query) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Annotations struct{ List []struct{ Name, Expr string } }
		Panels      []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all = append(all, query{panel.Title, target.Expr})
		}
	}
	for _, annotation := range dashboard.Annotations.List {
		all = append(all, query{annotation.Name, annotation.Expr})
	}
	return all
}
