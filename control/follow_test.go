package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/internal/testing/virtualredis"
	"github.com/docpriority/priority/prioritytest"
)

const (
	policiesKey  = "priority:{control}:policies"
	overridesKey = "priority:{control}:overrides"
	logKey       = "priority:{control}:log"
)

// world is a Redis with an operator and a worker, which reads the policies on Refresh.
type world struct {
	t      *testing.T
	server *redistest.Server
	client *redis.Client
	admin  *control.Admin
	store  *worker
}

// worker is a store that follows.
type worker struct {
	*priority.RedisStore
	*control.Follower
}

func start(t *testing.T) *world {
	server := redistest.Start(t)
	w := &world{t: t, server: server, client: server.Client()}
	w.admin, w.store = newAdmin(t, w.client), newWorker(t, w.client, nil, control.Options{})
	return w
}

func newAdmin(t *testing.T, client redis.UniversalClient) *control.Admin {
	t.Helper()
	return must(control.NewAdmin(client, &control.AdminOptions{Timeout: time.Minute}))(t)
}

// newWorker makes a patient worker, which is closed with the test. It reads the policies every
// minute, unless opts say otherwise.
func newWorker(t *testing.T, client priority.RedisClient, options *priority.RedisOptions, opts control.Options) *worker {
	t.Helper()
	if options == nil {
		options = new(priority.RedisOptions)
	}
	options.Timeout, options.Overrides = time.Minute, true
	if opts.Interval == 0 {
		opts.Interval = time.Minute
	}
	own := must(priority.NewRedisStore(client, options))(t)
	store := &worker{own, must(control.Follow(client, own, &opts))(t)}
	_ = store.Refresh(t.Context()) // the first reading is over
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	t.Cleanup(func() { _ = store.Close(ended) })
	return store
}

// keyOf is the key of a customer's override.
func keyOf(customer string) string {
	return "priority:{" + strings.NewReplacer("%", "%25", "}", "%7D").Replace(customer) + "}:override"
}

// set sets the override to a level for an hour.
func (w *world) set(customer string, level priority.Level) {
	w.t.Helper()
	must(w.admin.SetOverride(w.t.Context(), customer, pinned(level), time.Hour, mary))(w.t)
}

// apply sets rules in place of any.
func (w *world) apply(policies priority.Policies) {
	w.t.Helper()
	must(w.admin.Apply(w.t.Context(), control.AnyVersion, policies, mary))(w.t)
}

// tick waits until rules that are set are later ones, as Redis's clock has another millisecond.
func (w *world) tick() {
	before := must(w.admin.Now(w.t.Context()))(w.t)
	for !must(w.admin.Now(w.t.Context()))(w.t).After(before.Add(time.Millisecond)) {
	}
}

// user returns a client with some rights.
func (w *world) user(rights ...string) *redis.Client {
	w.t.Helper()
	args := []any{"acl", "setuser", "some", "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	check(w.t, w.client.Do(w.t.Context(), args...).Err())
	client := redis.NewClient(&redis.Options{Addr: w.server.Addr, Username: "some", Password: "secret"})
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

// hooked returns a client that calls do around each command, or each pipeline with one, of a
// name. An error of do is the commands'.
func (w *world) hooked(name string, do func(next func() error) error) *redis.Client {
	client := w.server.Client()
	client.AddHook(hook{name, do})
	return client
}

type hook struct {
	name string
	do   func(next func() error) error
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != h.name {
			return next(ctx, cmd)
		}
		cmd.SetErr(h.do(func() error { return next(ctx, cmd) }))
		return cmd.Err()
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Name() == h.name }) {
			return next(ctx, cmds)
		}
		return h.do(func() error { return next(ctx, cmds) }) // the commands themselves do not learn of an error
	}
}

var mary, errAny = control.Change{By: "mary", Why: "a <test>"}, errors.New("any error")

// pinned is the override to one level.
func pinned(level priority.Level) priority.Bounds {
	return priority.Bounds{Earliest: level, Latest: level}
}

// levels are policies by count with so many levels.
func levels(n int) priority.Policies {
	policy := priority.Policy{Thresholds: []int64{}, Loads: []float64{}}
	for i := range n - 1 {
		policy.Thresholds = append(policy.Thresholds, int64(-i))
	}
	return priority.Policies{Policy: policy}
}

// wantLevels fails the test unless a store goes by so many levels by count.
func wantLevels(t *testing.T, what string, store priority.Store, n int) {
	t.Helper()
	if got := len(store.PolicyOf("acme").Thresholds) + 1; got != n {
		t.Errorf("%s: the policy has %d levels, not %d", what, got, n)
	}
}

func wantError(t *testing.T, what string, err, kind error) {
	t.Helper()
	if err == nil || !errors.Is(err, kind) && kind != errAny {
		t.Errorf("%s: %v, not %v", what, err, kind)
	}
}

func errOf[T any](_ T, err error) error { return err }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns a value, or fails the test that is given to what it returns.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return value
	}
}

// changes is what OnChange was called with.
type changes struct {
	mu  sync.Mutex
	all []control.Status
}

func (c *changes) note(status control.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, status)
}

// want fails the test unless OnChange was called once since the last want; nil: without an error.
func (c *changes) want(t *testing.T, what string, version int64, kind error) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) != 1 || c.all[0].Version != version || (c.all[0].Err != nil) != (kind != nil) || kind != errAny && !errors.Is(c.all[0].Err, kind) {
		t.Errorf("%s: OnChange has %+v, not version %d and %v", what, c.all, version, kind)
	}
	c.all = nil
}

func TestFollow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v, ctx := virtualredis.Start(t), t.Context()
		var asked atomic.Int64 // for policies
		v.Sent = func(cmds []redis.Cmder) {
			if virtualredis.KeyOf(cmds[0]) == policiesKey {
				asked.Add(1)
			}
		}
		admin := newAdmin(t, v.Client(nil))
		store := newWorker(t, v.Client(v.Faults), nil, control.Options{Interval: 500 * time.Millisecond})
		asked.Store(0)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := asked.Load(); n < 36 || n > 45 {
			t.Errorf("in 40 intervals it asks %d times", n)
		}
		must(admin.Apply(ctx, 0, levels(3), mary))(t)
		time.Sleep(time.Second)
		wantLevels(t, "applied", store, 3)
		v.Pass(-time.Hour) // a failover to another clock
		must(admin.Apply(ctx, 1, levels(2), mary))(t)
		time.Sleep(time.Second)
		wantLevels(t, "applied an hour earlier", store, 2)
		check(t, store.Close(ctx))
		must(admin.Apply(ctx, 2, levels(1), mary))(t)
		asked.Store(0)
		time.Sleep(time.Minute)
		must(store.Next(ctx, "acme"))(t)
		if wantLevels(t, "after Close", store, 2); asked.Load() > 0 {
			t.Error("it asks after Close")
		}
		check(t, store.Close(ctx))
	})
}

// A worker remembers when operators last changed something, although Redis has older data again.
func TestFollow_Changed(t *testing.T) {
	w, ctx := start(t), t.Context()
	check(t, w.store.Refresh(ctx))
	if at := w.store.Status().Changed; !at.IsZero() {
		t.Errorf("changed at %v, and nothing was", at)
	}
	must(w.admin.SetOverride(ctx, "acme", priority.Bounds{Latest: 2}, time.Hour, mary))(t)
	entry := must(w.admin.Log(ctx, "", 1))(t)[0]
	for range 2 {
		check(t, w.store.Refresh(ctx))
		if at := w.store.Status().Changed; !at.Equal(entry.At) {
			t.Errorf("changed at %v, want %v", at, entry.At)
		}
		check(t, w.client.Del(ctx, logKey).Err())
	}
}

// While the policies cannot be read, the last ones hold, and no call waits.
func TestFollow_PoliciesCannotBeRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v, said, ctx := virtualredis.Start(t), new(changes), t.Context()
		admin, hangs := newAdmin(t, v.Client(nil)), prioritytest.Fault{Customer: "control", Class: priority.ErrOutcomeUnknown, Delay: time.Hour}
		v.Faults.Fail(hangs)
		store := newWorker(t, v.Client(v.Faults), nil, control.Options{Interval: 500 * time.Millisecond, OnChange: said.note})
		must(admin.Apply(ctx, 0, levels(3), mary))(t)
		time.Sleep(10 * time.Second)
		said.want(t, "at first", 0, errAny)
		wantLevels(t, "at first", store, 9)
		v.Faults.Heal()
		time.Sleep(time.Second)
		said.want(t, "read", 1, nil)
		v.Faults.Fail(hangs)
		must(admin.Apply(ctx, 1, levels(2), mary))(t)
		began := time.Now()
		for name, call := range named.Calls(ctx, store, "acme", "a") {
			if check(t, call()); time.Since(began) > 0 {
				t.Errorf("%s took %v", name, time.Since(began))
			}
		}
		time.Sleep(10 * time.Second)
		said.want(t, "away", 1, errAny)
		if wantLevels(t, "away", store, 3); time.Since(store.Status().ReadAt) < 10*time.Second {
			t.Errorf("%+v", store.Status())
		}
		v.Faults.Heal()
		time.Sleep(time.Second)
		said.want(t, "back", 2, nil)
	})
}

// Policies that a worker cannot use leave those it follows in force. The error says why, and OnChange
// is told once; vectors/following.json has what else the key may hold.
func TestFollow_CannotUse(t *testing.T) {
	t.Parallel()
	w, said, ctx := start(t), new(changes), t.Context()
	store := newWorker(t, w.client, &priority.RedisOptions{Policy: levels(3).Policy}, control.Options{OnChange: said.note})
	w.apply(levels(2))
	check(t, store.Refresh(ctx))
	said.all = nil
	w.apply(priority.Policies{})
	for range 3 {
		err := store.Refresh(ctx)
		if wantError(t, "nine levels", err, priority.ErrInvalid); !strings.Contains(fmt.Sprint(err), "its queue has 3 levels, the policies 9") {
			t.Errorf("nine levels: %v", err)
		}
	}
	said.want(t, "nine levels", 1, priority.ErrInvalid)
	wantLevels(t, "nine levels", store, 2)
	check(t, w.client.Set(ctx, policiesKey, "junk", 0).Err())
	wantError(t, "junk", errOf(w.admin.Policies(ctx)), control.ErrCorrupt)
	w.tick()
	w.apply(levels(1)) // in place of junk
	check(t, store.Refresh(ctx))
	wantLevels(t, "others", store, 1)
}
