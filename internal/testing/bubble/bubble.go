// Package bubble runs tests in bubbles of testing/synctest.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test is synctest.Test on one CPU. On more, two timers of a bubble that fire in
// parallel crash a test with -race: https://github.com/golang/go/issues/78156, in Go 1.26.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	oneCPU.hold()
	defer oneCPU.release()
	synctest.Test(t, f)
}

// oneCPU is the process's: bubbles of parallel tests hold it together.
var oneCPU cpus

type cpus struct {
	mu              sync.Mutex
	holders, before int
}

func (c *cpus) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders++; c.holders == 1 {
		c.before = runtime.GOMAXPROCS(1)
	}
}

func (c *cpus) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders--; c.holders == 0 {
		runtime.GOMAXPROCS(c.before)
	}
}
