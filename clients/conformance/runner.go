package main

import (
	"context"
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// check is a promise that a port keeps.
type check struct {
	name  string
	run   func(*world)
	where where
}

// where is with which clients a check makes sense.
type where int

const (
	everywhere where = iota
	onACluster
	onOneServer
)

// isFor reports whether a check makes sense with a port's client.
func (c check) isFor(p port) bool {
	return c.where == everywhere || (c.where == onACluster) == p.cluster
}

// try runs a check outside of go test. If it was skipped, lacks is the option of open that the
// port does not support.
func try(c check, p port) (a *redistest.Attempt, lacks string) {
	w := &world{port: p}
	a = redistest.Try(context.Background(), func(tb testing.TB) {
		w.TB = tb
		c.run(w)
	})
	return a, w.lacks
}
