// Command conformance runs what every port of this module to another language has to
// pass: all test vectors, and faults. It drives a port through a program of the port's
// author, which README.md describes:
//
//	go run ./clients/conformance -- python3 clients/python/conformance/driver.py
//
// It starts redis-server for each check, on free loopback ports.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// checks are the promises of a port.
var checks = []check{
	{name: "keys match keys.json", run: checkKeys},
	{name: "scripts and levels match policies.json", run: checkPolicies},
	{name: "policies, leases and prefixes that are wrong are refused", run: checkRefusedPolicies},
	{name: "decisions match rule.json", run: checkCases("rule.json", withoutOverride)},
	{name: "decisions match submit.json", run: checkCases("submit.json", withoutOverride)},
	{name: "decisions match edges.json", run: checkCases("edges.json", withoutOverride)},
	{name: "decisions with overrides match edges.json", run: checkCases("edges.json", withOverride)},
	{name: "the defaults match the module", run: checkDefaults},
	{name: "wrong calls are refused before anything is sent", run: checkWrongCalls},
	{name: "customers and documents are any bytes", run: checkHostileNames},
	{name: "costs match mean.json", run: checkMeans},
	{name: "replies are told to the last millionth", run: checkReplies},
	{name: "a document that is submitted again is counted once", run: checkSubmittedAgain},
	{name: "many calls at once are counted exactly", run: checkManyAtOnce},
	{name: "errors have the classes of errors.json", run: checkErrors},
	{name: "a refusal for a moment that lasts is not counted", run: checkRefusedForGood},
	{name: "lost answers are treated as in lost.json", run: checkLost},
	{name: "an answer that comes late is nobody else's", run: checkLateAnswers},
	{name: "an answer that comes byte by byte is an answer", run: checkTrickle},
	{name: "corrupt keys are told and left as they are", run: checkCorruptKeys},
	{name: "a read-only replica counts nothing", run: checkReadOnly, where: onOneServer},
	{name: "a server whose memory is full counts nothing", run: checkFullMemory},
	{name: "scripts that the server forgets are noticed by nobody", run: checkForgottenScripts},
	{name: "connections that are cut under load are counted exactly", run: checkKilledConnections},
	{name: "a server that is gone has counted nothing, and comes back", run: checkRefused},
	{name: "a server that stands still is outlived", run: checkOutage(stop, resume, notCounted, outcomeUnknown)},
	{name: "a silent network is outlived", run: checkOutage(silence, speak, notCounted, outcomeUnknown)},
	{name: "answers that never come are of unknown outcome", run: checkOutage(holdAll, giveUp, notCounted, outcomeUnknown)},
	{name: "answers that are cut short are of unknown outcome", run: checkOutage(halveAll, wholeAll, outcomeUnknown)},
	{name: "a restart without data begins again", run: checkRestartWithoutPersistence},
	{name: "500 calls end while the server stands still", run: checkStandstill},
	{name: "a fallback answers while the server is away", run: checkFallback},
	{name: "a process ends when its input does", run: checkEnd},
	{name: "customers live on all nodes of a cluster", run: checkNodes, where: onACluster},
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
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
	list := flags.Bool("list", false, "print the names of the checks, and run none")
	drives := flags.Bool("driver", false, "be the driver of this module")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	wanted, err := regexp.Compile(*only)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "conformance: -run: %v\n", err)
		return 2
	case *list:
		for _, c := range checks {
			if wanted.MatchString(c.name) {
				fmt.Fprintln(stdout, c.name)
			}
		}
		return 0
	case *drives:
		if err := drive(stdin, stdout, openGo); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	case flags.NArg() == 0:
		flags.Usage()
		return 2
	}
	if _, err := repository(); err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	p := port{command: flags.Args(), client: *client, cluster: *cluster, partial: true, patience: patience}
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
		a, lacks := try(c, p)
		switch {
		case a.Failed():
			failed++
		case lacks != "":
			skipped++
			fmt.Fprintf(stdout, "skip  %s\n      The port does not support %q.\n", c.name, lacks)
			continue
		default:
			fmt.Fprintf(stdout, "ok    %s\n", c.name)
			continue
		}
		fmt.Fprintf(stdout, "FAIL  %s\n", c.name)
		const most = 10
		for i, why := range a.Said() {
			if i == most {
				fmt.Fprintf(stdout, "      and %d more\n", len(a.Said())-most)
				break
			}
			for line := range strings.Lines(folded(why, 74)) {
				fmt.Fprintf(stdout, "      %s\n", strings.TrimRight(line, "\n"))
			}
		}
	}
	switch {
	case ran == 0:
		fmt.Fprintln(stdout, "No check has such a name: see -list.")
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

// folded returns a text in lines of at most so many characters.
func folded(text string, width int) string {
	var folded strings.Builder
	for line := range strings.Lines(text) {
		left := []rune(strings.TrimRight(line, "\n"))
		for len(left) > width {
			at := width
			for i := width; i > width/2; i-- {
				if left[i] == ' ' {
					at = i
					break
				}
			}
			folded.WriteString(string(left[:at]) + "\n")
			left = []rune(strings.TrimLeft(string(left[at:]), " "))
		}
		folded.WriteString(string(left) + "\n")
	}
	return folded.String()
}
