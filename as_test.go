package priority_test

import (
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// Wrappers as users write them.
type (
	embeds      struct{ priority.Store }
	embedsOne   struct{ *memory.Store }
	unexported  struct{ inner }
	says        struct{ inner }
	inner       = priority.Store
	embedsNames struct {
		priority.Policy // has Last, too, but is no Store
		priority.Store
	}
)

func (s says) Unwrap() priority.Store { return s.inner }

func (s embedsNames) Last() priority.Level { return s.Store.Last() }

func TestAsFindsWhatAWrappedStoreHas(t *testing.T) {
	t.Parallel()
	store := must(memory.New(nil))(t)
	for name, test := range map[string]struct {
		store priority.Store
		want  *memory.Store
	}{
		"itself":                  {store, store},
		"embeds a Store":          {embeds{store}, store},
		"embeds, by pointer":      {&embeds{store}, store},
		"embeds a *memory.Store":  {embedsOne{store}, store},
		"embeds something before": {embedsNames{Store: store}, store},
		"has Unwrap":              {says{store}, store},
		"one around the other":    {&embeds{says{embeds{store}}}, store},
		"nothing":                 {nil, nil},
		"embeds nothing":          {embeds{}, nil},
		"is a nil pointer":        {(*embeds)(nil), nil},
		"embeds an alias":         {unexported{store}, nil},
	} {
		if got, ok := priority.As[*memory.Store](test.store); got != test.want || ok != (test.want != nil) {
			t.Errorf("%s: %v, %t", name, got, ok)
		}
	}
	if outer, ok := priority.As[*embeds](&embeds{&embeds{store}}); !ok || outer.Store == store {
		t.Error("the inner one was returned, not the outer one")
	}
}
