package priorityotel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
)

// The attributes that only the fleet's metrics have.
const (
	languageKey = attribute.Key("priority.language")
	followsKey  = attribute.Key("priority.follows")
	quantileKey = attribute.Key("priority.quantile")
)

// The reports are written every five seconds.
const (
	fleetInterval = 5 * time.Second
	fleetTimeout  = 4 * time.Second
)

// ObserveFleet records what the processes of all languages report, until stop is called. It
// reads their reports from Redis every five seconds, in the background: collecting metrics
// never waits for Redis, and while Redis cannot be reached these metrics are absent. Call it
// in one process of the fleet, or in a few. Prefix "" means "priority".
//
// An error wraps [priority.ErrInvalid], or is the meter provider's.
func (i *Instrumentation) ObserveFleet(client redis.UniversalClient, prefix string) (stop func() error, err error) {
	admin, err := control.NewAdmin(client, &control.AdminOptions{Prefix: prefix, Timeout: -1})
	if err != nil {
		return nil, err
	}
	if !i.fleet.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("%w option: a fleet is observed already", priority.ErrInvalid)
	}
	reader := &fleetReader{client: client, prefix: prefix, admin: admin}
	registration, err := observeFleet(i.metrics.meter, reader)
	if err != nil {
		i.fleet.Store(false)
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go reader.run(ctx)
	return sync.OnceValue(func() error {
		defer i.fleet.Store(false)
		cancel() // a reading in flight ends by itself
		return registration.Unregister()
	}), nil
}

// fleetReader reads what a fleet reports.
type fleetReader struct {
	client redis.UniversalClient
	prefix string
	admin  *control.Admin
	latest atomic.Pointer[reading] // nil: it failed
}

type reading struct {
	reports []fleet.Report
	version int64 // of the policies that Redis has; 0: none, or they cannot be read
}

func (r *fleetReader) run(ctx context.Context) {
	ticks := time.NewTicker(fleetInterval)
	defer ticks.Stop()
	for {
		r.latest.Store(r.read(ctx))
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *fleetReader) read(ctx context.Context) *reading {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	reports, err := fleet.Read(ctx, r.client, r.prefix)
	if err != nil {
		return nil
	}
	applied, _ := r.admin.Policies(ctx)
	return &reading{reports, applied.Version}
}

// reported are the metrics of a fleet.
type reported struct {
	workers   metric.Int64ObservableGauge
	gone      metric.Int64ObservableGauge
	degraded  metric.Int64ObservableGauge
	documents metric.Int64ObservableGauge
	wait      metric.Float64ObservableGauge
	version   metric.Int64ObservableGauge
}

func observeFleet(meter metric.Meter, reader *fleetReader) (metric.Registration, error) {
	var r reported
	var errs [6]error
	gauge := func(name, unit, description string, err *error) (gauge metric.Int64ObservableGauge) {
		gauge, *err = meter.Int64ObservableGauge("priority.fleet."+name, metric.WithUnit(unit), metric.WithDescription(description))
		return gauge
	}
	r.workers = gauge("workers", "{process}", "Processes that report, by whether they follow the newest policies and apply overrides.", &errs[0])
	r.degraded = gauge("degraded", "{process}", "Processes in which a fallback answers instead of Redis.", &errs[1])
	r.documents = gauge("documents", "{document}", "Documents of the last minute: by rule and level, or by error type if they were not counted.", &errs[2])
	r.version = gauge("version", "{change}", "Version of the operators' policies, or of their withdrawal.", &errs[3])
	r.gone = gauge("gone", "{process}", "Processes that stopped reporting within the last hour, and did not close.", &errs[4])
	r.wait, errs[5] = meter.Float64ObservableGauge("priority.fleet.wait", metric.WithUnit("s"),
		metric.WithDescription("Time from when a document was due until Done, of those of the last minute, by level."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		if latest := reader.latest.Load(); latest != nil {
			r.observe(observer, latest)
		}
		return nil
	}, r.workers, r.gone, r.degraded, r.documents, r.wait, r.version)
}

// newest returns the version that workers should follow. If Redis has no policies, only the
// reports do.
func (r *reading) newest() (version int64) {
	if r.version > 0 {
		return r.version
	}
	for _, report := range r.reports {
		version = max(version, report.Following.Version)
	}
	return version
}

func (r *reported) observe(observer metric.Observer, latest *reading) {
	if latest.version > 0 {
		observer.ObserveInt64(r.version, latest.version)
	}
	version, workers := latest.newest(), make(map[string][2]int64) // by language: how many do not follow, and how many do
	for _, report := range latest.reports {
		if !report.Here() {
			continue
		}
		language := oneOf(report.Language, "unknown", "go", "python", "nodejs")
		counts := workers[language]
		counts[oneIf(report.Overrides && report.Follows(version))]++
		workers[language] = counts
	}
	for language, counts := range workers {
		for follows, n := range counts {
			observer.ObserveInt64(r.workers, n, metric.WithAttributes(languageKey.String(language), followsKey.Bool(follows == 1)))
		}
	}
	totals := fleet.Add(latest.reports)
	observer.ObserveInt64(r.degraded, int64(totals.Degraded))
	observer.ObserveInt64(r.gone, int64(totals.Gone))
	for rule, levels := range map[string]map[priority.Level]int64{byCount: totals.ByCount, byLoad: totals.ByLoad} {
		for level, n := range levels {
			observer.ObserveInt64(r.documents, n, metric.WithAttributes(ruleKey.String(rule), levelKey.Int(int(level))))
		}
	}
	failed := make(map[string]int64)
	for kind, n := range totals.Errors {
		failed[oneOf(kind, "_OTHER", errorTypes...)] += n
	}
	for kind, n := range failed {
		observer.ObserveInt64(r.documents, n, metric.WithAttributes(semconv.ErrorTypeKey.String(kind)))
	}
	for level, waits := range totals.Waits {
		for _, q := range []float64{.5, .95} {
			observer.ObserveFloat64(r.wait, waits.Quantile(q).Seconds(), metric.WithAttributes(
				levelKey.Int(int(level)), quantileKey.String(strconv.FormatFloat(q, 'f', -1, 64))))
		}
	}
}

// oneOf returns the name if it is one of the names, else other: Redis's content must not add
// series.
func oneOf(name, other string, names ...string) string {
	if slices.Contains(names, name) {
		return name
	}
	return other
}
