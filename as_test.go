package priority_test

import (
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// wrapper is one as users write them.
type wrapper struct{ priority.Store }

func (w wrapper) Unwrap() priority.Store { return w.Store }

// circle wraps itself.
type circle struct{ priority.Store }

func (c circle) Unwrap() priority.Store { return c }

func TestAs(t *testing.T) {
	store := must(memory.New(nil))(t)
	for name, test := range map[string]struct {
		store priority.Store
		want  *memory.Store
	}{
		"itself":            {store, store},
		"in wrappers":       {wrapper{wrapper{store}}, store},
		"no Unwrap":         {struct{ priority.Store }{store}, nil},
		"nothing":           {nil, nil},
		"nothing wrapped":   {wrapper{}, nil},
		"a nil wrapper":     {(*wrapper)(nil), nil},
		"wrapped in itself": {circle{store}, nil}, // and it returns
	} {
		if got, ok := priority.As[*memory.Store](test.store); got != test.want || ok != (test.want != nil) {
			t.Errorf("%s: %v, %t", name, got, ok)
		}
	}
}
