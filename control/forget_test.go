package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lua"
)

// known makes a customer one of whom Redis holds all that it can.
func known(t *testing.T, store priority.Store, admin *control.Admin, customer string) {
	t.Helper()
	ctx := t.Context()
	must(store.NextN(ctx, customer, 30))(t)
	must(store.Submit(ctx, customer, "a document", 0))(t)
	version := must(admin.SetOverride(ctx, customer, pinned(5), time.Hour, demo(0)))(t)
	must(admin.EndOverride(ctx, customer, demo(version)))(t)
	must(admin.NoteReset(ctx, customer, demo(0)))(t)
	must(admin.SetOverride(ctx, customer, pinned(6), time.Hour, demo(0)))(t)
}

const entriesOfKnown = 4

func keysOf(store *priority.RedisStore, customer string) []string {
	keys := store.Keys(customer)
	return []string{keys.Count, keys.Pending, keys.Override}
}

// entriesOf returns the log's entries of a customer.
func entriesOf(t *testing.T, admin *control.Admin, customer string) []control.Entry {
	t.Helper()
	return slices.DeleteFunc(must(admin.Log(t.Context(), 0, 10_000))(t), func(e control.Entry) bool { return e.Customer != customer })
}

// wantForgotten fails the test if Redis holds anything of a customer.
func wantForgotten(t *testing.T, client redis.UniversalClient, store *priority.RedisStore, admin *control.Admin, customer string) {
	t.Helper()
	for _, key := range keysOf(store, customer) {
		if client.Exists(t.Context(), key).Val() > 0 {
			t.Errorf("%.60q is there", key)
		}
	}
	if held := must(admin.OverrideOf(t.Context(), customer))(t); held != nil {
		t.Errorf("an override is there: %+v", held)
	}
	if entries := entriesOf(t, admin, customer); len(entries) > 0 {
		t.Errorf("the log has %d entries of %.60q", len(entries), customer)
	}
}

var leaving = control.Change{By: "mary", Why: "they have left, ticket 4711"}

// Whatever the name consists of: nothing of the customer is left, and all of the others,
// whose names may contain it, is.
func TestForgetRemovesACustomerAndNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	for _, customer := range oddCustomers {
		known(t, w.own, w.admin, customer)
	}
	w.apply(strict())
	changes := len(must(w.admin.Log(ctx, 0, 10_000))(t))
	for i, customer := range oddCustomers {
		got := must(w.admin.Forget(ctx, customer, leaving))(t)
		if got.Keys != 3 || got.Entries != entriesOfKnown || got.Version != int64(changes+i+1) {
			t.Errorf("Forget(%.60q) = %+v", customer, got)
		}
		wantForgotten(t, w.client, w.own, w.admin, customer)
		left := len(oddCustomers) - i - 1
		if held := must(w.admin.Overrides(ctx))(t); len(held) != left {
			t.Fatalf("after %.60q there are %d overrides, want %d", customer, len(held), left)
		}
		if entries := must(w.admin.Log(ctx, 0, 10_000))(t); len(entries) != left*entriesOfKnown+1+i+1 {
			t.Fatalf("after %.60q the log has %d entries", customer, len(entries))
		}
	}
	for i, entry := range must(w.admin.Log(ctx, 0, 10_000))(t) {
		if i < len(oddCustomers) && (entry.Kind != "forget" || entry.By != leaving.By || entry.Why != leaving.Why || entry.Customer != "" || entry.Old != nil || entry.New != nil) {
			t.Errorf("%+v", entry)
		}
	}
	if keys := must(w.client.Keys(ctx, "*").Result())(t); len(keys) != 4 { // version, log, rules, history
		t.Errorf("keys are left: %q", keys)
	}
	if ttl := w.client.TTL(ctx, logKey).Val(); ttl != -1 {
		t.Errorf("the log ends in %v", ttl)
	}
	w.refresh()
	wantPolicy(t, "the rules hold", w.store, 3)
}

// What Redis keeps in memory and writes to disk has the name no more.
func TestForgetLeavesNoBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	check(t, w.client.ConfigSet(ctx, "rdbcompression", "no").Err())
	known(t, w.own, w.admin, "acme")
	for i := range 450 { // three copies' worth
		must(w.admin.NoteReset(ctx, fmt.Sprint("other ", i), demo(0)))(t)
	}
	must(w.admin.NoteReset(ctx, "acme", demo(0)))(t)
	must(w.admin.Forget(ctx, "acme", leaving))(t)
	for _, key := range must(w.client.Keys(ctx, "*").Result())(t) {
		if strings.Contains(key, "acme") || strings.Contains(w.client.Dump(ctx, key).Val(), "acme") {
			t.Errorf("%s has the name", key)
		}
	}
	if n := len(must(w.admin.Log(ctx, 0, 10_000))(t)); n != 451 {
		t.Errorf("%d entries are left", n)
	}
}

func TestForgetMayBeRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	known(t, w.own, w.admin, "acme")
	check(t, w.client.Set(t.Context(), logKey+"-copy", "junk", 0).Err())
	for _, want := range []control.Forgotten{{Version: 5, Keys: 3, Entries: 4}, {Version: 6}, {Version: 7}} {
		if got := must(w.admin.Forget(t.Context(), "acme", leaving))(t); got != want {
			t.Errorf("Forget = %+v, want %+v", got, want)
		}
	}
}

func TestForgetInVirtualTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := newVirtual(t)
		admin, client := v.admin(), v.Client(nil)
		store := must(priority.NewRedisStore(client, nil))(t)
		known(t, store, admin, "acme")
		for i := range 250 {
			must(admin.NoteReset(t.Context(), fmt.Sprint("acme ", i), demo(0)))(t)
		}
		if got := must(admin.Forget(t.Context(), "acme", leaving))(t); got.Keys != 3 || got.Entries != entriesOfKnown {
			t.Errorf("Forget = %+v", got)
		}
		wantForgotten(t, client, store, admin, "acme")
		time.Sleep(time.Hour)
		if n := len(must(admin.Log(t.Context(), 0, 10_000))(t)); n != 251 {
			t.Errorf("%d entries are left", n)
		}
	})
}

// The documents are in the queue still: their Dones do nothing, and the next document is
// the customer's first.
func TestADoneAfterForgetDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	known(t, w.own, w.admin, "acme")
	must(w.admin.Forget(ctx, "acme", leaving))(t)
	must(w.own.Done(ctx, "acme", "a document", time.Second))(t)
	must(w.own.DoneN(ctx, "acme", []string{"a document", "another"}, time.Second))(t)
	wantForgotten(t, w.client, w.own, w.admin, "acme")
	if got := must(w.own.Submit(ctx, "acme", "a document", 0))(t); got.Load != 1 || got.Pending != 1 {
		t.Errorf("the next one is %+v", got)
	}
}

// A customer's keys live on another node than what operators have set.
func TestForgetOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	store, admin := openStore(t, client, nil), openAdmin(t, client, nil)
	for i := range 9 {
		known(t, store, admin, fmt.Sprint("customer ", i))
	}
	for i := range 9 {
		if got := must(admin.Forget(t.Context(), fmt.Sprint("customer ", i), leaving))(t); got.Keys != 3 || got.Entries != entriesOfKnown {
			t.Errorf("Forget = %+v", got)
		}
	}
	for i := range 9 {
		wantForgotten(t, client, store, admin, fmt.Sprint("customer ", i))
	}
}

// Each copies the log: none brings back what another one has removed, or loses a change
// that is made meanwhile.
func TestManyForgetAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	for i := range 6 {
		known(t, w.own, w.admin, fmt.Sprint("customer ", i))
	}
	w.many(1000, 0, time.Hour)
	admins := []*control.Admin{w.admin, openAdmin(t, w.server.Client(), nil)}
	var all sync.WaitGroup
	for i := range 12 { // each customer twice
		all.Go(func() {
			if _, err := admins[i%2].Forget(ctx, fmt.Sprint("customer ", i/2), leaving); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 50 {
		all.Go(func() {
			if _, err := admins[i%2].NoteReset(ctx, fmt.Sprint("stays ", i), demo(0)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 6 {
		wantForgotten(t, w.client, w.own, w.admin, fmt.Sprint("customer ", i))
	}
	kinds := make(map[string]int)
	for _, entry := range must(w.admin.Log(ctx, 0, 10_000))(t) {
		kinds[entry.Kind]++
	}
	if kinds["override"] != 1000 || kinds["reset"] != 50 || kinds["forget"] != 12 {
		t.Errorf("the log has %v", kinds)
	}
	if n := len(must(w.admin.Overrides(ctx))(t)); n != 1000 {
		t.Errorf("%d overrides", n)
	}
}

// What another operator sets after a Forget has begun holds, and is in the log.
func TestForgetKeepsWhatIsSetMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	known(t, w.own, w.admin, "acme")
	slow := w.server.Client()
	slow.AddHook(&before{name: "unlink", do: func() { w.override("acme", pinned(3)) }})
	got := must(openAdmin(t, slow, nil).Forget(ctx, "acme", leaving))(t)
	if entries := entriesOf(t, w.admin, "acme"); got.Entries != entriesOfKnown || len(entries) != 1 || entries[0].Version != got.Version+1 {
		t.Errorf("Forget = %+v, and the log has %+v", got, entries)
	}
	w.wantLevel(w.store, "acme", 3, 1)
	if held := must(w.admin.OverrideOf(ctx, "acme"))(t); held == nil || !held.InForce {
		t.Errorf("the override is %+v", held)
	}
}

// stops is a hook that ends a process, as far as Redis sees, before a command of a name:
// the n-th time.
type stops struct {
	noHook
	name string
	n    int
}

var errStopped = errors.New("stopped")

func (s *stops) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == s.name {
			s.n--
		}
		if s.n < 1 {
			cmd.SetErr(errStopped)
			return errStopped
		}
		return next(ctx, cmd)
	}
}

// Wherever a process ends: nothing is begun, or the error says that something may be left,
// and a repetition leaves nothing. The log loses nothing.
func TestForgetThatStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.many(450, 0, time.Hour)
	warm := openStore(t, w.client, nil)
	known(t, warm, w.admin, "warm")
	must(w.admin.Forget(ctx, "warm", leaving))(t) // the server knows the scripts
	halfway := 0
	for _, name := range []string{"evalsha", "unlink"} {
		for n := 1; ; n++ {
			known(t, w.own, w.admin, "acme")
			stopped := w.server.Client()
			stopped.AddHook(&stops{name: name, n: n})
			version := w.settings().Version
			got, err := openAdmin(t, stopped, &control.AdminOptions{Timeout: 200 * time.Millisecond}).Forget(ctx, "acme", leaving)
			if err == nil {
				wantForgotten(t, w.client, w.own, w.admin, "acme")
				break
			}
			if errors.Is(err, control.ErrForgottenInPart) {
				halfway++
				if got.Version != version+1 {
					t.Errorf("before %s %d: %+v", name, n, got)
				}
			} else if wantError(t, "Forget", err, control.ErrNotChanged); w.settings().Version != version {
				t.Errorf("before %s %d: it is written down: %v", name, n, err)
			}
			must(w.admin.Forget(ctx, "acme", leaving))(t)
			wantForgotten(t, w.client, w.own, w.admin, "acme")
		}
	}
	if halfway < 5 {
		t.Errorf("it stopped halfway only %d times", halfway)
	}
	kinds := make(map[string]int)
	for _, entry := range must(w.admin.Log(ctx, 0, 10_000))(t) {
		kinds[entry.Kind]++
	}
	if kinds["override"] != 450 || kinds["reset"] != 0 {
		t.Errorf("the log has %v", kinds)
	}
	await(t, "the copies end", func() bool { return w.client.Exists(ctx, logKey+"-copy", logKey+"-copying").Val() == 0 })
}

func TestForgetOfAFullLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	known(t, w.own, w.admin, "many 77 of")
	for n := 0; n < control.MaxOverrides-1; n += 303 {
		w.many(303, n, time.Hour)
	}
	if got := must(w.admin.Forget(ctx, "many 77", leaving))(t); got.Keys != 1 || got.Entries != 1 {
		t.Errorf("Forget = %+v", got)
	}
	wantForgotten(t, w.client, w.own, w.admin, "many 77")
	if n := len(must(w.admin.Overrides(ctx))(t)); n != control.MaxOverrides-1 {
		t.Errorf("%d overrides", n)
	}
	w.override("another", pinned(2)) // there is room again
}

// Redis may evict what has a TTL: a copy that lacks its beginning is not put in place.
func TestForgetWhoseCopyIsEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	known(t, w.own, w.admin, "acme")
	w.many(450, 0, time.Hour)
	slow := w.server.Client()
	evicts := &evicting{w: w}
	slow.AddHook(evicts)
	must(openAdmin(t, slow, nil).Forget(ctx, "acme", leaving))(t)
	if n := len(must(w.admin.Log(ctx, 0, 10_000))(t)); n != 451 || !evicts.done {
		t.Errorf("%d entries are left, evicted: %v", n, evicts.done)
	}
	wantForgotten(t, w.client, w.own, w.admin, "acme")
}

// evicting is a hook that removes a copy of the log as soon as there is one.
type evicting struct {
	noHook
	w    *world
	done bool
}

func (e *evicting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		e.done = e.done || e.w.client.Del(ctx, logKey+"-copy").Val() > 0
		return next(ctx, cmd)
	}
}

// The reason is kept: it may not say who was forgotten.
func TestForgetRefusesAReasonThatNamesTheCustomer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	for customer, why := range map[string]string{
		"acme": "ACME has left", "a b": "so a B, they said", "ü": "ü", "}": "not {} any more", "7": "customer 7", "": "x", strings.Repeat("x", 513): "x",
	} {
		_, err := w.admin.Forget(ctx, customer, control.Change{By: "mary", Why: why})
		wantError(t, "Forget of "+customer, err, priority.ErrInvalid)
	}
	_, err := w.admin.Forget(ctx, "acme", control.Change{Why: "x"})
	wantError(t, "by nobody", err, priority.ErrInvalid)
	if n := must(w.client.DBSize(ctx).Result())(t); n != 0 {
		t.Errorf("%d keys are there", n)
	}
	for customer, why := range map[string]string{"acme": "acme2 has them, see acmes", "7": "ticket 4711", "mary": "as asked", "a": "a-ha? no: aaa"} {
		_, err := w.admin.Forget(ctx, customer, control.Change{By: "mary", Why: why})
		if customer == "a" {
			wantError(t, "a word", err, priority.ErrInvalid)
		} else {
			check(t, err)
		}
	}
}

// Whichever command Redis refuses, the log is whole and no copy is left: before Redis 7.0
// nobody knows the rights beforehand.
func TestARefusedCopyLeavesTheLogAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	for i := range 250 {
		must(w.admin.NoteReset(ctx, fmt.Sprint("c", i), demo(0)))(t)
	}
	before := must(w.client.XRange(ctx, logKey, "-", "+").Result())(t)
	forget := redis.NewScript(lua.Forget)
	keys := []string{logKey, logKey + "-copy", logKey + "-copying"}
	for token, right := range []string{"xadd", "pexpire", "set", "persist", "rename"} {
		client := w.user(right, "~*", "+@all", "-"+right)
		var err error
		for reply := []int64{0}; err == nil && reply[0] == 0; {
			reply, err = forget.Run(ctx, client, keys, token+1, 200, 1000, "c7").Int64Slice()
		}
		if after := must(w.client.XRange(ctx, logKey, "-", "+").Result())(t); err == nil || !slices.EqualFunc(before, after, func(a, b redis.XMessage) bool { return a.ID == b.ID }) {
			t.Errorf("without %s: %v, and the log has %d entries, not %d", right, err, len(after), len(before))
		}
		if ttl := w.client.TTL(ctx, logKey).Val(); ttl != -1 {
			t.Errorf("without %s the log ends in %v", right, ttl)
		}
		if n := w.client.Exists(ctx, logKey+"-copy").Val(); n > 0 {
			t.Errorf("without %s a copy is left", right)
		}
		check(t, w.client.Del(ctx, logKey+"-copying").Err())
	}
}

func TestForgetCountsWhatItRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	known(t, w.own, w.admin, "acme")
	got, err := openAdmin(t, w.user("some", "~*", "+@all", "-unlink"), nil).Forget(t.Context(), "acme", leaving)
	if left := len(entriesOf(t, w.admin, "acme")); !errors.Is(err, control.ErrForgottenInPart) || got.Entries != entriesOfKnown-left {
		t.Errorf("Forget = %+v, %v, and %d entries are left", got, err, left)
	}
}

func TestForgetRefusesTheRecordOfALaterVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	check(t, w.client.HSet(t.Context(), overridesKey, "acme", `{"format":2}`).Err())
	contents := w.contents()
	if _, err := w.admin.Forget(t.Context(), "acme", leaving); !errors.Is(err, control.ErrNewer) {
		t.Error(err)
	}
	w.wantContents(contents)
}
