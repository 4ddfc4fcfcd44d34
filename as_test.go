package priority_test

import (
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

// Wrappers as users write them.
type (
	embeds      struct{ priority.Store }
	embedsOne   struct{ *memory.Store }
	unexported  struct{ inner }
	says        struct{ inner }
	inner       = priority.Store
	base        struct{ priority.Store }
	embedsBase  struct{ Base }
	Base        = base
	embedsNil   struct{ *observe.Store }
	itself      struct{ inner }
	embedsNames struct {
		priority.Policy // has Last, too, but is no Store
		priority.Store
	}
)

func (s itself) Unwrap() priority.Store { return s }

func (s says) Unwrap() priority.Store { return s.inner }

func (s embedsNames) Last() priority.Level { return s.Store.Last() }

func TestAs(t *testing.T) {
	t.Parallel()
	store := must(memory.New(nil))(t)
	for name, test := range map[string]struct {
		store priority.Store
		want  *memory.Store
	}{
		"itself":                  {store, store},
		"embeds a Store":          {embeds{store}, store},
		"embeds a *memory.Store":  {embedsOne{store}, store},
		"embeds something before": {embedsNames{Store: store}, store},
		"has Unwrap":              {says{store}, store},
		"one around the other":    {&embeds{says{embeds{store}}}, store},
		"nothing":                 {nil, nil},
		"embeds nothing":          {embeds{}, nil},
		"is a nil pointer":        {(*embeds)(nil), nil},
		"embeds what embeds":      {embedsBase{Base{store}}, store},
		"embeds an alias":         {unexported{store}, nil},
	} {
		if got, ok := priority.As[*memory.Store](test.store); got != test.want || ok != (test.want != nil) {
			t.Errorf("%s: %v, %t", name, got, ok)
		}
	}
	if _, ok := priority.As[*memory.Store](itself{store}); ok { // and it returns
		t.Error("a wrapper of itself has what it wraps")
	}
	observed := must(observe.New(store))(t)
	if got, ok := priority.As[*observe.Store](embedsNil{observed}); !ok || got != observed {
		t.Errorf("what is embedded was skipped: %v, %t", got, ok)
	}
	if _, ok := priority.As[*observe.Store](embedsNil{}); ok {
		t.Error("a nil pointer was returned")
	}
	if outer, ok := priority.As[*embeds](&embeds{&embeds{store}}); !ok || outer.Store == store {
		t.Error("the inner one was returned, not the outer one")
	}
}
