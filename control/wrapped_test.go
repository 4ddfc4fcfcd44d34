package control_test

import (
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/observe"
)

// mine is a wrapper as a user writes one: it embeds a Store and says nothing more.
type mine struct{ priority.Store }

// unwraps is one that does not embed its Store by that name, and says what it wraps.
type unwraps struct{ inner }

type inner = priority.Store

func (u unwraps) Unwrap() priority.Store { return u.inner }

func TestAnOverrideHoldsInAnOutageThroughAWrapperOfTheUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &priority.RedisOptions{Timeout: 2 * time.Second})
	w.override("acme", pinned(7))
	stores := make(map[string]*fallback.Store)
	for name, wrapped := range map[string]priority.Store{
		"embeds a Store":      mine{w.store},
		"embeds, by pointer":  &mine{w.store},
		"has Unwrap":          unwraps{w.store},
		"several of them":     mine{unwraps{observe.New(&mine{w.store})}},
		"of the same package": observe.New(w.store),
	} {
		stores[name] = must(fallback.New(wrapped, nil, nil))(t)
		w.wantLevel(stores[name], "acme", 7, priority.DefaultPolicy().Level(int64(1-len(stores))))
	}
	w.server.Kill()
	for name, store := range stores {
		got, err := store.Next(t.Context(), "acme")
		if err != nil || !got.Degraded || got.Level != 7 || got.Ruled != 1 {
			t.Errorf("%s: %+v, %v, want level 7 of a customer pinned to it", name, got, err)
		}
		check(t, store.Close(t.Context()))
	}
}
