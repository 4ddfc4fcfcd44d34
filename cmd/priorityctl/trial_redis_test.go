package main

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/keys"
)

// busy lets three workers submit and serve documents of four customers.
func (f *trial) busy() (all []*worker) {
	f.Helper()
	all = f.joinAll("w1", "w2", "w3")
	f.serve(2*time.Millisecond, allEnd, all...)
	f.send(100*time.Millisecond, all[0], append(customers(20), "acme", "bakery")...)
	f.send(100*time.Millisecond, all[1], append(customers(20), "chemist", "deli")...)
	f.underWay()
	return all
}

// Redis is full: nothing is counted, and no report is written.
func full(f *trial) {
	f.busy()
	f.set("maxmemory", "1mb")
	notKnown := []truth{{check: "waits"}, {check: "done"}, {check: "workers"}}
	f.names(append(append(allow("gone", "degraded", "errors"), truth{check: "redis"}), notKnown...)...)
	for _, command := range [][]string{{"get", "acme"}, {"list"}} {
		if status, out, says := f.ask(command[0], command[1:]...); status != 0 || says == "" {
			f.Errorf("%q says nothing of it: status %d, %s%s", command, status, out, says)
		}
	}
	f.set("maxmemory", "0")
	f.names(allow("workers", "gone", "degraded", "waits", "done", "errors")...)
}

func (f *trial) set(name, value string) {
	f.Helper()
	if err := f.client.ConfigSet(f.Context(), name, value).Err(); err != nil {
		f.Fatal(err)
	}
}

// Redis has lost its data, with what operators had set.
func emptied(f *trial) {
	f.busy()
	f.ok("policy", "apply", "default", "-why", "a test")
	f.ok("override", "set", "acme", "-level", "2", "-for", "5h", "-why", "a test")
	export := file(f.T, "export.json", f.ok("control", "export"))
	f.client.FlushAll(f.Context())
	f.names(append(allow("workers", "done"), truth{check: "data"}, truth{check: "policies"})...)
	for _, command := range []string{"workers", "ping"} {
		if status, _, _ := f.ask(command); status != exitFailed {
			f.Errorf("%s has status %d", command, status)
		}
	}
	f.refused(exitFailed, "nothing was exported", "control", "export")
	f.ok("control", "import", export, "-why", "Redis was empty")
	f.names(allow("workers", "done")...)
}

// Redis was restored from a copy that is older than what operators have set.
func older(f *trial) {
	f.busy()
	f.ok("policy", "apply", "default", "-why", "a test")
	policies := keys.Prefix("").Policies()
	old := f.client.Get(f.Context(), policies).Val()
	f.ok("policy", "apply", "default", "-why", "another test")
	export := file(f.T, "export.json", f.ok("control", "export"))
	f.reported()
	f.client.Set(f.Context(), policies, old, 0)
	f.names(append(allow("workers"), truth{check: "policies"})...)
	if status, _, _ := f.ask("workers"); status != exitFailed {
		f.Errorf("workers has status %d", status)
	}
	f.ok("control", "import", export, "-force", "-why", "Redis was older")
	f.names(allow("workers")...)
}

// The same, and all that it lacks is an override and its entry in the log.
func overrideLost(f *trial) {
	f.busy()
	f.ok("override", "set", "acme", "-level", "1", "-for", "2h", "-why", "a test")
	export := file(f.T, "export.json", f.ok("control", "export"))
	f.reported()
	f.client.Del(f.Context(), keys.Prefix("").Log(), keys.Prefix("").Overrides(), keys.Prefix("").Of("acme", keys.Override))
	f.names(truth{check: "data"})
	f.ok("control", "import", export, "-force", "-why", "Redis was older")
	f.names()
}

// Redis hangs, as its machine does.
func stopped(f *trial) {
	f.busy()
	f.server.Signal(syscall.SIGSTOP)
	f.flags = append(f.flags, "-timeout", "500ms")
	var said struct{ Checks []found }
	status, out, errs := f.ask("status", "-json")
	if err := json.Unmarshal([]byte(out), &said); err != nil || status != exitUnreachable || len(said.Checks) != 1 || said.Checks[0].Check != "redis" || said.Checks[0].Remedy == "" {
		f.Errorf("status %d: %s%s", status, out, errs)
	}
	f.refused(exitUnreachable, f.server.Addr, "get", "acme")
	f.server.Signal(syscall.SIGCONT)
	f.flags = append(f.flags, "-timeout", "5s")
	f.names(allow("workers", "gone", "degraded", "errors", "done")...)
}

// Somebody else wrote into a customer's key.
func corrupt(f *trial) {
	workers := f.busy()
	f.client.RPush(f.Context(), keys.Prefix("").Of("forge", keys.Pending), "x")
	f.submit(workers[2], "forge", 7)
	f.names(truth{check: "corrupt", customers: []string{"forge"}})
	list := f.ok("list", "-corrupt", "-json")
	if all := objects(f.T, list); len(all) != 1 || all[0]["customer"] != "forge" {
		f.Errorf("list has %s", list)
	}
	f.reading(list).ok("reset", "-all", "-yes", "-from", "-", "-why", "a test")
	f.names()
}

// The key of the policies is corrupt.
func corruptPolicies(f *trial) {
	f.busy()
	f.ok("policy", "apply", "default", "-why", "a test")
	f.reported()
	f.client.Set(f.Context(), keys.Prefix("").Policies(), "junk", 0)
	f.names(append(allow("workers"), truth{check: "policies"})...)
	if status, _, _ := f.ask("workers"); status != exitFailed {
		f.Errorf("workers has status %d", status)
	}
	f.ok("policy", "apply", "default", "-why", "another test")
	f.names(allow("workers")...)
}

// One process alone cannot reach its customers' keys.
func cutOff(f *trial) {
	f.busy()
	w := f.join("cut off", func(j *joining) {
		j.Timeout = 500 * time.Millisecond
		j.hook = way{lets: func(text string) bool { return !strings.HasSuffix(text, "}:pending") }}
	})
	f.send(100*time.Millisecond, w, "estate")
	f.names(append(allow("workers", "errors"), truth{check: "degraded", workers: []string{"cut off"}})...)
	f.workersSay("cut off")
}

// way is the way of a worker's commands to Redis.
type way struct {
	lets func(text string) bool   // whether a command with this argument arrives; nil: it does
	as   func(text string) string // what becomes of it on the way
}

func (way) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w way) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := w.change(cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (w way) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := w.change(cmd); err != nil {
				return err
			}
		}
		return next(ctx, cmds)
	}
}

func (w way) change(cmd redis.Cmder) error {
	for i, arg := range cmd.Args() {
		text, ok := arg.(string)
		if bytes, isBytes := arg.([]byte); isBytes {
			text, ok = string(bytes), true
		}
		if ok && w.lets != nil && !w.lets(text) {
			cmd.SetErr(errCutOff)
			return errCutOff
		}
		if ok && w.as != nil {
			cmd.Args()[i] = w.as(text)
		}
	}
	return nil
}

var errCutOff = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNREFUSED}
