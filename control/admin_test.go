package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
)

// Of many operators who change the same item at a time exactly one does, and the log
// has every change that was made, and no other.
func TestOfManyChangesOfAnItemOneIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	admins := []*control.Admin{w.admin, openAdmin(t, w.server.Client(), nil)}
	changes := map[string]func(admin *control.Admin, i int, change control.Change) (int64, error){
		"override": func(admin *control.Admin, i int, change control.Change) (int64, error) {
			return admin.SetOverride(ctx, "acme", pinned(priority.Level(1+i%9)), time.Hour, change)
		},
		"policy": func(admin *control.Admin, i int, change control.Change) (int64, error) {
			return admin.Apply(ctx, control.Rules{Policy: priority.Policy{Thresholds: []int64{int64(-i)}}}, change)
		},
	}
	made := int64(0)
	for kind, change := range changes {
		replaces := int64(0)
		for range 4 {
			var wg sync.WaitGroup
			var won, by atomic.Int64
			for i := range 16 {
				wg.Go(func() {
					who := control.Change{By: fmt.Sprint("operator ", i), Why: kind, Replaces: replaces}
					version, err := change(admins[i%2], i, who)
					if err == nil {
						won.Add(1)
						by.Store(int64(i))
						atomic.AddInt64(&made, 1)
						if version != atomic.LoadInt64(&made) {
							t.Errorf("%s: version %d", kind, version)
						}
						return
					}
					wantError(t, kind, err, control.ErrConflict)
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Fatalf("%s: %d were made", kind, won.Load())
			}
			replaces = made
			entry := must(w.admin.Log(ctx, 0, 1))(t)[0]
			if entry.Version != made || entry.Kind != kind || entry.By != fmt.Sprint("operator ", by.Load()) {
				t.Errorf("%s: %+v", kind, entry)
			}
		}
	}
	entries := must(w.admin.Log(ctx, 0, 1000))(t)
	if len(entries) != 8 {
		t.Errorf("%d entries", len(entries))
	}
	for i, entry := range entries {
		if entry.Version != int64(8-i) {
			t.Errorf("entry %d has version %d", i, entry.Version)
		}
	}
}

func TestAChangeReplacesWhatItSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	for name, change := range map[string]struct {
		set, end func(replaces int64) (int64, error)
	}{
		"override": {
			func(r int64) (int64, error) {
				w.changes++ // the same change once more would be no conflict
				change := control.Change{By: "mary", Why: fmt.Sprint(w.changes), Replaces: r}
				return w.admin.SetOverride(ctx, "acme", pinned(5), time.Hour, change)
			},
			func(r int64) (int64, error) { return w.admin.EndOverride(ctx, "acme", demo(r)) },
		},
		"policy": {
			func(r int64) (int64, error) {
				w.changes++
				return w.admin.Apply(ctx, strict(), control.Change{By: "mary", Why: fmt.Sprint(w.changes), Replaces: r})
			},
			func(r int64) (int64, error) { return w.admin.Withdraw(ctx, demo(r)) },
		},
	} {
		before := w.settings().Version
		_, err := change.end(7)
		wantError(t, name+" that is not there is ended by a version", err, control.ErrNotChanged)
		_, err = change.set(7)
		wantError(t, name+" that is not there is replaced", err, control.ErrNotChanged)
		version := must(change.set(0))(t)
		for _, wrong := range []int64{0, version - 1, version + 1, -version, -1} {
			_, err = change.set(wrong)
			wantError(t, fmt.Sprintf("%s of %d is set for %d", name, version, wrong), err, control.ErrConflict)
			_, err = change.end(wrong)
			wantError(t, fmt.Sprintf("%s of %d is ended for %d", name, version, wrong), err, control.ErrConflict)
		}
		version = must(change.set(version))(t)
		version = must(change.end(version))(t)
		_, err = change.end(version)
		wantError(t, name+" is ended twice", err, control.ErrNotChanged)
		version = must(change.set(0))(t)
		if version != before+4 {
			t.Errorf("%s: version %d after 4 changes since %d", name, version, before)
		}
	}
}

// Every entry has who, when, what, why, old and new.
func TestTheLogHasEveryChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	why := "because <b>\"of\"</b>\n} % \\ ünï"
	change := func(by string, replaces int64) control.Change {
		return control.Change{By: by, Why: why, Replaces: replaces}
	}
	must(w.admin.SetOverride(ctx, "a}c", priority.Override{Earliest: 2}, time.Hour, change("ann", 0)))(t)
	must(w.admin.SetOverride(ctx, "a}c", pinned(5), 2*time.Hour, change("bob", 1)))(t)
	must(w.admin.EndOverride(ctx, "a}c", change("cid", 2)))(t)
	must(w.admin.Apply(ctx, strict(), change("gus", 0)))(t)
	must(w.admin.Withdraw(ctx, change("jim", 4)))(t)
	must(w.admin.NoteReset(ctx, "a}c", change("kim", 0)))(t)
	now := must(w.client.Time(ctx).Result())(t)

	two, five := `">=2"`, `"=5"`
	rules := string(must(json.Marshal(strict()))(t))
	wants := []control.Entry{
		{By: "ann", Kind: "override", Customer: "a}c", New: raw(two)},
		{By: "bob", Kind: "override", Customer: "a}c", Old: raw(two), New: raw(five)},
		{By: "cid", Kind: "override", Customer: "a}c", Old: raw(five)},
		{By: "gus", Kind: "policy", New: raw(rules)},
		{By: "jim", Kind: "policy", Old: raw(rules)},
		{By: "kim", Kind: "reset", Customer: "a}c"},
	}
	entries := must(w.admin.Log(ctx, 0, 100))(t)
	slices.Reverse(entries)
	if len(entries) != len(wants) {
		t.Fatalf("%d entries, want %d: %+v", len(entries), len(wants), entries)
	}
	for i, got := range entries {
		want := wants[i]
		if got.Version != int64(i+1) || got.By != want.By || got.Why != why || got.Kind != want.Kind ||
			got.Customer != want.Customer || string(got.Old) != string(want.Old) || string(got.New) != string(want.New) {
			t.Errorf("entry %d: %+v (old %s, new %s), want %+v", i, got, got.Old, got.New, want)
		}
		if got.At.After(now) || now.Sub(got.At) > time.Minute {
			t.Errorf("entry %d is of %v, now is %v", i, got.At, now)
		}
		if lasts := map[int]time.Duration{0: time.Hour, 1: 2 * time.Hour}[i]; (lasts == 0) != got.Until.IsZero() ||
			lasts > 0 && got.Until.Sub(got.At) != lasts {
			t.Errorf("entry %d: until %v, at %v", i, got.Until, got.At)
		}
	}
	// parts of it
	for _, test := range []struct {
		upTo int64
		most int
		want []int64
	}{{0, 2, []int64{6, 5}}, {3, 2, []int64{3, 2}}, {3, 10, []int64{3, 2, 1}}, {100, 1, []int64{6}}, {1, 1, []int64{1}}} {
		var got []int64
		for _, entry := range must(w.admin.Log(ctx, test.upTo, test.most))(t) {
			got = append(got, entry.Version)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("Log(%d, %d) has %v, want %v", test.upTo, test.most, got, test.want)
		}
	}
	if got := w.settings(); got.Version != 6 || got.Rules != nil {
		t.Errorf("the settings are %+v", got)
	}
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// Operators and workers read what was set, by whom, why and since when.
func TestTheSettingsHaveWhatWasSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	rules := control.Rules{
		Policy: priority.Policy{Thresholds: []int64{-1, -2, -1000}, ResetInterval: time.Hour, ResetMode: priority.SinceLastReset, Loads: []float64{2, 9}, Turns: 5},
		Tiers:  map[string]priority.Policy{"gold": {Thresholds: []int64{}, Loads: []float64{}}, "}": {Thresholds: []int64{5}, ResetInterval: time.Millisecond, Loads: []float64{0.5}}},
	}
	must(w.admin.Apply(ctx, rules, demo(0)))(t)
	must(w.admin.SetOverride(ctx, "acme", pinned(5), control.MaxOverride, demo(0)))(t)
	settings := w.settings()
	now := settings.Now
	if settings.Version != 2 {
		t.Errorf("version %d", settings.Version)
	}
	if got := settings.Rules; got.Version != 1 || got.By != "mary" || got.Why != "a demo" || !got.Until.IsZero() ||
		now.Sub(got.At) < 0 || now.Sub(got.At) > time.Minute {
		t.Errorf("rules %+v", got)
	}
	got := settings.Rules.Value
	for tier, want := range rules.Tiers {
		if want.ResetInterval == 0 {
			want.ResetInterval = priority.DefaultPolicy().ResetInterval
		}
		if !reflect.DeepEqual(got.Tiers[tier], want) {
			t.Errorf("tier %q is %+v, want %+v", tier, got.Tiers[tier], want)
		}
	}
	if !reflect.DeepEqual(got.Policy, rules.Policy) || len(got.Tiers) != 2 {
		t.Errorf("rules %+v", got)
	}
	held := must(w.admin.OverrideOf(ctx, "acme"))(t)
	if held.Version != 2 || held.Value != pinned(5) || held.Until.Sub(held.At) != control.MaxOverride || held.Why != "a demo" || !held.InForce {
		t.Errorf("override %+v", held)
	}
	w.refresh()
	if status := w.store.Status(); !reflect.DeepEqual(status.Rules, settings.Rules) || status.Version != 1 || status.Err != nil {
		t.Errorf("the worker has %+v, the Admin %+v", status, settings)
	}
}

func TestWrongChangesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	long := strings.Repeat("x", 513)
	set := func(customer string, override priority.Override, lasts time.Duration, change control.Change) error {
		_, err := w.admin.SetOverride(ctx, customer, override, lasts, change)
		return err
	}
	apply := func(rules control.Rules) error { _, err := w.admin.Apply(ctx, rules, demo(0)); return err }
	end := func(customer string) error { _, err := w.admin.EndOverride(ctx, customer, demo(0)); return err }
	reset := func(customer string) error { _, err := w.admin.NoteReset(ctx, customer, demo(0)); return err }
	ten := make([]int64, 9)
	for i := range ten {
		ten[i] = int64(-i)
	}
	for name, err := range map[string]error{
		"no customer":             set("", pinned(5), time.Hour, demo(0)),
		"a long customer":         set(long, pinned(5), time.Hour, demo(0)),
		"no level":                set("acme", priority.Override{}, time.Hour, demo(0)),
		"a level of -1":           set("acme", pinned(-1), time.Hour, demo(0)),
		"a latest of -1":          set("acme", priority.Override{Latest: -1}, time.Hour, demo(0)),
		"two bounds":              set("acme", priority.Override{Earliest: 4, Latest: 5}, time.Hour, demo(0)),
		"a level of 10":           set("acme", pinned(10), time.Hour, demo(0)),
		"no time":                 set("acme", pinned(5), 0, demo(0)),
		"a negative time":         set("acme", pinned(5), -time.Hour, demo(0)),
		"less than a millisecond": set("acme", pinned(5), time.Millisecond-1, demo(0)),
		"more than 30 days":       set("acme", pinned(5), control.MaxOverride+1, demo(0)),
		"nobody":                  set("acme", pinned(5), time.Hour, control.Change{Why: "x"}),
		"for nothing":             set("acme", pinned(5), time.Hour, control.Change{By: "x"}),
		"a long By":               set("acme", pinned(5), time.Hour, control.Change{By: strings.Repeat("x", control.MaxByBytes+1), Why: "x"}),
		"a long Why":              set("acme", pinned(5), time.Hour, control.Change{By: "x", Why: strings.Repeat("x", control.MaxWhyBytes+1)}),
		"the end of nobody's":     end(""),
		"the end of a long":       end(long),
		"the reset of nobody":     reset(""),
		"the reset of a long":     reset(long),
	} {
		wantError(t, name, err, priority.ErrInvalid)
	}
	for name, rules := range map[string]control.Rules{
		"ten levels":             {Policy: priority.Policy{Thresholds: ten}},
		"ascending thresholds":   {Policy: priority.Policy{Thresholds: []int64{-2, -1}}},
		"the same twice":         {Policy: priority.Policy{Thresholds: []int64{-2, -2}}},
		"a huge threshold":       {Policy: priority.Policy{Thresholds: []int64{1 << 60}}},
		"a negative interval":    {Policy: priority.Policy{ResetInterval: -1}},
		"microseconds":           {Policy: priority.Policy{ResetInterval: 1500 * time.Microsecond}},
		"an unknown mode":        {Policy: priority.Policy{ResetMode: 7}},
		"a tier of more levels":  {Policy: strict().Policy, Tiers: map[string]priority.Policy{"gold": {}}},
		"a tier of wrong levels": {Tiers: map[string]priority.Policy{"gold": {Thresholds: []int64{1, 2}}}},
	} {
		wantError(t, name+" applied", apply(rules), priority.ErrInvalid, priority.ErrInvalid)
		if err := rules.Validate(9); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%s: Validate = %v", name, err)
		}
	}
	_, err := w.admin.Log(ctx, 0, -1)
	wantError(t, "a log of -1", err, priority.ErrInvalid)
	if n := must(w.client.DBSize(ctx).Result())(t); n != 0 {
		t.Errorf("%d keys are there", n)
	}
	// just within the bounds
	check(t, set(long[:512], pinned(9), time.Millisecond, control.Change{By: long[:control.MaxByBytes], Why: strings.Repeat("x", control.MaxWhyBytes)}))
	check(t, set("acme", pinned(1), control.MaxOverride, demo(0)))
	check(t, set("bolt", pinned(1), 1500*time.Microsecond, demo(0)))
	check(t, apply(control.Rules{Policy: priority.Policy{Thresholds: ten[:8]}}))
}

func TestConstructorsRefuseWhatIsWrong(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // where nobody is
	defer client.Close()
	for name, opts := range map[string]*control.Options{
		"9 ms":               {Interval: 9 * time.Millisecond},
		"a negative":         {Interval: -time.Second},
		"more than a minute": {Interval: time.Minute + 1},
	} {
		if _, err := control.New(client, opts); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("an Interval of %s: %v", name, err)
		}
	}
	for _, opts := range []*control.Options{nil, {}, {Interval: 10 * time.Millisecond}, {Interval: time.Minute}} {
		check(t, must(control.New(client, opts))(t).Close(t.Context()))
	}
	if _, err := control.New(client, &control.Options{Store: priority.RedisOptions{Prefix: "{"}}); !errors.Is(err, priority.ErrInvalid) {
		t.Errorf("a prefix with a brace: %v", err)
	}
	for name, client := range map[string]priority.RedisClient{"nil": nil, "a typed nil": (*redis.Client)(nil)} {
		if _, err := control.New(client, nil); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("a Store on %s: %v", name, err)
		}
		if _, err := control.NewAdmin(client, nil); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("an Admin of %s: %v", name, err)
		}
	}
	for name, opts := range map[string]*control.AdminOptions{
		"a brace":       {Prefix: "a{b"},
		"another brace": {Prefix: "a}b"},
		"-1 levels":     {Levels: -1},
		"256 levels":    {Levels: 256},
		"very many":     {Levels: 1 << 40},
	} {
		if _, err := control.NewAdmin(client, opts); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("an Admin of %s: %v", name, err)
		}
	}
	if got := openAdmin(t, client, nil).Levels(); got != 9 {
		t.Errorf("%d levels", got)
	}
	if got := openAdmin(t, client, &control.AdminOptions{Levels: 4}).Levels(); got != 4 {
		t.Errorf("%d levels, want 4", got)
	}
}

func TestPrefixesAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	other := openAdmin(t, w.client, &control.AdminOptions{Prefix: "other"})
	store := openControl(t, w.client, &priority.RedisOptions{Prefix: "other"}, seldom)
	must(other.SetOverride(ctx, "acme", pinned(7), time.Hour, demo(0)))(t)
	w.override("acme", pinned(5))
	w.wantLevel(store, "acme", 7, 1)
	w.wantLevel(w.store, "acme", 5, 1)
}

// A change whose reply is lost is made once, and the Admin finds out.
func TestALostReplyOfAChangeIsMadeOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	warm := openAdmin(t, server.Client(), &control.AdminOptions{Prefix: "warm"}) // the server knows the script
	must(warm.NoteReset(t.Context(), "acme", demo(0)))(t)
	for name, fault := range map[string]redistest.Fault{"cut": redistest.Cut, "truncated": redistest.Truncate, "swallowed": redistest.Swallow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.StartProxy(t, server.Addr)
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: 200 * time.Millisecond})
			t.Cleanup(func() { _ = client.Close() })
			opts := &control.AdminOptions{Prefix: name}
			admin, direct := openAdmin(t, client, opts), openAdmin(t, server.Client(), opts)
			ctx := t.Context()
			var override, policy int64
			for round, change := range []func() (int64, error){
				func() (_ int64, err error) {
					override, err = admin.SetOverride(ctx, "acme", pinned(5), time.Hour, demo(0))
					return override, err
				},
				func() (_ int64, err error) { policy, err = admin.Apply(ctx, strict(), demo(0)); return policy, err },
				func() (int64, error) { return admin.NoteReset(ctx, "acme", demo(0)) },
				func() (int64, error) { return admin.EndOverride(ctx, "acme", demo(override)) },
				func() (int64, error) { return admin.Rollback(ctx, policy, demo(policy)) },
			} {
				must(admin.Log(ctx, 0, 1))(t) // it is connected
				proxy.Set(fault)
				done := make(chan struct{})
				go func() { // heals when the change was made
					defer close(done)
					await(t, "the change is made", func() bool {
						return must(direct.Settings(ctx))(t).Version == int64(round+1)
					})
					proxy.Set(redistest.None)
				}()
				if round >= 3 { // these read before they change
					proxy.Set(redistest.None)
				}
				version, err := change()
				<-done
				if err != nil || version != int64(round+1) {
					t.Fatalf("change %d: %d, %v", round, version, err)
				}
			}
			if entries := must(direct.Log(ctx, 0, 100))(t); len(entries) != 5 {
				t.Errorf("%d entries", len(entries))
			}
		})
	}
}

// What nobody can tell is said so, in time; and what was definitely not made, too.
func TestChangesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: 100 * time.Millisecond})
	t.Cleanup(func() { _ = client.Close() })
	admin := openAdmin(t, client, &control.AdminOptions{Timeout: 700 * time.Millisecond})
	direct := openAdmin(t, server.Client(), &control.AdminOptions{Timeout: 10 * time.Second})
	ctx := t.Context()
	must(openAdmin(t, client, nil).NoteReset(ctx, "acme", demo(0)))(t)
	proxy.Set(redistest.Swallow) // it is made, and nobody hears of it
	_, err := admin.SetOverride(ctx, "acme", pinned(5), time.Hour, demo(0))
	wantError(t, "without a reply", err, priority.ErrOutcomeUnknown)
	held := must(direct.OverrideOf(ctx, "acme"))(t)
	if held == nil || held.Version != 2 || held.InForce {
		t.Errorf("%+v", held)
	}
	// the same change once more is no conflict, and puts it in force
	if got := must(direct.SetOverride(ctx, "acme", pinned(5), time.Hour, demo(0)))(t); got != 2 {
		t.Errorf("made again it has version %d", got)
	}
	if held := must(direct.OverrideOf(ctx, "acme"))(t); !held.InForce {
		t.Errorf("%+v", held)
	}
	proxy.Set(redistest.None)
	server.Kill()
	_, err = admin.SetOverride(ctx, "bolt", pinned(5), time.Hour, demo(0))
	if !errors.Is(err, control.ErrNotChanged) && !errors.Is(err, priority.ErrOutcomeUnknown) {
		t.Errorf("without a server: %v", err)
	}
	_, err = direct.SetOverride(ctx, "bolt", pinned(5), time.Hour, demo(0))
	if !errors.Is(err, control.ErrNotChanged) {
		t.Errorf("without a server: %v", err)
	}
}

func TestAReplicaAndAFullServerRefuseChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	replica := redistest.StartReplica(t, w.server)
	brief := &control.AdminOptions{Timeout: 300 * time.Millisecond} // it tries again within that
	_, err := openAdmin(t, replica.Client(), brief).SetOverride(ctx, "acme", pinned(5), time.Hour, demo(0))
	if !errors.Is(err, control.ErrNotChanged) && !errors.Is(err, priority.ErrOutcomeUnknown) { // of a last try that took too long
		t.Errorf("a replica: %v", err)
	}
	check(t, w.client.ConfigSet(ctx, "maxmemory", "1").Err())
	_, err = w.admin.SetOverride(ctx, "acme", pinned(5), time.Hour, demo(0))
	wantError(t, "a full server", err, control.ErrNotChanged)
	_, err = w.admin.Forget(ctx, "acme", demo(0))
	wantError(t, "Forget on a full server", err, control.ErrNotChanged)
	check(t, w.client.ConfigSet(ctx, "maxmemory", "0").Err())
	if n := must(w.client.Exists(ctx, versionKey, rulesKey, overridesKey, logKey).Result())(t); n != 0 {
		t.Errorf("%d keys", n)
	}
}
