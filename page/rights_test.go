package page_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
)

// Redis refuses nothing to a page that has an operator's rights, as docs/redis.md has them.
func TestAnOperatorsRightsAreEnoughForThePage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin, ctx := server.Client(), t.Context()
	keys, commands := markdown.Read(t, "../docs/redis.md").Rights(t, "operator")
	args := []any{"ACL", "SETUSER", "operator", "reset", "on", ">pw"}
	for _, right := range slices.Concat(keys, commands) {
		args = append(args, right)
	}
	if err := admin.Do(ctx, args...).Err(); err != nil {
		t.Fatal(err)
	}
	member := must(fleet.Join(admin, nil))(t)
	t.Cleanup(func() { _ = member.Close(context.Background()) })
	redistest.Await(t, "a report", func() bool { return len(must(fleet.Read(ctx, admin, ""))(t)) == 1 })
	w := worldOn(t, server, redis.NewClient(&redis.Options{Addr: server.Addr, Username: "operator", Password: "pw", MaxRetries: -1}), nil)
	w.count("acme", 30)
	for _, path := range []string{"", "customers", "workers", "customer?c=acme", "policy", "log"} {
		w.get(path).has(t, 200)
	}
	w.post("override", "c", "acme", "kind", "pin", "level", "1", "for", "1h", "replaces", "0", "why", "x").has(t, http.StatusSeeOther)
	w.post("reset", "c", "acme", "replaces", "0", "why", "x").has(t, http.StatusSeeOther)
	redistest.Await(t, "a sample of the day", func() bool { return admin.Exists(ctx, "priority:{fleet}:history").Val() == 1 })
	redistest.WantNothingRefused(t, admin)
	if entries := must(w.admin.Log(ctx, 0, 10))(t); len(entries) != 2 {
		t.Errorf("the log has %d changes", len(entries))
	}
}
