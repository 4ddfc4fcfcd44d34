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

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lua"
	"github.com/docpriority/priority/prioritytest"
)

// Faults makes a client's commands fail as their connection or Redis would, by one fault
// at a time. The operators' keys count as the customer "control".
type Faults struct {
	mu     sync.Mutex
	fault  *prioritytest.Fault // nil: nothing fails
	healed chan struct{}       // closed by Heal
}

// Fail makes commands fail from now on. What failed before is healed first.
func (f *Faults) Fail(fault prioritytest.Fault) {
	f.Heal()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.healed = &fault, make(chan struct{})
}

// Heal ends the fault, also for the commands that it delays.
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.healed != nil {
		close(f.healed)
	}
	f.fault, f.healed = nil, nil
}

// meet returns the fault if some of the commands meet it, which counts as one call.
func (f *Faults) meet(cmds []redis.Cmder) (fault *prioritytest.Fault, healed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault = f.fault
	if fault == nil || !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return concerns(fault, cmd) }) {
		return nil, nil
	}
	if fault.Calls--; fault.Calls == 0 {
		f.fault = nil
	}
	return fault, f.healed
}

// process sends commands, with the fault that they meet.
func (f *Faults) process(ctx context.Context, cmds []redis.Cmder, send func(context.Context, []redis.Cmder) error) error {
	fault, healed := f.meet(cmds)
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
	delay, end := context.WithTimeout(ctx, fault.Delay)
	defer end()
	select {
	case <-delay.Done():
	case <-healed:
	}
	switch {
	case ctx.Err() != nil:
		failure = ctx.Err()
	case fault.Slow:
		return send(ctx, met)
	}
	for _, cmd := range met {
		if reply := redis.Error(nil); !errors.As(cmd.Err(), &reply) { // such as NOSCRIPT, which arrived
			cmd.SetErr(failure)
		}
	}
	return failure
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
	return fault.Customer == "" || customerOf(key) == fault.Customer
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

func customerOf(key string) string {
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
