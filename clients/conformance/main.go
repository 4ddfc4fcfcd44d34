// Command conformance runs what every port of this module to another language has to
// pass: all test vectors, and faults. It drives a port through a program of the port's
// author, which README.md describes:
//
//	go run ./clients/conformance -- python3 clients/python/conformance/driver.py
//
// It starts redis-server for each check, on free loopback ports.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/internal/testing/vectors"
)

// check is a promise that a port keeps.
type check struct {
	name  string
	run   func(*world)
	where where
}

// where says with which clients a check makes sense.
type where int

const (
	everywhere where = iota
	onACluster
	onOneServer
)

// isFor reports whether a check makes sense with a port's client.
func (c check) isFor(p port) bool {
	return c.where == everywhere || (c.where == onACluster) == p.cluster
}

// checks are the promises of a port.
var checks = []check{
	{name: "keys match keys.json", run: checkKeys(false)},
	{name: "keys of users of accounts match keys.json", run: checkKeys(true)},
	{name: "scripts, levels and refusals match policies.json", run: checkPolicies},
	{name: "decisions match rule.json, submit.json, due.json and edges.json", run: checkCases("", "rule.json", "submit.json", "due.json", "edges.json"), where: onOneServer},
	{name: "decisions with overrides match due.json and edges.json", run: checkCases("overrides", "due.json", "edges.json"), where: onOneServer},
	{name: "decisions with accounts match accounts.json", run: checkCases("accounts", "accounts.json"), where: onOneServer},
	{name: "costs match costs.json", run: checkCosts, where: onOneServer},
	{name: "errors have the classes of errors.json", run: checkErrors},
	{name: "lost answers are treated as in lost.json", run: checkLost},
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
	{name: "a process ends when its input does", run: checkEnd},
	{name: "customers live on all nodes of a cluster", run: checkNodes, where: onACluster},
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: go run ./clients/conformance [flags] -- DRIVER [ARGUMENT ...]\n\n"+
			"Runs what every port has to pass. DRIVER is the port's program that answers\n"+
			"requests: see clients/conformance/README.md.\n\n")
		flags.PrintDefaults()
	}
	client := flags.String("client", "", "which of the port's client `libraries` (default: the port's own)")
	cluster := flags.Bool("cluster", false, "the client library is one for a Redis Cluster")
	only := flags.String("run", "", "run only checks whose names match this `expression`")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	wanted, err := regexp.Compile(*only)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "conformance: -run: %v\n", err)
		return 2
	case flags.NArg() == 0:
		flags.Usage()
		return 2
	}
	if _, err := vectors.Root(); err != nil {
		fmt.Fprintln(stderr, "conformance:", err)
		return 2
	}
	p := port{command: flags.Args(), client: *client, cluster: *cluster, partial: true}
	return report(p, wanted, stdout)
}

// report runs checks and prints a line for each, and why it failed or was skipped.
func report(p port, wanted *regexp.Regexp, stdout io.Writer) int {
	ran, failed, skipped := 0, 0, 0
	for _, c := range checks {
		if !c.isFor(p) || !wanted.MatchString(c.name) {
			continue
		}
		ran++
		w := &world{port: p}
		a := redistest.Try(context.Background(), func(tb testing.TB) {
			w.TB = tb
			c.run(w)
		})
		switch {
		case a.Failed():
			failed++
			fmt.Fprintf(stdout, "FAIL  %s\n", c.name)
			said := a.Said()
			for _, why := range said[:min(10, len(said))] {
				fmt.Fprintf(stdout, "      %s\n", strings.ReplaceAll(why, "\n", "\n      "))
			}
		case w.lacks != "":
			skipped++
			fmt.Fprintf(stdout, "skip  %s\n      The port does not support %q.\n", c.name, w.lacks)
		default:
			fmt.Fprintf(stdout, "ok    %s\n", c.name)
		}
	}
	switch {
	case ran == 0:
		fmt.Fprintln(stdout, "No check has such a name: README.md lists them.")
		return 1
	case failed > 0:
		fmt.Fprintf(stdout, "%d of %d checks failed.\n", failed, ran)
		return 1
	case skipped > 0:
		fmt.Fprintf(stdout, "%d of %d checks passed; the port does not support the others.\n", ran-skipped, ran)
		return 0
	}
	fmt.Fprintf(stdout, "All %d checks passed.\n", ran)
	return 0
}
