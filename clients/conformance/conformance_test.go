package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/docpriority/priority/clients/nodetest"
	"github.com/docpriority/priority/internal/testing/redistest"
)

func TestMain(m *testing.M) {
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

// all has every client library be checked. Otherwise one a language is.
var all = flag.Bool("all", false, "check all client libraries of all languages, which takes minutes")

func TestPython(t *testing.T) {
	t.Parallel()
	for _, client := range libraries("redis", "asyncio", "cluster", "asyncio-cluster") {
		t.Run(client, func(t *testing.T) { conform(t, python(t, client)) })
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
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
		client: client, cluster: strings.HasSuffix(client, "cluster"),
	}
}

// node returns the port to Node.js, in a copy with what it depends on.
func node(t *testing.T, client string) port {
	t.Helper()
	return port{
		command: []string{"node", "conformance/driver.mjs"}, dir: installed.Install(t, "../..", "clients/nodejs"),
		client: client, cluster: strings.HasSuffix(client, "cluster"),
	}
}

var installed nodetest.Copy
