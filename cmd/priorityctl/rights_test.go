package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
)

// Redis refuses nothing to who has the rights of docs/redis.md: to a reader in all that
// changes nothing, to an operator in all that priorityctl does. And each command that is
// granted is called.
func TestTheDocumentedRightsAreEnoughForTheTools(t *testing.T) {
	t.Parallel()
	looks := [][]string{
		{"get", "acme"}, {"get", "clinic"}, {"get", "corrupt"}, {"top", "-once"}, {"workers"}, {"list"}, {"list", "-corrupt"}, {"log"}, {"override", "list"},
		{"policy", "show"}, {"policy", "history"}, {"policy", "compare", "default", "current", "-live"}, {"control", "export"},
	}
	changes := [][]string{
		{"ping"}, {"override", "set", "acme", "-level", "2", "-for", "1h", "-why", "x"}, {"override", "end", "acme", "-why", "x"},
		{"policy", "apply", file(t, "team.json", `{"thresholds":[-2,-9]}`), "-why", "x"}, {"policy", "withdraw", "-why", "x"}, {"policy", "rollback", "4", "-why", "x"},
		{"reset", "-yes", "acme"}, {"reset", "-yes", "corrupt"}, {"forget", "-yes", "clinic", "-why", "x"},
	}
	for user, commands := range map[string][][]string{"reader": looks, "operator": slices.Concat(looks, changes)} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			admin, ctx := server.Client(), t.Context()
			keys, granted := markdown.Read(t, "../../docs/redis.md").Rights(t, user)
			o := userOf(t, server, user, strings.Join(slices.Concat(keys, granted), " "))
			count(t, admin, map[string]int{"acme": 30})
			submit(t, admin, "clinic", 11)
			working(t, admin, counting(), submitting())
			if err := admin.HSet(ctx, "priority:{corrupt}:pending", "of", "another type").Err(); err != nil {
				t.Fatal(err)
			}
			everybody := operatorOn(t, "-redis", "redis://"+server.Addr)
			everybody.told("override", "set", "clinic", "-level", "2", "-for", "1h", "-why", "x")
			exported := file(t, "control.json", everybody.told("control", "export"))
			if err := errors.Join(admin.ScriptFlush(ctx).Err(), admin.ConfigResetStat(ctx).Err()); err != nil {
				t.Fatal(err)
			}
			for _, args := range commands {
				if _, _, stderr := o.ask(args[0], args[1:]...); stderr != "" && args[len(args)-1] != "corrupt" {
					t.Errorf("%q: %s", args, stderr)
				}
			}
			if user == "operator" {
				o.told("control", "import", exported, "-why", "x")
			}
			redistest.WantNothingRefused(t, admin)
			called := admin.Info(ctx, "commandstats").Val()
			for _, right := range granted {
				if name, _, _ := strings.Cut(right[1:], "|"); !strings.Contains(called, "cmdstat_"+name) {
					t.Errorf("%s is not needed", right)
				}
			}
		})
	}
}

// On a cluster an operator needs what docs/redis.md adds.
func TestTheDocumentedRightsAreEnoughForTheToolsOnACluster(t *testing.T) {
	t.Parallel()
	page := markdown.Read(t, "../../docs/redis.md")
	keys, granted := page.Rights(t, "operator")
	further := regexp.MustCompile("On a Redis Cluster add `([^`]*)` to each").FindStringSubmatch(string(page))
	if further == nil {
		t.Fatal("docs/redis.md does not say what a cluster needs")
	}
	cluster := redistest.StartCluster(t, 3)
	for _, node := range cluster.Masters {
		userOf(t, node, "operator", strings.Join(slices.Concat(keys, granted, further[1:]), " "))
	}
	count(t, cluster.Client(), map[string]int{"acme": 30, "globex": 3})
	o := operatorOn(t, "-redis", "redis+cluster://"+strings.Join(cluster.Addrs(), ","), "-user", "operator").with(passwordVariable, secret)
	for _, args := range [][]string{
		{"ping"}, {"get", "acme"}, {"top", "-once"}, {"list"}, {"override", "set", "acme", "-level", "2", "-for", "1h", "-why", "x"}, {"override", "list"},
		{"log"}, {"reset", "-yes", "globex"}, {"forget", "-yes", "acme", "-why", "x"},
	} {
		o.told(args[0], args[1:]...)
	}
	for _, node := range cluster.Masters {
		denied, err := node.Client().ACLLog(t.Context(), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range denied {
			if entry.Object != "client" && !strings.HasPrefix(entry.Object, "client|") { // as above
				t.Errorf("Redis refused %s", entry.Object)
			}
		}
	}
}
