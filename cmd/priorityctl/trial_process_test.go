package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/clients/nodetest"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// process is a worker in another language, which can be killed and stopped. It reads requests and
// writes answers, one a line, as clients/conformance/README.md has them.
type process struct {
	*exec.Cmd
	mu      sync.Mutex
	input   io.Writer
	answers *bufio.Reader
}

type request map[string]any

// startPython and startNode start workers.
func (f *trial) startPython(name string) *worker {
	f.Helper()
	for _, program := range []string{"python3", "/usr/bin/python3"} { // Debian's has Debian's packages
		if exec.Command(program, "-c", "import redis").Run() == nil {
			command := exec.Command(program, "conformance/driver.py")
			command.Dir, command.Env = "../../clients/python", append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			return f.start(name, "redis", command)
		}
	}
	redistest.Skip(f.T, "no python3 has redis-py: apt-get install python3 python3-redis")
	return nil
}

func (f *trial) startNode(name string) *worker {
	f.Helper()
	command := exec.Command("node", "conformance/driver.mjs")
	command.Dir = nodetest.Client(f.T)
	return f.start(name, "ioredis", command)
}

func (f *trial) start(name, client string, command *exec.Cmd) *worker {
	f.Helper()
	p := &process{Cmd: command}
	output, err := command.StdoutPipe()
	if err == nil {
		p.answers = bufio.NewReader(output)
		p.input, err = command.StdinPipe()
	}
	if err != nil {
		f.Fatal(err)
	}
	redistest.StartProgram(f.T, command)
	_, err = p.ask(request{"do": "open", "url": "redis://" + f.server.Addr, "client": client, "timeout_ms": 10_000, "join": true, "as": name})
	if err == nil {
		_, err = p.ask(request{"do": "peek", "customer": []byte("nobody")}) // some join with their first call
	}
	if err != nil {
		f.Fatal(err)
	}
	return &worker{name, p}
}

func (w *worker) signal(signal syscall.Signal) { _ = w.caller.(*process).Process.Signal(signal) }

// ask returns the decisions that are answered.
func (p *process) ask(r request) (decisions []priority.Decision, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r["id"] = 1
	_ = json.NewEncoder(p.input).Encode(r)
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return nil, errGone
	}
	var answer struct {
		Decisions []struct {
			Level     priority.Level
			RuleLevel priority.Level `json:"rule_level"`
			Degraded  bool
		}
		Error *struct{ Message string }
	}
	if err = json.Unmarshal(line, &answer); err == nil && answer.Error != nil {
		err = fmt.Errorf("%s", answer.Error.Message)
	}
	for _, d := range answer.Decisions {
		decisions = append(decisions, priority.Decision{Level: d.Level, RuleLevel: d.RuleLevel, Degraded: d.Degraded})
	}
	return decisions, err
}

func (p *process) NextN(_ context.Context, customer string, n int) ([]priority.Decision, error) {
	return p.ask(request{"do": "next", "customer": []byte(customer), "n": n})
}

func (p *process) SubmitN(_ context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	var ids [][]byte
	for _, d := range documents {
		ids = append(ids, []byte(d.ID))
	}
	return p.ask(request{"do": "submit", "customer": []byte(customer), "documents": ids})
}

func (p *process) Done(_ context.Context, customer, document string, took time.Duration) (ended priority.Ended, err error) {
	_, err = p.ask(request{"do": "done", "customer": []byte(customer), "documents": [][]byte{[]byte(document)}, "took_ms": took.Milliseconds()})
	return ended, err
}
