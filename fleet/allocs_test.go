//go:build !race

package fleet_test

import (
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// What a call through a member allocates at most. The race detector allocates too, so this
// test is not built with it.
func TestMember_Allocations(t *testing.T) {
	client, ctx := redistest.Start(t).Client(), t.Context()
	member := join(t, client, nil)
	await(t, "its first report", func() bool { return len(byName(t, client)) == 1 })
	for _, test := range []struct {
		name string
		most float64
		call func() error
	}{
		{"Next", 19, func() error { _, err := member.Next(ctx, "acme"); return err }},
		{"Submit", 27, func() error { _, err := member.Submit(ctx, "acme", "d", 0); return err }},
		{"Done", 24, func() error { _, err := member.Done(ctx, "acme", "d", 0); return err }},
	} {
		got := testing.AllocsPerRun(1000, func() {
			if err := test.call(); err != nil {
				t.Fatal(err)
			}
		})
		if got > test.most {
			t.Errorf("%s: %v allocations, more than %v", test.name, got, test.most)
		}
	}
}
