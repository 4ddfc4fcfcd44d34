// Package conformance_test checks what every port of this module to another language has to keep: all
// test vectors, and faults. It drives a port by a program of the port's author: see README.md.
package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/docpriority/priority/clients/nodetest"
	"github.com/docpriority/priority/internal/testing/redistest"
)

var (
	all     = flag.Bool("all", false, "check all client libraries of Python and Node.js, which takes minutes, and not one each")
	command = flag.String("driver", "", "check the port whose driver this `command` starts, run at the repository's root")
	library = flag.String("client", "", "which of that port's client `libraries` (default: the port's own)")
	cluster = flag.Bool("cluster", false, "this client library is for a Redis Cluster")
)

// checks are the promises of a port.
var checks = []struct {
	name  string
	run   func(*world)
	where where
}{
	{name: "keys match keys.json", run: checkKeys(false)},
	{name: "keys of users of accounts match keys.json", run: checkKeys(true)},
	{name: "scripts, levels and refusals match policies.json", run: checkPolicies},
	{name: "decisions match rule.json, submit.json, due.json and edges.json", run: checkCases("", "rule.json", "submit.json", "due.json", "edges.json"), where: onOneServer},
	{name: "decisions with overrides match due.json and edges.json", run: checkCases("overrides", "due.json", "edges.json"), where: onOneServer},
	{name: "decisions with accounts match accounts.json", run: checkCases("accounts", "accounts.json"), where: onOneServer},
	{name: "costs match costs.json", run: checkCosts, where: onOneServer},
	{name: "errors have the classes of errors.json", run: checkErrors},
	{name: "lost answers are treated as in lost.json", run: checkLost},
	{name: "scripts are loaded once, or sent along where they cannot be", run: checkScripts, where: onOneServer},
	{name: "wrong calls are refused before anything is sent", run: checkWrongCalls},
	{name: "customers and documents are any bytes", run: checkHostileNames},
	{name: "corrupt keys are named and left as they are", run: checkCorruptKeys},
	{name: "connections that are cut under load are counted exactly", run: checkKilledConnections},
	{name: "a server that is gone has counted nothing, and comes back", run: checkRefused},
	{name: "a server that stands still is outlived", run: checkOutage},
	{name: "a fallback answers while the server is away", run: checkFallback},
	{name: "a fallback answers for those whom a part of Redis refuses", run: checkPart},
	{name: "a done that the server missed reaches it, and ends nothing that was submitted since", run: checkDones, where: onOneServer}, // a cluster sends both clients through the proxy
	{name: "a document whose submit comes late, after its done, is not pending", run: checkLate},
	{name: "connecting may take longer than a call", run: checkConnecting, where: onOneServer},
	{name: "a process ends when its input does", run: checkEnd},
	{name: "customers live on all nodes of a cluster", run: checkNodes, where: onACluster},
}

// where says with which clients a check makes sense.
type where int

const (
	everywhere where = iota
	onACluster
	onOneServer
)

func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable() // go-redis would log each connection that a check breaks
	// The checks wait for servers and processes most of the time.
	if err := flag.Set("test.parallel", fmt.Sprint(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// conform runs the checks of a port that make sense with its client.
func conform(t *testing.T, p *port) {
	for _, c := range checks {
		if c.where == onOneServer && p.cluster || c.where == onACluster && !p.cluster || p.brief && c.where != onACluster {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(&world{TB: t, port: p})
		})
	}
}

// TestPort checks the port that -driver names.
func TestPort(t *testing.T) {
	if *command == "" {
		t.Skip("-driver names no port: see README.md")
	}
	conform(t, &port{tb: t, command: strings.Fields(*command), dir: "../..", client: *library, cluster: *cluster, partial: true})
}

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

// libraries leaves out a client library of which, without -all, nothing is checked: of those of a
// cluster, only what they do on one is.
func libraries(first, second string, clusters ...string) []string {
	if *all {
		clusters = append(clusters, second)
	}
	return append(clusters, first)
}

// python returns the port to Python, which is run as it is.
func python(t *testing.T, client string) *port {
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
	return &port{
		tb: t, command: []string{program, "conformance/driver.py"}, dir: "../../clients/python",
		env:    append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), // the checkout stays clean
		client: client, cluster: strings.HasSuffix(client, "cluster"), brief: strings.HasSuffix(client, "cluster") && !*all,
	}
}

// node returns the port to Node.js, in a copy with what it depends on.
func node(t *testing.T, client string) *port {
	t.Helper()
	return &port{
		tb: t, command: []string{"node", "conformance/driver.mjs"}, dir: nodetest.Client(t),
		client: client, cluster: strings.HasSuffix(client, "cluster"), brief: strings.HasSuffix(client, "cluster") && !*all,
	}
}
