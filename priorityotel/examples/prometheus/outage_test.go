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
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// trouble is something that happens to Redis, and the alerts that are raised about a service
// with a fallback, and about one without.
var trouble = map[string]struct {
	begin         func(*testing.T, *redistest.Server)
	with, without []string
}{
	"killed": {
		func(_ *testing.T, server *redistest.Server) { server.Kill() },
		[]string{"PriorityDegraded"}, []string{"PriorityWithoutLevel"},
	},
	"hangs": {
		func(_ *testing.T, server *redistest.Server) { server.Signal(syscall.SIGSTOP) },
		[]string{"PriorityDegraded"}, []string{"PriorityWithoutLevel", "PrioritySlow"},
	},
	"full": {
		func(t *testing.T, server *redistest.Server) {
			if err := server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
				t.Error(err)
			}
		},
		[]string{"PriorityDegraded"}, []string{"PriorityWithoutLevel"},
	},
	"lost its data": {
		func(_ *testing.T, server *redistest.Server) { server.Kill(); server.Restart() },
		[]string{"PriorityRulesLost"}, nil,
	},
	"has rules that nobody can read": {
		func(t *testing.T, server *redistest.Server) {
			keys := []any{prefix + ":{control}:rules", "junk", prefix + ":{control}:version", 9}
			if err := server.Client().MSet(t.Context(), keys...).Err(); err != nil {
				t.Error(err)
			}
		},
		[]string{"PriorityWorkerDoesNotObey"}, nil,
	},
}

// A Prometheus with the rules raises the alerts of each trouble, and about the other service
// only its own. Before, both services are on the panel "Degraded", at 0.
func TestTroubleWithRedisRaisesItsAlerts(t *testing.T) {
	program := redistest.Find(t, "prometheus", "prometheus")
	for name, trouble := range trouble {
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
			admin, err := control.NewAdmin(server.Client(), &control.AdminOptions{Prefix: prefix, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			rules := control.Rules{Policy: priority.Policy{ResetInterval: time.Hour}}
			version, err := admin.Apply(t.Context(), rules, control.Change{By: "mary", Why: "a test"})
			if err != nil {
				t.Fatal(err)
			}

			panel := strings.NewReplacer("$__rate_interval", "2s", "$job", ".*").Replace(expression(t, "Degraded"))
			redistest.Await(t, "both services are on the panel, and not degraded", func() bool {
				shares := api.query(t, panel, "job")
				return len(shares) == 2 && shares["with"] == 0 && shares["without"] == 0
			})
			api.await(t, `max(priority_rules_version{job="with"})`, float64(version))
			trouble.begin(t, server)
			for job, alerts := range map[string][]string{"with": trouble.with, "without": trouble.without} {
				for _, alert := range alerts {
					redistest.Await(t, "the alert "+alert+" fires", func() bool {
						return api.query(t, `ALERTS{alertname="`+alert+`",alertstate="firing"}`, "job")[job] == 1
					})
					t.Log("fires:", alert)
				}
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
