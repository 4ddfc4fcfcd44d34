package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// worker is a store that follows what operators set.
func worker(t *testing.T, client *redis.Client) *control.Store {
	t.Helper()
	store, err := control.New(client, &control.Options{Store: priority.RedisOptions{Timeout: -1}, Interval: time.Minute}) // next reads, and nothing in the background
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(t.Context()) })
	return store
}

// next counts a document as a worker does that knows all that operators have set.
func next(t *testing.T, store *control.Store, customer string) priority.Decision {
	t.Helper()
	if err := store.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	decision, err := store.Next(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	return decision
}

func TestAnOverrideIsSetToldFollowedAndEnded(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	store := worker(t, client)
	count(t, client, map[string]int{"acme": 30, "bakery": 5})
	before := o.told("get", "acme", "bakery", "-json")

	holds(t, o.told("override", "list"), "There is no override.")
	holds(t, o.told("override", "set", "acme", "-level", "2", "-for", "2h", "-why", "the demo at six", "-by", "mary"),
		"acme: pinned to level 2 until ", " UTC, for 2h (version 1)")
	holds(t, o.told("get", "acme"),
		"override pinned to level 2, for ", "more next level 2 of 1 to 9; by the rule 9: count < -20",
		"acme has an override until ", `by mary: "the demo at six": pinned to level 2. The next document gets level 2. Queued documents keep their level. Without the override: acme is slow because of 30 documents`)
	if d := next(t, store, "acme"); d.Level != 2 || d.RuleLevel != 9 {
		t.Errorf("a worker gives %+v", d)
	}
	got := objects(t, o.told("get", "acme", "-json"))[0]
	sameFields(t, got, map[string]any{"level": 9., "next_level": 2., "rule_level": 9.})
	sameFields(t, got["override"].(map[string]any), map[string]any{
		"earliest": 2., "latest": 2., "says": "pinned to level 2", "by": "mary", "why": "the demo at six", "version": 1.,
	})
	fits(t, o.told("top")+o.told("list"))
	if text := o.told("list", "-level", "2"); !strings.Contains(text, "  acme, overridden\n") || strings.Contains(text, "bakery") {
		t.Errorf("got\n%s", text)
	}

	holds(t, o.told("override", "set", "acme", "-not-later-than", "4", "-for", "24h", "-why", "their contract", "-by", "tom"),
		"acme: level 4 at the latest until ", "(version 2) in force; no worker reports, so who obeys is not known This is worse for acme: the next document gets level 4 instead of 2. before: pinned to level 2 for ", `more, by mary: "the demo at six" (version 1)`)
	if text := o.told("override", "set", "bakery", "-not-earlier-than", "9", "-for", "30m", "-why", "a test run", "-json"); !strings.Contains(text, `"replaced":null`) || !strings.Contains(text, `"earliest":9`) {
		t.Errorf("got %s", text)
	}
	if d := next(t, store, "bakery"); d.Level != 9 || d.RuleLevel != 3 {
		t.Errorf("a worker gives %+v", d)
	}
	holds(t, o.told("override", "list"), "VERSION LEFT OVERRIDE CUSTOMER 3 ", "level 9 at the earliest bakery", `level 4 at the latest acme by tom: "their contract"`)
	o.told("override", "end", "bakery", "-why", "done")
	holds(t, o.told("override", "end", "acme", "-why", "done", "-by", "ann"), "acme: the override has ended (version 5) before: level 4 at the latest")
	o.refused(1, "acme: there is no override", "override", "end", "acme", "-why", "again")
	holds(t, o.told("log"), "5 20", "by ann acme override ended (before: level 4 at the latest)",
		"acme overridden: level 4 at the latest, for 24h (before: pinned to level 2)", `bakery overridden: level 9 at the earliest, for 30m`)
	holds(t, o.told("log", "-customer", "bakery", "-n", "1"), "4 20", "bakery override ended")
	if d := next(t, store, "acme"); d.Level != 9 || d.RuleLevel != 9 {
		t.Errorf("a worker gives %+v", d)
	}

	// Without what operators set, get says what it said before.
	count(t, client, map[string]int{"later": 1})
	if after := objects(t, o.told("get", "acme", "bakery", "-json")); len(after[0]) != len(objects(t, before)[0]) || after[0]["override"] != nil {
		t.Errorf("got %v", after)
	}
}

// Who is called at midnight sees which version is bad, and that it is gone.
func TestABadPolicyIsSeenAndRolledBack(t *testing.T) {
	t.Parallel()
	o, _ := started(t)
	bad := file(t, "bad.json", `{"loads":[0.000001,0.000002,0.000003,0.000004,0.000005,0.000006,0.000007,0.000008],"tiers":{"gold":{"thresholds":[5,2]}}}`)
	const harsh = "priorityctl: bad.json: by load, by count in tier gold, even a new customer's first document is beyond the last number of the table"
	o.told("policy", "apply", "default", "-why", "first")
	o.warned(harsh, "policy", "apply", bad, "-why", "oh no")
	alone(t).warned(harsh, "policy", "check", bad)
	const says = "9 levels, loads 0.000001,0.000002,0.000003,…,0.000006,0.000007,0.000008, reset after 25m since the last update, tier gold: thresholds 5,2, 3 levels"
	holds(t, o.told("policy", "history"), says, "9 levels, reset after 25m since the last update")
	holds(t, o.told("log", "-n", "1"), "policy applied: "+says+" (before: 9 levels, reset after")
	if text := o.told("policy", "show"); !strings.Contains(text, "load > 0.000008") {
		t.Errorf("got\n%s", text)
	}
	holds(t, o.told("policy", "rollback", "1", "-why", "too harsh"), "Version 3, applied: 9 levels, reset")
	for _, held := range []string{"3", "1"} {
		holds(t, o.told("policy", "rollback", held, "-why", "again"), "Version 3, which holds, has these rules, so nothing was changed: 9 levels, reset after 25m since the last update. in force;")
	}
	sameFields(t, objects(t, o.told("policy", "rollback", "1", "-why", "again", "-json"))[0], map[string]any{"version": 3., "replaced": nil})
	holds(t, o.told("policy", "history"), "current 9 levels, reset after 25m since the last update; as version 1")
	holds(t, o.told("log"), "policy applied again, as in version 1: 9 levels, reset")
	if n := len(objects(t, o.told("log", "-json"))); n != 3 {
		t.Errorf("the log has %d entries", n)
	}
}

func TestAPolicyIsComparedBeforeItIsApplied(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	store := worker(t, client)
	wider := file(t, "wider.json", `{"thresholds":[-2,-20],"tiers":{"gold":{"thresholds":[]}}}`)
	if _, err := store.NextN(t.Context(), "acme", 31); err != nil {
		t.Fatal(err)
	}
	holds(t, o.told("policy", "compare", "current", wider, "-live"), "A: the module's default: operators have applied none", "B: wider.json", "Tier gold",
		"The order of 1 customer does not change.")
	o.told("policy", "apply", wider, "-why", "it is kind", "-by", "mary")
	if d := next(t, store, "acme"); d.Level != 3 {
		t.Errorf("a worker gives %+v", d)
	}
	holds(t, o.told("get", "acme"), "level 3 of 1 to 3", "policy version 1, by mary")
	holds(t, o.told("policy", "apply", "default", "-why", "oh no", "-by", "tom"), "Version 2, applied: 9 levels", `before: version 1, 3 levels, thresholds -2,-20, reset after 25m since the last update, tier gold: thresholds none, 1 level, by mary at`)
	holds(t, o.told("policy", "history"), "by tom current", "9 levels, reset after 25m since the last update", `"it is kind"`)
	holds(t, o.told("policy", "rollback", "1", "-why", "again"), "Version 3, applied: 3 levels")
	if d := next(t, store, "acme"); d.Level != 3 {
		t.Errorf("a worker gives %+v", d)
	}
	o.refused(1, "there is no version 9 in policy history", "policy", "rollback", "9", "-why", "x")
	o.refused(2, `"v4" is not a version`, "policy", "rollback", "v4", "-why", "x")
	holds(t, o.told("policy", "withdraw", "-why", "no more"), "Version 4, the workers' own options decide again.")
	if d := next(t, store, "acme"); d.Level != 9 {
		t.Errorf("a worker gives %+v", d)
	}
}

func TestOfTwoOperatorsOneIsToldOfTheOther(t *testing.T) {
	t.Parallel()
	o, _ := started(t)
	o.told("override", "set", "acme", "-level", "1", "-for", "1h", "-why", "the demo", "-by", "mary")
	// Tom has looked before mary did.
	o.refused(1, `changed meanwhile by mary at `, "override", "set", "acme", "-level", "9", "-for", "1h", "-why", "a flood", "-by", "tom", "-replaces", "0")
	o.refused(1, `acme overridden: pinned to level 1, for 1h, "the demo" (version 1); look again`, "override", "end", "acme", "-why", "a flood", "-replaces", "7")
	o.told("policy", "apply", "default", "-why", "one", "-by", "mary")
	o.refused(1, `changed meanwhile by mary`, "policy", "apply", "default", "-why", "two", "-by", "tom", "-replaces", "1")
	o.told("policy", "apply", "default", "-why", "two", "-by", "tom", "-replaces", "2")
	_, stdout, _ := o.ask("override", "set", "-json", "acme", "-level", "9", "-for", "1h", "-why", "x", "-replaces", "0")
	if got := objects(t, stdout); got[0]["customer"] != "acme" || !strings.Contains(got[0]["error"].(string), "by mary") {
		t.Errorf("got %v", got)
	}
	if text := o.told("log", "-json"); len(objects(t, text)) != 3 {
		t.Errorf("a change that was refused is in the log:\n%s", text)
	}
}

// What one command prints in JSON, others read.
func TestJSONGoesFromOneCommandIntoAnother(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	odd := []string{"}%", "Müller & Co", "\x1b[2J", "\xff\xfe", "a\nb", `"quoted"`, "<script>alert(1)</script>", strings.Repeat("x", 512)}
	documents := make(map[string]int)
	for _, customer := range odd {
		documents[customer] = 30
	}
	count(t, client, documents)
	keys := func() []string {
		all := client.HKeys(t.Context(), "priority:{control}:overrides").Val()
		slices.Sort(all)
		return all
	}
	want := slices.Sorted(slices.Values(odd))

	o.reading(o.told("list", "-level", "9", "-json")).told("override", "set", "-from", "-", "-not-later-than", "5", "-for", "1h", "-why", "an import")
	if !slices.Equal(keys(), want) {
		t.Fatalf("got %q", keys())
	}
	text := o.told("override", "list") + o.told("log", "-n", "100")
	if strings.Contains(text, "\x1b") || !strings.Contains(text, `"\xff\xfe"`) || !strings.Contains(text, `"\x1b[2J"`) {
		t.Errorf("got\n%s", text)
	}
	list, got, log := o.told("override", "list", "-json"), o.told("get", "-json", odd[0]), o.told("log", "-n", "100", "-json")
	ended := o.reading(list).told("override", "end", "-from", "-", "-why", "over", "-json")
	for name, lines := range map[string]string{"list": list, "log": log, "what has ended": ended} {
		o.reading(lines).told("override", "set", "-from", "-", "-why", "as before")
		if !slices.Equal(keys(), want) {
			t.Fatalf("%s: got %q", name, keys())
		}
		for _, object := range objects(t, o.told("override", "list", "-json")) {
			if object["latest"] != 5. || object["why"] != "as before" || object["left_ms"].(float64) > 3_600_000 {
				t.Errorf("%s: got %v", name, object)
			}
		}
		o.reading(o.told("override", "list", "-json")).told("override", "end", "-from", "-", "-why", "over")
	}
	o.reading(got).told("override", "set", "-from", "-")
	o.reading(got).told("override", "end", "-from", "-", "-why", "over")
	if len(keys()) != 0 {
		t.Fatalf("got %q", keys())
	}

	policy := alone(t).told("policy", "-thresholds", "-2,-9", "-reset-mode", "last-reset", "-json")
	apply := func(lines string) {
		t.Helper()
		o.reading(lines).told("policy", "apply", "-", "-why", "x")
		if got := objects(t, o.told("policy", "history", "-json"))[0]["policy"]; fmt.Sprint(got) != fmt.Sprint(objects(t, policy)[0]) {
			t.Errorf("%s gives %v", lines, got)
		}
		o.told("policy", "apply", "default", "-why", "between")
	}
	apply(policy)
	_, second, _ := strings.Cut(o.told("policy", "history", "-json"), "\n")
	apply(second)
	apply(o.told("policy", "apply", file(t, "a.json", policy), "-why", "x", "-json"))
	apply(strings.SplitN(o.told("log", "-n", "2", "-json"), "\n", 3)[1])
	apply(alone(t).told("policy", "check", file(t, "a.json", policy), "-json"))

	apply(`{"call":"Next","policy":{"thresholds":[-2,-9],"reset_mode":"last-reset"},"reason":"no difference"}`) // as lab's tune prints it

	for stdin, want := range map[string]string{
		"":                          "not a policy",
		"null":                      "null",
		`{"policy":null}`:           "null",
		policy + policy:             "behind its object",
		`{"thresholds":[-1],"x":1}`: "unknown field",
		`{"thresholds":[-1,-2,-3,-4,-5,-6,-7,-8,-9]}`:              "its queue has 9 levels, the rules 10",
		`{"thresholds":[-1],"tiers":{"g":{"thresholds":[-1,-2]}}}`: `tier "g" has 3 levels`,
	} {
		o.reading(stdin).refused(2, want, "policy", "apply", "-", "-why", "x")
	}
	o.reading(`{"thresholds":[-1,-2,-3,-4,-5,-6,-7,-8,-9]}`).told("policy", "apply", "-", "-why", "x", "-levels", "10")
	o.told("override", "list")
	o.told("policy", "history")
	holds(t, o.warned("without what operators have set: ", "get", "acme"), "the module's default")
	o.warned("by -policy", "get", "acme")
}

func TestAWrongChangeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	o, _ := started(t)
	set := func(args ...string) []string { return append([]string{"set"}, args...) }
	for want, args := range map[string][]string{
		"-why is missing":                 set("acme", "-level", "1", "-for", "1h"),
		"-for is missing":                 set("acme", "-level", "1", "-why", "x"),
		"-level, -not-later-than or":      set("acme", "-for", "1h", "-why", "x"),
		"give one of":                     set("acme", "-level", "1", "-not-later-than", "2", "-for", "1h", "-why", "x"),
		"levels begin at 1":               set("acme", "-level", "0", "-for", "1h", "-why", "x"),
		"is not from 1ms to 720h":         set("acme", "-level", "1", "-for", "721h", "-why", "x"),
		"there is no such level":          set("acme", "-level", "10", "-for", "1h", "-why", "x"),
		"name a customer":                 set("-level", "1", "-for", "1h", "-why", "x"),
		"invalid customer":                set("", "-level", "1", "-for", "1h", "-why", "x"),
		"-replaces is for one customer":   set("a", "b", "-level", "1", "-for", "1h", "-why", "x", "-replaces", "1"),
		"is not UTF-8 of 1 to 1000 bytes": set("a", "-level", "1", "-for", "1h", "-why", strings.Repeat("x", 1001)),
		"is not UTF-8 of 1 to 200 bytes":  set("a", "-level", "1", "-for", "1h", "-why", "x", "-by", strings.Repeat("x", 201)),
		"not both":                        set("a", "-from", "x", "-level", "1", "-for", "1h", "-why", "x"),
		"no such file":                    set("-from", "no-such-file", "-level", "1", "-for", "1h", "-why", "x"),
		"-levels 0":                       set("acme", "-level", "1", "-for", "1h", "-why", "x", "-levels", "0"),
	} {
		o.refused(2, want, "override", args...)
	}
	for stdin, want := range map[string]string{
		"":                                       "there is no customer",
		`{"customer":""}`:                        "names no customer",
		`{"customer":"a","error":"oh"}`:          "is a failure",
		`{"customer":"a"} x`:                     "object 2",
		`{"customer":"a"}`:                       "no override",
		`{"customer":"a","customer_base64":"%"}`: "customer_base64: it is not",
		`{"customer":"a","customer_base64":"Yg=="}`:               "customer is a, and customer_base64 is b",
		`{"customer":"a","customer_base64":"/w=="}`:               "customer_base64 is",
		`{"busiest":[{"customer":"a","customer_base64":"Yg=="}]}`: "customer is a",
		"{\"customer\":\"a\"}\n{\"customer\":\"\xff\"}":           "line 2 is not UTF-8",
		`{"busiest":[]}`: "no customer in it",
		`{"kind":"override","says":"x","version":2,"customer":"a"}{"kind":"override","says":"x","version":1,"customer":"a","new":{"latest":3}}`: "has an override any more",
		`{"customer":"a","latest":3}`:                                          "give -for",
		`{"customer":"a","latest":3,"until":"2020-01-01T00:00:00Z","why":"x"}`: "give -for",
	} {
		o.reading(stdin).refused(2, want, "override", "set", "-from", "-", "-why", "x")
	}
	o.refused(2, "-why is missing", "policy", "apply", "default")
	o.refused(2, "-n 0", "log", "-n", "0")
	o.refused(2, "-examples", "policy", "compare", "default", "default", "-examples", "-1")
	if text := o.told("log"); text != "Nothing was changed.\n" {
		t.Errorf("got %s", text)
	}
}

func TestTheCustomersOfTopOfAComparisonAndOfTheLogAreTaken(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30, "bakery": 5, "\xff": 30})
	overridden := func() (all []string) {
		for _, object := range objects(t, o.told("override", "list", "-json")) {
			all = append(all, fmt.Sprint(object["customer"], " ", object["says"]))
		}
		slices.Sort(all)
		return all
	}
	few := file(t, "few.json", `{"thresholds":[-20],"tiers":{"gold":{"thresholds":[-50]}}}`)
	one := file(t, "one.json", `{"thresholds":[]}`)
	report(t, client, fleet.Report{ID: "w1", Levels: 9, Busiest: []fleet.Busy{{Customer: "acme", Documents: 30, Level: 9}, {Customer: "bakery", Documents: 5, Level: 2}, {Customer: "\xff", Documents: 30, Level: 9}}})
	top, compared := o.told("top", "-json"), o.told("policy", "compare", one, "current", "-live", "-json")
	for name, text := range map[string]string{"top": top, "compare": compared} {
		o.reading(text).told("override", "set", "-from", "-", "-level", "2", "-for", "1h", "-why", "x")
		if got := overridden(); len(got) != 3 || got[0] != "acme pinned to level 2" {
			t.Errorf("%s: got %q", name, got)
		}
		o.reading(text).told("override", "end", "-from", "-", "-why", "x")
	}

	o.told("override", "set", "acme", "-level", "1", "-for", "1h", "-why", "first")
	o.told("override", "set", "acme", "-level", "3", "-for", "1h", "-why", "second")
	o.told("override", "set", "bakery", "-level", "4", "-for", "1h", "-why", "for a moment")
	o.told("override", "end", "bakery", "-why", "over")
	o.told("policy", "apply", few, "-why", "x")
	log := o.told("log", "-n", "100", "-json")
	o.told("override", "end", "acme", "-why", "x")
	o.reading(log).told("override", "set", "-from", "-", "-why", "as before")
	if got := overridden(); !slices.Equal(got, []string{"acme pinned to level 3"}) {
		t.Errorf("got %q", got)
	}

	// The policy of one customer is not the fleet's. That of top is, with its tiers.
	o.reading(o.told("get", "acme", "-json")).refused(2, "of one customer, acme", "policy", "apply", "-", "-why", "x")
	if text := o.told("top", "-json"); !strings.Contains(text, `"tiers":{"gold":{"thresholds":[-50]`) {
		t.Errorf("got %s", text)
	}
}

func TestWithoutTheRightsNothingIsChangedAndResetGoesOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	count(t, server.Client(), map[string]int{"acme": 30})
	boss := operatorOn(t, "-redis", "redis://"+server.Addr)
	boss.told("override", "set", "acme", "-level", "2", "-for", "1h", "-why", "x")
	// As docs/operate.md spells them out.
	reader := userOf(t, server, "reader", "~priority:* "+insight.PeekRights+" "+insight.ReportRights+" "+insight.ControlReadRights)
	holds(t, reader.told("get", "acme")+reader.told("override", "list")+reader.told("log"), "pinned to level 2")
	reader.told("policy", "history")
	for _, args := range [][]string{
		{"override", "set", "acme", "-level", "1", "-for", "1h", "-why", "x"}, {"override", "end", "acme", "-why", "x"},
		{"policy", "apply", "default", "-why", "x"},
	} {
		reader.refused(1, "it needs +evalsha", args[0], args[1:]...)
	}
	// Who may write it down, but not beside the customer's numbers, is told so.
	half := userOf(t, server, "half", "~priority:{control}:* %R~priority:{*}:* ~priority:{fleet}:* "+insight.PeekRights+" "+insight.ReportRights+" "+insight.ControlWriteRights)
	half.refused(1, "it needs +set +unlink on the keys ~priority:{*}:override; run the same command again when that is settled", "override", "set", "bakery", "-level", "1", "-for", "1h", "-why", "x")
	holds(t, boss.told("override", "list", "-not-in-force"), "bakery by ", "not in force")
	boss.told("override", "end", "bakery", "-why", "x")
	none := userOf(t, server, "none", "~priority:{acme}:* "+insight.PeekRights+" +unlink")
	if text := none.warned("without what operators have set: ", "get", "acme"); !strings.Contains(text, "pinned to level 2") {
		t.Errorf("got\n%s", text)
	}
	none.warned("it needs "+insight.ControlReadRights, "get", "acme")
	none.refused(1, "+hgetall", "override", "list")
	none.refused(1, "+xrevrange", "log")
	none.refused(1, "+xrevrange", "policy", "show")
	none.refused(1, "+xrevrange", "control", "export")
	holds(t, none.warned("priorityctl: acme was reset; the log could not be written: ", "reset", "-yes", "acme"), "acme: reset")
	operator := userOf(t, server, "operator", "~priority:* "+insight.PeekRights+" "+insight.ControlWriteRights)
	holds(t, operator.told("policy", "show"), "who obeys is not known: cannot read", "it needs "+insight.ReportRights)
	operator.told("override", "set", "acme", "-level", "1", "-for", "1h", "-why", "x")
	operator.told("override", "end", "acme", "-why", "x")
	operator.told("policy", "apply", "default", "-why", "x")
	operator.told("policy", "withdraw", "-why", "x")
	operator.told("policy", "rollback", "6", "-why", "x")
	operator.told("reset", "-yes", "acme", "-why", "a wrong flood", "-by", "mary")
	holds(t, operator.told("log", "-n", "1"), `by mary acme reset "a wrong flood"`)
	if got := objects(t, operator.told("reset", "-yes", "-json", "acme")); got[0]["version"] != 10. {
		t.Errorf("got %v", got)
	}
}

func TestAnotherProgramsKeyIsNamed(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30})
	for _, key := range []string{"priority:{control}:rules", "priority:{control}:overrides"} {
		client.Set(t.Context(), key, "x", 0)
	}
	holds(t, o.warned(`corrupt: "priority:{control}:rules"`, "get", "acme"), "level 9")
	o.refused(1, `corrupt: "priority:{control}:overrides"`, "override", "list")
	o.refused(1, `"priority:{control}:overrides"`, "override", "set", "acme", "-level", "1", "-for", "1h", "-why", "x")
	o.refused(1, `corrupt: "priority:{control}:rules"`, "policy", "apply", "default", "-why", "x")
	client.Set(t.Context(), "priority:{control}:version", "x", 0)
	holds(t, o.warned("the log could not be written", "reset", "-yes", "acme"), "acme: reset")
}

// Compare goes by who overtakes whom, and needs no Redis unless it looks at customers.
func TestCompareGoesByTheOrderOfLiveCustomers(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	documents := make(map[string]int)
	for i := range 300 {
		documents[fmt.Sprint("customer ", i)] = 1 + i%30
	}
	count(t, client, documents)
	merged := file(t, "merged.json", `{"thresholds":[-6,-12]}`)
	holds(t, o.told("policy", "compare", "default", merged, "-live"), "≤ -21 9 3 merged",
		"merged: one level with the row above by B, and two by A.",
		"Of 300 customers, none would overtake another: levels are merged. In 11,600 of 44,850 pairs (25.9 %), two levels become one.",
		"A → B CUSTOMERS BEFORE AFTER 1 → 1 20 0 0", "9 → 3 100 0 0")
	kinder := file(t, "kinder.json", `{"thresholds":[-2,-4,-6,-8,-10,-12,-14,-24],"tiers":{"gold":{"thresholds":[-50]}}}`)
	// Counts of -21 to -24 join those of -15 to -20, and go before those from -25 on.
	holds(t, o.told("policy", "compare", "default", kinder, "-live", "-examples", "4"), "-21 to -24 9 8 merged", "≤ -25 9 9 split", "Some customers of different tiers change places",
		"Of 300 customers, 40 would move forward, and 60 back. The order of 4,800 of 44,850 pairs (10.7 %) changes: 0 reversed, 2,400 split, 2,400 merged.",
		"8 → 8 60 0 0 9 → 8 40 60 0 9 → 9 60 0 40", "A → B COUNT/LOAD BEFORE AFTER FOR EXAMPLE 9 → 8")
	var object struct {
		Live struct {
			Customers, Forward, Back int
			Examples                 []struct{ Customer string }
		}
	}
	if err := json.Unmarshal([]byte(o.told("policy", "compare", "default", kinder, "-live", "-json", "-pace", "0")), &object); err != nil || object.Live.Customers != 300 ||
		object.Live.Forward != 40 || object.Live.Back != 60 || len(object.Live.Examples) != 10 {
		t.Errorf("%v: %+v", err, object)
	}
	away := alone(t).with(urlVariable, "redis://127.0.0.1:1")
	holds(t, away.told("policy", "compare", "default", kinder), "Tier gold")
	away.refused(3, "cannot reach", "policy", "compare", "default", "current")
	for _, args := range [][]string{{"override", "list"}, {"log"}, {"policy", "history"}, {"policy", "apply", "default", "-why", "x"}} {
		away.refused(3, "cannot reach", args[0], args[1:]...)
	}
}

func TestTheHelpOfEveryChangeSaysHowConflictsEnd(t *testing.T) {
	t.Parallel()
	o := alone(t)
	for _, args := range [][]string{{"override", "set"}, {"override", "end"}, {"policy", "apply"}, {"policy", "rollback"}, {"policy", "withdraw"}} {
		holds(t, o.told(args[0], append(args[1:], "-help")...), "-replaces", "the exit status is 1", "Workers follow within 1s.", passwordVariable)
	}
}
