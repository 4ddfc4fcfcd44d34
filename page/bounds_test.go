package page_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/page"
)

// A preview asks Redis no more often than the customer's page does, whoever looks.
func TestManyPreviewsCostWhatOneDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &page.Options{Interval: time.Minute})
	w.count("acme", 30)
	look := func() {
		for _, path := range []string{"reset?c=acme", "override?c=acme&kind=pin&level=1&for=1h", "compare?version=own"} {
			w.get(path).has(t, 200)
		}
	}
	look()
	redistest.Await(t, "the comparison", func() bool { return strings.Contains(w.get("compare?version=own").body, "of 1 customer") })
	before := redistest.Calls(t, w.client)
	for range 20 {
		look()
	}
	for name, calls := range redistest.Calls(t, w.client) {
		if name != "info" && calls != before[name] {
			t.Errorf("%d calls of %s more", calls-before[name], name)
		}
	}
	w.get("reset?c=acme").has(t, 200, "count -29, level 9")
}

// A Redis that has lost the log begins to count at 1 again: another change of the same
// version is another change.
func TestAHistoryIsOfTheLogThatThereIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	set := func(why string) {
		t.Helper()
		must(w.admin.SetOverride(t.Context(), "acme", pin(1), time.Hour, control.Change{By: "john", Why: why}))(t)
	}
	set("the first")
	redistest.Await(t, "the first change", func() bool { return strings.Contains(w.get("customer?c=acme").history(), "the first") })
	w.client.FlushAll(t.Context())
	set("the other")
	redistest.Await(t, "the other change", func() bool {
		history := w.get("customer?c=acme").history()
		return strings.Contains(history, "the other") && !strings.Contains(history, "the first")
	})
}

// history is what operators did, on a customer's page.
func (a answer) history() string {
	_, history, _ := strings.Cut(a.body, `id="history"`)
	history, _, _ = strings.Cut(history, "</section>")
	return history
}

// Where a right is missing, the page says which ones it takes.
func TestAMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "page", "on", ">pw", "~*", "+info").Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "page", Password: "pw", MaxRetries: -1})
	w := worldOn(t, server, client, nil)
	w.get("").has(t, 200, strings.ReplaceAll("it needs "+insight.ReportRights, "+", "&#43;"))
	w.get("customers").has(t, http.StatusServiceUnavailable, strings.ReplaceAll("it needs +scan "+insight.PeekRights, "+", "&#43;"), "Look again")
	changed := w.post("override", "c", "acme", "kind", "pin", "level", "1", "for", "1h", "replaces", "0", "why", "x")
	changed.has(t, http.StatusServiceUnavailable, strings.ReplaceAll(insight.ControlWriteRights, "+", "&#43;"))
	const again = "You can try again"
	if strings.Contains(changed.body, again) { // in vain
		t.Error(changed.main())
	}
	server.Kill()
	w.post("apply", "rules", "{}", "replaces", "0", "why", "x").has(t, http.StatusServiceUnavailable, "definitely not changed", again)
}

// However much of a page cannot be read, that is said once.
func TestANoticeStandsOnceOnAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	once := func(path string) {
		t.Helper()
		if body := w.get(path).body; strings.Count(body, "cannot be reached") != 1 || strings.Count(body, "Not up to date") > 1 {
			t.Errorf("%s says it otherwise than once: %s", path, body)
		}
	}
	w.count("acme", 30)
	for _, path := range []string{"", "customers", "workers", "customer?c=acme", "policy", "log"} {
		w.get(path).has(t, 200)
	}
	w.redis.Kill()
	for _, path := range []string{"", "customers", "workers", "customer?c=acme", "policy", "log"} {
		redistest.Await(t, path+" says that Redis is away", func() bool { return strings.Contains(w.get(path).body, "cannot be reached") })
		once(path)
	}
	for _, path := range []string{"customer?c=other", "override?c=other&kind=pin&level=1&for=1h"} {
		once(path)
	}
	unread := newWorld(t, nil)
	unread.redis.Kill()
	w = unread
	for _, path := range []string{"", "customers", "workers", "log", "customer?c=acme", "policy", "override?c=acme&kind=pin&level=1&for=1h"} {
		once(path)
	}
}
