package priorityotel_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/docpriority/priority/internal/nodetest"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/priorityotel"
)

// worker is a process of the fleet.
type worker struct {
	name  string
	cmd   *exec.Cmd
	to    io.Writer
	lines *bufio.Scanner
}

// says writes a line to the worker and returns its answer.
func (w *worker) says(t *testing.T, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(w.to, line); err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	if !w.lines.Scan() {
		t.Fatalf("%s ended at %q", w.name, line)
	}
	return w.lines.Text()
}

// views is a fleet, and all ways to look at it.
type views struct {
	*testing.T
	server   *redistest.Server
	client   *redis.Client
	program  string // priorityctl
	page     string // its address
	registry *prometheus.Registry
	workers  map[string]*worker

	levels  map[string]float64 // documents by level, as callers got them
	last    map[string]string  // the last level of each customer
	pending map[string]float64
}

var fleetOf = []string{"go-1", "go-2", "python-1", "python-2", "node-1", "node-2"}

// Six processes in three languages say the same to operators, by status, top, list, the
// page and Prometheus, as their callers got.
func TestFleet_OneTruth(t *testing.T) {
	t.Parallel()
	o := watch(t)
	for _, name := range fleetOf {
		for i := range 10 {
			o.submit(o.workers[name], "customer-"+fmt.Sprint(i%3), fmt.Sprint(name, "-", i))
		}
	}
	for i := range 300 {
		o.submit(o.workers["go-1"], "flooder", fmt.Sprint("flood-", i))
	}
	o.done(o.workers["python-1"], "customer-0", "go-1-0")
	o.agree()
	if o.ctl(0, "status"); !strings.Contains(o.get("customer?c=flooder"), "waits behind") {
		t.Error("the page does not say why flooder waits")
	}
}

// watch starts the fleet, and what looks at it.
func watch(t *testing.T) *views {
	server := redistest.Start(t)
	o := &views{
		T: t, server: server, client: server.Client(), registry: prometheus.NewRegistry(), workers: make(map[string]*worker),
		levels: make(map[string]float64), last: make(map[string]string), pending: make(map[string]float64), program: filepath.Join(t.TempDir(), "priorityctl"),
	}
	build := exec.Command("go", "build", "-o", o.program, "github.com/docpriority/priority/cmd/priorityctl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range fleetOf {
		o.start(name)
	}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(o.registry))
	o.check(err)
	instrumentation, err := priorityotel.New(&priorityotel.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))})
	o.check(err)
	stop, err := instrumentation.ObserveFleet(o.client, "priority")
	o.check(err)
	t.Cleanup(func() { _ = stop() })
	ctx, cancel := context.WithCancel(context.Background())
	serve := exec.CommandContext(ctx, o.program, "serve", "-listen", "127.0.0.1:0", "-redis", "redis://"+server.Addr)
	out, err := serve.StdoutPipe()
	o.check(err)
	o.check(serve.Start())
	t.Cleanup(func() { cancel(); _ = serve.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	o.check(err)
	o.page, _, _ = strings.Cut(line, " ")
	return o
}

var installed nodetest.Copy

// start starts a worker. Its language begins its name.
func (o *views) start(name string) {
	var cmd *exec.Cmd
	source, err := filepath.Abs("testdata/workers")
	o.check(err)
	switch language, _, _ := strings.Cut(name, "-"); language {
	case "python":
		program := ""
		for _, candidate := range []string{"python3", "/usr/bin/python3"} {
			if program == "" && exec.Command(candidate, "-c", "import redis").Run() == nil {
				program = candidate
			}
		}
		if program == "" {
			redistest.Skip(o, "no python3 has redis-py: apt-get install python3 python3-redis")
		}
		client, err := filepath.Abs("../clients/python/src")
		o.check(err)
		cmd = exec.Command(program, filepath.Join(source, "worker.py"), o.server.Addr, name)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+client, "PYTHONDONTWRITEBYTECODE=1")
	case "node":
		cmd = exec.Command("node", filepath.Join(source, "worker.cjs"), o.server.Addr, name)
		cmd.Dir = installed.Install(o, "..", "clients/nodejs")
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(cmd.Dir, "node_modules"))
	default:
		program := filepath.Join(filepath.Dir(o.program), "worker")
		if out, err := exec.Command("go", "build", "-o", program, "./testdata/workers").CombinedOutput(); err != nil {
			o.Fatalf("%v\n%s", err, out)
		}
		cmd = exec.Command(program, o.server.Addr, name)
	}
	cmd.Stderr = io.Discard
	to, err := cmd.StdinPipe()
	o.check(err)
	from, err := cmd.StdoutPipe()
	o.check(err)
	redistest.StartProgram(o, cmd)
	o.workers[name] = &worker{name, cmd, to, bufio.NewScanner(from)}
}

func (o *views) submit(w *worker, customer, document string) {
	o.Helper()
	level, _, _ := strings.Cut(w.says(o.T, "submit "+customer+" "+document), " ")
	o.levels[level]++
	o.last[customer] = level
	o.pending[customer]++
}

func (o *views) done(w *worker, customer, document string) {
	w.says(o.T, "done "+customer+" "+document)
	o.pending[customer]--
}

func (o *views) check(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

func (o *views) await(what string, is func() bool) {
	o.Helper()
	redistest.Await(o, what, is)
}

// ctl runs priorityctl, which must end with a status; -1: with any.
func (o *views) ctl(status int, args ...string) string {
	o.Helper()
	cmd := exec.Command(o.program, append(args, "-redis", "redis://"+o.server.Addr, "-timeout", "10s")...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		o.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); status >= 0 && got != status {
		o.Errorf("%v: status %d, not %d:\n%s", args, got, status, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// get returns a page.
func (o *views) get(path string) string {
	o.Helper()
	response, err := http.Get(o.page + path)
	o.check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	o.check(err)
	return string(body)
}

// shown awaits that a page shows something.
func (o *views) shown(path string, wants ...string) {
	o.Helper()
	for _, want := range wants {
		o.await(fmt.Sprintf("the page %q shows %q", path, want), func() bool { return strings.Contains(o.get(path), want) })
	}
}

// metric returns the sum of a metric's series by a label; of all series if label is empty.
func (o *views) metric(name, label string) map[string]float64 {
	o.Helper()
	families, err := o.registry.Gather()
	o.check(err)
	sums := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			of := ""
			for _, pair := range series.GetLabel() {
				if pair.GetName() == label {
					of = pair.GetValue()
				}
			}
			sums[of] += series.GetGauge().GetValue()
		}
	}
	return sums
}

func (o *views) objects(command string) (all []map[string]any) {
	o.Helper()
	cmd := exec.Command(o.program, append(strings.Fields(command), "-json", "-redis", "redis://"+o.server.Addr)...)
	out, _ := cmd.Output()
	for line := range strings.Lines(string(out)) {
		var object map[string]any
		o.check(json.Unmarshal([]byte(line), &object))
		all = append(all, object)
	}
	return all
}

// agree awaits that every view shows what the callers got.
func (o *views) agree() {
	o.Helper()
	o.await("Prometheus counts the workers", func() bool { return o.metric("priority_fleet_workers", "")[""] == float64(len(o.workers)) })
	o.await("status, list and top agree with the callers", func() bool {
		pending, last := make(map[string]float64), make(map[string]string)
		for _, c := range o.objects("list") {
			pending[c["customer"].(string)] = c["pending"].(float64)
		}
		top := o.objects("top")[0]
		for _, b := range top["busiest"].([]any) {
			busy := b.(map[string]any)
			last[busy["customer"].(string)] = fmt.Sprint(busy["last_level"])
		}
		return maps.Equal(pending, o.pending) && maps.Equal(last, o.last) && top["workers"] == float64(len(o.workers)) &&
			strings.Contains(o.ctl(-1, "status"), fmt.Sprintf("all %d workers follow", len(o.workers)))
	})
	for name := range o.workers {
		o.shown("workers", name)
	}
	byLevel := func() map[string]float64 {
		got := make(map[string]float64)
		for _, l := range o.objects("top")[0]["levels"].([]any) {
			if level := l.(map[string]any); level["by_load"] != 0. {
				got[fmt.Sprint(level["level"])] = level["by_load"].(float64)
			}
		}
		return got
	}
	o.await("top agrees by level", func() bool { return maps.Equal(byLevel(), o.levels) })
	o.await("Prometheus agrees by level", func() bool {
		got := o.metric("priority_fleet_documents", "priority_level")
		maps.DeleteFunc(got, func(level string, n float64) bool { return level == "" || n == 0 })
		return maps.Equal(got, o.levels)
	})
	for level, n := range o.levels {
		o.shown("", fmt.Sprintf(">%s</th>", level), fmt.Sprintf(">%g<", n))
	}
}
