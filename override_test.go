package priority_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// An override ends by its TTL, and a store that is not asked to reads none.
func TestOverride_Ends(t *testing.T) {
	server := miniredis.RunT(t)
	client := connectToMiniredis(t, server)
	reads := openStore(t, client, &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	store := &world{Store: reads}
	other := &world{Store: openStore(t, client, &priority.RedisOptions{Timeout: time.Minute})}
	client.Set(t.Context(), reads.OverrideKey("acme"), "=7", time.Minute)
	want := priority.Decision{Level: 7, Count: 0, ResetIn: quiet, Ruled: 1}
	store.next(t, "acme", want)
	other.next(t, "acme", counted(-1))
	if state := must(store.Peek(t.Context(), "acme"))(t); state.NextLevel != 7 || state.OverrideEndsIn != time.Minute ||
		state.Override != (priority.Override{Earliest: 7, Latest: 7}) || state.Ruled != 1 {
		t.Errorf("got %+v", state)
	}
	if state := must(other.Peek(t.Context(), "acme"))(t); state.NextLevel != 1 || state.Override != (priority.Override{}) {
		t.Errorf("got %+v from a store that reads no overrides", state)
	}
	server.FastForward(time.Minute + ms)
	store.next(t, "acme", counted(-2))
}

func TestOverride_Text(t *testing.T) {
	for text, want := range map[string]priority.Override{
		"=1": {Earliest: 1, Latest: 1}, ">=7": {Earliest: 7}, "<=3": {Latest: 3}, "=255": {Earliest: 255, Latest: 255},
	} {
		var got priority.Override
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
		if again := string(must(want.MarshalText())(t)); again != text {
			t.Errorf("%+v is %s, want %s", want, again, text)
		}
	}
	for _, text := range []string{"", "1", "=", "=0", "=01", "= 1", "=1 ", "=-1", "=1000", ">7", ">=7x", "<=", "=1\n"} {
		var got priority.Override
		if err := got.UnmarshalText([]byte(text)); !errors.Is(err, priority.ErrInvalidOption) || got != (priority.Override{}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, override := range []priority.Override{{}, {Earliest: 2, Latest: 5}, {Earliest: -1}, {Latest: -1, Earliest: -1}, {Earliest: 1000}} {
		if text, err := override.MarshalText(); !errors.Is(err, priority.ErrInvalidOption) {
			t.Errorf("%+v is %s, %v", override, text, err)
		}
	}
	levels := func(o priority.Override) (levels []priority.Level) {
		for level := range priority.Level(5) {
			levels = append(levels, o.Level(level+1, 5))
		}
		return levels
	}
	for want, override := range map[[5]priority.Level]priority.Override{
		{1, 2, 3, 4, 5}: {}, {3, 3, 3, 3, 3}: {Earliest: 3, Latest: 3}, {3, 3, 3, 4, 5}: {Earliest: 3},
		{1, 2, 2, 2, 2}: {Latest: 2}, {5, 5, 5, 5, 5}: {Earliest: 9, Latest: 9},
	} {
		if got := levels(override); !slices.Equal(got, want[:]) {
			t.Errorf("%+v: %v, want %v", override, got, want)
		}
	}
}

// Nothing that is there is touched by the look for an override.
func TestOverride_TouchesNothing(t *testing.T) {
	server := redistest.Start(t)
	hand := server.Client()
	store := openStore(t, server.Client(), &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	ctx := context.Background()
	hand.RPush(ctx, store.OverrideKey("acme"), "=1")
	hand.RPush(ctx, store.UsageKey("bad"), "1")
	for range 3 {
		if decision, err := store.Next(ctx, "acme"); err != nil || decision.Ruled != 0 {
			t.Errorf("%+v, %v", decision, err)
		}
	}
	if _, err := store.Submit(ctx, "bad", "a", 0); !errors.Is(err, priority.ErrCorruptCount) {
		t.Errorf("a list in the place of a usage: %v", err)
	}
	if got := hand.LRange(ctx, store.OverrideKey("acme"), 0, -1).Val(); !reflect.DeepEqual(got, []string{"=1"}) {
		t.Errorf("the override's key holds %v", got)
	}
	if count := hand.Get(ctx, store.Key("acme")).Val(); count != "-2" {
		t.Errorf("the count is %s", count)
	}
}
