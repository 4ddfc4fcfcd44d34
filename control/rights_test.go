package control_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lua"
)

// user returns a client of a user with some rights.
func (w *world) user(name string, rights ...string) *redis.Client {
	w.t.Helper()
	args := []any{"acl", "setuser", name, "reset", "on", "nopass"}
	for _, rule := range strings.Fields(strings.Join(rights, " ")) {
		args = append(args, rule)
	}
	if err := w.client.Do(w.t.Context(), args...).Err(); err != nil {
		if strings.Contains(err.Error(), "%R~") || strings.Contains(err.Error(), "Syntax") {
			redistest.SkipServer(w.t, "it has no rights to read only: "+err.Error())
		}
		w.t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: w.server.Addr, Username: name, Password: "any"})
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

// A worker with the documented rights decides and follows, and changes nothing by an Admin.
func TestAWorkerMayFollowAndNotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	keys, commands := markdown.Read(t, "../docs/redis.md").Rights(t, "worker")
	client := w.user("worker", slices.Concat(keys, commands)...)
	store := openControl(t, client, nil, seldom)
	check(t, store.Refresh(ctx)) // where nothing was ever set
	w.apply(strict())
	w.override("acme", pinned(2))
	check(t, store.Refresh(ctx))
	w.wantLevel(store, "acme", 2, 1)
	for name, call := range map[string]func() error{
		"Submit": func() error { _, err := store.Submit(ctx, "acme", "a", 0); return err },
		"Done":   func() error { _, err := store.Done(ctx, "acme", "a", 0); return err },
		"Peek":   func() error { _, err := store.Peek(ctx, "acme"); return err },
		"Reset":  func() error { return store.Reset(ctx, "acme") },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	admin := openAdmin(t, client, nil)
	before := w.contents()
	for name, change := range map[string]func() (int64, error){
		"SetOverride": func() (int64, error) { return admin.SetOverride(ctx, "acme", pinned(1), time.Hour, demo(2)) },
		"EndOverride": func() (int64, error) { return admin.EndOverride(ctx, "acme", demo(2)) },
		"Apply":       func() (int64, error) { return admin.Apply(ctx, only(), demo(1)) },
		"NoteReset":   func() (int64, error) { return admin.NoteReset(ctx, "acme", demo(0)) },
		"Forget":      func() (int64, error) { done, err := admin.Forget(ctx, "acme", demo(0)); return done.Version, err },
	} {
		_, err := change()
		wantError(t, name, err, control.ErrNotChanged)
		if err != nil && !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s does not say why: %v", name, err)
		}
	}
	w.wantContents(before)
}

// A worker that may not read overrides never decides as if there were none.
func TestOverridesThatMayNotBeReadAreAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.override("acme", pinned(2))
	keys, commands := markdown.Read(t, "../docs/redis.md").Rights(t, "worker")
	without := func(rights []string, right string) []string {
		return slices.DeleteFunc(slices.Clone(rights), func(other string) bool { return other == right })
	}
	for name, rights := range map[string][]string{
		"the-command": slices.Concat(keys, without(commands, "+get")),
		"the-key":     slices.Concat(without(keys, "~priority:{*}:override"), commands),
	} {
		store := openControl(t, w.user(name, rights...), &priority.RedisOptions{Timeout: 5 * time.Second}, seldom)
		for operation, call := range map[string]func(customer string) error{
			"Next":   func(customer string) error { _, err := store.Next(ctx, customer); return err },
			"Submit": func(customer string) error { _, err := store.Submit(ctx, customer, "a", 0); return err },
			"Peek":   func(customer string) error { _, err := store.Peek(ctx, customer); return err },
		} {
			for _, customer := range []string{"acme", "bolt"} { // with an override, and without
				if err := call(customer); err == nil || !refusal(err) {
					t.Errorf("without %s, %s of %s: %v", name, operation, customer, err)
				}
			}
		}
	}
	if n := w.client.Exists(ctx, w.own.Keys("acme").Count, w.own.Keys("acme").Pending, w.own.Keys("bolt").Count, w.own.Keys("bolt").Pending).Val(); n > 0 {
		t.Errorf("%d keys were written", n)
	}
}

// The documented rights are enough for all that an operator does. Without one of them
// either everything works, because only other tools need it, or no change is made by
// halves or claimed: on Redis 6.2 too, which a script cannot ask for rights.
func TestAnAdminNeedsTheDocumentedRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	keys, commands := markdown.Read(t, "../docs/redis.md").Rights(t, "operator")
	all := slices.Concat(keys, commands)
	if err := w.everyChange(w.user("operator", all...)); err != nil {
		t.Fatal(err)
	}
	needed := 0
	for _, command := range commands {
		others := slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == command })
		client := w.user("without-"+command[1:], others...)
		check(t, w.client.FlushAll(t.Context()).Err())
		check(t, w.client.ScriptFlush(t.Context()).Err())
		err := w.everyChange(client)
		if err == nil {
			continue
		}
		needed++
		if !refusal(err) {
			t.Errorf("without %s: %v", command, err)
		}
	}
	if needed < 15 {
		t.Errorf("only %d of %q are needed", needed, commands)
	}
}

// refusal reports whether an error says that a right is missing.
func refusal(err error) bool {
	return strings.Contains(err.Error(), "NOPERM") || strings.Contains(err.Error(), "permission") || strings.Contains(err.Error(), "can't run")
}

// What docs/redis.md gives an operator is enough to forget a customer. Without one of the
// rights nothing is begun, or the error says that something may be left, as where a right
// on the customer's keys or within the script is missing, and on Redis 6.2.
func TestForgetNeedsTheDocumentedRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	_, commands := markdown.Read(t, "../docs/redis.md").Rights(t, "operator")
	keys := []string{"~priority:{control}:*", "~priority:{*}:count", "~priority:{*}:pending", "~priority:{*}:override"} // one by one
	all := slices.Concat(keys, commands)
	known(t, w.own, w.admin, "acme")
	must(openAdmin(t, w.user("operator", all...), nil).Forget(ctx, "acme", leaving))(t)
	wantForgotten(t, w.client, w.own, w.admin, "acme")
	needed := 0
	for i, right := range all {
		known(t, w.own, w.admin, "acme")
		before := w.contents()
		others := slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == right })
		_, err := openAdmin(t, w.user(fmt.Sprint("without-", i), others...), nil).Forget(ctx, "acme", leaving)
		switch {
		case err == nil:
			if strings.HasPrefix(right, "~") {
				t.Errorf("%s is not needed", right)
			}
			continue // the command is for other tools
		case errors.Is(err, control.ErrForgottenInPart), errors.Is(err, priority.ErrOutcomeUnknown): // it says so
		default:
			wantError(t, "without "+right, err, control.ErrNotChanged)
			w.wantContents(before)
		}
		if needed++; !refusal(err) {
			t.Errorf("without %s: %v", right, err)
		}
		must(w.admin.Forget(ctx, "acme", leaving))(t)
	}
	if needed < 10 {
		t.Errorf("only %d of %q are needed", needed, all)
	}
}

// everyChange does all that an operator does until something fails. What an Admin says
// that it has not changed is not changed.
func (w *world) everyChange(client *redis.Client) error {
	w.t.Helper()
	ctx := w.t.Context()
	admin := openAdmin(w.t, client, &control.AdminOptions{Timeout: 2 * time.Second})
	var override, policy int64
	for name, change := range map[string]func() error{
		"override": func() (err error) {
			override, err = admin.SetOverride(ctx, "acme", pinned(1), time.Hour, demo(0))
			return err
		},
		"policy": func() (err error) { policy, err = admin.Apply(ctx, strict(), demo(0)); return err },
		"reset":  func() error { _, err := admin.NoteReset(ctx, "acme", demo(0)); return err },
	} {
		before := w.contents()
		err := change()
		switch {
		case err == nil:
			continue
		case !w.sameContents(before) && !strings.Contains(err.Error(), control.ErrNotInForce.Error()):
			w.t.Errorf("%s has changed something by halves: %v", name, err)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := admin.EndOverride(ctx, "acme", demo(override)); err != nil {
		return err
	}
	if _, err := admin.Rollback(ctx, policy, demo(policy)); err != nil {
		return err
	}
	for i := range int64(3) { // more than 2 make the script prune
		if err := w.fill(client, i); err != nil {
			return err
		}
	}
	for _, read := range []func() error{
		func() error { _, err := admin.Settings(ctx); return err },
		func() error {
			all, err := admin.Overrides(ctx)
			for _, held := range all {
				if err == nil {
					err = held.Err
				}
			}
			return err
		},
		func() error { _, err := admin.Log(ctx, 0, 10); return err },
		func() error { _, err := admin.History(ctx); return err },
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// fill makes a change of the script for which there is room for two overrides.
func (w *world) fill(client *redis.Client, i int64) error {
	_, err := redis.NewScript(lua.Change).Run(w.t.Context(), client, []string{versionKey, logKey, overridesKey}, 0, 1, 1+i, 2, 100, 0, 0,
		fmt.Sprint("override:", i), `{"by":"m","why":"m","override":"=1"}`, "m", "m").Result()
	time.Sleep(2 * time.Millisecond) // until it is over by Redis's clock
	return err
}

// A login that is refused is an error, also of a pipeline whose commands do not know of it.
func TestARefusedLoginIsSaidAndTheOptionsHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "secret")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "another"})
	t.Cleanup(func() { _ = client.Close() })
	store := must(control.New(client, nil))(t)
	if err := store.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("Refresh = %v", err)
	}
	if _, err := openAdmin(t, client, nil).Overrides(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("Overrides = %v", err)
	}
	if status := store.Status(); status.Err == nil || status.Rules != nil || !status.ReadAt.IsZero() || store.PolicyOf("acme").Last() != priority.DefaultPolicy().Last() {
		t.Errorf("%+v", status)
	}
	check(t, store.Close(t.Context()))
}
