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
)

// ObserveStore also records what a store itself knows, until stop is called: which
// documents get the last level of their policy; each time that the metrics are read,
// whether a fallback's answers are degraded, and what a *control.Store follows. The store
// is the outermost one: [priority.As] finds the others.
//
// An Instrumentation observes one store at a time. An error wraps
// [priority.ErrInvalidOption], or is the meter provider's.
func (i *Instrumentation) ObserveStore(store priority.Store) (stop func() error, err error) {
	if typednil.Is(store) {
		return nil, fmt.Errorf("%w: the store is nil", priority.ErrInvalidOption)
	}
	if !i.metrics.store.CompareAndSwap(nil, &store) {
		return nil, fmt.Errorf("%w: another store is observed already", priority.ErrInvalidOption)
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

// observeStore registers what is read of the stores that a store wraps.
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
	if controlled, ok := priority.As[interface{ Status() control.Status }](store); ok {
		register(observeControl(meter, controlled.Status))
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

// controlled is what is recorded of a control store.
type controlled struct {
	since time.Time // when it began to be observed

	age       metric.Float64ObservableGauge
	failing   metric.Int64ObservableGauge
	version   metric.Int64ObservableGauge
	overrides metric.Int64ObservableGauge
}

func observeControl(meter metric.Meter, status func() control.Status) (metric.Registration, error) {
	c := controlled{since: time.Now()}
	var errs [4]error
	c.age, errs[0] = meter.Float64ObservableGauge("priority.control.age",
		metric.WithUnit("s"),
		metric.WithDescription("How long ago this process knew for sure what operators have set; where it never did, since it is observed."))
	c.failing, errs[1] = meter.Int64ObservableGauge("priority.control.failing",
		metric.WithUnit("{store}"),
		metric.WithDescription("1 where what operators have set could not be read or used the last time, else 0."))
	c.version, errs[2] = meter.Int64ObservableGauge("priority.control.version",
		metric.WithUnit("{change}"),
		metric.WithDescription("Version of the operators' document that this process goes by."))
	c.overrides, errs[3] = meter.Int64ObservableGauge("priority.control.overrides",
		metric.WithUnit("{override}"),
		metric.WithDescription("Overrides that hold, by this process's clock."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		c.observe(observer, status(), time.Now())
		return nil
	}, c.age, c.failing, c.version, c.overrides)
}

func (c *controlled) observe(observer metric.Observer, status control.Status, now time.Time) {
	known := status.ReadAt
	if known.IsZero() {
		known = c.since
	}
	observer.ObserveFloat64(c.age, now.Sub(known).Seconds())
	observer.ObserveInt64(c.failing, oneIf(status.Err != nil))
	document := status.Document
	if document == nil {
		return // it is not known what holds, and 0 would say that nothing does
	}
	overrides := int64(0)
	for _, override := range document.Overrides {
		overrides += oneIf(now.Before(override.Until))
	}
	observer.ObserveInt64(c.version, document.Version)
	observer.ObserveInt64(c.overrides, overrides)
}

func oneIf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}
