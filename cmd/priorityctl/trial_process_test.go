package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"

	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"

	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/clients/nodetest"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// process is a worker that can be killed and stopped. It reads requests and writes answers, one a
// line, as clients/conformance/README.md has them.
type process struct {
	*exec.Cmd
	mu      sync.Mutex
	input   io.Writer
	answers *bufio.Reader
}

type request struct {
	ID        int64    `json:"id"`
	Do        string   `json:"do"`
	Customer  []byte   `json:"customer,omitempty"`
	Documents [][]byte `json:"documents,omitempty"`
	TookMS    int64    `json:"took_ms,omitempty"`
	N         int      `json:"n,omitempty"`

	URL       string `json:"url,omitempty"`
	Client    string `json:"client,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	Join      bool   `json:"join,omitempty"`
	As        string `json:"as,omitempty"`
}

type answer struct {
	Decisions []decision `json:"decisions,omitempty"`
	Error     *refusal   `json:"error,omitempty"`
}

type decision struct {
	Level     priority.Level `json:"level"`
	RuleLevel priority.Level `json:"rule_level"`
	Degraded  bool           `json:"degraded,omitempty"`
}

type refusal struct {
	Class   string `json:"class"`
	Message string `json:"message"`
}

// start starts a process of the fleet.
func (f *trial) start(name, client string, command *exec.Cmd) *worker {
	f.Helper()
	p := &process{Cmd: command}
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		p.answers = bufio.NewReader(output)
		p.input, err = command.StdinPipe()
	}
	if err != nil {
		f.Fatal(err)
	}
	redistest.StartProgram(f.T, command)
	if _, err = p.ask(request{Do: "open", URL: "redis://" + f.server.Addr, Client: client, TimeoutMS: 10_000, Join: true, As: name}); err == nil {
		_, err = p.ask(request{Do: "peek", Customer: []byte("nobody")}) // some join with their first call
	}
	if err != nil {
		f.Fatal(err)
	}
	return &worker{name, p}
}

func (p *process) ask(r request) (a answer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err = json.NewEncoder(p.input).Encode(r); err != nil {
		return a, errGone
	}
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return a, errGone
	}
	if err = json.Unmarshal(line, &a); err == nil && a.Error != nil {
		err = fmt.Errorf("%s: %s", a.Error.Class, a.Error.Message)
	}
	return a, err
}

var errGone = errors.New("the process is gone")

func (p *process) decide(r request) (decisions []priority.Decision, err error) {
	a, err := p.ask(r)
	for _, d := range a.Decisions {
		decisions = append(decisions, priority.Decision{Level: d.Level, RuleLevel: d.RuleLevel, Degraded: d.Degraded})
	}
	return decisions, err
}

func (p *process) NextN(_ context.Context, customer string, n int) ([]priority.Decision, error) {
	return p.decide(request{Do: "next", Customer: []byte(customer), N: n})
}

func (p *process) SubmitN(_ context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	r := request{Do: "submit", Customer: []byte(customer)}
	for _, d := range documents {
		r.Documents = append(r.Documents, []byte(d.ID))
	}
	return p.decide(r)
}

func (p *process) Done(_ context.Context, customer, document string, took time.Duration) (ended priority.Ended, err error) {
	_, err = p.ask(request{Do: "done", Customer: []byte(customer), Documents: [][]byte{[]byte(document)}, TookMS: took.Milliseconds()})
	return ended, err
}

// startGo starts this binary, in which TestMain calls drive.
func (f *trial) startGo(name string) *worker {
	f.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "PRIORITYCTL_TEST_WORKER=1")
	return f.start(name, "", command)
}

// drive is a worker that answers requests.
func drive(in io.Reader, out io.Writer) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var member *fleet.Member
	answers, ctx := json.NewEncoder(out), context.Background()
	for requests := json.NewDecoder(in); ; {
		var r request
		if requests.Decode(&r) != nil {
			return // the test has ended
		}
		var a answer
		var decisions []priority.Decision
		var err error
		switch r.Do {
		case "open":
			options, _ := redis.ParseURL(r.URL)
			member, err = fleet.Join(redis.NewClient(options), &fleet.Options{Name: r.As})
		case "submit":
			documents := make([]priority.Document, len(r.Documents))
			for i, id := range r.Documents {
				documents[i].ID = string(id)
			}
			decisions, err = member.SubmitN(ctx, string(r.Customer), documents)
		case "done":
			_, err = member.Done(ctx, string(r.Customer), string(r.Documents[0]), time.Duration(r.TookMS)*time.Millisecond)
		}
		for _, d := range decisions {
			a.Decisions = append(a.Decisions, decision{d.Level, d.RuleLevel, d.Degraded})
		}
		if err != nil {
			a.Error = &refusal{"error", err.Error()}
		}
		_ = answers.Encode(a)
	}
}

// startPython and startNode start drivers of the other clients.
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
	command.Dir = installed.Install(f.T, "../..", "clients/nodejs")
	return f.start(name, "ioredis", command)
}

var installed nodetest.Copy
