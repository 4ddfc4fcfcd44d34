package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// customersOf counts a document of each of the customers c0 to c29, ten on each of three masters.
func customersOf(t *testing.T, cluster *redistest.Cluster) {
	documents := map[string]int{}
	for i := range 30 {
		documents[fmt.Sprint("c", i)] = 1
	}
	count(t, cluster.Client(), documents)
}

// A node of a cluster has only its share of the customers: it is refused, even if it does not say
// what it is, before anything is changed.
func TestNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	customersOf(t, cluster)
	for _, node := range cluster.Masters {
		before := node.Client().DBSize(t.Context()).Val()
		for _, o := range []operator{operatorOn(t, "-redis", "redis://"+node.Addr), userOf(t, node, "hidden", "~* +@all -info")} {
			for _, command := range [][]string{
				{"status"}, {"ping"}, {"top"}, {"workers"}, {"get", "c1"}, {"list"}, {"override", "list"}, {"override", "set", "c1", "-level", "1", "-for", "1h", "-why", "x"},
				{"override", "end", "c1", "-why", "x"}, {"policy"}, {"policy", "apply", "default", "-why", "x"}, {"policy", "history"}, {"control", "export"}, {"log"}, {"reset", "c1", "-yes"},
			} {
				o.refused(exitUsage, "a node of a cluster", command[0], command[1:]...)
			}
		}
		if after := node.Client().DBSize(t.Context()).Val(); after != before {
			t.Errorf("%d keys became %d", before, after)
		}
	}
}

// While a master hangs, what is on the others works, and what lists or adds up says which master
// is missing.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "60000")
	customersOf(t, cluster)
	o := operatorOn(t, "-redis", "redis+cluster://"+strings.Join(cluster.Addrs(), ","))
	fleets := cluster.Masters[2] // has {control} and {fleet}, too
	write(t, fleets.Client(), fleet.Report{ID: "w1", Name: "w1", Levels: 9, Overrides: true, Busiest: []fleet.Busy{{Customer: "c1", Documents: 3, Level: 2}, {Customer: "c2", Documents: 4, Level: 2}}}, -time.Hour)
	o.ok("override", "set", "c1", "c2", "c3", "-level", "2", "-for", "1h", "-why", "x")
	if all := objects(t, o.ok("list", "-json")); len(all) != 30 {
		t.Errorf("%d customers", len(all))
	}
	holds(t, o.ok("ping"), "operator ok", "worker ok")

	o.flags = append(o.flags, "-timeout", "400ms")
	hang := func(node *redistest.Server) (says string) {
		node.Signal(syscall.SIGSTOP)
		return "cannot reach " + node.Addr + ": i/o timeout"
	}
	shows := func(status int, says string, lines int, command string, args ...string) {
		t.Helper()
		got, out, stderr := o.ask(command, args...)
		if holds(t, out+stderr, says); got != status || strings.Count(out, "\n") < lines {
			t.Errorf("%s %s has status %d, not %d:\n%s%s", command, args, got, status, out, stderr)
		}
	}
	missing := hang(cluster.Masters[0])
	shows(exitSomeFailed, missing, 19, "list", "-json")
	shows(exitSomeFailed, missing, 2, "override", "list", "-json")
	shows(exitSomeFailed, missing, 4, "top")
	shows(exitFailed, missing, 8, "status")
	shows(exitFailed, missing, 10, "ping")
	shows(exitSomeFailed, missing, 1, "get", "c1", "c2", "c6", "-json")
	o.refused(exitUnreachable, missing, "override", "set", "c6", "-level", "1", "-for", "1h", "-why", "x")
	o.refused(exitUnreachable, missing, "reset", "-all", "-yes", "c2")
	o.ok("workers")
	o.ok("override", "set", "c3", "-level", "1", "-for", "1h", "-why", "x")
	o.ok("override", "end", "c1", "-why", "x")
	o.ok("reset", "c3", "-all", "-yes")
	o.ok("log")
	o.ok("policy", "apply", "default", "-why", "x")
	cluster.Masters[0].Signal(syscall.SIGCONT)
	if all := objects(t, o.ok("override", "list", "-json")); len(all) != 1 {
		t.Errorf("overrides are %v", all)
	}

	missing = hang(fleets)
	shows(0, missing, 5, "get", "c0")
	shows(0, missing, 1, "reset", "c0", "-yes")
	shows(exitFailed, missing, 8, "status")
	for _, command := range [][]string{{"workers"}, {"top"}, {"log"}, {"policy"}, {"control", "export"}, {"policy", "apply", "default", "-why", "x"}, {"override", "end", "c2", "-why", "x"}} {
		o.refused(exitUnreachable, missing, command[0], command[1:]...)
	}
}
