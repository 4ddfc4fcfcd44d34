package priorityotel_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
)

func TestTheAlertsFireWhenTheirTestsSay(t *testing.T) {
	promtool(t, "check", "rules", "deploy/alerts.yml")
	promtool(t, "test", "rules", "deploy/alerts_test.yml")
}

// Each alert leads to a section of the runbook that there is.
func TestEachAlertLeadsToTheRunbook(t *testing.T) {
	runbook := read(t, "../docs/runbook.md")
	for _, alert := range regexp.MustCompile(`- alert: `).Split(read(t, "deploy/alerts.yml"), -1)[1:] {
		name, _, _ := strings.Cut(alert, "\n")
		link := regexp.MustCompile(`runbook_url: https://github\.com/docpriority/priority/blob/main/docs/runbook\.md#(\d+)(\S+)`).FindStringSubmatch(alert)
		if link == nil {
			t.Errorf("%s has no runbook_url", name)
			continue
		}
		heading := regexp.MustCompile(`(?mi)^## ` + link[1] + `\. ` + strings.ReplaceAll(strings.TrimPrefix(link[2], "-"), "-", "[ -]") + `$`)
		if !heading.MatchString(runbook) || !strings.Contains(runbook, "`"+name+"`") {
			t.Errorf("the runbook has no section %s%s, or does not name %s", link[1], link[2], name)
		}
	}
}

// Prometheus understands each query of the dashboard.
func TestDashboard_Queries(t *testing.T) {
	type query struct{ Expr string }
	var dashboard struct {
		Annotations struct{ List []query }
		Panels      []struct{ Targets []query }
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) != 10 {
		t.Errorf("%d panels, want ten", len(dashboard.Panels))
	}
	queries := dashboard.Annotations.List
	for _, panel := range dashboard.Panels {
		queries = append(queries, panel.Targets...)
	}
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	variables := strings.NewReplacer("$job", ".*", "$__rate_interval", "1m")
	for i, query := range queries {
		if !strings.Contains(query.Expr, `job=~"$job"`) {
			t.Errorf("%s does not follow the variable job", query.Expr)
		}
		fmt.Fprintf(&rules, "      - record: query%d\n        expr: %q\n", i, variables.Replace(query.Expr))
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// What rules, their tests and the dashboard name is what a Prometheus exporter exports.
func TestAllThatIsNamedIsExported(t *testing.T) {
	metrics, labels := exported(t)
	word := regexp.MustCompile(`\bpriority_\w+`)
	errorType := regexp.MustCompile(`error_type=~?"([\w|]+)"`)
	for _, file := range []string{"deploy/alerts.yml", "deploy/alerts_test.yml", "deploy/dashboard.json"} {
		text := strings.ReplaceAll(read(t, file), `\"`, `"`)
		names := word.FindAllString(text, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if !slices.Contains(metrics, name) && !slices.Contains(labels, name) {
				t.Errorf("%s names %s, which is not exported; exported are %q with labels %q", file, name, metrics, labels)
			}
		}
		for _, match := range errorType.FindAllStringSubmatch(text, -1) {
			for kind := range strings.SplitSeq(match[1], "|") {
				if kinds := []string{"invalid", "not_counted", "outcome_unknown", "corrupt", "_OTHER", "lost", "newer", "refused", "unreachable"}; !slices.Contains(kinds, kind) {
					t.Errorf("%s names the error type %q", file, kind)
				}
			}
		}
	}
}

// exported returns the names of all series and labels that the instrumentation has
// in a Prometheus exporter, except the exporter's own.
func exported(t *testing.T) (metrics, labels []string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry),
		otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	instrumentation, err := priorityotel.New(&priorityotel.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
	})
	if err != nil {
		t.Fatal(err)
	}
	answering, err := fallback.New(acmesStatus(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := instrumentation.ObserveStore(answering); err != nil {
		t.Fatal(err)
	}
	instrumentation.Observe(t.Context(), observe.Call{
		Operation: "NextEach", Customers: []string{"acme", "bakery"}, Items: 2, Duration: time.Second,
		Decisions: []priority.Decision{{Level: 1, RuleLevel: 1}, {}}, Err: &priority.BatchError{Errs: []error{nil, errLost}},
	})
	instrumentation.Observe(t.Context(), observe.Call{Operation: "Next", Items: 1, Decisions: []priority.Decision{{Level: 1, RuleLevel: 9}}})
	instrumentation.Observe(t.Context(), observe.Call{
		Operation: "Done", Customer: "acme", Items: 1, Took: time.Second,
		Ended: []priority.Ended{{Latency: time.Second, Level: 1}},
	})
	client := redistest.Start(t).Client()
	write(t, client, "p1", `{"format":1,"id":"p1","levels":9,"language":"python","by_load":{"4":10},"waits":{"4":{"40":9}},"busiest":[{"customer":"acme","documents":1,"rule":"load","level":1,"load":1,"pending":1}]}`, 0)
	submit(t, client)
	admin, err := control.NewAdmin(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Withdraw(t.Context(), 0, control.Change{By: "mary", Why: "a test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := instrumentation.ObserveFleet(client, ""); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "the fleet's reports are read", func() bool {
		families, _ := registry.Gather()
		for _, family := range families {
			if family.GetName() == "priority_fleet_workers" {
				return true
			}
		}
		return false
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		metrics = append(metrics, family.GetName())
		for _, metric := range family.GetMetric() {
			if metric.GetHistogram() != nil {
				metrics = append(metrics, family.GetName()+"_bucket", family.GetName()+"_count", family.GetName()+"_sum")
			}
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName())
			}
		}
	}
	slices.Sort(metrics)
	slices.Sort(labels)
	return slices.Compact(metrics), slices.Compact(labels)
}

// promtool runs it on the file that is its last argument.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program := redistest.Find(t, "promtool", "prometheus")
	read(t, args[len(args)-1]) // else go test would not see that the file has changed, and cache the result
	if output, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// Each metric has its row in the docs.
func TestMetrics_Documented(t *testing.T) {
	t.Parallel()
	page, code := read(t, "../docs/operate.md"), read(t, "metrics.go")+read(t, "store.go")+read(t, "fleet.go")
	for _, found := range regexp.MustCompile(`(?:Counter|Gauge|gauge|seconds)\("([a-z.]+)",`).FindAllStringSubmatch(code, -1) {
		name := "priority_" + strings.ReplaceAll(strings.TrimPrefix(found[1], "priority."), ".", "_")
		if !strings.HasPrefix(found[1], "priority.") {
			name = "priority_fleet_" + found[1]
		}
		if !strings.Contains(page, "`"+name) {
			t.Errorf("docs/operate.md has no row for %s", name)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
