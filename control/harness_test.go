package control_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
)

// world is a server with an admin, and a worker whose stores share its client.
type world struct {
	t      *testing.T
	server *redistest.Server
	client *redis.Client
	own    *priority.RedisStore // decides by its own options
	store  *control.Store       // of the same options; it follows on Refresh, and once a minute
	admin  *control.Admin

	options *priority.RedisOptions
	changes int
	backup  *control.Backup
}

const (
	versionKey   = "priority:{control}:version"
	rulesKey     = "priority:{control}:rules"
	historyKey   = "priority:{control}:history"
	overridesKey = "priority:{control}:overrides"
	logKey       = "priority:{control}:log"
)

// seldom is an Interval in which no test ends: after the first reading, only Refresh
// reads the rules.
var seldom = &control.Options{Interval: time.Minute}

// newWorld starts a server. Nil opts are the defaults.
func newWorld(t *testing.T, opts *priority.RedisOptions) *world {
	t.Helper()
	server := redistest.Start(t)
	return worldOn(t, server, server.Client(), opts)
}

func worldOn(t *testing.T, server *redistest.Server, client *redis.Client, opts *priority.RedisOptions) *world {
	t.Helper()
	w := &world{t: t, server: server, client: client}
	w.options = opts
	w.own = openStore(t, client, opts)
	w.store = openControl(t, client, opts, seldom)
	w.admin = openAdmin(t, client, nil)
	return w
}

// openStore makes a store whose calls take as long as they take, unless opts say how
// long.
func openStore(t *testing.T, client priority.RedisClient, opts *priority.RedisOptions) *priority.RedisStore {
	t.Helper()
	patient := patientOptions(opts)
	return must(priority.NewRedisStore(client, &patient))(t)
}

func patientOptions(opts *priority.RedisOptions) (patient priority.RedisOptions) {
	if opts != nil {
		patient = *opts
	}
	if patient.Timeout == 0 {
		patient.Timeout = time.Minute
	}
	return patient
}

// openControl makes a store around one such as openStore makes.
func openControl(t *testing.T, client priority.RedisClient, own *priority.RedisOptions, opts *control.Options) *control.Store {
	t.Helper()
	return closedAtEnd(t, client, patientOptions(own), opts)
}

// closedAtEnd makes a store that is closed with the test.
func closedAtEnd(t *testing.T, client priority.RedisClient, own priority.RedisOptions, opts *control.Options) *control.Store {
	t.Helper()
	var options control.Options
	if opts != nil {
		options = *opts
	}
	options.Store = own
	store := must(control.New(client, &options))(t)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = store.Close(ended)
	})
	return store
}

func openAdmin(t *testing.T, client priority.RedisClient, opts *control.AdminOptions) *control.Admin {
	t.Helper()
	var patient control.AdminOptions
	if opts != nil {
		patient = *opts
	}
	if patient.Timeout == 0 {
		patient.Timeout = time.Minute
	}
	return must(control.NewAdmin(client, &patient))(t)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless an error is of all kinds.
func wantError(t *testing.T, what string, err error, kinds ...error) {
	t.Helper()
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", what, err, kind)
		}
	}
	for _, other := range []error{priority.ErrInvalid, control.ErrNotChanged, priority.ErrOutcomeUnknown} {
		isOther := errors.Is(err, other)
		for _, kind := range kinds {
			isOther = isOther && !errors.Is(kind, other)
		}
		if isOther {
			t.Errorf("%s: %v, which is also %v", what, err, other)
		}
	}
}

// demo is a change in place of an item, or of none.
func demo(replaces int64) control.Change {
	return control.Change{By: "mary", Why: "a demo", Replaces: replaces}
}

// pinned is the override to one level.
func pinned(level priority.Level) priority.Override {
	return priority.Override{Earliest: level, Latest: level}
}

// override sets an override for an hour, where there was none.
func (w *world) override(customer string, override priority.Override) int64 {
	w.t.Helper()
	return must(w.admin.SetOverride(w.t.Context(), customer, override, time.Hour, demo(0)))(w.t)
}

// apply makes rules the fleet's, whatever the fleet had, and lets the worker know.
func (w *world) apply(rules control.Rules) int64 {
	w.t.Helper()
	version := must(w.admin.Apply(w.t.Context(), rules, demo(w.rulesVersion())))(w.t)
	w.refresh()
	return version
}

func (w *world) rulesVersion() int64 {
	if rules := w.settings().Rules; rules != nil {
		return rules.Version
	}
	return 0
}

func (w *world) settings() control.Settings {
	w.t.Helper()
	return must(w.admin.Settings(w.t.Context()))(w.t)
}

func (w *world) refresh() {
	w.t.Helper()
	check(w.t, w.store.Refresh(w.t.Context()))
}

// wantLevel fails the test unless the store's next decision for a customer has a level,
// and a level by the rule alone.
func (w *world) wantLevel(store priority.Store, customer string, level, rule priority.Level) {
	w.t.Helper()
	got, err := store.Next(w.t.Context(), customer)
	if err != nil || got.Level != level || got.RuleLevel != rule {
		w.t.Errorf("Next(%.40q) = %+v, %v, want level %d and %d by the rule", customer, got, err, level, rule)
	}
}

// oddCustomers are customers that a key, a script, JSON or a page could take for
// something else.
var oddCustomers = []string{
	"acme", "}", "{", "{}", "}{", "%", "%25", "%7D", "acme}:count", "a b", " ", ":", "::", "acme:", ":acme",
	"override:acme", "reset:acme", "policy", "policies", "version", "format", "token", "control",
	"\n", "a\r\nb", "\x00", "a\x00b", "\xff", "a\xffb", "\xed\xa0\x80", "ü", "客户",
	"<script>alert(1)</script>", "&amp;", `"`, `\`, "'", "[^%s]", "^(%d+)", "*", "?", "0", "-1", "1 2 3 4",
	strings.Repeat("x", 512), strings.Repeat("}", 512), strings.Repeat("\x00", 512), strings.Repeat("\xff", 512),
}

// strict is a table of three levels, which counts reach at once.
func strict() control.Rules {
	return control.Rules{Policy: priority.Policy{Thresholds: []int64{0, -1}}}
}

// only is a table of one level.
func only() control.Rules {
	return control.Rules{Policy: priority.Policy{Thresholds: []int64{}}}
}

// await is redistest.Await.
var await = redistest.Await

// must returns a value, or fails the test that is given to what it returns.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// held is what a key holds: to be restored, and to be compared.
type held struct{ dump, text string }

// contents returns what the operators' keys hold.
func (w *world) contents() map[string]held {
	ctx, contents := w.t.Context(), make(map[string]held)
	for _, key := range []string{versionKey, rulesKey, historyKey, overridesKey, logKey} {
		dump := w.client.Dump(ctx, key).Val()
		contents[key] = held{dump, dump}
		if w.client.Type(ctx, key).Val() == "hash" { // whose order changes
			contents[key] = held{dump, fmt.Sprint(w.client.HGetAll(ctx, key).Val())}
		}
	}
	return contents
}

func (w *world) sameContents(as map[string]held) bool {
	return maps.EqualFunc(w.contents(), as, func(x, y held) bool { return x.text == y.text })
}

func (w *world) wantContents(as map[string]held) {
	w.t.Helper()
	for key, now := range w.contents() {
		if now.text != as[key].text {
			w.t.Errorf("%s is changed", key)
		}
	}
}

// restore makes the operators' keys what they were, as a failover to a replica does that
// lacks the changes since.
func (w *world) restore(contents map[string]held) {
	w.t.Helper()
	ctx := w.t.Context()
	for key, was := range contents {
		check(w.t, w.client.Del(ctx, key).Err())
		if was.dump != "" {
			check(w.t, w.client.Restore(ctx, key, 0, was.dump).Err())
		}
	}
}

func (w *world) delete(key string) {
	w.t.Helper()
	check(w.t, w.client.Del(w.t.Context(), key).Err())
}

// noHook is a hook that does nothing, for hooks that do one thing.
type noHook struct{}

func (noHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (noHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (noHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
