package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

func TestOverride(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	member := join(t, client, "w1")
	submit(t, member, "archive", 300)
	for _, wrong := range [][]string{
		{"acme", "-for", "1h", "-why", "x"}, {"acme", "-level", "1", "-why", "x"}, {"acme", "-level", "1", "-for", "1h"}, {"acme", "-level", "0", "-for", "1h", "-why", "x"},
		{"acme", "-level", "10", "-for", "1h", "-why", "x"}, {"acme", "-level", "1", "-not-later-than", "2", "-for", "1h", "-why", "x"}, {"acme", "-level", "1", "-for", "721h", "-why", "x"}, {"acme", "-level", "1", "-for", "60d", "-why", "x"},
		{"-level", "1", "-for", "1h", "-why", "x"},
	} {
		o.refused(exitUsage, "", "override", append([]string{"set"}, wrong...)...)
	}
	holds(t, o.ok("override", "list"), "There are no overrides.")
	holds(t, o.ok("override", "set", "archive", "-level", "1", "-for", "2h", "-why", "the demo", "-by", "mary"),
		"archive: pinned to level 1 until", "The next document gets level 1 instead of 7.")
	holds(t, o.ok("override", "set", "unknown", "-not-later-than", "3", "-for", "30d", "-why", "x"), "Nothing is known of this customer: it is new, or misspelled. The next document gets level 1, as before.")
	if d, err := member.Submit(t.Context(), "archive", priority.Document{ID: "late"}); err != nil || d.Level != 1 || d.RuleLevel != 7 {
		t.Errorf("%+v, %v", d, err)
	}
	holds(t, o.ok("override", "set", "archive", "-not-earlier-than", "5", "-for", "30m", "-why", "enough", "-by", "bob"), `Before: pinned to level 1, by mary: "the demo"`)
	holds(t, o.ok("override", "list"), "LEFT OVERRIDE CUSTOMER", "level 5 at the earliest archive", `by bob: "enough"`, "level 3 at the latest unknown")
	holds(t, o.ok("override", "end", "archive", "-why", "over"), "archive: the override has ended", "Before: level 5 at the earliest")
	o.refused(exitFailed, "not found", "override", "end", "archive", "-why", "over")
	o.reading(`{"customer":"archive"}`).ok("override", "set", "-from", "-", "-level", "3", "-for", "1h", "-why", "again")
	if _, out, _ := o.ask("status"); strings.Contains(out, "about to end") {
		t.Errorf("of an override that was set for an hour just now status says\n%s", out)
	}
	holds(t, o.ok("log"), "archive level 5 at the earliest, for 30m", `"enough"`, "archive: override ended", "by mary")
	if entries := objects(t, o.ok("log", "-customer", "archive", "-json")); len(entries) != 4 {
		t.Errorf("the log has %v", entries)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	member := join(t, client, "w1")
	team := file(t, "team.json", `{"thresholds": [-2, -9], "in_order": true, "tiers": {"gold": {"thresholds": [-50]}}}`)
	holds(t, o.ok("policy"), "the workers' own options decide", "5 load > 8,192 count < -8 10–11", "the only worker follows")
	alone(t).refused(exitUsage, "team.json: not a policy", "policy", "check", file(t, "team.json", `{"thresholds": [2, 1, 3]}`))
	holds(t, alone(t).ok("policy", "check", team), "3 load > 32,768", "count < -9", "Tier: gold", "priority.Policy{", "Thresholds: []int64{-2, -9}", "In order: no document gets", "InOrder: true")
	o.refused(exitUsage, "-why is missing", "policy", "apply", team)
	write(t, client, fleet.Report{ID: "odd", Name: "odd", Levels: 2, Overrides: true}, 0)
	o.refused(exitFailed, "that of odd 2): nothing was changed", "policy", "apply", team, "-why", "x") // it cannot follow
	write(t, client, fleet.Report{ID: "odd", Name: "odd", Levels: 9, Overrides: true}, 29*time.Minute)
	holds(t, o.ok("policy", "apply", team, "-why", "fewer levels", "-by", "mary"), "Version 1: 3 levels, thresholds [-2 -9], in order,", "1 tier: gold", "the only worker follows")
	if d, err := member.NextN(t.Context(), "acme", 12); err != nil || d[11].Level != 3 {
		t.Errorf("%v, %v", d, err)
	}
	o.ok("policy", "apply", "default", "-why", "more")
	holds(t, o.ok("policy", "rollback", "1", "-why", "too many"), "Version 3: 3 levels", `Before: version 2, by`)
	holds(t, o.ok("policy"), "version 3, by", `"too many"`, "the only worker follows")
	holds(t, o.ok("policy", "history"), "3", "2", `"more"`, "fewer levels")
	holds(t, o.ok("policy", "withdraw", "-why", "back"), "Version 4: the workers' own options")
	holds(t, o.ok("workers"), "own 9 yes w1")
	o.refused(exitFailed, "version 9 has no policy", "policy", "rollback", "9", "-why", "x")
	// One entry of history is a policy too.
	history := strings.SplitAfter(o.ok("policy", "history", "-json"), "\n")
	o.reading(history[1]).ok("policy", "apply", "-", "-why", "once more")
	holds(t, o.ok("log", "-n", "1"), "policies applied (version 5): 3 levels")
}

func TestControl(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	join(t, client, "w1")
	o.ok("policy", "apply", "default", "-why", "a", "-by", "mary")
	o.ok("override", "set", "acme", "\xff", "-level", "2", "-for", "5h", "-why", "b", "-by", "bob")
	saved := file(t, "saved.json", o.ok("control", "export"))
	o.refused(exitFailed, "nothing was changed; -force replaces the policies", "control", "import", saved, "-why", "x")
	client.FlushAll(t.Context())
	holds(t, o.ok("control", "import", saved, "-why", "Redis was empty", "-by", "eve"), "2 overrides in force; the policies are version 2")
	holds(t, o.ok("override", "list"), `by bob: "b"`)
	holds(t, o.ok("policy", "history"), "by mary")
	holds(t, o.ok("log"), "an export imported", "by eve")
	o.ok("control", "import", saved, "-force", "-why", "again")
	o.refused(exitUsage, "not an export", "control", "import", file(t, "x.json", `{"a":1}`), "-why", "x")
}

func TestReset(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30, "-rf": 3})
	o.refused(exitUsage, "give -yes where no one can be asked", "reset", "acme")
	o.ok("override", "set", "acme", "-level", "2", "-for", "5h", "-why", "b")
	holds(t, o.ok("reset", "acme", "-yes"), "acme: reset (count -29, level 9)")
	holds(t, o.ok("reset", "-yes", "-why", "x", "--", "-rf"), "-rf: reset")
	holds(t, o.ok("reset", "acme", "-all", "-yes", "-why", "ticket 4711"), "acme: reset (pinned to level 2)")
	holds(t, o.ok("reset", "acme", "-all", "-yes"), "acme: nothing was known of it")
	if keys := client.Keys(t.Context(), "priority:{acme}:*").Val(); len(keys) != 0 {
		t.Errorf("there are %v", keys)
	}
	if entry := objects(t, o.ok("log", "-n", "1", "-json"))[0]; entry["kind"] != "forget" || entry["customer"] != nil {
		t.Errorf("the log has %v", entry)
	}
	count(t, client, map[string]int{"acme": 3})
	client.Set(t.Context(), "priority:{control}:log", "no stream", 0)
	if status, out, stderr := o.ask("reset", "acme", "-yes"); status != 0 || !strings.Contains(out, "acme: reset (count -2") || !strings.Contains(stderr, "it is done, but not logged") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
	client.ZAdd(t.Context(), "priority:{later}:pending", redis.Z{Score: -5, Member: ":fades"}, redis.Z{Score: -5, Member: ":averages"})
	o.refused(exitFailed, "use that version's priorityctl", "reset", "later", "-yes")
}

// On a terminal reset shows what goes, and asks.
func TestReset_Asks(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30, "bakery": 5})
	for answer, left := range map[string]int64{"\n": 2, "no\n": 2, "": 2, "y\n": 0} {
		count(t, client, map[string]int{"acme": 30, "bakery": 5})
		var prompt strings.Builder
		status := run(t.Context(), o.onTerminal().environment, append([]string{"reset", "acme", "bakery"}, o.flags...), strings.NewReader(answer), io.Discard, &prompt)
		if said := prompt.String(); (status == 0) != (left == 0) || !strings.Contains(said, "Reset 2 customers? [y/N]") || !strings.Contains(said, "  acme: count -") {
			t.Errorf("%q: status %d: %s", answer, status, said)
		}
		if n := client.Exists(t.Context(), "priority:{acme}:count", "priority:{bakery}:count").Val(); n != left {
			t.Errorf("%q leaves %d keys", answer, n)
		}
	}
}

// Where Redis is, and who asks.
func TestConnection(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Start(t, "--requirepass", secret, "--unixsocket", socket)
	with := alone(t).with(urlVariable, "redis://"+server.Addr).with(passwordVariable, secret)
	with.ok("get", "acme")
	alone(t).ok("get", "acme", "-redis", "redis://default:"+secret+"@"+server.Addr+"/3")
	with.ok("get", "acme", "-redis", "unix://"+socket)
	alone(t).ok("get", "acme", "-redis", "redis://"+server.Addr, "-password-file", file(t, "p", secret+"\n"))
	alone(t).refused(exitUnreachable, "refuses the login", "get", "acme", "-redis", "redis://:wrong@"+server.Addr)
	for _, url := range []string{"localhost", "http://x", "redis+x://h", "redis+cluster://h/1", "redis+sentinel://h", "redis://u:hush-hush/@h:1", "redis://h:x"} {
		alone(t).refused(exitUsage, "-redis: ", "get", "acme", "-redis", url)
	}
	alone(t).refused(exitUsage, "-tls-", "get", "acme", "-redis", "redis://"+server.Addr, "-tls-ca", "x")
	alone(t).refused(exitUsage, "no password for the user", "get", "acme", "-redis", "redis://u@"+server.Addr)
	alone(t).refused(exitUsage, "did you mean get", "gett")
	alone(t).refused(exitUsage, "did you mean override set", "-redis", "redis://"+server.Addr, "set", "acme")
	with.ok("-redis", "redis://"+server.Addr, "get", "acme")
	alone(t).refused(exitUsage, "-levels", "get", "acme", "-levels", "3")
	holds(t, alone(t).ok("get", "-help-connection"), "redis+sentinel://")

	on := operatorOn(t, "-redis", "redis://"+redistest.StartReplica(t, redistest.Start(t)).Addr)
	on.refused(exitUsage, "name the master", "reset", "acme", "-yes")
	if status, _, stderr := on.ask("get", "acme"); status != 0 || !strings.Contains(stderr, "a replica of") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestConnection_Sentinel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.StartReplica(t, server)
	sentinel := redistest.StartSentinel(t, server)
	operatorOn(t, "-redis", "redis+sentinel://"+sentinel+"/"+redistest.MasterName).ok("get", "acme")
	operatorOn(t, "-redis", "redis://"+sentinel).refused(exitUsage, "is a sentinel", "get", "acme")
}

// An operator's user needs no more rights than docs/redis.md gives, and a missing one is an
// error that says where they stand.
func TestRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	join(t, server.Client(), "w1")
	count(t, server.Client(), map[string]int{"acme": 3})
	user := func(name string) operator {
		_, line, _ := strings.Cut(string(page), "ACL SETUSER "+name+" reset on #SHA256 ")
		rights, _, _ := strings.Cut(line, "\n")
		return userOf(t, server, name, rights)
	}
	o := user("operator")
	for _, command := range [][]string{
		{"status"}, {"ping"}, {"top"}, {"workers"}, {"get", "acme"}, {"list"}, {"override", "set", "acme", "-level", "1", "-for", "1h", "-why", "x"}, {"override", "list"},
		{"override", "end", "acme", "-why", "x"}, {"policy", "apply", "default", "-why", "x"}, {"policy", "history"}, {"control", "export"}, {"log"}, {"reset", "acme", "-yes"}, {"reset", "acme", "-all", "-yes"},
	} {
		o.ok(command[0], command[1:]...)
	}
	reader := user("reader")
	for _, command := range [][]string{{"status"}, {"top"}, {"workers"}, {"get", "acme"}, {"list"}, {"override", "list"}, {"policy"}, {"control", "export"}, {"log"}} {
		reader.ok(command[0], command[1:]...)
	}
	redistest.WantNothingRefused(t, server.Client())
	reader.refused(exitFailed, `docs/redis.md, "Rights"`, "override", "set", "acme", "-level", "1", "-for", "1h", "-why", "x")
}
