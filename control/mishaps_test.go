package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/redistest"
)

// While a customer's key can be neither read nor written, nobody is told that there is no
// override any more, however often it is ended.
func TestAnEndThatIsNotInForceIsNeverNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	version := w.override("acme", pinned(5))
	away := openAdmin(t, w.user("away", "~priority:{control}:*", "+@all"), &control.AdminOptions{Timeout: 5 * time.Second})
	for range 3 {
		_, err := away.EndOverride(ctx, "acme", demo(version))
		wantError(t, "EndOverride while the key is away", err, control.ErrNotInForce)
	}
	w.wantLevel(w.store, "acme", 5, 1)
	must(w.admin.EndOverride(ctx, "acme", demo(version)))(t)
	w.wantLevel(w.store, "acme", 1, 1)
}

// Timeout bounds every call, whatever the client's own timeouts are.
func TestAnAdminIsInTimeWhileRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: -1, WriteTimeout: -1})
	t.Cleanup(func() { _ = client.Close() })
	t.Cleanup(server.Kill)
	admin, ctx := openAdmin(t, client, &control.AdminOptions{Timeout: 300 * time.Millisecond}), t.Context()
	version := must(admin.SetOverride(ctx, "acme", pinned(4), time.Hour, demo(0)))(t)
	must(admin.Apply(ctx, strict(), demo(0)))(t)
	backup := must(admin.Export(ctx))(t)
	server.Signal(syscall.SIGSTOP)
	var all sync.WaitGroup
	for name, call := range map[string]func() error{
		"Settings":    func() error { _, err := admin.Settings(ctx); return err },
		"History":     func() error { _, err := admin.History(ctx); return err },
		"Log":         func() error { _, err := admin.Log(ctx, 0, 10); return err },
		"Overrides":   func() error { _, err := admin.Overrides(ctx); return err },
		"OverrideOf":  func() error { _, err := admin.OverrideOf(ctx, "acme"); return err },
		"Export":      func() error { _, err := admin.Export(ctx); return err },
		"Import":      func() error { _, err := admin.Import(ctx, backup, demo(0)); return err },
		"Rollback":    func() error { _, err := admin.Rollback(ctx, 2, demo(2)); return err },
		"Forget":      func() error { _, err := admin.Forget(ctx, "acme", demo(0)); return err },
		"Withdraw":    func() error { _, err := admin.Withdraw(ctx, demo(2)); return err },
		"EndOverride": func() error { _, err := admin.EndOverride(ctx, "acme", demo(version)); return err },
	} {
		all.Go(func() {
			done := make(chan error, 1)
			go func() { done <- call() }()
			select {
			case err := <-done:
				if err == nil {
					t.Errorf("%s: no error", name)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("%s hangs", name)
			}
		})
	}
	all.Wait()
}

// deferred is a client whose Process only takes the command in, as an asynchronous
// AutoPipeliner's does: the command itself has the error.
type deferred struct{ *redis.Client }

func (d deferred) Process(ctx context.Context, cmd redis.Cmder) error {
	_ = d.Client.Process(ctx, cmd)
	return nil
}

func TestADeferredClientHidesNoRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	half := openAdmin(t, deferred{w.user("half", "~priority:{control}:*", "+@all")}, nil)
	_, err := half.SetOverride(t.Context(), "acme", pinned(5), time.Hour, demo(0))
	wantError(t, "SetOverride by halves", err, control.ErrNotInForce)
}

// Who sets the same override again without looking, as a nightly job does, is not told
// that it was made while the old end stays.
func TestAnOverrideThatIsSetAgainHoldsForItsTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		admin, ctx := v.admin(), t.Context()
		set := func(lasts time.Duration) error {
			_, err := admin.SetOverride(ctx, "acme", pinned(5), lasts, demo(0))
			return err
		}
		wantEnd := func(in time.Duration) {
			t.Helper()
			held, now := must(admin.OverrideOf(ctx, "acme"))(t), must(admin.Settings(ctx))(t).Now
			if got := held.Until.Sub(now).Round(10 * time.Second); got != in || !held.InForce {
				t.Errorf("it holds for %v more, want %v: %+v", got, in, held)
			}
		}
		check(t, set(2*time.Hour))
		wantEnd(2 * time.Hour)
		time.Sleep(time.Hour)
		check(t, set(2*time.Hour))
		wantEnd(2 * time.Hour)
		wantError(t, "for another time", set(8*time.Hour), control.ErrNotChanged, control.ErrConflict)
		wantEnd(2 * time.Hour)
	})
}

// Redis came back with older data than the backup's, from a snapshot or a replica: what
// is older is not what was set since.
func TestABackupReplacesWhatIsOlder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.apply(only())
	old := w.override("acme", pinned(2))
	w.override("kept", pinned(3))
	snapshot := w.contents()
	w.apply(strict())
	must(w.admin.SetOverride(ctx, "acme", pinned(7), time.Hour, demo(old)))(t)
	var backup control.Backup
	check(t, json.Unmarshal(must(json.Marshal(must(w.admin.Export(ctx))(t)))(t), &backup))

	w.restore(snapshot)
	if err := w.store.Refresh(ctx); !errors.Is(err, control.ErrLost) {
		t.Errorf("Refresh = %v", err)
	}
	got := must(w.admin.Import(ctx, &backup, demo(0)))(t)
	if !got.Rules || got.Overrides != 2 || got.Kept != 0 {
		t.Errorf("Import = %+v", got)
	}
	w.refresh()
	wantPolicy(t, "imported", w.store, 3)
	w.wantLevel(w.store, "acme", 7, 1)
	w.wantLevel(w.store, "kept", 3, 1)
	got = must(w.admin.Import(ctx, &backup, demo(0)))(t)
	if got.Overrides != 2 || got.Kept != 0 {
		t.Errorf("once more: %+v", got)
	}
}

// beforePipeline is a hook that does something once, before a pipeline that has a command
// of a name.
type beforePipeline struct{ before }

func (b *beforePipeline) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *beforePipeline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == b.name {
				b.once.Do(b.do)
			}
		}
		return next(ctx, cmds)
	}
}

// An import undoes nothing that another operator does meanwhile.
func TestAnImportDoesNotUndoAnOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.override("ended", pinned(5))
	w.override("other", pinned(5))
	backup := must(w.admin.Export(ctx))(t)
	check(t, w.client.FlushAll(ctx).Err())
	slow := w.server.Client()
	slow.AddHook(&beforePipeline{before{name: "set", do: func() {
		for _, held := range must(w.admin.Overrides(ctx))(t) {
			if held.Customer == "ended" {
				must(w.admin.EndOverride(ctx, "ended", demo(held.Version)))(t)
			} else {
				must(w.admin.SetOverride(ctx, "other", pinned(3), time.Hour, demo(held.Version)))(t)
			}
		}
	}}})
	must(openAdmin(t, slow, nil).Import(ctx, backup, demo(0)))(t)
	w.wantLevel(w.store, "ended", 1, 1)
	w.wantLevel(w.store, "other", 3, 1)
}

// Rules that somebody wrote by hand, with other spaces, can be replaced: by those who look
// first, and workers follow all of it.
func TestRulesWrittenByHandCanBeReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.apply(strict())
	check(t, w.client.Set(ctx, rulesKey, `{ "by": "joe", "why": "by hand",
		"version": 7, "at": 1764000000000, "rules": {"thresholds": [0]} }`, 0).Err())
	_ = must(w.admin.Settings(ctx))
	version := must(w.admin.Apply(ctx, only(), demo(w.rulesVersion())))(t)
	w.refresh()
	wantPolicy(t, "applied", w.store, 1)
	if got := w.settings().Rules.Version; got != version {
		t.Errorf("version %d, want %d", got, version)
	}

	check(t, w.client.HSet(ctx, overridesKey, "acme", `{"version": 3, "at": 1, "until": 0, "by": "joe", "why": "x", "override": "=3"}`).Err())
	held := must(w.admin.OverrideOf(ctx, "acme"))(t)
	must(w.admin.SetOverride(ctx, "acme", pinned(4), time.Hour, demo(held.Version)))(t)
	w.wantLevel(w.store, "acme", 4, 1)
}

// A failover between the two halves of a change may lose the first one: that is no end
// which another operator asked for.
func TestAChangeThatIsLostBetweenItsHalvesIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.override("other", pinned(3))
	replica := w.contents()
	slow := w.server.Client()
	slow.AddHook(&before{name: "set", do: func() { w.restore(replica) }})
	_, err := openAdmin(t, slow, &control.AdminOptions{Timeout: 3 * time.Second}).SetOverride(ctx, "acme", pinned(5), time.Hour, demo(0))
	wantError(t, "SetOverride", err, control.ErrNotInForce)
	if held := must(w.admin.OverrideOf(ctx, "acme"))(t); held != nil {
		t.Errorf("it is in force, but not on record: %+v", held)
	}
}

// Whose keys are away stop nobody else's import.
func TestAnImportBringsBackWhatItCan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	backup := &control.Backup{Version: 7}
	item := control.Item[priority.Override]{Value: pinned(5), By: "mary", Why: "x", Until: time.Now().Add(time.Hour)}
	for i := range 1200 {
		backup.Overrides = append(backup.Overrides, control.Held{Customer: fmt.Sprint("away ", i), Item: item})
	}
	for i := range 300 {
		backup.Overrides = append(backup.Overrides, control.Held{Customer: fmt.Sprint("here ", i), Item: item})
	}
	half := openAdmin(t, w.user("half", "~priority:{control}:* ~priority:{here*", "+@all"), nil)
	got, err := half.Import(ctx, backup, demo(0))
	wantError(t, "Import", err, control.ErrNotInForce)
	if got.Overrides != 300 || len(err.Error()) > 1000 {
		t.Errorf("%+v, and an error of %d bytes", got, len(err.Error()))
	}
	w.wantLevel(w.store, "here 299", 5, 1)
	if got := must(w.admin.Import(ctx, backup, demo(0)))(t); got.Overrides != 1500 {
		t.Errorf("once more: %+v", got)
	}
	w.wantLevel(w.store, "away 1199", 5, 1)
}
