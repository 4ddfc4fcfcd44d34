package control_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
)

// What a worker and an Admin need. The worker's are those of a RedisStore, and then
// %R~ on what operators set.
const (
	workerReads = "%R~priority:{control}:*"
	adminRights = "~priority:{control}:* -@all +evalsha +eval"
	counts      = "-@all +evalsha +eval +exists +get +set +decr +decrby +incrby +pexpire +pttl"
	reads       = "+hmget +hscan +xrange +time"
	changes     = "+hmget +time +xrevrange +zrangebyscore +zcount +xadd +hdel +zrem +hset +zadd"
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

// A worker that may only read what operators set follows it, and cannot change it.
func TestAWorkerMayFollowAndNotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	client := w.user("worker", "~priority:{acme}:* ~priority:{bolt}:*", counts, reads, workerReads)
	store := openControl(t, client, nil, seldom)
	check(t, store.Refresh(ctx)) // where nothing was ever set
	w.override("acme", control.Pin(5))
	check(t, store.Refresh(ctx))
	for i := range 5 { // all, and the changes since
		w.wantLevel(store, "acme", 5, []priority.Level{1, 1, 1, 2, 2}[i])
		must(w.admin.NoteReset(ctx, "bolt", demo(0)))(t)
		check(t, store.Refresh(ctx))
	}
	before := w.contents()
	admin := openAdmin(t, client, nil)
	for name, change := range map[string]func() (int64, error){
		"SetOverride": func() (int64, error) { return admin.SetOverride(ctx, "acme", control.Pin(1), time.Hour, demo(1)) },
		"EndOverride": func() (int64, error) { return admin.EndOverride(ctx, "acme", demo(1)) },
		"Apply":       func() (int64, error) { return admin.Apply(ctx, only(), demo(0)) },
		"NoteReset":   func() (int64, error) { return admin.NoteReset(ctx, "acme", demo(0)) },
	} {
		_, err := change()
		wantError(t, name, err, control.ErrNotChanged)
		if err != nil && !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "permission") {
			t.Errorf("%s does not say why: %v", name, err)
		}
	}
	for _, command := range [][]any{
		{"hset", documentKey, "version", 99}, {"del", documentKey}, {"zadd", endsKey, 1, "x"}, {"xadd", logKey, "*", "a", "b"},
		{"del", logKey}, {"expire", documentKey, 1}, {"eval", "return redis.call('del', KEYS[1])", 1, documentKey},
		{"eval", "return redis.call('del', '" + documentKey + "')", 0},
	} {
		if err := client.Do(ctx, command...).Err(); err == nil {
			t.Errorf("%v worked", command)
		}
	}
	if got := w.contents(); got[documentKey] != before[documentKey] || got[logKey] != before[logKey] || got[endsKey] != before[endsKey] {
		t.Error("something is changed")
	}
}

// Each of the rights is needed: without it something fails.
func TestAWorkerNeedsNoMoreRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	must(w.admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(0)))(t)
	for i, right := range strings.Fields(reads) {
		client := w.user(fmt.Sprint("worker", i), "~priority:{acme}:* "+counts, reads, workerReads, "-"+right[1:])
		store := openControl(t, client, &priority.RedisOptions{Timeout: 200 * time.Millisecond}, seldom)
		err := store.Refresh(ctx)
		_, counted := store.Next(ctx, "acme")
		must(w.admin.NoteReset(ctx, "bolt", demo(0)))(t)
		if again := store.Refresh(ctx); errors.Join(err, counted, again) == nil {
			t.Errorf("%s is not needed", right)
		}
	}
}

// An Admin needs these rights, and none on counts.
func TestAnAdminNeedsNoRightsToCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	client := w.user("operator", adminRights, changes, "+hscan +xrange +hget")
	admin := openAdmin(t, client, nil)
	override := must(admin.SetOverride(ctx, "acme", control.Pin(1), time.Hour, demo(0)))(t)
	must(admin.SetOverride(ctx, "over", control.Pin(1), time.Millisecond, demo(0)))(t)
	await(t, "one is over", func() bool { return len(must(since(admin.Document(ctx)))(t).Overrides) == 1 })
	must(admin.EndOverride(ctx, "acme", demo(override)))(t)
	policy := must(admin.Apply(ctx, strict(), demo(0)))(t)
	policy = must(admin.Rollback(ctx, policy, demo(policy)))(t)
	must(admin.Withdraw(ctx, demo(policy)))(t)
	must(admin.NoteReset(ctx, "acme", demo(0)))(t)
	known := must(since(admin.Document(ctx)))(t)
	must(admin.NoteReset(ctx, "acme", demo(0)))(t)
	must(since(admin.DocumentSince(ctx, known)))(t)
	if got := must(admin.History(ctx))(t); len(got) != 2 {
		t.Errorf("the history has %d", len(got))
	}
	if got := must(admin.Log(ctx, 0, 100))(t); len(got) != 8 {
		t.Errorf("the log has %d", len(got))
	}
	if _, err := openStore(t, client, nil).Next(ctx, "acme"); err == nil {
		t.Error("it may count")
	}
}

// A login that is refused is an error, of a client whose commands do not know of it too.
func TestARefusedLoginIsToldAndTheLastStateHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "secret")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "another"})
	t.Cleanup(func() { _ = client.Close() })
	store := must(control.New(client, nil))(t)
	if err := store.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("Refresh = %v", err)
	}
	if _, _, err := openAdmin(t, client, nil).Document(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("Document = %v", err)
	}
	if status := store.Status(); status.Err == nil || status.Document != nil {
		t.Errorf("%+v", status)
	}
	check(t, store.Close(t.Context()))
}

// An Admin without one of the rights changes nothing, not even the log. On Redis 6.2,
// which a script cannot ask for rights, that is so for those up to the first write; and
// without another one an Admin does not claim that the change was made.
func TestAChangeThatWouldStopHalfwayIsNotBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	must(w.admin.NoteReset(ctx, "bolt", demo(0)))(t)
	before := w.contents()
	change := func(without string) error {
		client := w.user("without-"+without, "~priority:{control}:* -@all +evalsha +eval "+
			"+hmget +time +xrevrange +zrangebyscore +zcount +xadd +hdel +zrem +hset +zadd", "-"+without)
		_, err := openAdmin(t, client, nil).SetOverride(ctx, "acme", control.Pin(1), time.Hour, demo(0))
		return err
	}
	commands := []string{"hmget", "xrevrange", "zrangebyscore", "zcount", "xadd"}
	tellsRights := must(w.client.Eval(ctx, "return redis.acl_check_cmd and 1 or 0", nil).Bool())(t)
	if tellsRights {
		commands = append(commands, "hset", "hdel", "zadd", "zrem")
	}
	for _, command := range commands {
		err := change(command)
		wantError(t, "without "+command, err, control.ErrNotChanged)
		if err != nil && !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("without %s: %v", command, err)
		}
	}
	if got := w.contents(); got[documentKey] != before[documentKey] || got[logKey] != before[logKey] || got[endsKey] != before[endsKey] {
		t.Error("something is changed")
	}
	if !tellsRights {
		wantError(t, "without hset", change("hset"), priority.ErrOutcomeUnknown)
	}
}
