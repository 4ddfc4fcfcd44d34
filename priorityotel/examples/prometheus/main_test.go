package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
)

// TestMain lets the test's own binary be the program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "process" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		main()
	}
	os.Exit(m.Run())
}

// A Prometheus scrapes three processes of a fleet that share a Redis, and knows
// as many documents of each level as their workers counted. With the rules loaded,
// an alert about a fourth one fires.
func TestPrometheusKnowsWhatTheFleetCounted(t *testing.T) {
	t.Parallel()
	prometheusProgram := redistest.Find(t, "prometheus", "prometheus")
	server := redistest.Start(t)
	var fleet []*process
	var targets []string
	for range 3 {
		p := startProcess(t, "-redis", server.Addr, "-listen", "127.0.0.1:0", "-documents", "300", "-pause", "0", "-for", "5m")
		fleet = append(fleet, p)
		targets = append(targets, p.target)
	}
	var log bytes.Buffer
	admin, err := control.NewAdmin(server.Client(), &control.AdminOptions{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	change := control.Change{By: "mary", Why: "a test"}
	if _, err := admin.SetOverride(t.Context(), "overridden", priority.Override{Earliest: 4, Latest: 4}, time.Hour, change); err != nil {
		t.Fatal(err)
	}
	store, metrics, closeStore, err := open(server.Addr, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeStore)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	fourth := httptest.NewServer(mux)
	t.Cleanup(fourth.Close)
	api := startPrometheus(t, prometheusProgram, alerts(t), map[string][]string{
		"fleet": targets, "fourth": {strings.TrimPrefix(fourth.URL, "http://")},
	})

	counted := make(map[string]float64)
	documents := 0
	for _, p := range fleet {
		for level, n := range p.awaitTotals(t) {
			counted[strconv.Itoa(int(level))] += float64(n)
			documents += n
		}
	}
	if documents != 900 || counted["9"] == 0 {
		t.Fatalf("the workers counted %v; want 900 documents, some at level 9", counted)
	}
	byLevel := `sum by (priority_level) (priority_documents_total{job="fleet",priority_level!=""})`
	redistest.Await(t, "Prometheus has what the workers counted", func() bool {
		return maps.Equal(api.query(t, byLevel, "priority_level"), counted)
	})
	for query, want := range map[string]float64{
		`count(up{job="fleet"} == 1)`:                                                                                                3,
		`sum(priority_documents_total{job="fleet",priority_degraded!=""})`:                                                           900,
		`sum(priority_documents_total{job="fleet",error_type!=""})`:                                                                  0,
		`sum(priority_call_duration_seconds_count{job="fleet"}) > bool 300`:                                                          1,
		`sum(priority_call_duration_seconds_bucket{job="fleet",le="+Inf"}) - sum(priority_call_duration_seconds_count{job="fleet"})`: 0,
	} {
		api.await(t, query, want)
	}
	redistest.Await(t, "Prometheus has exemplars of the calls' durations", func() bool {
		now := time.Now().Unix()
		answer := api.get(t, fmt.Sprintf("/api/v1/query_exemplars?query=%s&start=%d&end=%d",
			url.QueryEscape(`priority_call_duration_seconds_bucket{job="fleet"}`), now-600, now+600))
		return strings.Contains(answer, `"trace_id"`) && strings.Contains(answer, `"span_id"`)
	})
	series := api.get(t, "/api/v1/series?match[]="+url.QueryEscape(`{job=~"fleet|fourth"}`))
	if strings.Contains(series, "archive") || strings.Contains(series, "customer-") || strings.Contains(series, "steady-") || strings.Contains(series, "otel_scope") || !strings.Contains(series, "priority_documents_total") {
		t.Errorf("a series names a customer: %s", series)
	}

	// All processes follow what an operator sets while they run.
	version, err := admin.Apply(t.Context(), control.Rules{Policy: priority.Policy{ResetInterval: time.Hour}}, change)
	if err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "the fleet's versions agree", func() bool {
		return api.query(t, `count(priority_rules_version{job="fleet"} == `+fmt.Sprint(version)+`)`, "")[""] == 3
	})
	api.await(t, `max(priority_fleet_workers{priority_obeys="true"})`, 4)
	var degraded float64 // a busy machine may answer too late
	redistest.Await(t, "the fourth process decides by the override", func() bool {
		decision, err := store.Next(t.Context(), "overridden")
		if decision.Degraded {
			degraded++
		}
		return err == nil && decision.Level == 4
	})
	redistest.Await(t, "Prometheus knows of one overridden document", func() bool {
		return api.query(t, `sum(priority_overridden_documents_total{job="fourth",priority_level="4"})`, "")[""] == 1
	})
	for query, want := range map[string]float64{
		`max(priority_fleet_version)`:       float64(version),
		`max(priority_rules_failing)`:       0,
		`count(priority_rules_age_seconds)`: 4,
	} {
		api.await(t, query, want)
	}

	// A rule can see one corrupt count only if it has seen none before.
	redistest.Await(t, "Prometheus knows the fourth process", func() bool {
		_, ok := api.query(t, `sum(priority_absorbed_errors_total{job="fourth"})`, "")[""]
		return ok
	})
	if err := server.Client().Set(t.Context(), prefix+":{corrupt}:count", "many", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if decision, err := store.Next(t.Context(), "corrupt"); err != nil || !decision.Degraded {
		t.Fatalf("%+v, %v; want the fallback's decision", decision, err)
	}
	degraded++
	redistest.Await(t, "the alert fires", func() bool {
		return api.query(t, `ALERTS{alertname="PriorityCorruptCount",alertstate="firing"}`, "job")["fourth"] == 1
	})
	api.await(t, `sum(priority_documents_total{job="fourth",priority_degraded="true"})`, degraded)
	if !strings.Contains(log.String(), prefix+":{corrupt}:count") {
		t.Errorf("the log does not name the key:\n%s", log.String())
	}
	redistest.Await(t, "all rules are evaluated", func() bool {
		rules := api.get(t, "/api/v1/rules")
		if strings.Contains(rules, `"health":"err"`) {
			t.Fatalf("a rule fails: %s", rules)
		}
		return strings.Contains(rules, `"health":"ok"`) && !strings.Contains(rules, `"health":"unknown"`)
	})
}

// Each query of the dashboard, run on a Prometheus that scrapes a process with documents of
// both rules, errors and operators, has a value.
func TestEachPanelShowsWhatPrometheusKnows(t *testing.T) {
	t.Parallel()
	program := redistest.Find(t, "prometheus", "prometheus")
	server := redistest.Start(t)
	store, metrics, closeStore, err := open(server.Addr, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeStore)
	admin, err := control.NewAdmin(server.Client(), &control.AdminOptions{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	change, changeRules := control.Change{By: "mary", Why: "a test"}, control.Change{By: "mary", Why: "a test"}
	api := startPrometheus(t, program, alerts(t), map[string][]string{"process": {show(t, metrics)}})
	whileLoaded(t, store)
	variables := strings.NewReplacer("$__rate_interval", "3s", "$job", "process")
	turns := 0
	for _, query := range queries(t) {
		redistest.Await(t, query.what+" has a value", func() bool {
			if change.Replaces, err = admin.SetOverride(t.Context(), "overridden", priority.Override{Earliest: 4, Latest: 4}, time.Hour, change); err != nil {
				t.Fatal(err)
			}
			turns++
			rules := control.Rules{Policy: priority.Policy{ResetInterval: time.Duration(1+turns%2) * time.Hour}}
			if changeRules.Replaces, err = admin.Apply(t.Context(), rules, changeRules); err != nil {
				t.Fatal(err)
			}
			for _, value := range api.query(t, variables.Replace(query.expr), "") {
				if !math.IsNaN(value) {
					return true
				}
			}
			return false
		})
	}
}

// whileLoaded has a process count documents until the test ends: of both rules, at
// level 1, of a customer with an override, and of none.
func whileLoaded(t *testing.T, store priority.Store) {
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_, _ = load{workers: 2, documents: 1_000_000, pause: 5 * time.Millisecond}.put(ctx, store)
	})
	running.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			_, _ = handle(context.Background(), store, fmt.Sprint("new-", n), "1")
			_, _ = store.Next(context.Background(), "overridden")
			_, _ = store.Next(context.Background(), "")
			rest(ctx, 20*time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
}

// process is a process of the fleet.
type process struct {
	target string
	lines  *bufio.Scanner
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"process"}, args...)...)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	redistest.StartProgram(t, cmd)
	p := &process{lines: bufio.NewScanner(output)}
	address, err := url.Parse(strings.TrimPrefix(p.line(t), "metrics at "))
	if err != nil || address.Host == "" {
		t.Fatalf("the process tells no address: %q, %v", p.lines.Text(), err)
	}
	p.target = address.Host
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("the process prints no more: %v", p.lines.Err())
	}
	return p.lines.Text()
}

func (p *process) awaitTotals(t *testing.T) totals {
	t.Helper()
	line := p.line(t)
	_, levels, ok := strings.Cut(line, "level×documents:")
	if !ok {
		t.Fatalf("the process prints %q, not its totals", line)
	}
	counted := make(totals)
	for field := range strings.FieldsSeq(levels) {
		var level priority.Level
		var n int
		if _, err := fmt.Sscanf(field, "%d×%d", &level, &n); err != nil {
			t.Fatalf("the process prints %q: %v", line, err)
		}
		counted[level] = n
	}
	return counted
}

// prometheusAPI is the address of a Prometheus.
type prometheusAPI string

// alerts are the rules.
func alerts(t *testing.T) string {
	t.Helper()
	rules, err := os.ReadFile("../../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	return string(rules)
}

// startPrometheus starts one that scrapes the targets of each job and knows some rules.
func startPrometheus(t *testing.T, program, alerts string, jobs map[string][]string) prometheusAPI {
	t.Helper()
	dir := t.TempDir()
	rules := filepath.Join(dir, "alerts.yml")
	if err := os.WriteFile(rules, []byte(alerts), 0o644); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}\nrule_files: [%q]\nscrape_configs:\n", rules)
	for job, targets := range jobs {
		list, _ := json.Marshal(targets) // a YAML list too
		config += fmt.Sprintf("- {job_name: %q, static_configs: [{targets: %s}]}\n", job, list)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	var log bytes.Buffer
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--enable-feature=exemplar-storage", "--log.level=warn")
	cmd.Stderr = &log
	redistest.StartProgram(t, cmd)
	t.Cleanup(func() {
		if t.Failed() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Logf("prometheus:\n%s", log.String())
		}
	})
	redistest.Await(t, "prometheus is ready", func() bool {
		response, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return prometheusAPI("http://" + address)
}

func (api prometheusAPI) get(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get(string(api) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", path, response.Status, err, body.String())
	}
	return body.String()
}

// query returns the values of an instant query by one of their labels.
func (api prometheusAPI) query(t *testing.T, query, label string) map[string]float64 {
	t.Helper()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal([]byte(api.get(t, "/api/v1/query?query="+url.QueryEscape(query))), &answer); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, result := range answer.Data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(result.Value[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		values[result.Metric[label]] = value
	}
	return values
}

// await awaits that an instant query has this one value: a scrape may fail now and then.
func (api prometheusAPI) await(t *testing.T, query string, want float64) {
	t.Helper()
	redistest.Await(t, fmt.Sprintf("%s is %v", query, want), func() bool {
		got := api.query(t, query, "")
		return len(got) == 1 && got[""] == want
	})
}

// program runs the program in this process.
func program(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

// interrupter is an output that interrupts the program when it has counted.
type interrupter struct {
	bytes.Buffer
	interrupt func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("counted ")) {
		i.interrupt()
	}
	return i.Buffer.Write(p)
}

// standardError may be written to from the background, as a process's may.
type standardError struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (e *standardError) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(p)
}

func (e *standardError) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.String()
}

func TestItCountsUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, redis := range []string{"", "127.0.0.1:1"} { // nobody listens there: a fallback answers
		ctx, interrupt := context.WithCancel(t.Context())
		stdout, stderr := &interrupter{interrupt: interrupt}, new(standardError)
		status := run(ctx, []string{"-redis", redis, "-listen", "127.0.0.1:0", "-documents", "100", "-pause", "0", "-for", "1h"}, stdout, stderr)
		if status != succeeded || !strings.Contains(stdout.String(), "counted 100 documents, level×documents: 1×") {
			t.Errorf("on Redis %q: exit status %d, stdout\n%s", redis, status, stdout)
		}
		logged := stderr.String()
		wantNoErrors(t, logged)
		if outages := strings.Count(logged, "Redis cannot be reached"); redis != "" && outages != 1 {
			t.Errorf("on Redis %q it logs %d outages, want 1:\n%s", redis, outages, logged)
		}
	}
}

func TestItEndsByItself(t *testing.T) {
	t.Parallel()
	for _, documents := range []string{"0", "1000000"} { // after its work, and in the middle of it
		status, stdout, stderr := program(t.Context(), "-listen", "127.0.0.1:0", "-documents", documents, "-for", "300ms")
		if status != succeeded || !strings.Contains(stdout, "counted ") {
			t.Errorf("exit status %d, stderr %q, stdout\n%s", status, stderr, stdout)
		}
		wantNoErrors(t, stderr)
	}
}

// wantNoErrors checks that the program logs nothing but what the fleet does when Redis is
// late, as it may be on a busy machine.
func wantNoErrors(t *testing.T, logged string) {
	t.Helper()
	for line := range strings.Lines(logged) {
		if !strings.Contains(line, ` msg="priority: `) || strings.Contains(line, "level=ERROR") {
			t.Errorf("it logs %q", line)
		}
	}
}

func TestMisuseIsTold(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-workers", "0"}, {"-workers", "101"}, {"-documents", "-1"}, {"-documents", "1000001"},
		{"-pause", "-1s"}, {"-for", "0"}, {"-nonsense"}, {"something"},
	} {
		if status, stdout, stderr := program(t.Context(), args...); status != misused || stdout != "" || stderr == "" {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
	if status, _, stderr := program(t.Context(), "-listen", "nowhere:0:0"); status != failed || !strings.HasPrefix(stderr, "prometheus: ") {
		t.Errorf("no address: exit status %d, stderr %q", status, stderr)
	}
}
