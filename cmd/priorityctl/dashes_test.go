package main

import (
	"slices"
	"strings"
	"testing"
)

func TestDoubleDashes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"list -prefix fleet -json", "list --prefix fleet --json"},
		{"list --prefix fleet --json=true", "list --prefix fleet --json=true"},
		{"list -limit=3 -h -5 - -nonsense", "list --limit=3 -h -5 - -nonsense"},
		{"get -help -- -json", "get --help -- -json"},
	} {
		got := doubleDashes(newRoot(), strings.Fields(test.args))
		if !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%s: got %s, want %s", test.args, strings.Join(got, " "), test.want)
		}
	}
}
