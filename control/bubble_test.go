package control_test

import (
	"context"
	"encoding"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/lua"
	"github.com/docpriority/priority/prioritytest"
)

// virtual is a miniredis in a bubble of testing/synctest, whose clock may be wrong.
type virtual struct {
	t      *testing.T
	server *miniredis.Miniredis
	began  time.Time
	ahead  time.Duration // of the process's clock
	faults *commandFaults
	sent   *commands
}

func newVirtual(t *testing.T) *virtual {
	v := &virtual{t: t, server: miniredis.NewMiniRedis(), began: time.Now(), faults: new(commandFaults), sent: new(commands)}
	v.tick()
	v.server.ClockTTL(true)
	t.Cleanup(v.server.Close)
	return v
}

// tick moves the server's clock. A key with a TTL is still there exactly that long
// later in Redis, but not in miniredis: so its clock loses a nanosecond a second.
func (v *virtual) tick() {
	passed := time.Since(v.began)
	v.server.SetTime(v.began.Add(v.ahead + 900*time.Microsecond + passed - passed/time.Second))
}

// client returns a client whose commands meet faults, unless they are nil.
func (v *virtual) client(faults *commandFaults) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return buffered(v.server.Dial()) },
		Addr:     "127.0.0.1:1", // go-redis would look up a name, which a bubble cannot
		PoolSize: 1024,          // go-redis's waiting for a connection does not work in many bubbles
	})
	client.AddHook(virtualHook{v, faults})
	v.t.Cleanup(func() { _ = client.Close() })
	return client
}

// worker returns a store whose commands meet faults.
func (v *virtual) worker(opts *priority.RedisOptions, own *control.Options) *control.Store {
	v.t.Helper()
	return openControl(v.t, must(priority.NewRedisStore(v.client(v.faults), opts))(v.t), own)
}

// admin returns an Admin whose commands meet none.
func (v *virtual) admin() *control.Admin {
	return must(control.NewAdmin(v.client(nil), nil))(v.t)
}

// buffered lets a server write all its replies before any of them is read, as the
// replies to a pipeline are: it does not block as a net.Pipe does.
func buffered(server net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	replies := make(chan []byte, 1<<16)
	go func() {
		_, _ = io.Copy(server, near)
		_ = server.Close()
	}()
	go func() {
		defer close(replies)
		for {
			reply := make([]byte, 4096)
			n, err := server.Read(reply)
			if err != nil {
				return
			}
			replies <- reply[:n]
		}
	}()
	go func() {
		for reply := range replies {
			_, _ = near.Write(reply)
		}
		_ = near.Close()
	}()
	return client, nil
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
		if customerOf(keyOf(cmd)) == "control" {
			names[cmd.Name()]++
		}
	}
	c.all = nil
	return names
}

// virtualHook lets commands meet faults.
type virtualHook struct {
	v      *virtual
	faults *commandFaults
}

func (h virtualHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h virtualHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.process(ctx, []redis.Cmder{cmd}, func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds[0]) })
	}
}

func (h virtualHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h.process(ctx, cmds, next) }
}

func (h virtualHook) process(ctx context.Context, cmds []redis.Cmder, next func(context.Context, []redis.Cmder) error) error {
	if h.faults != nil {
		h.v.sent.note(cmds)
	}
	return h.faults.process(ctx, cmds, func(ctx context.Context, cmds []redis.Cmder) error {
		h.v.tick()
		return next(ctx, cmds)
	})
}

// commandFaults makes a client's commands fail as their connection or Redis would let
// them. It is a prioritytest.Faulty. The operators' document is that of the customer
// "control".
type commandFaults struct {
	mu     sync.Mutex
	told   []*prioritytest.Fault
	healed chan struct{}
}

func (f *commandFaults) Fail(fault prioritytest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(fault.Operations) == 0 { // here are no operations, only commands
		f.told = append(f.told, &fault)
	}
	if f.healed == nil {
		f.healed = make(chan struct{})
	}
}

func (f *commandFaults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.healed != nil {
		close(f.healed)
	}
	f.told, f.healed = nil, nil
}

// take returns the first fault that one of the commands meets.
func (f *commandFaults) take(cmds []redis.Cmder) (met *prioritytest.Fault, healed chan struct{}) {
	if f == nil {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.told {
		if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return concerns(fault, cmd) }) {
			continue
		}
		if fault.Calls--; fault.Calls == 0 {
			f.told = slices.Delete(f.told, i, i+1)
		}
		return fault, f.healed
	}
	return nil, nil
}

// keyOf returns the first key of a command, empty for those that connect.
func keyOf(cmd redis.Cmder) string {
	at := 1
	if strings.HasPrefix(cmd.Name(), "eval") {
		at = 3
	}
	if len(cmd.Args()) <= at {
		return ""
	}
	key, _ := cmd.Args()[at].(string)
	if !strings.Contains(key, ":{") {
		return ""
	}
	return key
}

// customerOf returns the customer of a key.
func customerOf(key string) string {
	_, customer, _ := strings.Cut(key, "{")
	customer, _, _ = strings.Cut(customer, "}")
	return strings.NewReplacer("%7D", "}", "%25", "%").Replace(customer)
}

var resetDigest = redis.NewScript(lua.Reset).Hash()

// concerns reports whether a command is of the fault's customer.
func concerns(fault *prioritytest.Fault, cmd redis.Cmder) bool {
	key := keyOf(cmd)
	if key == "" { // go-redis greets the server
		return false
	}
	if fault.Class == priority.ErrCorruptCount && strings.HasPrefix(cmd.Name(), "eval") {
		script := cmd.Args()[1].(interface{ String() string })
		if script.String() == resetDigest || script.String() == lua.Reset {
			return false
		}
	}
	return fault.Customer == "" || customerOf(key) == fault.Customer
}

// process sends commands, with the fault that they meet.
func (f *commandFaults) process(ctx context.Context, cmds []redis.Cmder, send func(context.Context, []redis.Cmder) error) error {
	fault, healed := f.take(cmds)
	if fault == nil {
		return send(ctx, cmds)
	}
	var now, met []redis.Cmder
	for _, cmd := range cmds {
		if concerns(fault, cmd) {
			met = append(met, cmd)
		}
		if fault.Counted || !concerns(fault, cmd) {
			now = append(now, cmd)
		}
	}
	if len(now) > 0 {
		_ = send(ctx, now) // the commands have their errors
	}
	var failure error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	switch fault.Class {
	case priority.ErrOutcomeUnknown:
		write(met)
		failure = io.EOF
	case priority.ErrCorruptCount:
		failure = corruptReply{}
	}
	over := make(chan struct{}) // Go 1.26 crashes in a select on a timer that is over, in a bubble, with -race
	defer time.AfterFunc(fault.Delay, func() { close(over) }).Stop()
	select {
	case <-over:
	case <-healed:
	case <-ctx.Done():
		failure = ctx.Err()
	}
	if fault.Slow && ctx.Err() == nil {
		return send(ctx, met)
	}
	for _, cmd := range met {
		if reply := redis.Error(nil); !errors.As(cmd.Err(), &reply) { // such as NOSCRIPT, which arrived
			cmd.SetErr(failure)
		}
	}
	return failure
}

// write does with commands what a connection does that then loses them.
func write(cmds []redis.Cmder) {
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			if arg, ok := arg.(encoding.BinaryMarshaler); ok {
				_, _ = arg.MarshalBinary()
			}
		}
	}
}

type corruptReply struct{}

func (corruptReply) Error() string { return "CORRUPTCOUNT the key holds something other than a count" }
func (corruptReply) RedisError()   {}
