package priorityotel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// The attributes that only the fleet's metrics have.
const (
	languageKey = attribute.Key("priority.language")
	followsKey  = attribute.Key("priority.follows")
	quantileKey = attribute.Key("priority.quantile")
)

// ObserveFleet records what the processes of all languages report, until stop is called. It
// reads their reports from Redis every five seconds, in the background: collecting metrics
// never waits for Redis, and while Redis cannot be reached these metrics are absent. Call it
// in one process of the fleet, or in a few. Prefix "" means "priority".
//
// An error wraps [priority.ErrInvalid], or is the meter provider's.
func (i *Instrumentation) ObserveFleet(client redis.UniversalClient, prefix string) (stop func() error, err error) {
	reader, err := newFleetReader(client, prefix)
	if err != nil {
		return nil, err
	}
	if !i.fleet.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("%w option: a fleet is observed already", priority.ErrInvalid)
	}
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

// reported are the metrics of a fleet.
type reported struct {
	workers   metric.Int64ObservableGauge
	gone      metric.Int64ObservableGauge
	degraded  metric.Int64ObservableGauge
	documents metric.Int64ObservableGauge
	version   metric.Int64ObservableGauge
	pending   metric.Int64ObservableGauge
	submitted metric.Int64ObservableGauge
	ended     metric.Int64ObservableGauge
	others    metric.Int64ObservableGauge
	wait      metric.Float64ObservableGauge
	oldest    metric.Float64ObservableGauge
	clock     metric.Float64ObservableGauge
}

func observeFleet(meter metric.Meter, reader *fleetReader) (metric.Registration, error) {
	var r reported
	var errs []error
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		gauge, err := meter.Int64ObservableGauge("priority.fleet."+name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return gauge
	}
	seconds := func(name, description string) metric.Float64ObservableGauge {
		gauge, err := meter.Float64ObservableGauge("priority.fleet."+name, metric.WithUnit("s"), metric.WithDescription(description))
		errs = append(errs, err)
		return gauge
	}
	r.workers = gauge("workers", "{process}", "Processes that report, by whether they follow the newest policies and apply overrides.")
	r.degraded = gauge("degraded", "{process}", "Processes in which a fallback answers instead of Redis.")
	r.gone = gauge("gone", "{process}", "Processes that stopped reporting within the last hour, and did not close.")
	r.others = gauge("others", "{process}", "Processes that decide by other policies than most.")
	r.version = gauge("version", "{change}", "Version of the operators' policies, or of their withdrawal.")
	r.documents = gauge("documents", "{document}", "Documents of the last minute: by rule and level, or by error type if they were not counted.")
	r.submitted = gauge("submitted", "{document}", "Documents submitted in the last hour.")
	r.ended = gauge("ended", "{document}", "Documents that a Done ended in the last hour.")
	r.pending = gauge("pending", "{document}", "Documents pending by level, at least: of the customers with most, as the reports name them. Of each, the levels of the oldest 2,000 are known.")
	r.oldest = seconds("oldest", "For how long the oldest of these documents has been due, by level.")
	r.wait = seconds("wait", "Time from when a document was due until Done, of those of the last minute, by level.")
	r.clock = seconds("clock", "How far a process's clock and Redis's are apart at most.")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		if latest := reader.latest.Load(); latest != nil {
			r.observe(observer, latest)
		}
		return nil
	}, r.workers, r.gone, r.degraded, r.version, r.documents, r.submitted, r.ended,
		r.pending, r.others, r.wait, r.oldest, r.clock)
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
	totals := latest.totals
	observer.ObserveInt64(r.degraded, int64(totals.Degraded))
	observer.ObserveInt64(r.gone, int64(totals.Gone))
	observer.ObserveInt64(r.submitted, totals.Submitted)
	observer.ObserveInt64(r.ended, totals.Ended)
	observer.ObserveInt64(r.others, latest.others())
	observer.ObserveFloat64(r.clock, latest.apart().Seconds())
	if latest.unread > 0 {
		observer.ObserveInt64(r.pending, latest.unread, metric.WithAttributes(levelKey.String("unknown")))
	}
	for level, waits := range latest.backlog {
		at := metric.WithAttributes(levelKey.Int(int(level)))
		observer.ObserveInt64(r.pending, waits.Pending, at)
		observer.ObserveFloat64(r.oldest, waits.Oldest.Age.Seconds(), at)
	}
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
