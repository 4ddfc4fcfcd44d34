package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/lua"
)

// An override holds for the next document of every worker, and nobody follows anything.
func TestAnOverrideHoldsAtOnceAndUntilItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	for name, store := range map[string]priority.Store{
		"control":   w.store,
		"a reader":  openStore(t, w.client, &priority.RedisOptions{Overrides: true}),
		"no reader": w.own,
	} {
		version := must(w.admin.SetOverride(ctx, name, pinned(5), time.Hour, demo(0)))(t)
		fixed, late := priority.Level(5), priority.Level(7)
		if name == "no reader" {
			fixed, late = 1, 1
		}
		w.wantLevel(store, name, fixed, 1)
		must(w.admin.SetOverride(ctx, name, priority.Override{Earliest: 7}, time.Hour, demo(version)))(t)
		key := w.own.Keys(name).Override
		check(t, w.client.SetArgs(ctx, key, ">=7 and more after a space", redis.SetArgs{KeepTTL: true}).Err())
		w.wantLevel(store, name, late, 1)
		held := must(w.admin.OverrideOf(ctx, name))(t)
		if held == nil || !held.InForce || held.By != "mary" || held.Why != "a demo" || held.Value != (priority.Override{Earliest: 7}) ||
			held.Until.Sub(held.At) != time.Hour || held.Version != version+1 {
			t.Fatalf("%+v", held)
		}
		if lasts := w.client.PTTL(ctx, key).Val(); lasts > time.Hour || lasts < 59*time.Minute {
			t.Errorf("the key lasts %v", lasts)
		}
		must(w.admin.EndOverride(ctx, name, demo(held.Version)))(t)
		w.wantLevel(store, name, 1, 1)
		if held := must(w.admin.OverrideOf(ctx, name))(t); held != nil {
			t.Errorf("%+v", held)
		}
	}
	must(w.admin.SetOverride(ctx, "short", pinned(5), 30*time.Millisecond, demo(0)))(t)
	await(t, "the override ends", func() bool {
		return len(must(w.admin.Overrides(ctx))(t)) == 0 && must(w.store.Peek(ctx, "short"))(t).Override == (priority.Override{})
	})
	_, err := w.admin.EndOverride(ctx, "short", demo(0))
	wantError(t, "the end of what is over", err, control.ErrNotFound)
}

// many writes overrides to level 5 of many customers down, and puts them in force, 1,000 in
// a round trip.
func (w *world) many(n, from int, lasts time.Duration) {
	w.t.Helper()
	ctx := w.t.Context()
	script := redis.NewScript(lua.Change)
	check(w.t, script.Load(ctx, w.client).Err())
	for i := 0; i < n; {
		var changes []*redis.Cmd
		_, err := w.client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
			for end := min(i+1000, n); i < end; i++ {
				customer := fmt.Sprint("many ", from+i)
				changes = append(changes, script.EvalSha(ctx, pipeline, []string{versionKey, logKey, overridesKey}, 0, lasts.Milliseconds(), 1+from+i,
					control.MaxOverrides, 10_000, 0, 0, "override:"+customer,
					`{"by":"mary","why":"a demo","override":"=5"}`, "mary", "a demo"))
				pipeline.Set(ctx, w.own.Keys(customer).Override, "=5", lasts)
			}
			return nil
		})
		check(w.t, err)
		for _, change := range changes {
			if reply := change.Val().([]any); reply[0] != int64(1) {
				w.t.Fatal(reply)
			}
		}
	}
}

// trips is a hook that counts round trips.
type trips struct {
	noHook
	n atomic.Int64
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.count(cmd); return next(ctx, cmd) }
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.count(cmds[0]); return next(ctx, cmds) }
}

func (c *trips) count(cmd redis.Cmder) {
	if name := cmd.Name(); name != "hello" && name != "client" { // of a connection that begins
		c.n.Add(1)
	}
}

// However far away Redis is: a list of 10,000 overrides takes two round trips, an export
// three, and an import some thirty.
func TestManyOverridesAreAFewRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	must(w.admin.Overrides(ctx))(t) // the server knows the scripts
	must(w.admin.Settings(ctx))(t)
	w.many(control.MaxOverrides, 0, time.Hour)
	client, counted := w.server.Client(), new(trips)
	client.AddHook(counted)
	admin := openAdmin(t, client, nil)
	took := func(what string, most int64, call func()) {
		counted.n.Store(0)
		began := time.Now()
		call()
		t.Logf("%s: %d round trips, %v", what, counted.n.Load(), time.Since(began).Round(time.Millisecond))
		if got := counted.n.Load(); got > most {
			t.Errorf("%s takes %d round trips", what, got)
		}
	}
	took("a list", 2, func() {
		all := must(admin.Overrides(ctx))(t)
		if len(all) != control.MaxOverrides {
			t.Fatalf("%d overrides", len(all))
		}
		for _, held := range all {
			if !held.InForce || held.Value != pinned(5) || held.Found != "" || held.Err != nil || held.By != "mary" {
				t.Fatalf("%+v", held)
			}
		}
	})
	var backup *control.Backup
	took("an export", 3, func() { backup = must(admin.Export(ctx))(t) })
	check(t, w.client.FlushDB(ctx).Err())
	took("an import", 3*control.MaxOverrides/1000+2, func() {
		if got := must(admin.Import(ctx, backup, demo(0)))(t); got.Overrides != control.MaxOverrides {
			t.Errorf("%+v", got)
		}
	})
}

// Of 10,001 overrides the last one is refused, until some are over or ended.
func TestNoMoreOverridesThanTheMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.many(control.MaxOverrides-4001, 0, time.Hour)
	w.many(4000, control.MaxOverrides-4001, 20*time.Second)
	set := func(customer string, replaces int64, level priority.Level) (int64, error) {
		return w.admin.SetOverride(ctx, customer, pinned(level), time.Hour, demo(replaces))
	}
	last := must(set("last", 0, 5))(t)
	_, err := set("one more", 0, 5)
	wantError(t, "one more", err, control.ErrTooMany, control.ErrNotChanged)
	if want := "control: not changed: too many: there are 10000 overrides already"; err == nil || err.Error() != want {
		t.Errorf("got %v, not %q", err, want)
	}
	if w.client.Exists(ctx, w.own.Keys("one more").Override).Val() > 0 {
		t.Error("what is refused is in force")
	}
	last = must(set("last", last, 6))(t) // in place of one there is room
	must(w.admin.EndOverride(ctx, "last", demo(last)))(t)
	must(set("one more", 0, 5))(t)
	_, err = set("yet one more", 0, 5)
	wantError(t, "yet one more", err, control.ErrTooMany)
	// 4,000 are over
	var over []any
	for customer, text := range must(w.client.HGetAll(ctx, overridesKey).Result())(t) {
		if len(over) < 8000 && strings.HasPrefix(customer, "many ") {
			over = append(over, customer, regexp.MustCompile(`"until":\d+`).ReplaceAllString(text, `"until":1`))
		}
	}
	check(t, w.client.HSet(ctx, overridesKey, over...).Err())
	must(set("yet one more", 0, 5))(t)
	if left := w.client.HLen(ctx, overridesKey).Val(); left != control.MaxOverrides-4000+1 {
		t.Errorf("%d are left", left)
	}
}

// What is recorded and not in force is an error and listed, and the same change made
// again puts it in force.
func TestAnOverrideThatIsNotInForceIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	opts := &control.AdminOptions{Timeout: 5 * time.Second}
	half := openAdmin(t, w.user("half", "~priority:{control}:* %R~priority:{*}:override", "+@all"), opts)
	set := func(admin *control.Admin) (int64, error) {
		return admin.SetOverride(ctx, "acme", pinned(5), time.Hour, demo(0))
	}
	version, err := set(half)
	wantError(t, "SetOverride by halves", err, control.ErrNotInForce)
	if !strings.Contains(err.Error(), "NOPERM") || !strings.Contains(err.Error(), "{acme}:override") {
		t.Errorf("it does not say why: %v", err)
	}
	if all := must(w.admin.Overrides(ctx))(t); len(all) != 1 || all[0].InForce || all[0].Version != version {
		t.Errorf("%+v", all)
	}
	w.wantLevel(w.store, "acme", 1, 1)
	if again := must(set(w.admin))(t); again != version {
		t.Errorf("made again it has version %d, not %d", again, version)
	}
	w.wantLevel(w.store, "acme", 5, 1)

	end := func(admin *control.Admin) (int64, error) { return admin.EndOverride(ctx, "acme", demo(version)) }
	_, err = end(half)
	wantError(t, "EndOverride by halves", err, control.ErrNotInForce)
	w.wantLevel(w.store, "acme", 5, 1)
	if held := must(w.admin.OverrideOf(ctx, "acme"))(t); held == nil || held.Version != 0 || held.InForce || held.Found != "=5" {
		t.Errorf("%+v", held)
	}
	must(end(w.admin))(t)
	w.wantLevel(w.store, "acme", 2, 2)
	if held := must(w.admin.OverrideOf(ctx, "acme"))(t); held != nil {
		t.Errorf("%+v", held)
	}
}

// before is a hook that does something once, before a command of a name.
type before struct {
	noHook
	name string
	once sync.Once
	do   func()
}

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == b.name {
			b.once.Do(b.do)
		}
		return next(ctx, cmd)
	}
}

// Of two operators, the one who writes down last has the override that holds, also if the
// other one comes to the customer's key later.
func TestWhatIsWrittenDownLastHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	slow := w.server.Client()
	hook := &before{name: "set"}
	slow.AddHook(hook)
	hook.do = func() { must(w.admin.SetOverride(ctx, "acme", pinned(7), time.Hour, demo(1)))(t) }
	must(openAdmin(t, slow, nil).SetOverride(ctx, "acme", pinned(4), time.Hour, demo(0)))(t)
	w.wantLevel(w.store, "acme", 7, 1)

	hook.once = sync.Once{}
	hook.do = func() { must(w.admin.EndOverride(ctx, "acme", demo(3)))(t) }
	must(openAdmin(t, slow, nil).SetOverride(ctx, "acme", pinned(4), time.Hour, demo(2)))(t)
	w.wantLevel(w.store, "acme", 1, 1)

	hook.name, hook.once = "unlink", sync.Once{}
	version := w.override("acme", pinned(4))
	hook.do = func() { must(w.admin.SetOverride(ctx, "acme", pinned(7), time.Hour, demo(0)))(t) }
	must(openAdmin(t, slow, nil).EndOverride(ctx, "acme", demo(version)))(t)
	w.wantLevel(w.store, "acme", 7, 1)
}

// Junk in one customer's item, or key, is theirs alone: it is named, listed, and ended.
func TestJunkOfOneCustomerStopsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	item := `{"version":1,"at":2,"until":0,"by":"x","why":"x","override":"=1"}`
	for name, test := range map[string]struct {
		item  string
		put   func(key string) error
		err   error
		found string
	}{
		"an item that is junk":        {item: "junk", err: control.ErrCorrupt},
		"an item that is a half":      {item: item[:30], err: control.ErrCorrupt},
		"an item without an override": {item: `{"version":1,"at":2,"until":0,"by":"x","why":"x"}`, err: control.ErrCorrupt},
		"an item of no version":       {item: strings.Replace(item, "1", "0", 1), err: control.ErrCorrupt},
		"an item of two bounds":       {item: strings.Replace(item, "=1", "1-2", 1), err: control.ErrCorrupt},
		"an empty key":                {item: item, put: func(key string) error { return w.client.Set(ctx, key, "", 0).Err() }, found: "nothing"},
		"a key of junk":               {item: item, put: func(key string) error { return w.client.Set(ctx, key, "<9>", 0).Err() }, found: "<9>"},
		"a hash":                      {item: item, put: func(key string) error { return w.client.HSet(ctx, key, "a", "b").Err() }, found: "another kind of key"},
		"another override":            {item: item, put: func(key string) error { return w.client.Set(ctx, key, ">=4", 0).Err() }, found: ">=4"},
		"set by hand":                 {put: func(key string) error { return w.client.Set(ctx, key, "<=2", 0).Err() }, found: "<=2"},
	} {
		must(w.admin.SetOverride(ctx, "bolt", pinned(4), time.Hour, demo(0)))(t)
		if test.item != "" {
			check(t, w.client.HSet(ctx, overridesKey, "acme", test.item).Err())
		}
		if test.put != nil {
			check(t, test.put(w.own.Keys("acme").Override))
		}
		must(w.store.Next(ctx, "acme"))(t)
		held := must(w.admin.OverrideOf(ctx, "acme"))(t)
		if held == nil || held.InForce || held.Found != test.found || !errors.Is(held.Err, test.err) {
			t.Fatalf("%s: %+v", name, held)
		}
		all := must(w.admin.Overrides(ctx))(t)
		if i := slices.IndexFunc(all, func(h control.Held) bool { return h.Customer == "bolt" }); i < 0 || !all[i].InForce {
			t.Errorf("%s: the list is %+v", name, all)
		}
		if i := slices.IndexFunc(all, func(h control.Held) bool { return h.Customer == "acme" }); (i < 0) != (test.item == "") {
			t.Errorf("%s: the list is %+v", name, all)
		}
		must(w.admin.EndOverride(ctx, "acme", demo(held.Version)))(t)
		if held := must(w.admin.OverrideOf(ctx, "acme"))(t); held != nil {
			t.Errorf("%s: after the end %+v", name, held)
		}
		must(w.admin.EndOverride(ctx, "bolt", demo(must(w.admin.OverrideOf(ctx, "bolt"))(t).Version)))(t)
		must(w.admin.SetOverride(ctx, "acme", pinned(3), time.Hour, demo(0)))(t)
		w.wantLevel(w.store, "acme", 3, must(w.own.Peek(ctx, "acme"))(t).NextLevel)
		check(t, w.client.FlushDB(ctx).Err())
	}
	// what a later version of the module wrote is not touched
	check(t, w.client.HSet(ctx, overridesKey, "acme", `{"format":2,"x":1}`).Err())
	_, err := w.admin.SetOverride(ctx, "acme", pinned(3), time.Hour, demo(0))
	wantError(t, "SetOverride", err, control.ErrNewer, control.ErrNotChanged)
	if held := must(w.admin.OverrideOf(ctx, "acme"))(t); !errors.Is(held.Err, control.ErrNewer) {
		t.Errorf("%+v", held)
	}
}

func TestOverridesOfCustomersOfAnyBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	for i, customer := range oddCustomers {
		must(w.admin.SetOverride(ctx, customer, priority.Override{Earliest: priority.Level(2 + i%8)}, time.Hour, demo(0)))(t)
	}
	held := must(w.admin.Overrides(ctx))(t)
	if len(held) != len(oddCustomers) {
		t.Errorf("%d overrides, want %d", len(held), len(oddCustomers))
	}
	for i, customer := range oddCustomers {
		w.wantLevel(w.store, customer, priority.Level(2+i%8), 1)
	}
	text := must(json.Marshal(must(w.admin.Export(ctx))(t)))(t)
	for _, each := range held {
		must(w.admin.EndOverride(ctx, each.Customer, demo(each.Version)))(t)
	}
	for i, entry := range must(w.admin.Log(ctx, 0, len(held)))(t) {
		if want := held[len(held)-1-i].Customer; entry.Customer != want {
			t.Errorf("entry %d is of %.40q, want %.40q", i, entry.Customer, want)
		}
	}
	var backup control.Backup
	check(t, json.Unmarshal(text, &backup))
	must(w.admin.Import(ctx, &backup, demo(0)))(t)
	for i, each := range must(w.admin.Overrides(ctx))(t) {
		if each.Customer != held[i].Customer || each.Value != held[i].Value || !each.InForce {
			t.Errorf("%+v is back as %+v", held[i], each)
		}
	}
}
