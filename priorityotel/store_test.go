package priorityotel_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/internal/testing/virtualredis"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/prioritytest"
)

// knowing is a store that knows what operators have set.
type knowing struct {
	*memory.Store
	status control.Status
}

func (k *knowing) Status() control.Status { return k.status }

// acmesStatus is one that names a customer wherever it can.
func acmesStatus() *knowing {
	return &knowing{new(memory.Store), control.Status{
		Following: control.Following{Version: 7, Code: control.Unreachable, Detail: "acme"},
		Policies:  &priority.Policies{Tiers: map[string]priority.Policy{"acme": {}}},
		ReadAt:    time.Now(),
		Err:       errors.New("acme"),
	}}
}

func (r *recorder) observeStore(t *testing.T, store priority.Store) (stop func() error) {
	t.Helper()
	stop, err := r.ObserveStore(store)
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

// gauges returns what the metrics say whose names begin so, without "priority.", and
// their attributes.
func (r *recorder) gauges(t *testing.T, prefix string) map[string]float64 {
	t.Helper()
	values := make(map[string]float64)
	for name, metric := range r.metrics(t) {
		if !strings.HasPrefix(name, "priority."+prefix) {
			continue
		}
		name = strings.TrimPrefix(name, "priority.")
		switch data := metric.Data.(type) {
		case metricdata.Gauge[int64]:
			for _, point := range data.DataPoints {
				values[strings.TrimSpace(name+" "+encoded(point.Attributes))] = float64(point.Value)
			}
		case metricdata.Gauge[float64]:
			for _, point := range data.DataPoints {
				values[strings.TrimSpace(name+" "+encoded(point.Attributes))] = point.Value
			}
			if metric.Unit != "s" {
				t.Errorf("%s is in %q, want seconds", name, metric.Unit)
			}
		default:
			t.Errorf("%s is %+v", name, metric)
		}
	}
	return values
}

func TestOverriddenDocumentsAreRecordedByBothLevels(t *testing.T) {
	pinned, plain := priority.Decision{Level: 2, RuleLevel: 9}, priority.Decision{Level: 9, RuleLevel: 9}
	degraded := priority.Decision{Level: 2, RuleLevel: 9, Degraded: true}
	r := newRecorder(t, priorityotel.Options{})
	for _, call := range []observe.Call{
		{Operation: "Next", Items: 1, Decisions: []priority.Decision{pinned}},
		{Operation: "Next", Items: 1, Decisions: []priority.Decision{plain}},
		{Operation: "NextEach", Items: 4, Decisions: []priority.Decision{pinned, plain, degraded, pinned}},
		{Operation: "Peek", Decisions: []priority.Decision{pinned}},
		{
			Operation: "SubmitN", Items: 2, Decisions: []priority.Decision{pinned, pinned},
			Err: &priority.BatchError{Errs: []error{nil, errAway}},
		},
		{Operation: "NextN", Items: 2, Err: errLost},
	} {
		r.Observe(t.Context(), call)
	}
	expect(t, "overridden", r.counter(t, "priority.overridden.documents", "{document}"), map[string]int64{
		"priority.level=2,priority.rule.level=9": 5,
	})
}

// policiesFailing returns the gauges of policies that are not followed for a reason; "": they are.
func policiesFailing(age float64, version float64, reason control.Code) map[string]float64 {
	gauges := map[string]float64{"policies.age": age, "policies.version": version}
	for _, code := range reasons {
		gauges["policies.failing error.type="+string(code)] = 0
		if code == reason {
			gauges["policies.failing error.type="+string(code)] = 1
		}
	}
	return gauges
}

var reasons = []control.Code{control.Lost, control.Newer, control.Corrupt, control.Invalid, control.Refused, control.Unreachable}

func TestWhichPoliciesAreFollowedIsRecorded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := &knowing{new(memory.Store), control.Status{Following: control.Following{Version: 7}, ReadAt: time.Now().Add(-1500 * time.Millisecond)}}
		r := newRecorder(t, priorityotel.Options{})
		r.observeStore(t, observed(t, store))
		expect(t, "policies", r.gauges(t, "policies."), policiesFailing(1.5, 7, ""))
		time.Sleep(time.Minute)
		for _, code := range reasons {
			store.status.Code = code
			expect(t, "policies", r.gauges(t, "policies."), policiesFailing(61.5, 7, code))
		}
	})
}

// A process that has never read the policies says so: it has an age, from which an alert can
// tell, and no version.
func TestPoliciesThatWereNeverReadGrowOld(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRecorder(t, priorityotel.Options{})
		r.observeStore(t, &knowing{new(memory.Store), control.Status{Following: control.Following{Code: control.Unreachable}}})
		time.Sleep(90 * time.Second)
		want := policiesFailing(90, 0, control.Unreachable)
		delete(want, "policies.version")
		expect(t, "never read", r.gauges(t, "policies."), want)
	})
}

// write writes a report of an age, as a process of another language does.
func write(t *testing.T, client *redis.Client, id, report string, age time.Duration) {
	t.Helper()
	_, err := client.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
		pipe.Set(t.Context(), "priority:{fleet}:"+id, report, time.Hour-age)
		pipe.ZAdd(t.Context(), "priority:{fleet}:members", redis.Z{Member: id, Score: float64(time.Now().Add(time.Minute).UnixMilli())})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What processes of all languages report is added up; who lags behind, has a reason, or
// cannot be read does not follow; and no report makes a label of its own.
func TestAFleetsReportsAreRecorded(t *testing.T) { bubble.Test(t, testReports) }

func testReports(t *testing.T) {
	server := virtualredis.Start(t)
	client := server.Client(server.Faults)
	admin, err := control.NewAdmin(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	for replaces := range int64(2) {
		policies := priority.Policies{Policy: priority.Policy{Thresholds: []int64{-replaces}}}
		if _, err := admin.Apply(t.Context(), replaces, policies, control.Change{By: "mary", Why: "a test"}); err != nil {
			t.Fatal(err)
		}
	}
	for id, report := range map[string]string{
		"p1": `"language":"python","overrides":true,"digest":"d000000000000001","submitted_hour":7,"ended_hour":6,"following":{"version":2},"by_load":{"4":10},"waits":{"4":{"40":9,"52":1}}`,
		"p2": `"language":"python","overrides":true,"digest":"d000000000000001","written_ms":1000,"degraded":true,"following":{"version":1},"by_count":{"1":2},"by_load":{"4":5}`,
		"n1": `"language":"nodejs","overrides":true,"digest":"d000000000000002","submitted_hour":3,"by_load":{"4":1},"following":{"version":2,"code":"invalid"},"errors":{"not_counted":1,"error":2,"acme":4}`,
		"n2": `"language":"nodejs","overrides":false,"following":{"version":2}`,
		"g1": `"language":"go","overrides":true,"following":{"version":3},"busiest":[{"customer":"acme","documents":1,"rule":"load","level":1,"load":1,"pending":1}]`,
		"x1": `"language":"acme","overrides":true,"following":{"version":2}`,
	} {
		write(t, client, id, `{"format":1,"id":"`+id+`","levels":9,`+report+`}`, 0)
	}
	write(t, client, "x2", "acme", 0)
	write(t, client, "gone", `{"format":1,"levels":9,"language":"go","degraded":true,"by_load":{"4":10}}`, time.Minute)
	submit(t, client)
	r := newRecorder(t, priorityotel.Options{})
	stop, err := r.ObserveFleet(client, "")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	got := r.gauges(t, "fleet.")
	if got["fleet.clock"] < 9e8 { // p2's clock is that of 1970
		t.Errorf("the clocks of %v are not compared", got)
	}
	delete(got, "fleet.clock")
	workers := func(language, follows string) string {
		return "fleet.workers priority.follows=" + follows + ",priority.language=" + language
	}
	expect(t, "fleet", got, map[string]float64{
		workers("python", "true"): 1, workers("python", "false"): 1, workers("nodejs", "true"): 0, workers("nodejs", "false"): 2,
		workers("go", "true"): 1, workers("go", "false"): 0, workers("unknown", "true"): 1, workers("unknown", "false"): 1,
		"fleet.degraded": 1, "fleet.gone": 1, "fleet.version": 2, "fleet.others": 1,
		"fleet.submitted": 10, "fleet.ended": 6, "fleet.pending priority.level=1": 1, "fleet.oldest priority.level=1": 0,
		"fleet.documents priority.level=4,priority.rule=load": 16, "fleet.documents priority.level=1,priority.rule=count": 2,
		"fleet.documents error.type=not_counted": 1, "fleet.documents error.type=_OTHER": 6,
		"fleet.wait priority.level=4,priority.quantile=0.5": 1.024, "fleet.wait priority.level=4,priority.quantile=0.95": 8.192,
	})

	server.Faults.Fail(prioritytest.Fault{})
	time.Sleep(10 * time.Second)
	expect(t, "of a fleet that cannot be read", r.gauges(t, "fleet."), map[string]float64{})
	if err := stop(); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// submit submits acme's only document.
func submit(t *testing.T, client *redis.Client) {
	t.Helper()
	store, err := priority.NewRedisStore(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Submit(t.Context(), "acme", priority.Document{ID: "invoice-1"}); err != nil {
		t.Fatal(err)
	}
}

// One store and one fleet are observed at a time, until they are stopped.
func TestObserve_Once(t *testing.T) {
	client := redistest.Start(t).Client()
	r := newRecorder(t, priorityotel.Options{})
	if _, err := r.ObserveStore((*fleet.Member)(nil)); !errors.Is(err, priority.ErrInvalid) {
		t.Errorf("a nil store: %v", err)
	}
	for what, observe := range map[string]func() (func() error, error){
		"store": func() (func() error, error) { return r.ObserveStore(acmesStatus()) },
		"fleet": func() (func() error, error) { return r.ObserveFleet(client, "") },
	} {
		for range 2 {
			stop, err := observe()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := observe(); !errors.Is(err, priority.ErrInvalid) {
				t.Errorf("a second %s: %v", what, err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	}
	expect(t, "after stop", r.gauges(t, "policies."), map[string]float64{})
}
