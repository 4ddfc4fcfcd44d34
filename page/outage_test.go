package page_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/page"
)

// A Redis that answers nobody any more makes nobody wait for it: what was known last is
// shown. Of a change nobody can tell, and the page says so.
func TestAHangingRedisIsShownAsWhatWasKnownLast(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	w := worldOn(t, server, redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, ReadTimeout: time.Minute}), nil)
	w.count("acme", 30)
	w.busy("acme")
	for _, path := range []string{"", "customer?c=acme", "policy", "log"} {
		w.get(path).has(t, 200)
	}
	proxy.Set(redistest.Swallow)
	w.post("override", "c", "acme", "kind", "pin", "level", "1", "for", "1h", "replaces", "0", "why", "x").has(t, http.StatusBadGateway, "Nobody can tell yet")
	for path, known := range map[string]string{"": `href="customer?c=acme"`, "customer?c=acme": "◂ -30", "policy": "22 and on"} {
		redistest.Await(t, path+" says that Redis does not answer", func() bool {
			return strings.Contains(w.get(path).body, "Not up to date")
		})
		w.get(path).has(t, 200, known)
	}
	proxy.Set(redistest.None)
	server.KillClients() // else they wait for a minute
	redistest.Await(t, "the page is back", func() bool { return !strings.Contains(w.get("customer?c=acme").body, "Not up to date") })
}

// On a cluster too all customers are met, whichever node they are on, and each node's
// health is shown.
func TestThePageShowsACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	p := must(page.New(client, &page.Options{Interval: 100 * time.Millisecond, Authorize: byHeader}))(t)
	t.Cleanup(func() { _ = p.Close(t.Context()) })
	w := mounted(t, p)
	for _, customer := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := client.Set(t.Context(), "priority:{"+customer+"}:count", -30, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	awaitCustomers(w, 6)
	redistest.Await(t, "each node's health", func() bool {
		body := w.get("").body
		for _, node := range cluster.Masters {
			if !strings.Contains(body, "of <code>"+node.Addr) {
				return false
			}
		}
		return true
	})
	w.post("override", "c", "a", "kind", "pin", "level", "1", "for", "1h", "replaces", "0", "why", "x").has(t, http.StatusSeeOther)
	w.get("customer?c=a").has(t, 200, "pinned to level 1", `next document</dt><dd><strong class="figure">1</strong>`)
	w.get("compare?version=own").has(t, 200, "The order of 6 customers does not change.")
}
