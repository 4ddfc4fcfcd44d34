package main

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/redistest"
)

const root = "../../.."

// Each line of the page for redis-cli is run, in their order, on a queue with a
// document that waits, one in hand, one that has failed, and one given up, all of
// level 9.
func TestTheLinesOfThePageDoWhatTheySay(t *testing.T) {
	redistest.Find(t, "redis-cli", "redis-tools")
	page, err := os.ReadFile(root + "/docs/queues/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, strings.TrimSpace(block[1]))
	}
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of lines, want one for streams and one for lists", len(blocks))
	}
	onBoth(t, func(t *testing.T, options *Options) {
		lines, tells := strings.Split(blocks[0], "\n"), []string{"3", "worker-1", " 1\n", "why it failed", "1"}
		if options.Lists {
			lines, tells = strings.Split(blocks[1], "\n"), []string{"1", "worker-1", `"failed"`, "why it failed", "given-up"}
		}
		if len(lines) != len(tells) {
			t.Fatalf("%d lines, want %d", len(lines), len(tells))
		}
		server := redistest.Start(t)
		d := open(t, server.Client(), options)
		produceAt(t, d, 9, "given-up", "failed", "in-hand")
		d.tell(t.Context(), d.options.Logger, "failed", fetch(t, d, "worker-1"), -1, "why it failed")
		d.tell(t.Context(), d.options.Logger, "failed", fetch(t, d, "worker-1"), time.Hour.Milliseconds(), "why it failed")
		fetch(t, d, "worker-1")
		produceAt(t, d, 9, "waits")

		_, port, err := net.SplitHostPort(server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range lines {
			command := exec.Command("sh", "-c", strings.Replace(line, "redis-cli", "redis-cli -p "+port, 1))
			command.Dir = root
			output, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(output), tells[i]) {
				t.Errorf("%s\n%v, does not tell %q:\n%s", line, err, tells[i], output)
			}
		}
		if dead, err := d.Dead(t.Context()); err != nil || len(dead) > 0 {
			t.Errorf("still given up: %q, %v", dead, err)
		}
		if got := fetch(t, d, "worker-2"); got.document != "waits" {
			t.Errorf("got %s", got.document)
		}
		if got := fetch(t, d, "worker-3"); got.document != "given-up" || got.customer != "acme" || got.tries != 1 {
			t.Errorf("got %s of %s, try %d: want what was put back, as new", got.document, got.customer, got.tries)
		}
	})
}
