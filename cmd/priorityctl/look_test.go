package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// write writes the report of a process, as old as that.
func write(t *testing.T, client *redis.Client, r fleet.Report, age time.Duration) {
	t.Helper()
	text, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, client, r.ID, string(text), age)
}

func writeText(t *testing.T, client *redis.Client, id, text string, age time.Duration) {
	t.Helper()
	client.ZAdd(t.Context(), "priority:{fleet}:members", redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: id})
	if err := client.Set(t.Context(), "priority:{fleet}:"+id, text, time.Hour-age).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	member := join(t, client, "w1")
	submit(t, member, "archive", 300)
	count(t, client, map[string]int{"acme": 30})
	holds(t, o.ok("get", "archive"), "rule by load", "next level 7 of 1 to 9: load > 32,768, ≥ 16 pending", "300, the oldest for",
		"archive waits behind levels 1 to 6", "flood 119 of them", "pending document 120 of the flood, and floods take turns")
	o.ok("override", "set", "acme", "-not-later-than", "3", "-for", "2h", "-why", "a demo", "-by", "mary")
	holds(t, o.ok("get", "acme"), "count -29: 30 documents since the last reset", "level 3 of 1 to 9; by the rule 9", "level 3 at the latest",
		`by mary: "a demo"`, "acme is slow because of 30 documents")
	holds(t, o.ok("get", "nobody"), "nobody is new, or misspelled", "priorityctl list")
	client.HSet(t.Context(), "priority:{odd}:count", "f", "v")
	o.refused(exitFailed, "the key priority:{odd}:count holds a hash, not a count", "get", "odd")
	status, out, _ := o.ask("get", "archive", "odd", "-json")
	if all := objects(t, out); status != exitSomeFailed || len(all) != 2 || all[0]["state"].(map[string]any)["pending"] != 300. || all[1]["error"] == nil {
		t.Errorf("status %d: %s", status, out)
	}
}

// Users are looked for where the workers have them, by the reports or, without any, by the keys.
func TestAccounts(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	member := joinWith(t, client, "w1", priority.RedisOptions{Accounts: true})
	submit(t, member, "acme/mary", 300)
	submit(t, member, "acme/bob}", 2)
	if _, err := member.NextN(t.Context(), "globex/eve", 30); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "all is reported", func() bool { return strings.Contains(o.ok("top"), "332 documents") })
	says := func() {
		t.Helper()
		holds(t, o.ok("get", "acme"), "302, the oldest for", "user acme/mary:", "300 pending", "user acme/bob}:", "2 pending")
		holds(t, o.ok("get", "acme/mary"), "the account's load > 32,768, ≥ 16 pending", "300, the oldest", "; the account's decides.", "of the account's flood")
		holds(t, o.ok("get", "acme/bob}"), "2, the oldest for", "account acme: load", "the account's decides")
		if listed := objects(t, o.ok("list", "-json")); len(listed) != 2 {
			t.Errorf("list has %v", listed)
		}
		o.ok("override", "set", "acme", "-level", "3", "-for", "1h", "-why", "x")
		holds(t, o.ok("get", "acme/bob}"), "pinned to level 3, until", "of the account acme", "has its account's override")
		client.Set(t.Context(), "priority:{acme}/bob%7D:override", "junk", 0) // is none
		holds(t, o.ok("get", "acme/bob}"), "has its account's override")
		o.ok("override", "set", "acme/bob}", "-level", "2", "-for", "1h", "-why", "x")
		if d, err := member.Peek(t.Context(), "acme/bob}"); err != nil || d.NextLevel != 2 {
			t.Errorf("%+v, %v", d, err)
		}
		holds(t, o.ok("override", "list"), "pinned to level 2 acme/bob}")
		o.ok("override", "end", "acme", "acme/bob}", "-why", "x")
	}
	says()
	holds(t, o.ok("list"), "ACCOUNT (get names its users)", "count -29", "globex/eve")
	holds(t, o.ok("top"), "302 302", "acme 9 9 -29 30", "globex/eve")
	if err := member.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	says()
	holds(t, o.ok("reset", "acme/mary", "-yes"), "acme/mary: reset (300 pending")
	holds(t, o.ok("get", "acme"), "302, the oldest for")
}

// On a terminal top is live, within its lines, until q; then the terminal is as it was. While
// Redis is away it shows what it knew.
func TestTop_Live(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	member := join(t, server.Client(), "w1")
	submit(t, member, "archive", 300)
	for i := range 30 {
		submit(t, member, fmt.Sprint("customer-", i), 1)
	}
	o := operatorOn(t, "-redis", "redis://"+server.Addr).onTerminal()
	redistest.Await(t, "all is reported", func() bool { return strings.Contains(o.ok("top", "-once"), "330 documents") })
	from, to := io.Pipe()
	keys, typed := io.Pipe()
	restored, ended := false, make(chan int, 1)
	o.keys = func(stream any) (func(), bool) { return func() { restored = true }, stream == keys }
	go func() {
		ended <- run(t.Context(), o.environment, append([]string{"top"}, o.flags...), keys, to, io.Discard)
		_ = to.Close()
	}()
	const home = "\x1b[H\x1b[J"
	var all strings.Builder
	shows := func(want string) {
		t.Helper()
		defer time.AfterFunc(time.Minute, func() { _ = from.Close() }).Stop()
		for screen := ""; !strings.Contains(screen, want); {
			part := make([]byte, 64<<10)
			n, err := from.Read(part)
			all.Write(part[:n])
			screen = all.String()[max(strings.LastIndex(all.String(), home), 0):]
			if lines := strings.Count(screen, "\n") + 1; err != nil || lines > 24 {
				t.Fatalf("%v, %d lines, no %q:\n%s", err, lines, want, screen)
			}
		}
	}
	shows("archive")
	server.Kill()
	shows("looking again: ")
	shows("archive")
	_, _ = io.WriteString(typed, "xq")
	rest, err := io.ReadAll(from)
	if status := <-ended; err != nil || status != 0 || !restored || !strings.HasSuffix(string(rest), "\x1b[?7h\x1b[?25h\x1b[?1049l") {
		t.Errorf("status %d, %v, and at last %q", status, err, rest)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	member := join(t, client, "w1")
	submit(t, member, "archive", 300)
	documents := map[string]int{"acme": 30}
	for i := range 1200 {
		documents[fmt.Sprint("small ", i)] = 1
	}
	count(t, client, documents)
	client.RPush(t.Context(), "priority:{odd}:pending", "x")
	client.Set(t.Context(), "priority:{odder}:override", "first", 0)
	client.Set(t.Context(), "priority:{%20}:count", "1", 0) // no key of the module's
	all := objects(t, o.ok("list", "-json"))
	if len(all) != 1204 {
		t.Errorf("%d customers", len(all))
	}
	holds(t, o.ok("list", "-level", "7,9"), "NEXT RULE COUNT/LOAD", "archive", "acme")
	if corrupt := objects(t, o.ok("list", "-corrupt", "-json")); len(corrupt) != 2 {
		t.Errorf("corrupt are %v", corrupt)
	}
	o.refused(exitUsage, "the levels are 1 to 9", "list", "-level", "10")
	out := o.reading(o.ok("list", "-corrupt", "-json")).ok("reset", "-all", "-yes", "-from", "-", "-why", "x")
	if strings.Count(out, "reset (") != 2 {
		t.Errorf("got %s", out)
	}
	if out := o.ok("list", "-corrupt"); out != "No such customer.\n" {
		t.Errorf("got %s", out)
	}
	if status, out, says := o.reading(o.ok("list", "-corrupt", "-json")).ask("get", "-from", "-"); status != 0 || out != "" || !strings.Contains(says, "no customer") {
		t.Errorf("of nobody it says %d, %q, %q", status, out, says)
	}
}
