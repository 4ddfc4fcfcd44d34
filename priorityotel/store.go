package priorityotel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/typednil"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// ObserveStore also records what a store itself knows, until stop is called: which
// documents get the last level of their policy; each time that the metrics are read,
// whether a fallback's answers are degraded, and which of the operators' rules a
// *control.Store follows. The store is the outermost one, or a *fleet.Member:
// [priority.As] finds what it wraps.
//
// An Instrumentation observes one store at a time. An error wraps
// [priority.ErrInvalid], or is the meter provider's.
func (i *Instrumentation) ObserveStore(store priority.Store) (stop func() error, err error) {
	if typednil.Is(store) {
		return nil, fmt.Errorf("%w option: the store is nil", priority.ErrInvalid)
	}
	if !i.metrics.store.CompareAndSwap(nil, &store) {
		return nil, fmt.Errorf("%w option: another store is observed already", priority.ErrInvalid)
	}
	registrations, err := observeStore(i.metrics.meter, store)
	if err != nil {
		i.metrics.store.Store(nil)
		return nil, errors.Join(err, unregister(registrations))
	}
	return sync.OnceValue(func() error {
		defer i.metrics.store.Store(nil)
		return unregister(registrations)
	}), nil
}

// observeStore registers the metrics of the stores that a store wraps.
func observeStore(meter metric.Meter, store priority.Store) (registrations []metric.Registration, err error) {
	var errs []error
	register := func(registration metric.Registration, err error) {
		if errs = append(errs, err); err == nil {
			registrations = append(registrations, registration)
		}
	}
	if answering, ok := priority.As[interface{ Degraded() bool }](store); ok {
		register(observeDegraded(meter, answering.Degraded))
	}
	if follower, ok := priority.As[interface{ Status() control.Status }](store); ok {
		register(observeRules(meter, follower.Status))
	}
	return registrations, errors.Join(errs...)
}

func unregister(registrations []metric.Registration) error {
	var errs []error
	for _, registration := range registrations {
		errs = append(errs, registration.Unregister())
	}
	return errors.Join(errs...)
}

func observeDegraded(meter metric.Meter, isDegraded func() bool) (metric.Registration, error) {
	degraded, err := meter.Int64ObservableGauge("priority.degraded",
		metric.WithUnit("{store}"),
		metric.WithDescription("1 while a fallback answers instead of Redis, else 0."))
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		observer.ObserveInt64(degraded, oneIf(isDegraded()))
		return nil
	}, degraded)
}

// following are the metrics of the rules that operators have set.
type following struct {
	since time.Time // when it began to be observed

	age     metric.Float64ObservableGauge
	failing metric.Int64ObservableGauge
	version metric.Int64ObservableGauge
}

func observeRules(meter metric.Meter, status func() control.Status) (metric.Registration, error) {
	f := following{since: time.Now()}
	var errs [3]error
	f.age, errs[0] = meter.Float64ObservableGauge("priority.rules.age",
		metric.WithUnit("s"),
		metric.WithDescription("Time since the operators' rules were last read; since the store is observed if they never were."))
	f.failing, errs[1] = meter.Int64ObservableGauge("priority.rules.failing",
		metric.WithUnit("{store}"),
		metric.WithDescription("1 if the newest rules are not followed for this reason, else 0."))
	f.version, errs[2] = meter.Int64ObservableGauge("priority.rules.version",
		metric.WithUnit("{change}"),
		metric.WithDescription("Version of the rules that this process follows, or of their withdrawal; 0 if rules were never set."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		f.observe(observer, status(), time.Now())
		return nil
	}, f.age, f.failing, f.version)
}

func (f *following) observe(observer metric.Observer, status control.Status, now time.Time) {
	known := status.ReadAt
	if known.IsZero() {
		known = f.since
	} else { // else the version is unknown, and 0 would say that rules were never set
		observer.ObserveInt64(f.version, status.Version)
	}
	observer.ObserveFloat64(f.age, now.Sub(known).Seconds())
	reason := rulesError(status.Err)
	for _, kind := range []string{"lost", "newer", "corrupt", "invalid", "_OTHER"} {
		observer.ObserveInt64(f.failing, oneIf(reason == kind), metric.WithAttributes(semconv.ErrorTypeKey.String(kind)))
	}
}

// rulesError returns the value of error.type for the error of a Status.
func rulesError(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, control.ErrLost):
		return "lost"
	case errors.Is(err, control.ErrNewer):
		return "newer"
	case errors.Is(err, control.ErrCorrupt):
		return "corrupt"
	case errors.Is(err, priority.ErrInvalid):
		return "invalid"
	}
	return "_OTHER"
}

func oneIf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}
