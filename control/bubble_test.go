package control_test

import (
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/virtualredis"
)

// virtual is a Redis in virtual time, and what was sent to it.
type virtual struct {
	*virtualredis.Redis
	t    *testing.T
	sent commands
}

func newVirtual(t *testing.T) *virtual {
	v := &virtual{Redis: virtualredis.Start(t), t: t}
	v.Sent = v.sent.note
	return v
}

// worker returns a store whose commands meet faults.
func (v *virtual) worker(opts *priority.RedisOptions, own *control.Options) *control.Store {
	v.t.Helper()
	if opts == nil {
		opts = &priority.RedisOptions{}
	}
	return closedAtEnd(v.t, v.Client(v.Faults), *opts, own)
}

// admin returns an Admin whose commands meet none.
func (v *virtual) admin() *control.Admin {
	return must(control.NewAdmin(v.Client(nil), nil))(v.t)
}

// commands notes the commands that workers send, but for those that connect.
type commands struct {
	mu  sync.Mutex
	all []redis.Cmder
}

func (c *commands) note(cmds []redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, cmds...)
}

// take returns how many commands were about the operators' document since the last
// take, by their names.
func (c *commands) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make(map[string]int)
	for _, cmd := range c.all {
		if virtualredis.CustomerOf(virtualredis.KeyOf(cmd)) == "control" {
			names[cmd.Name()]++
		}
	}
	c.all = nil
	return names
}
