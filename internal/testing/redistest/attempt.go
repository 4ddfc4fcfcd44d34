package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Attempt is the testing.TB of a program that needs servers and is no test.
type Attempt struct {
	testing.TB // never called: all that this package and its callers use is below

	ctx      context.Context
	mu       sync.Mutex
	failed   bool
	said     []string
	cleanups []func()
}

// Try runs a function with a testing.TB that is no test's, and ends what it has started.
func Try(ctx context.Context, run func(tb testing.TB)) *Attempt {
	a := &Attempt{ctx: ctx}
	ended := make(chan struct{})
	go func() { // FailNow ends it
		defer close(ended)
		defer a.cleanUp()
		defer func() {
			if why := recover(); why != nil {
				a.Errorf("it has panicked: %v\n%s", why, debug.Stack())
			}
		}()
		run(a)
	}()
	<-ended
	return a
}

func (a *Attempt) cleanUp() {
	for _, cleanup := range slices.Backward(a.cleanups) {
		cleanup()
	}
}

// Said returns why it has failed.
func (a *Attempt) Said() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

// Err returns why it has failed, or nil.
func (a *Attempt) Err() error {
	if !a.Failed() {
		return nil
	}
	return errors.New(strings.Join(a.Said(), "\n"))
}

func (a *Attempt) Helper()                  {}
func (a *Attempt) Context() context.Context { return a.ctx }
func (a *Attempt) Cleanup(f func())         { a.cleanups = append(a.cleanups, f) }
func (a *Attempt) Error(args ...any)        { a.fail(fmt.Sprint(args...)) }

func (a *Attempt) Errorf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...)) }

func (a *Attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *Attempt) fail(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
	a.said = append(a.said, strings.TrimSpace(why))
}

func (a *Attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

func (a *Attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *Attempt) Skip(args ...any) { a.Fatal(args...) }

func (a *Attempt) TempDir() string {
	dir, err := os.MkdirTemp("", "priority-")
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
