package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// report writes a report as a process of the fleet does.
func report(t *testing.T, client *redis.Client, r fleet.Report) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const lasts = 30 * time.Second
	end := float64(client.Time(t.Context()).Val().Add(lasts).UnixMilli())
	if err := client.Set(t.Context(), "priority:{fleet}:"+r.ID, text, lasts).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.ZAdd(t.Context(), "priority:{fleet}:members", redis.Z{Score: end, Member: r.ID}).Err(); err != nil {
		t.Fatal(err)
	}
}

// join makes a member of the fleet whose queue has so many levels.
func join(t *testing.T, client *redis.Client, name string, levels int) *fleet.Member {
	t.Helper()
	policy := priority.Policy{Thresholds: priority.DefaultPolicy().Thresholds[:levels-1]}
	member, err := fleet.Join(client, &fleet.Options{Name: name, Store: priority.RedisOptions{Policy: policy, Timeout: -1}, Interval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close(t.Context()) })
	redistest.Await(t, "the report of "+name, func() bool {
		reports, err := fleet.Read(t.Context(), client, "")
		return err == nil && slices.ContainsFunc(reports, func(r fleet.Report) bool { return r.Name == name })
	})
	return member
}

func TestAChangeOfRulesSaysWhoObeys(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	holds(t, o.told("policy", "show"), "Operators have applied no policy: the workers' own options decide; no worker reports")
	join(t, client, "w1", 9)
	holds(t, o.told("policy", "apply", "default", "-why", "x"), "in force; the only worker obeys")
	join(t, client, "w2", 9)
	few := file(t, "few.json", `{"thresholds":[-20]}`)
	holds(t, o.told("policy", "apply", few, "-why", "x"), "in force; both workers obey before: version 1")
	join(t, client, "w4", 3)
	text := o.told("policy", "apply", "default", "-why", "x", "-json")
	got := objects(t, text)[0]["obey"].(map[string]any)
	other := got["others"].([]any)[0].(map[string]any)
	sameFields(t, got, map[string]any{"workers": 3., "obeying": 2.})
	sameFields(t, other, map[string]any{"name": "w4", "language": "go", "why": "its queue has 3 levels, the rules 9"})
	text = o.told("policy", "show")
	holds(t, text, "Policy: version 3, by ", "in force; 2 of 3 workers obey; w4 on host ", " does not: its queue has 3 levels, the rules 9")
	sameFields(t, objects(t, o.told("policy", "show", "-json"))[0], map[string]any{"version": 3., "why": "x"})
	holds(t, o.told("policy", "rollback", "2", "-why", "x"), "Version 4, applied: 2 levels", "in force; all 3 workers obey")
	holds(t, o.told("policy", "withdraw", "-why", "x"), "Version 5, the workers' own options decide again. in force; all 3 workers obey")
}

// Of a fleet that keeps rules that Redis lost, nothing says that its own options decide.
func TestRulesThatWorkersKeepAreNotCalledTheirOwnOptions(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	lost := fleet.Rules{Version: 5, Error: "Redis lost data: rules of version 5 were known, none are there"}
	for _, id := range []string{"1", "2"} {
		report(t, client, fleet.Report{ID: id, Name: "w" + id, Levels: 9, Overrides: true, Rules: lost})
	}
	const kept = "version 5, which Redis lost"
	text := o.told("policy", "show")
	holds(t, text, "Workers follow "+kept, "none of 2 workers obeys; w1 and w2 do not: Redis lost data")
	if strings.Contains(text, "own options decide") {
		t.Errorf("got %q", text)
	}
	holds(t, o.told("top", "-once"), "policy "+kept)
	if status, _, says := o.ask("get", "acme"); status != 0 || !strings.Contains(says, "priorityctl: workers follow "+kept+"; the levels below are by the module's default") {
		t.Errorf("get ended with %d and said %q", status, says)
	}
}

// What one worker knows and Redis does not is lost, whether or not the worker has found out.
func TestAnExportRefusesWhatRedisLost(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	o.told("override", "set", "acme", "-level", "2", "-for", "1h", "-why", "x")
	report(t, client, fleet.Report{ID: "1", Name: "w1", Levels: 9, Overrides: true, Rules: fleet.Rules{Version: 1}})
	o.told("control", "export")
	report(t, client, fleet.Report{ID: "2", Name: "w2", Levels: 9, Overrides: true, Rules: fleet.Rules{Version: 2}})
	report(t, client, fleet.Report{ID: "3", Name: "w3", Levels: 9, Overrides: true, Rules: fleet.Rules{Version: 1, Error: "Redis does not answer"}})
	o.refused(1, "w2 reports that Redis lost data: version 2 was known, 1 is there: nothing was exported", "control", "export")
	o.told("control", "export", "-yes")
}

// A process that hangs, or of a library that follows nothing, is waited for, and named.
func TestWhoDoesNotFollowIsNamed(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	report(t, client, fleet.Report{ID: "0123456789", Name: "old", Host: "b", Language: "python", Levels: 9, Rules: fleet.Rules{Version: 0}})
	began := time.Now()
	holds(t, o.told("policy", "apply", "default", "-why", "x"), "in force; the only worker does not obey; old on host b (python) does not: it still goes by its own options")
	if waited := time.Since(began); waited < 3*time.Second {
		t.Errorf("it was waited for %v", waited)
	}
}

func TestAnOverrideSaysWhoGoesByIt(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	member := join(t, client, "w1", 9)
	report(t, client, fleet.Report{ID: "0123456789", Name: "w4", Host: "b", Language: "nodejs", Levels: 9})
	set := func(customers ...string) []string {
		return append([]string{"set", "-level", "2", "-for", "1h", "-why", "x"}, customers...)
	}
	holds(t, o.told("override", set("acme")...), "in force; 1 of 2 workers obeys; w4 on host b (nodejs) does not: it does not read overrides")
	if d, err := member.Next(t.Context(), "acme"); err != nil || d.Level != 2 || d.RuleLevel != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	text := o.told("override", set("bakery", "clinic")...)
	holds(t, text, "2 overrides in force; 1 of 2 workers obeys; w4 on host b (nodejs) does not: it does not read overrides")
	if strings.Count(text, "obeys") != 1 {
		t.Errorf("got\n%s", text)
	}
}

func TestAnOverrideSaysWhatItDoesToWhom(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30})
	submit(t, client, "flood", 3000)
	report(t, client, fleet.Report{
		ID: "w1", Name: "w1", Levels: 9, Overrides: true, ByLoad: map[priority.Level]int64{1: 100, 4: 50, 8: 860},
		Busiest: []fleet.Busy{{Customer: "flood", Documents: 812, Rule: priority.ByLoad, Level: 8}},
	})
	pin := func(customer, level string) string {
		return o.told("override", "set", customer, "-level", level, "-for", "3s", "-why", "x")
	}
	holds(t, pin("nobody", "1"), ", for 3s (version 1)", "No change now: the next document has level 1 without it too.")
	holds(t, pin("first", "2"), ", for 3s (version 2)", "This is worse for first: the next document gets level 2 instead of 1.")
	holds(t, pin("acme", "2"), "This is better for acme: the next document gets level 2 instead of 9.")
	holds(t, pin("flood", "1"), "But others will wait: flood sent 812 of the fleet's 1,010 documents in the last minute and has 3,000 pending. "+
		"At level 1, 198 documents of others a minute, at levels 1 to 8, wait for its next ones.")
	got := objects(t, o.told("override", "set", "flood", "-not-later-than", "8", "-for", "1h", "-why", "x", "-json"))[0]
	sameFields(t, got["consequence"].(map[string]any), map[string]any{"from": 1., "to": 8.})
	// What cannot be read of the customer stops nobody.
	client.RPush(t.Context(), "priority:{list}:count", "x")
	if text := pin("list", "1"); strings.Contains(text, "worse") {
		t.Errorf("got\n%s", text)
	}
}

// How many levels the queue has is what the workers report, unless -levels says it.
func TestTheLevelsAreTheWorkersOwn(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	set := func(level string, more ...string) []string {
		return append([]string{"set", "acme", "-level", level, "-for", "1h", "-why", "x"}, more...)
	}
	o.refused(2, "-level 15: there is no such level; the queue's are 1 to 9, unless -levels says otherwise", "override", set("15")...)
	report(t, client, fleet.Report{ID: "w1", Name: "w1", Levels: 22, Overrides: true})
	report(t, client, fleet.Report{ID: "w2", Name: "w2", Levels: 9, Overrides: true})
	holds(t, o.told("override", set("15")...), "1 of 2 workers obeys; w2 does not: its queue has 9 levels: it gives level 9")
	o.refused(2, "the queue's are 1 to 22", "override", set("23")...)
	o.refused(2, "the queue's are 1 to 9", "override", set("15", "-levels", "9")...)
	turns := file(t, "turns.json", `{"turns":13}`)
	o.told("policy", "apply", turns, "-why", "x")
	holds(t, o.told("policy", "history"), "19 levels, 13 turns, reset after 25m since the last update")
}

func TestAListTellsWhatIsNotInForce(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	for customer, why := range map[string]string{"acme": "the demo", "bakery": "a flood", "clinic": "Their Contract"} {
		o.told("override", "set", customer, "-not-later-than", "4", "-for", "1h", "-why", why, "-by", "mary of "+customer)
	}
	client.Del(t.Context(), "priority:{acme}:override")
	client.Set(t.Context(), "priority:{bakery}:override", "=1", 0)
	text := o.told("override", "list")
	holds(t, text, `acme by "mary of acme": "the demo" not in force: its key is gone`, `not in force: its key holds "=1" instead`)
	if strings.Count(text, "not in force") != 2 {
		t.Errorf("got\n%s", text)
	}
	named := func(args ...string) string {
		var all []string
		for _, object := range objects(t, o.told("override", append([]string{"list", "-json"}, args...)...)) {
			all = append(all, fmt.Sprint(object["customer"], " ", object["in_force"]))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	for want, args := range map[string][]string{
		"acme false, bakery false, clinic true": nil,
		"acme false, bakery false":              {"-not-in-force"},
		"clinic true":                           {"-search", "contract"},
		"acme false":                            {"-search", "OF ACME"},
		"bakery false":                          {"-search", "bak", "-limit", "1"},
		"":                                      {"-search", "nobody"},
	} {
		if got := named(args...); got != want {
			t.Errorf("%q: got %q, not %q", args, got, want)
		}
	}
	holds(t, o.told("override", "list", "-search", "nobody"), "There is no such override.")
	o.refused(2, "-limit -1 is negative", "override", "list", "-limit", "-1")
	o.reading(o.told("override", "list", "-not-in-force", "-json")).told("override", "set", "-from", "-", "-why", "again")
	holds(t, o.told("override", "list", "-not-in-force"), "There is no such override.")
	if got := client.Get(t.Context(), "priority:{bakery}:override").Val(); got != "<=4" {
		t.Errorf("bakery's key holds %q", got)
	}
	client.Set(t.Context(), "priority:{dentist}:override", "=1", 0) // by somebody else
	holds(t, o.told("override", "end", "dentist", "-why", "x"), "dentist: the override has ended")
	if client.Exists(t.Context(), "priority:{dentist}:override").Val() != 0 {
		t.Error("it holds on")
	}
}

func TestOneCommandBringsAllBackAfterRedisWasEmptied(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	member := join(t, client, "w1", 9)
	few := file(t, "few.json", `{"thresholds":[-20],"tiers":{"gold":{"thresholds":[-50]}}}`)
	o.told("policy", "apply", few, "-why", "fewer levels", "-by", "mary")
	for _, customer := range []string{"acme", "\xff\xfe", "Müller & Co", "a\nb"} {
		o.told("override", "set", customer, "-not-later-than", "2", "-for", "2h", "-why", "why …", "-by", "tom")
	}
	o.told("override", "set", "short", "-level", "1", "-for", "1ms", "-why", "x")
	settings := func() (all []string) {
		for _, object := range objects(t, o.told("override", "list", "-json")) {
			for _, field := range []string{"version", "at", "left_ms", "until"} {
				delete(object, field)
			}
			all = append(all, fmt.Sprint(object))
		}
		slices.Sort(all)
		current := objects(t, o.told("policy", "show", "-json"))[0]
		return append(all, fmt.Sprint(current["by"], current["why"], current["policy"]))
	}
	ends := func() (until time.Time) {
		_ = until.UnmarshalText([]byte(objects(t, o.told("override", "list", "-json"))[0]["until"].(string)))
		return until
	}
	until := ends()
	before, exported := settings(), o.told("control", "export")
	if objects(t, exported)[0]["format"] != 1. {
		t.Errorf("got %s", exported)
	}
	backup := file(t, "control.json", exported)

	client.FlushAll(t.Context())
	var refused string
	redistest.Await(t, "the report of the loss", func() (done bool) {
		var status int
		status, _, refused = o.ask("control", "export")
		return status == exitFailed
	})
	if !strings.Contains(refused, "priorityctl: w1 on host ") || !strings.Contains(refused, " reports that Redis lost data: ") || !strings.Contains(refused, ": nothing was exported; ") {
		t.Errorf("export says %q", refused)
	}
	for _, look := range []string{"log", "override list", "policy history"} {
		words := strings.Fields(look)
		o.warned("w1 on host ", words[0], words[1:]...)
	}
	if got := objects(t, o.told("control", "export", "-yes"))[0]; got["version"] != 0. {
		t.Errorf("got %v", got)
	}
	holds(t, o.told("control", "import", backup, "-why", "Redis was empty", "-by", "ann"),
		"the policy is back; 4 overrides in force (version ", "policy: in force; the only worker obeys")
	if after := settings(); !slices.Equal(after, before) {
		t.Errorf("got\n%q\nnot\n%q", after, before)
	}
	if moved := ends().Sub(until).Abs(); moved > time.Minute {
		t.Errorf("the ends have moved by %v", moved)
	}
	if d, err := member.Next(t.Context(), "acme"); err != nil || d.RuleLevel == 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if status := member.Report().Rules; status.Error != "" || status.Version == 0 {
		t.Errorf("a member follows %+v", status)
	}
	holds(t, o.told("log", "-n", "100"), `by ann acme overridden`, `"Redis was empty"`)

	// Again, and with something set meanwhile.
	o.told("override", "set", "acme", "-level", "7", "-for", "1h", "-why", "since then")
	got := objects(t, o.told("control", "import", backup, "-why", "once more", "-json"))[0]
	sameFields(t, got, map[string]any{"kept": 1.})
	if text := o.told("override", "list", "-search", "acme"); !strings.Contains(text, "pinned to level 7") {
		t.Errorf("got\n%s", text)
	}
}

func TestAnImportRefusesWhatExportDidNotPrint(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	for text, want := range map[string]string{
		"":                                   "it is not JSON",
		"[]":                                 "it is a list, not an object",
		"{}":                                 "the file is no backup of control",
		`{"format":1,"overrides":[]}`:        "this file holds no policy and no overrides: is it the right one?",
		`{"format":2,"overrides":[]}`:        "later version",
		`{"format":1,"overrides":[{"x":1}]}`: "",
	} {
		status, _, stderr := o.reading(text).ask("control", "import", "-", "-why", "x")
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d, %s", text, status, stderr)
		}
		saysNoGo(t, []string{"control", "import", text}, stderr)
	}
	o.refused(2, "-why is missing", "control", "import", "-")
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("there are %q", keys)
	}
	// What cannot be read is left out, and said.
	o.told("override", "set", "acme", "-level", "1", "-for", "1h", "-why", "x")
	client.HSet(t.Context(), "priority:{control}:overrides", "junk", "x")
	status, stdout, stderr := o.ask("control", "export")
	if got := objects(t, stdout); status != exitSomeFailed || len(got) != 1 || len(got[0]["overrides"].([]any)) != 1 || !strings.Contains(stderr, "junk") {
		t.Errorf("exit status %d, %s%s", status, stdout, stderr)
	}
	saysNoGo(t, []string{"control", "export"}, stderr)
}
