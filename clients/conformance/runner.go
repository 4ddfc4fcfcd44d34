package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
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

// attempt is a check that runs outside of go test, which has no testing.TB for it.
type attempt struct {
	testing.TB // never called: all that checks use is below

	mu       sync.Mutex
	failed   bool
	said     []string
	cleanups []func()
	dirs     []string
}

// try runs a check and returns what it says: nothing, if it holds.
func try(c check, p port) *attempt {
	a := new(attempt)
	ended := make(chan struct{})
	go func() { // FailNow ends it
		defer close(ended)
		defer a.cleanUp()
		defer a.failOnPanic()
		c.run(&world{TB: a, port: p})
	}()
	<-ended
	return a
}

// failOnPanic has a check that panics fail.
func (a *attempt) failOnPanic() {
	if why := recover(); why != nil {
		a.Errorf("the check itself has panicked: %v\n%s", why, debug.Stack())
	}
}

func (a *attempt) cleanUp() {
	for _, cleanup := range slices.Backward(a.cleanups) {
		cleanup()
	}
	for _, dir := range a.dirs {
		_ = os.RemoveAll(dir)
	}
}

func (a *attempt) Helper()                  {}
func (a *attempt) Name() string             { return "conformance" }
func (a *attempt) Context() context.Context { return context.Background() }
func (a *attempt) Cleanup(f func())         { a.cleanups = append(a.cleanups, f) }
func (a *attempt) Log(args ...any)          {}
func (a *attempt) Logf(string, ...any)      {}
func (a *attempt) Error(args ...any)        { a.fail(fmt.Sprint(args...)) }

func (a *attempt) Errorf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...)) }

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *attempt) fail(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
	a.said = append(a.said, strings.TrimSpace(why))
}

func (a *attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *attempt) Skip(args ...any) {
	a.Fatal(args...)
}

func (a *attempt) TempDir() string {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		a.Fatal(err)
	}
	a.dirs = append(a.dirs, dir)
	return dir
}
