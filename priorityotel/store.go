package priorityotel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/typednil"
)

// ObserveStore also records what a store itself knows, until stop is called: each time that
// the metrics are read, whether a fallback answers, and which of the operators' policies a
// *fleet.Member follows. The store is the outermost one, or a *fleet.Member:
// [priority.As] finds what it wraps.
//
// An Instrumentation observes one store at a time. An error wraps
// [priority.ErrInvalid], or is the meter provider's.
func (i *Instrumentation) ObserveStore(store priority.Store) (stop func() error, err error) {
	if typednil.Is(store) {
		return nil, fmt.Errorf("%w option: the store is nil", priority.ErrInvalid)
	}
	if !i.store.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("%w option: another store is observed already", priority.ErrInvalid)
	}
	registration, err := observeStore(i.metrics.meter, store)
	if err != nil {
		i.store.Store(false)
		return nil, err
	}
	return sync.OnceValue(func() error {
		defer i.store.Store(false)
		return registration.Unregister()
	}), nil
}

// observeStore registers the metrics of the stores that a store wraps.
func observeStore(meter metric.Meter, store priority.Store) (metric.Registration, error) {
	answering, falls := priority.As[interface{ Degraded() bool }](store)
	follower, follows := priority.As[interface{ Status() control.Status }](store)
	began := time.Now()
	degraded, err1 := meter.Int64ObservableGauge("priority.degraded",
		metric.WithUnit("{store}"),
		metric.WithDescription("1 while a fallback answers instead of Redis, else 0."))
	age, err2 := meter.Float64ObservableGauge("priority.policies.age",
		metric.WithUnit("s"),
		metric.WithDescription("Time since the operators' policies were last read; since the store is observed if they never were."))
	failing, err3 := meter.Int64ObservableGauge("priority.policies.failing",
		metric.WithUnit("{store}"),
		metric.WithDescription("1 if the newest policies are not followed for this reason, else 0."))
	version, err4 := meter.Int64ObservableGauge("priority.policies.version",
		metric.WithUnit("{change}"),
		metric.WithDescription("Version of the policies that this process follows, or of their withdrawal; 0 if policies were never set."))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		if falls {
			observer.ObserveInt64(degraded, oneIf(answering.Degraded()))
		}
		if !follows {
			return nil
		}
		status, readAt := follower.Status(), began
		if !status.ReadAt.IsZero() { // else the version is unknown, and 0 would say that policies were never set
			readAt = status.ReadAt
			observer.ObserveInt64(version, status.Version)
		}
		observer.ObserveFloat64(age, time.Since(readAt).Seconds())
		for _, code := range []control.Code{control.Lost, control.Newer, control.Corrupt, control.Invalid, control.Refused, control.Unreachable} {
			observer.ObserveInt64(failing, oneIf(status.Code == code), metric.WithAttributes(semconv.ErrorTypeKey.String(string(code))))
		}
		return nil
	}, degraded, age, failing, version)
}

func oneIf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}
