package control_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/lua"
)

// fields are fields of the document that somebody else has written.
type fields map[string]string

var junkFields = map[string]fields{
	"a format that is no number":    {"format": "x"},
	"a negative format":             {"format": "-1"},
	"a huge format":                 {"format": strings.Repeat("9", 40)},
	"an empty format":               {"format": ""},
	"a format of 0":                 {"format": "0"},
	"a version that is no number":   {"version": "x"},
	"a negative version":            {"version": "-5"},
	"a huge version":                {"version": strings.Repeat("9", 40)},
	"a version of 16 digits":        {"version": "9007199254740993"},
	"a version of 15 digits":        {"version": "999999999999999"},
	"an infinite version":           {"version": "1e999"},
	"a version in parts":            {"version": "1.5"},
	"a hexadecimal version":         {"version": "0x10"},
	"an empty version":              {"version": ""},
	"a token that is no number":     {"token": "x"},
	"a negative token":              {"token": "-1"},
	"policies that are junk":        {"policies": strings.Repeat("x ", 101)},
	"many policies that are junk":   {"policies": strings.Repeat(" ", 101)},
	"policies that are not there":   {"policies": strings.Repeat("7 ", 101)},
	"an override that is junk":      {"override:acme": "junk"},
	"an override without a value":   {"override:acme": "1 2 3"},
	"an override of words":          {"override:acme": "x y z {}"},
	"an override of a half":         {"override:acme": `1 2 0 {"value":`},
	"an override that is a text":    {"override:acme": `1 2 0 "x"`},
	"an override of a text":         {"override:acme": `1 2 0 {"value":"x"}`},
	"an override of huge numbers":   {"override:acme": strings.Repeat("9", 30) + ` 2 9999999999999 {"value":{"latest":1}}`},
	"an override of negative ones":  {"override:acme": `-1 -2 -3 {"value":{"latest":1}}`},
	"another's override that is so": {"override:other": "junk"},
	"a policy that is junk":         {"policy": "junk"},
	"a policy that is a text":       {"policy": `1 2 0 {"value":"x"}`},
	"a policy that is not one":      {"policy": `1 2 0 {"value":{"thresholds":[1,2]}}`},
	"a policy of unknown fields":    {"policy": `1 2 0 {"value":{"threshold":[1]}}`},
	"fields of nobody":              {"": "x", "junk": "x", "override": "x", "override:": "x", "policy:": "x", "policy:x": "x", "\x00": "\xff"},
}

// junk is what a key may hold that operators have not set.
func junk(w *world) map[string]func() {
	ctx := w.t.Context()
	all := map[string]func(){
		"format 2": func() { check(w.t, w.client.HSet(ctx, documentKey, "format", "2").Err()) },
		"format 2 of another": func() {
			w.delete(documentKey)
			check(w.t, w.client.HSet(ctx, documentKey, "format", "2", "x", "y").Err())
		},
		"no format":  func() { check(w.t, w.client.HDel(ctx, documentKey, "format").Err()) },
		"no version": func() { check(w.t, w.client.HDel(ctx, documentKey, "version").Err()) },
		"no token":   func() { check(w.t, w.client.HDel(ctx, documentKey, "token").Err()) },
		"an entry of nobody": func() {
			check(w.t, w.client.XAdd(ctx, &redis.XAddArgs{Stream: logKey, Values: []string{"a", "b"}}).Err())
		},
		"an end of nobody": func() { check(w.t, w.client.ZAdd(ctx, endsKey, redis.Z{Score: 1, Member: "nobody"}).Err()) },
		"an infinite end":  func() { check(w.t, w.client.ZAdd(ctx, endsKey, redis.Z{Score: 1e308, Member: "nobody"}).Err()) },
	}
	for name, fields := range junkFields {
		all[name] = func() {
			for field, value := range fields {
				check(w.t, w.client.HSet(ctx, documentKey, field, value).Err())
			}
		}
	}
	for _, key := range []string{documentKey, endsKey, logKey} {
		all["a string in "+key] = func() { check(w.t, w.client.Set(ctx, key, "junk", 0).Err()) }
		all["a list in "+key] = func() { w.delete(key); check(w.t, w.client.RPush(ctx, key, "junk").Err()) }
		if key != endsKey {
			all["a sorted set in "+key] = func() { w.delete(key); check(w.t, w.client.ZAdd(ctx, key, redis.Z{Member: "junk"}).Err()) }
		}
		if key == endsKey || key == logKey {
			all["a hash in "+key] = func() { w.delete(key); check(w.t, w.client.HSet(ctx, key, "junk", "junk").Err()) }
		}
	}
	return all
}

// contents returns what the keys hold that changes write.
func (w *world) contents() map[string]string {
	ctx, contents := w.t.Context(), make(map[string]string)
	for _, key := range []string{documentKey, endsKey, logKey} {
		var held any
		switch kind := w.client.Type(ctx, key).Val(); kind {
		case "hash":
			held = w.client.HGetAll(ctx, key).Val()
		case "zset":
			held = w.client.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "stream":
			held = w.client.XRange(ctx, key, "-", "+").Val()
		default:
			held = kind
		}
		contents[key] = fmt.Sprint(held)
	}
	return contents
}

// Whatever a key holds: a change is made or it is not, as the Admin says, and nothing
// is made by halves. Workers go on with what they know, and say why.
func TestJunkIsNotFollowedAndNotChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	must(w.admin.NoteReset(ctx, "acme", demo(0)))(t)
	must(w.admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(0)))(t)
	must(w.admin.Apply(ctx, strict(), demo(0)))(t)
	w.refresh()
	good, restore := w.contents(), w.keep()
	admin := w.admin
	changes := map[string]func() (int64, error){
		"SetOverride": func() (int64, error) { return admin.SetOverride(ctx, "acme", control.Pin(6), time.Hour, demo(2)) },
		"another's":   func() (int64, error) { return admin.SetOverride(ctx, "bolt", control.Pin(6), time.Hour, demo(0)) },
		"EndOverride": func() (int64, error) { return admin.EndOverride(ctx, "acme", demo(2)) },
		"Apply":       func() (int64, error) { return admin.Apply(ctx, only(), demo(3)) },
		"Rollback":    func() (int64, error) { return admin.Rollback(ctx, 3, demo(3)) },
		"Withdraw":    func() (int64, error) { return admin.Withdraw(ctx, demo(3)) },
		"NoteReset":   func() (int64, error) { return admin.NoteReset(ctx, "acme", demo(0)) },
	}
	for name, harm := range junk(w) {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			harm()
			harmed, again := w.contents(), w.keep()
			if maps.Equal(harmed, good) {
				t.Fatal("nothing is harmed")
			}
			for call, change := range changes {
				version, err := change()
				if err == nil && version < 1 {
					t.Errorf("%s = %d", call, version)
				}
				if err != nil {
					wantError(t, call, err, control.ErrNotChanged)
					if got := w.contents(); !maps.Equal(got, harmed) {
						t.Errorf("%s failed and has changed something: %v", call, err)
					}
				}
				again()
			}
			store := openControl(t, w.client, w.options, seldom) // begins with it
			err := store.Refresh(ctx)
			if err != nil && !errors.Is(err, control.ErrCorruptDocument) && !errors.Is(err, control.ErrNewerDocument) &&
				!errors.Is(err, priority.ErrInvalidPolicy) {
				t.Errorf("a worker that begins: %v", err)
			}
			if err == nil {
				if _, _, err := w.admin.Document(ctx); err != nil {
					t.Errorf("a worker reads what the Admin cannot: %v", err)
				}
			}
			w.wantRead(t, store, "a worker that begins", err)
			_ = store.Close(ctx)

			for _, read := range []func() error{
				func() error { _, _, err := admin.Document(ctx); return err },
				func() error { _, err := admin.Log(ctx, 0, 10); return err },
				func() error { _, err := admin.History(ctx); return err },
			} {
				if err := read(); err != nil && !errors.Is(err, control.ErrCorruptDocument) && !errors.Is(err, control.ErrNewerDocument) {
					t.Errorf("the Admin reads: %v", err)
				}
			}

			err = w.store.Refresh(ctx) // knows what was before
			if status := w.store.Status(); err != nil && (status.Err == nil || asked(w.store, "acme") != 5) {
				t.Errorf("acme has %d after %v; %+v", asked(w.store, "acme"), err, status)
			}
			if _, err := w.store.Next(ctx, "acme"); err != nil {
				t.Errorf("Next: %v", err)
			}
			restore()
			check(t, w.store.Refresh(ctx))
			if got := asked(w.store, "acme"); got != 5 {
				t.Errorf("acme has %d when it is mended", got)
			}
		})
	}
}

// wantRead fails the test unless a store that began with junk works: by its own options
// where it says that it cannot read the document.
func (w *world) wantRead(t *testing.T, store *control.Store, what string, err error) {
	t.Helper()
	got, failure := store.Next(t.Context(), "new customer "+t.Name())
	if failure != nil {
		t.Errorf("%s: %v", what, failure)
	}
	if err != nil && (got.Level != 1 || got.Ruled != 0 || store.PolicyOf("acme").Last() != 9) {
		t.Errorf("%s, which could not read: %+v", what, got)
	}
}

// What is of the wrong type, or of a later version, is said to be.
func TestJunkIsNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		harm         func(w *world)
		key          string
		worker, made error // nil: works
	}{
		"format 2": {
			func(w *world) { check(w.t, w.client.HSet(w.t.Context(), documentKey, "format", 2).Err()) },
			documentKey, control.ErrNewerDocument, control.ErrNewerDocument,
		},
		"format 2 in other fields": {
			func(w *world) {
				w.delete(documentKey)
				check(w.t, w.client.HSet(w.t.Context(), documentKey, "format", 2, "data", "x").Err())
			},
			documentKey, control.ErrNewerDocument, control.ErrNewerDocument,
		},
		"format x": {
			func(w *world) { check(w.t, w.client.HSet(w.t.Context(), documentKey, "format", "x").Err()) },
			documentKey, control.ErrCorruptDocument, control.ErrCorruptDocument,
		},
		"version x": {
			func(w *world) { check(w.t, w.client.HSet(w.t.Context(), documentKey, "version", "x").Err()) },
			documentKey, control.ErrCorruptDocument, control.ErrCorruptDocument,
		},
		"a negative version": {
			func(w *world) { check(w.t, w.client.HSet(w.t.Context(), documentKey, "version", "-5").Err()) },
			documentKey, control.ErrCorruptDocument, control.ErrCorruptDocument,
		},
		"a string": {
			func(w *world) { check(w.t, w.client.Set(w.t.Context(), documentKey, "x", 0).Err()) },
			documentKey, control.ErrCorruptDocument, control.ErrCorruptDocument,
		},
		"junk ends": {
			func(w *world) { check(w.t, w.client.Set(w.t.Context(), endsKey, "x", 0).Err()) },
			"{control}:", nil, control.ErrCorruptDocument,
		},
		"a junk log": {
			func(w *world) { check(w.t, w.client.Set(w.t.Context(), logKey, "x", 0).Err()) },
			"{control}:", nil, control.ErrCorruptDocument,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.override("acme", control.Pin(5))
			test.harm(w)
			err := w.store.Refresh(t.Context())
			if !errors.Is(err, test.worker) || test.worker != nil && !strings.Contains(err.Error(), test.key) {
				t.Errorf("the worker: %v, want %v of %s", err, test.worker, test.key)
			}
			if !errors.Is(w.store.Status().Err, test.worker) {
				t.Errorf("the worker's status: %v", w.store.Status().Err)
			}
			_, err = w.admin.NoteReset(t.Context(), "acme", demo(0))
			wantError(t, "the Admin", err, test.made, control.ErrNotChanged)
			if err != nil && !strings.Contains(err.Error(), test.key) {
				t.Errorf("%v does not name %s", err, test.key)
			}
		})
	}
}

// A worker that follows is not stopped by an entry of the log that is none: the
// document is what it was.
func TestAJunkEntryDoesNotStopFollowing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.override("acme", control.Pin(5))
	check(t, w.client.XAdd(ctx, &redis.XAddArgs{Stream: logKey, ID: "1-5", Values: []string{"a", "b"}}).Err())
	must(w.admin.SetOverride(ctx, "bolt", control.Pin(6), time.Hour, demo(0)))(t)
	if err := w.store.Refresh(ctx); err != nil || asked(w.store, "bolt") != 6 {
		t.Errorf("Refresh = %v, bolt has %d", err, asked(w.store, "bolt"))
	}
}

// Where the worker's queue has fewer levels than the Admin was told, what held before
// holds on, OnError is told once, and all is well when the rules are.
func TestRulesOfTooManyLevelsAreNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	told := new(failures)
	own := &priority.RedisOptions{Policy: priority.Policy{Thresholds: []int64{-2, -4}}}
	store := openControl(t, w.client, own, &control.Options{Interval: time.Minute, OnError: told.note})
	must(w.admin.SetOverride(ctx, "acme", control.Pin(2), time.Hour, demo(0)))(t)
	check(t, store.Refresh(ctx))
	w.apply(control.Rules{}) // nine levels
	for range 3 {
		if err := store.Refresh(ctx); !errors.Is(err, priority.ErrInvalidPolicy) {
			t.Errorf("Refresh = %v", err)
		}
		must(w.admin.NoteReset(ctx, "acme", demo(0)))(t)
	}
	status := store.Status()
	if !errors.Is(status.Err, priority.ErrInvalidPolicy) || status.Document == nil || status.Document.Version != 1 {
		t.Errorf("%+v", status)
	}
	if got := told.take(); len(got) != 1 {
		t.Errorf("told %v", got)
	}
	w.wantLevel(store, "acme", 2, 1)
	must(store.NextN(ctx, "bolt", 30))(t)
	if got := must(store.Next(ctx, "bolt"))(t); got.Level != 3 || store.Last() != 3 {
		t.Errorf("%+v of %d", got, store.Last())
	}
	w.apply(strict())
	check(t, store.Refresh(ctx))
	if got := must(store.Next(ctx, "new"))(t); got.Level != 1 || store.Status().Err != nil || len(told.take()) != 0 {
		t.Errorf("%+v; %+v", got, store.Status())
	}
	if got := store.PolicyOf("x").Thresholds; len(got) != 2 || got[0] != 0 {
		t.Errorf("thresholds %v", got)
	}
}

// What the script's head says is tried does what it looks like.
func TestTheExampleOfTheScriptWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, example, _ := strings.Cut(lua.Change, "redis-cli --eval")
	example, _, _ = strings.Cut(example, "-- Reply")
	example = regexp.MustCompile(`\\?\n--\s*`).ReplaceAllString(example, " ")
	var words []string
	for _, word := range regexp.MustCompile(`'[^']*'|[^\s']+`).FindAllString(example, -1) {
		words = append(words, strings.Trim(word, "'"))
	}
	if len(words) < 14 || words[4] != "," {
		t.Fatalf("%q", words)
	}
	var args []any
	for _, word := range words[5:] {
		args = append(args, word)
	}
	check(t, w.client.Eval(t.Context(), lua.Change, words[1:4], args...).Err())
	if got := w.document().Overrides["acme"]; got.Value != (control.Override{Latest: 1}) || got.By != "mary" || got.Why != "a demo" {
		t.Errorf("%+v of %q", got, words)
	}
}
