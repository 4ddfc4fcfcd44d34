package virtualredis

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lua"
	"github.com/docpriority/priority/prioritytest"
)

// Faults makes a client's commands fail as their connection or Redis would. The
// operators' keys count as the customer "control".
type Faults struct {
	mu     sync.Mutex
	faults []*prioritytest.Fault
	healed chan struct{}
}

func (f *Faults) Fail(fault prioritytest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault)
	if f.healed == nil {
		f.healed = make(chan struct{})
	}
}

func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.healed != nil {
		close(f.healed)
	}
	f.faults, f.healed = nil, nil
}

// take returns the first fault that one of the commands meets.
func (f *Faults) take(cmds []redis.Cmder) (met *prioritytest.Fault, healed chan struct{}) {
	if f == nil {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.faults {
		if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return concerns(fault, cmd) }) {
			continue
		}
		if fault.Calls--; fault.Calls == 0 {
			f.faults = slices.Delete(f.faults, i, i+1)
		}
		return fault, f.healed
	}
	return nil, nil
}

// KeyOf returns the first key of a command, empty for those that connect.
func KeyOf(cmd redis.Cmder) string {
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

// CustomerOf returns the customer of a key.
func CustomerOf(key string) string {
	_, customer, _ := strings.Cut(key, "{")
	customer, _, _ = strings.Cut(customer, "}")
	return strings.NewReplacer("%7D", "}", "%25", "%").Replace(customer)
}

// runs reports whether a command runs a script.
func runs(cmd redis.Cmder, text string) bool {
	if !strings.HasPrefix(cmd.Name(), "eval") {
		return false
	}
	script := fmt.Sprint(cmd.Args()[1])
	return script == text || script == redis.NewScript(text).Hash()
}

// concerns reports whether a command is of the fault's customer. Of a fault's Operations,
// only Done is known here.
func concerns(fault *prioritytest.Fault, cmd redis.Cmder) bool {
	key := KeyOf(cmd)
	switch {
	case key == "": // go-redis greets the server
		return false
	case fault.Class == priority.ErrCorrupt && runs(cmd, lua.Reset):
		return false
	case len(fault.Operations) > 0 && !runs(cmd, lua.Done):
		return false
	}
	return fault.Customer == "" || CustomerOf(key) == fault.Customer
}

// process sends commands, with the fault that they meet.
func (f *Faults) process(ctx context.Context, cmds []redis.Cmder, send func(context.Context, []redis.Cmder) error) error {
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
	case priority.ErrCorrupt:
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

// write does with commands what a connection does before it loses them.
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
