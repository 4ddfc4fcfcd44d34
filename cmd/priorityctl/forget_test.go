package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
)

// Nothing that a command prints names the customer any more, whatever the name consists of.
func TestForgetRemovesACustomerFromAllCommands(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	odd := []string{"acme\n", "}%", "\xff\xfe", "a{b}"}
	for _, customer := range append([]string{"acme", "acme 2"}, odd...) {
		count(t, client, map[string]int{customer: 30})
		submit(t, client, customer, 3)
		o.told("override", "set", customer, "-level", "2", "-for", "1h", "-why", "x")
		o.told("reset", "-yes", customer)
		submit(t, client, customer, 2)
	}
	o.refused(2, "give -yes", "forget", "acme", "-why", "x")
	o.refused(2, "-why is missing", "forget", "-yes", "acme")
	o.refused(2, "priorityctl: -why names the customer", "forget", "-yes", "acme", "-why", "Acme has left")
	o.refused(2, "invalid customer", "forget", "-yes", "", "-why", "x")
	if got := o.told("forget", "-yes", "acmee", "-why", "x"); got != "acmee: nothing was known of it: is it spelt right?\n" {
		t.Errorf("it says %q", got)
	}
	if got := o.told("forget", "-yes", "acme", "-why", "ticket 4711", "-by", "mary"); got != "acme: forgotten (2 pending, 2.0 submitted recently, pinned to level 2; 2 changes in the log)\n" {
		t.Errorf("it says %q", got)
	}
	holds(t, o.told("log", "-n", "1"), "by mary", "a customer forgotten", `"ticket 4711"`)
	if got := objects(t, o.told("forget", "-yes", "-json", "acme", "-why", "again")); len(got) != 1 || got[0]["forgotten"] != true || got[0]["held"] != "nothing" || got[0]["keys"] != 0. || got[0]["entries"] != 0. || got[0]["version"] != 15. {
		t.Errorf("got %v", got)
	}
	if text := o.told("log", "-customer", "acme") + o.told("override", "list", "-search", "acme", "-json") + o.told("control", "export"); strings.Contains(text, `"acme"`) || !strings.Contains(text, "acme 2") {
		t.Errorf("got\n%s", text)
	}
	all := objects(t, o.told("forget", append([]string{"-yes", "-json", "-why", "x", "--"}, odd...)...))
	for i, one := range all {
		if name := insight.NameOf(odd[i]); one["customer"] != name.Customer || one["entries"] != 2. || one["keys"] != 2. {
			t.Errorf("%q: %v", odd[i], one)
		}
	}
	if keys := client.Keys(t.Context(), "priority:{[^c]*").Val(); len(keys) != 2 || !strings.Contains(keys[0], "{acme 2}") || len(all) != 4 {
		t.Errorf("left are %q", keys)
	}
	o.told("log") // and -from takes the log, whose entries may have no customer
	o.reading(o.told("log", "-json", "-n", "100")).told("override", "end", "-from", "-", "-why", "x")
}

// Who may not do all of it does nothing, or hears that it is half done, and what is missing.
func TestForgetWithoutRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	boss := operatorOn(t, "-redis", "redis://"+server.Addr)
	keys := func() []string {
		keys := server.Client().Keys(t.Context(), "*").Val()
		slices.Sort(keys)
		return keys
	}
	count(t, server.Client(), map[string]int{"acme": 30})
	boss.told("override", "set", "acme", "-level", "2", "-for", "1h", "-why", "x")
	before := keys()
	all := insight.PeekRights + " " + insight.ControlWriteRights + " "
	operator := userOf(t, server, "operator", "~priority:* "+all)
	operator.refused(1, "+llen +xadd +pexpire +persist +rename +xrange on the keys ~priority:{control}:*", "forget", "-yes", "acme", "-why", "x")
	if after := keys(); !slices.Equal(after, before) {
		t.Errorf("the keys are %q", after)
	}
	half := userOf(t, server, "half", "~priority:{control}:* %R~priority:{*}:* "+all+insight.ForgetRights)
	half.refused(1, "forgotten in part: version 2:", "forget", "-yes", "acme", "-why", "x")
	half.refused(1, "run the same command again when that is settled", "forget", "-yes", "acme", "-why", "x")
	full := userOf(t, server, "full", "~priority:* "+all+insight.ForgetRights)
	full.told("forget", "-yes", "acme", "-why", "x")
	if after := keys(); !slices.Equal(after, []string{"priority:{control}:log", "priority:{control}:version"}) {
		t.Errorf("the keys are %q", after)
	}
}
