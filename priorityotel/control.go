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

// ObserveControl records what a *control.Store knows of what operators have set, each
// time that the metrics are read, until stop is called. The priority.control and
// priority.trial metrics are only there meanwhile.
//
// They are of one document: an Instrumentation observes one such store at a time. An
// error wraps [priority.ErrInvalidOption], or is the meter provider's.
func (i *Instrumentation) ObserveControl(store interface{ Status() control.Status }) (stop func() error, err error) {
	if typednil.Is(store) {
		return nil, fmt.Errorf("%w: the store is nil", priority.ErrInvalidOption)
	}
	if !i.controlled.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("%w: another store's document is observed already", priority.ErrInvalidOption)
	}
	registration, err := observeControl(i.metrics.meter, store)
	if err != nil {
		i.controlled.Store(false)
		return nil, err
	}
	return sync.OnceValue(func() error {
		defer i.controlled.Store(false)
		return registration.Unregister()
	}), nil
}

// controlled is what is recorded of a control store.
type controlled struct {
	since time.Time // when it began to be observed

	age       metric.Float64ObservableGauge
	failing   metric.Int64ObservableGauge
	version   metric.Int64ObservableGauge
	overrides metric.Int64ObservableGauge
	members   metric.Int64ObservableGauge
	trials    metric.Int64ObservableGauge
	trialAge  metric.Float64ObservableGauge
	tried     metric.Int64ObservableCounter
}

func observeControl(meter metric.Meter, store interface{ Status() control.Status }) (metric.Registration, error) {
	c := controlled{since: time.Now()}
	var errs [8]error
	c.age, errs[0] = meter.Float64ObservableGauge("priority.control.age",
		metric.WithUnit("s"),
		metric.WithDescription("How long ago this process knew for sure what operators have set; where it never did, since it is observed."))
	c.failing, errs[1] = meter.Int64ObservableGauge("priority.control.failing",
		metric.WithUnit("{store}"),
		metric.WithDescription("1 where what operators have set could not be read or used the last time, or the total of a trial not be written; else 0."))
	c.version, errs[2] = meter.Int64ObservableGauge("priority.control.version",
		metric.WithUnit("{change}"),
		metric.WithDescription("Version of the operators' document that this process goes by."))
	c.overrides, errs[3] = meter.Int64ObservableGauge("priority.control.overrides",
		metric.WithUnit("{override}"),
		metric.WithDescription("Overrides that hold, by this process's clock."))
	c.members, errs[4] = meter.Int64ObservableGauge("priority.control.members",
		metric.WithUnit("{customer}"),
		metric.WithDescription("Customers whose tier operators have set."))
	c.trials, errs[5] = meter.Int64ObservableGauge("priority.control.trials",
		metric.WithUnit("{trial}"),
		metric.WithDescription("1 where rules are on trial, else 0."))
	c.trialAge, errs[6] = meter.Float64ObservableGauge("priority.trial.age",
		metric.WithUnit("s"),
		metric.WithDescription("How long the rules have been on trial, by this process's clock."))
	// A new trial begins at 0. Its version makes it a series of its own, and not one
	// that goes back; only those of the trial that runs are told, levels² at most.
	c.tried, errs[7] = meter.Int64ObservableCounter("priority.trial.documents",
		metric.WithUnit("{document}"),
		metric.WithDescription("Documents that this process has seen during the trial: by their level without an override, and by the rules on trial."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		c.observe(observer, store.Status(), time.Now())
		return nil
	}, c.age, c.failing, c.version, c.overrides, c.members, c.trials, c.trialAge, c.tried)
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
	observer.ObserveInt64(c.members, int64(len(document.Members)))
	observer.ObserveInt64(c.trials, oneIf(document.Trial != nil))
	if document.Trial == nil {
		return
	}
	observer.ObserveFloat64(c.trialAge, max(0, now.Sub(document.Trial.At).Seconds()))
	for _, moved := range status.Moved {
		observer.ObserveInt64(c.tried, moved.Documents, metric.WithAttributes(
			ruledLevelKey.Int(int(moved.From)), trialLevelKey.Int(int(moved.To)), trialVersionKey.Int64(document.Trial.Version)))
	}
}

func oneIf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}
