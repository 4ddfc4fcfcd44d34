package script

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// deferred is an AutoPipeliner that queues commands, so that waiting for an answer
// takes no goroutine.
type deferred struct{ pipeliner, submit reflect.Value }

// deferredOf returns a client as a deferred AutoPipeliner; nil if it is not one. What Submit
// returns is a type that the oldest go-redis that the module supports does not have:
// no interface of this package can have the method.
func deferredOf(client Client) *deferred {
	if pipeliner, ok := client.(autoPipeliner); !ok || pipeliner.IsBlocking() {
		return nil
	}
	pipeliner := reflect.ValueOf(client)
	submit, ok := pipeliner.Type().MethodByName("Submit")
	config := pipeliner.MethodByName("Config")
	if !ok || !returnsFuture(submit.Type) || !config.IsValid() {
		return nil
	}
	// In full duplex, Submit waits while the queue is full.
	if duplex := config.Call(nil)[0].FieldByName("FullDuplex"); duplex.IsValid() && duplex.Bool() {
		return nil
	}
	return &deferred{pipeliner, submit.Func}
}

func returnsFuture(submit reflect.Type) bool {
	return submit.NumIn() == 3 && submit.In(1) == reflect.TypeFor[context.Context]() &&
		submit.In(2) == reflect.TypeFor[redis.Cmder]() &&
		submit.NumOut() == 1 && submit.Out(0).Implements(reflect.TypeFor[future]())
}

// future is the answer to a command that was queued.
type future interface {
	Wait() error
	WaitContext(ctx context.Context) error
}

// single is a command that is sent alone, and what it takes to wait for its answer.
type single struct {
	command
	ctx       context.Context
	cmder     redis.Cmder
	arguments [3]reflect.Value
	patience  patience
}

// queue has a command queued.
func (p *deferred) queue(ctx context.Context, cmd *single) future {
	cmd.ctx, cmd.cmder = ctx, &cmd.command
	// The addresses keep reflect from copying what they point to.
	cmd.arguments = [3]reflect.Value{p.pipeliner, reflect.ValueOf(&cmd.ctx).Elem(), reflect.ValueOf(&cmd.cmder).Elem()}
	return p.submit.Call(cmd.arguments[:])[0].Interface().(future)
}

// await waits for an answer. It returns false if the time is over first, what is left
// after the tries included.
func (cmd *single) await(d *Deadline, answer future) bool {
	if cmd.wait(d.over(), answer) {
		return true
	}
	rest, cancel := d.rest()
	defer cancel()
	return cmd.wait(rest.Done(), answer)
}

func (cmd *single) wait(over <-chan struct{}, answer future) bool {
	cmd.patience = over
	return !errors.Is(answer.WaitContext(&cmd.patience), errImpatient)
}

// patience is a context whose error is not mistaken for a command's.
type patience <-chan struct{}

var errImpatient = errors.New("the time is over")

func (p *patience) Done() <-chan struct{}     { return *p }
func (*patience) Err() error                  { return errImpatient }
func (*patience) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*patience) Value(any) any               { return nil }
