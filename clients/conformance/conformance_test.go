package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/nodetest"
	"github.com/docpriority/priority/internal/redistest"
)

// beDriver is the environment's variable that makes a driver of the test's binary: the
// module's own, or a broken one.
const beDriver = "CONFORMANCE_DRIVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(beDriver); name != "" {
		if err := drive(os.Stdin, os.Stdout, drivers[name]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	// The checks wait for servers and processes most of the time.
	if err := flag.Set("test.parallel", fmt.Sprint(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	status := m.Run()
	installed.Remove()
	os.Exit(status)
}

// conform runs all checks on a port.
func conform(t *testing.T, p port) {
	p.patience = patience
	for _, c := range checks {
		if !c.isFor(p) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(&world{TB: t, port: p})
		})
	}
}

// self is the test's binary as a driver.
func self(t *testing.T, name string) port {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return port{command: []string{program}, env: append(os.Environ(), beDriver+"="+name), patience: patience}
}

// all has every client library be checked. Otherwise one a language is.
var all = flag.Bool("all", false, "check all client libraries of all languages, which takes minutes")

func TestModule(t *testing.T) {
	for _, client := range libraries("go-redis", "cluster") {
		t.Run(client, func(t *testing.T) {
			p := self(t, "the module")
			p.client, p.cluster = client, client == "cluster"
			conform(t, p)
		})
	}
}

func TestPython(t *testing.T) {
	for _, client := range libraries("redis", "asyncio", "cluster", "asyncio-cluster") {
		t.Run(client, func(t *testing.T) { conform(t, python(t, client)) })
	}
}

func TestNode(t *testing.T) {
	for _, client := range libraries("ioredis", "node-redis", "ioredis-cluster", "node-redis-cluster") {
		t.Run(client, func(t *testing.T) { conform(t, node(t, client)) })
	}
}

func libraries(first string, others ...string) []string {
	if *all {
		return append(others, first)
	}
	return []string{first}
}

// python returns the port to Python, which is run as it is.
func python(t *testing.T, client string) port {
	t.Helper()
	program := ""
	// Debian's packages are for Debian's python3, which need not be the first on the PATH.
	for _, candidate := range []string{"python3", "/usr/bin/python3"} {
		if program == "" && exec.Command(candidate, "-c", "import redis").Run() == nil {
			program = candidate
		}
	}
	if program == "" {
		redistest.Skip(t, "no python3 has redis-py: apt-get install python3 python3-redis")
	}
	return port{
		command: []string{program, "conformance/driver.py"}, dir: "../../clients/python",
		env:    append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), // the checkout stays clean
		client: client, cluster: strings.HasSuffix(client, "cluster"), patience: patience,
	}
}

// node returns the port to Node.js, in a copy with what it depends on.
func node(t *testing.T, client string) port {
	t.Helper()
	return port{
		command: []string{"node", "conformance/driver.mjs"}, dir: installed.Install(t, "../..", "clients/nodejs"),
		client: client, cluster: strings.HasSuffix(client, "cluster"), patience: patience,
	}
}

var installed nodetest.Copy

// drivers are the module's own, and broken ones.
var drivers = map[string]func(*request) (subject, error){
	"the module": openGo,
	"counts again after a lost answer": broken(func(s goStore, r *request) response {
		result := s.do(r)
		if r.Do == "next" && result.class() == outcomeUnknown {
			result = s.do(r)
		}
		return result
	}),
	"calls what is lost not counted": broken(func(s goStore, r *request) response {
		result := s.do(r)
		if result.class() == outcomeUnknown {
			result.Error.Class = notCounted
		}
		return result
	}),
	"does not escape customers": broken(func(s goStore, r *request) response {
		if r.Do == "key" {
			return response{Key: fmt.Appendf(nil, "%s:{%s}:%s", s.prefix, r.Customer, r.Kind)}
		}
		return s.do(r)
	}),
	"waits for ever": func(r *request) (subject, error) {
		r.Timeout = -1
		parsed, err := redis.ParseURL(r.URL)
		if err != nil {
			return nil, err
		}
		parsed.ReadTimeout, parsed.DialTimeout, parsed.MaxRetries = -1, time.Hour, -1
		client := redis.NewClient(parsed)
		store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: -1})
		return goStore{Store: store, redis: store, client: client}, err
	},
}

// The check of a promise finds a driver that breaks it.
func TestBrokenPort(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	t.Parallel()
	for _, test := range []struct{ driver, check, says string }{
		{"counts again after a lost answer", "lost answers are treated as in lost.json", "was sent 2 times, want 1"},
		{"calls what is lost not counted", "connections that are cut under load are counted exactly", "extra"},
		{"does not escape customers", "keys match keys.json", "want"},
		{"waits for ever", "a server that stands still is outlived", "has not answered"},
	} {
		t.Run(test.driver, func(t *testing.T) {
			t.Parallel()
			p := self(t, test.driver)
			if test.driver == "waits for ever" {
				p.patience = 2 * time.Second
			}
			at := slices.IndexFunc(checks, func(c check) bool { return c.name == test.check })
			if at < 0 {
				t.Fatal("there is no such check")
			}
			a, _ := try(checks[at], p)
			if said := strings.Join(a.Said(), "\n"); !a.Failed() || !strings.Contains(said, test.says) {
				t.Errorf("it says %q, want %q in it", said, test.says)
			}
		})
	}
}

// broken is a driver whose store is not the module's.
func broken(do func(goStore, *request) response) func(*request) (subject, error) {
	return func(r *request) (subject, error) {
		store, err := openGo(r)
		if err != nil {
			return nil, err
		}
		return brokenStore{store.(goStore), do}, nil
	}
}

type brokenStore struct {
	goStore
	how func(goStore, *request) response
}

func (s brokenStore) do(r *request) response { return s.how(s.goStore, r) }

// An author sees a line for each check, and why it failed.
func TestReport(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	t.Parallel()
	var out bytes.Buffer
	status := report(self(t, "does not escape customers"), regexp.MustCompile("keys.json|wrong calls"), &out)
	text := out.String()
	if status != 1 || !strings.HasPrefix(text, "FAIL  keys match keys.json\n      ") || !strings.Contains(text, "\n      and ") ||
		!strings.HasSuffix(text, "\nok    wrong calls are refused before anything is sent\n1 of 2 checks failed.\n") {
		t.Errorf("exit status %d, and\n%s", status, text)
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{{}, {"-run", "["}, {"-nonsense"}} {
		var out, err bytes.Buffer
		if status := run(args, strings.NewReader(""), &out, &err); status != 2 || out.Len() > 0 || err.Len() == 0 {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, out.String(), err.String())
		}
	}
}
