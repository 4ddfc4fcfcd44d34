package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/page"
)

// awaitCustomers waits until a search through all customers finds so many.
func awaitCustomers(w *world, customers int64) {
	w.t.Helper()
	redistest.Await(w.t, "a search", func() bool {
		return strings.Contains(w.get("customers").body, `<strong class="figure">`+insight.Group(customers)+`</strong> of all customers`)
	})
}

// The page works wherever it is: with and without http.StripPrefix, behind a proxy
// that takes a prefix away, and without the slash at its end.
func TestThePageWorksUnderAnyPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.count("acme", 4)
	mux := http.NewServeMux()
	mux.Handle("/", w.page)
	mux.Handle("/plain/pages/", w.page)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", w.page))
	mux.Handle("/wholly/", http.StripPrefix("/wholly/", w.page))
	mux.Handle("/exact", http.StripPrefix("/exact", w.page))
	mux.Handle("/exact/", http.StripPrefix("/exact", w.page))
	server := httptest.NewServer(mux)
	defer server.Close()
	target := must(url.Parse(server.URL + "/stripped"))(t)
	proxy := httptest.NewServer(http.StripPrefix("/team", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}))
	defer proxy.Close()
	for _, root := range []string{
		server.URL + "/", server.URL + "/plain/pages/", server.URL + "/plain/pages", server.URL + "/stripped/", server.URL + "/stripped",
		server.URL + "/wholly/", server.URL + "/exact", server.URL + "/exact/", proxy.URL + "/team/",
	} {
		visit := func(from, link string) *http.Response {
			address := must(must(url.Parse(from))(t).Parse(link))(t)
			request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, address.String(), nil))(t)
			request.Header.Set(actor, "mary")
			response := must(http.DefaultClient.Do(request))(t)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s from %s: %d", link, from, response.StatusCode)
			}
			return response
		}
		first := visit(root, "").Request.URL.String()
		if !strings.HasSuffix(first, "/") {
			t.Errorf("%s is at %s", root, first)
		}
		second := visit(first, "customer?c=acme").Request.URL.String()
		for _, link := range []string{"./", "policy", "log", "style.css?v=1", "script.js", "icon.svg"} {
			visit(second, link)
		}
		form := url.Values{"c": {"acme"}, "kind": {"pin"}, "level": {"2"}, "for": {"1h"}, "why": {"a test"}, "replaces": {fmt.Sprint(w.document().Overrides["acme"].Version)}}
		request := must(http.NewRequestWithContext(t.Context(), http.MethodPost, must(must(url.Parse(second))(t).Parse("override"))(t).String(), strings.NewReader(form.Encode())))(t)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set(actor, "mary")
		response := must(http.DefaultClient.Do(request))(t)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Request.URL.String(), strings.TrimSuffix(second, "acme")) {
			t.Errorf("%s: a change leads to %s, %d", root, response.Request.URL, response.StatusCode)
		}
	}
}

// An override goes from the form by its preview to the customer's page and the log.
func TestAnOverrideIsPreviewedSetAndEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.count("acme", 30)
	w.get("customer?c=acme").has(t, 200, `next document</dt><dd><strong class="figure">9</strong>`, "count &lt; -20 <strong>◂ -30</strong>", "None of the latest")

	preview := w.get("override?c=acme&kind=latest&level=2&for=6h")
	preview.has(t, 200, "level 2 at the latest", "no override now", "<td>9</td>", "<strong>2</strong>", "Queued documents keep their level")
	if w.document().Version != 0 {
		t.Error("the preview has changed something")
	}
	done := w.post("override", "c", "acme", "kind", "latest", "level", "2", "for", preview.field(t, "for"), "replaces", preview.field(t, "replaces"), "why", "the board asks")
	done.has(t, http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "customer?c=acme&done=1" {
		t.Errorf("it leads to %q", to)
	}
	w.get(done.Header.Get("Location")).has(t, 200, "Recorded as version 1", `next document</dt><dd><strong class="figure">2</strong>`, "level 2 at the latest", "by mary", "the board asks", `class="done"`)
	set := w.document().Overrides["acme"]
	if set.Value != (priority.Override{Latest: 2}) || set.By != "mary" || set.Why != "the board asks" || set.Until.Sub(set.At) != 6*time.Hour {
		t.Errorf("set is %+v", set)
	}
	w.get("policy").has(t, 200, "level 2 at the latest", "the board asks")

	end := w.get("override?c=acme&kind=end")
	end.has(t, 200, "End the override", "<strong>9</strong>")
	w.post("override", "c", "acme", "kind", "end", "replaces", end.field(t, "replaces"), "why", "over").has(t, http.StatusSeeOther)
	if len(w.document().Overrides) != 0 {
		t.Error("the override has not ended")
	}
	w.get("log").has(t, 200, "acme override ended", "acme overridden: level 2 at the latest")
	w.get("override?c=acme&kind=end").has(t, http.StatusBadRequest, "no override of this customer any more")
}

// Of two operators who look at the same, the second is told what the first one did.
func TestOfTwoChangesOneIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	mary := control.Change{By: "john", Why: "I was first"}
	must(w.admin.SetOverride(ctx, "acme", pin(7), time.Hour, mary))(t)
	must(w.admin.Apply(ctx, control.Rules{Policy: priority.Policy{Thresholds: []int64{-3}}}, mary))(t)
	before := w.document().Version
	for _, write := range writes {
		if write.path == "reset" {
			continue // there is nothing that another one would replace
		}
		fields := []string{"why", "I am second", "replaces", "0"}
		for name, values := range must(url.ParseQuery(write.fields))(t) {
			fields = append(fields, name, values[0])
		}
		if strings.Contains(write.fields, "rollback") {
			fields = append(fields, "version", "2")
		}
		w.post(write.path, fields...).has(t, http.StatusConflict, "Nothing of yours was changed", "What there is now", "john", "I was first")
	}
	if after := w.document().Version; after != before {
		t.Errorf("version %d, not %d", after, before)
	}
}

// Compare, apply, rollback and withdraw.
func TestAPolicyIsComparedAppliedAndRolledBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.count("acme", 6)
	w.count("calm", 26)
	w.count("busy", 40)
	const wide = `{"thresholds":[-10,-30]}`
	compared := w.post("compare", "rules", wide)
	compared.has(t, 200, "Of 3 customers, 1 would move forward, and 1 back. The order of 1 of 3 pairs (33.3 %) changes: 0 reversed, 1 split, 0 merged.",
		`<span class="unseen">forward: </span>1`, `<td class="left">merged</td>`, ">Apply</button>")
	if w.document().Version != 0 {
		t.Error("to compare has changed something")
	}
	w.post("apply", "rules", wide, "replaces", "0", "why", "it is better").has(t, http.StatusSeeOther)
	w.get("policy?done=1").has(t, 200, "version 1, by mary", "it is better", "count &lt; -10", "decides now", "Withdraw it…")
	w.get("customer?c=busy").has(t, 200, `next document</dt><dd><strong class="figure">3</strong>`)
	w.post("apply", "rules", `{"thresholds":[-1]}`, "replaces", "1", "why", "worse").has(t, http.StatusSeeOther)
	w.get("compare?version=1").has(t, 200, "Roll back to version 1", "version 1, by mary")
	w.post("apply", "kind", "rollback", "version", "1", "replaces", "2", "why", "back").has(t, http.StatusSeeOther)
	if rules := w.document().Rules; rules.Version != 3 || len(rules.Value.Policy.Thresholds) != 2 {
		t.Errorf("after the rollback: %+v", rules)
	}
	w.get("compare?version=own").has(t, 200, "Withdraw version 3")
	w.post("apply", "kind", "withdraw", "replaces", "3", "why", "the deployment has it").has(t, http.StatusSeeOther)
	if w.document().Rules != nil {
		t.Error("the policy is not withdrawn")
	}
	w.get("policy").has(t, 200, "operators have set no policy")
}

// A corrupt key is found by name, and gone with a reset.
func TestACorruptKeyIsNamedAndReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.client.Set(t.Context(), "priority:{bro{ken}:count", "junk", 0)
	redistest.Await(t, "the key's name", func() bool {
		return strings.Contains(w.get("customers?corrupt=").body, `href="reset?c=bro%7Bken"`)
	})
	w.get("customer?c=bro{ken").has(t, 200, "holds a string, not a count", "Reset…")
	w.get("reset?c=bro{ken").has(t, 200, "a corrupt count", "cannot be undone")
	w.post("reset", "c", "bro{ken", "why", "repair", "replaces", "0").has(t, http.StatusSeeOther)
	w.get("customer?c=bro{ken&done=1").has(t, 200, "none", "bro{ken reset")
	if n := w.client.Exists(t.Context(), "priority:{bro{ken}:count").Val(); n != 0 {
		t.Error("the key is still there")
	}
	w.client.Set(t.Context(), "priority:{new}:usage", "v2 1000", time.Hour)
	w.post("reset", "c", "new", "why", "repair", "replaces", "0").has(t, http.StatusConflict, "Nothing was changed", "a later version wrote the key")
	if n := w.client.Exists(t.Context(), "priority:{new}:usage").Val(); n != 1 {
		t.Error("a later version's key is gone")
	}
}

// What is wrong is said, and changes nothing.
func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, test := range []struct{ path, fields, says string }{
		{"override", "c=acme&kind=pin&level=2&for=1h&replaces=0&why=+", "Say why"},
		{"override", "c=acme&kind=pin&level=2&for=1h&replaces=0&why=" + strings.Repeat("x", 1001), "at most 1,000 bytes"},
		{"override", "c=acme&kind=pin&level=2&for=1h&why=x", "which version it replaces"},
		{"override", "c=acme&kind=pin&level=10&for=1h&replaces=0&why=x", "a level from 1 to 9"},
		{"override", "c=acme&kind=pin&level=2&for=721h&replaces=0&why=x", "for how long"},
		{"override", "c=acme&kind=pin&level=2&replaces=0&why=x", "for how long"},
		{"override", "c=acme&kind=worse&level=2&for=1h&replaces=0&why=x", "what the override does"},
		{"override", "kind=pin&level=2&for=1h&replaces=0&why=x", "1 to 512 bytes"},
		{"apply", "rules=nonsense&replaces=0&why=x", "not a policy"},
		{"apply", `rules={"thresholds":[1,2]}&replaces=0&why=x`, "invalid"},
		{"apply", `rules={"thresholds":[-1,-2,-3,-4,-5,-6,-7,-8,-9,-10]}&replaces=0&why=x`, "its queue has 9 levels, the rules 11"},
		{"apply", `rules={"threshold":[1]}&replaces=0&why=x`, "unknown field"},
		{"compare", "rules=", "not a policy"},
	} {
		fields := []string{}
		for name, values := range must(url.ParseQuery(test.fields))(t) {
			fields = append(fields, name, values[0])
		}
		w.post(test.path, fields...).has(t, http.StatusBadRequest, test.says)
	}
	w.post("apply", "kind", "rollback", "version", "77", "replaces", "0", "why", "x").has(t, http.StatusNotFound, "version 77")
	w.get("compare?version=77").has(t, http.StatusNotFound, "no such version")
	w.get("nothing").has(t, http.StatusNotFound, `href="./nothing/"`)
	if w.document().Version != 0 {
		t.Error("something was changed")
	}
}

// The log is paged by version, without a gap.
func TestTheLogIsPaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i := range 120 {
		must(w.admin.NoteReset(t.Context(), fmt.Sprint("customer-", i), control.Change{By: "mary", Why: "many"}))(t)
	}
	seen, path := 0, "log"
	for pages := 0; path != "" && pages < 5; pages++ {
		page := w.get(path)
		for line := range strings.Lines(page.body) {
			if strings.Contains(line, `<p class="faint">version `) {
				if want := fmt.Sprintf("version %d,", 120-seen); !strings.Contains(line, want) {
					t.Fatalf("%s: no %s in %s", path, want, line)
				}
				seen++
			}
		}
		_, older, _ := strings.Cut(page.body, `href="log?upto=`)
		if path, _, _ = strings.Cut(older, `"`); path != "" {
			path = "log?upto=" + path
		}
	}
	if seen != 120 {
		t.Errorf("%d of 120 entries are there", seen)
	}
}

// The log says that a customer was forgotten, and has no link to anybody.
func TestTheLogDoesNotNameWhoWasForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(w.admin.NoteReset(t.Context(), "acme", control.Change{By: "mary", Why: "x"}))(t)
	must(w.admin.Forget(t.Context(), "acme", control.Change{By: "mary", Why: "ticket 4711"}))(t)
	page := w.get("log")
	page.has(t, http.StatusOK, "<bdi>a customer forgotten</bdi></p>", "ticket 4711")
	if strings.Contains(page.body, "acme") {
		t.Error(page.body)
	}
}

// A fleet has the columns of the rules that it uses, and a customer the story of one.
func TestThoseWhoSubmitAreShownByTheirLoads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for customer, documents := range map[string]int{"clinic": 11, "flood": 1000} {
		ids := make([]string, documents)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		must(w.store.SubmitN(t.Context(), customer, ids, nil))(t)
	}
	awaitCustomers(w, 2)
	has := func(body string, columns ...string) {
		t.Helper()
		for _, column := range []string{"load", "pending", "oldest", "count", "reset", "rule"} {
			if got := strings.Contains(body, "?sort="+column); got != slices.Contains(columns, column) {
				t.Errorf("the column %s is there: %v", column, got)
			}
		}
	}
	w.get("customers").has(t, 200, "<td>144.0</td>", ">oldest")
	has(w.get("customers").body, "load", "pending", "oldest")
	w.get("customer?c=clinic").has(t, 200, "12.0 lately × 12 pending × 1.00 cost = 144.0", `<td class="left">&gt; 128 <strong>◂ 144.0</strong>`,
		`next document</dt><dd><strong class="figure">5</strong>`, "priority:{clinic}:usage")
	if body := w.get("customer?c=clinic").body; strings.Contains(body, "count &lt;") || strings.Contains(body, ":count<") {
		t.Error("a customer by load has a count")
	}
	w.count("acme", 30)
	awaitCustomers(w, 3)
	has(w.get("customers").body, "load", "pending", "oldest", "count", "reset", "rule")
	if body := w.get("customers?sort=load").body; strings.Index(body, `href="customer?c=flood"`) > strings.Index(body, `href="customer?c=clinic"`) {
		t.Error("the highest load is not the first")
	}
}

// Who sorts and filters gets a URL of that, and only what was asked for.
func TestCustomersAreSortedAndFilteredByURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i, customer := range []string{"anna", "berta", "annabel"} {
		w.count(customer, 10*(i+1))
	}
	awaitCustomers(w, 3)
	order := func(path string, customers ...string) {
		t.Helper()
		var body string
		redistest.Await(t, path+" is searched", func() bool { body = w.get(path).body; return strings.Contains(body, "</strong> of all customers") })
		at := 0
		_, body, _ = strings.Cut(body, `id="customers"`)
		if got := strings.Count(body, `href="customer?c=`); got != len(customers) {
			t.Errorf("%s has %d customers, not %d", path, got, len(customers))
		}
		for _, customer := range customers {
			found := strings.Index(body, `href="customer?c=`+customer+`"`)
			if found < at {
				t.Errorf("%s: %s is not there, or not in its place", path, customer)
			}
			at = found
		}
	}
	order("customers?sort=customer", "anna", "annabel", "berta")
	order("customers?sort=customer&reverse=", "berta", "annabel", "anna")
	order("customers?sort=count", "annabel", "berta", "anna")
	order("customers?sort=level&reverse=", "anna", "berta", "annabel")
	order("customers?q=ANNA&sort=customer", "anna", "annabel")
	order("customers?level=9", "annabel")
	w.get("customers?sort=customer").has(t, 200, `aria-sort="ascending"`)
	w.get("customers?sort=customer&q=a%22%3E").has(t, 200, `value="a&#34;&gt;"`)
}

// A hundred people who look cost Redis what one does.
func TestManyReadersCostWhatOneDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &page.Options{Interval: time.Minute})
	w.count("acme", 3)
	look := func() {
		for _, path := range []string{"", "customers", "workers", "customer?c=acme", "policy", "log"} {
			w.get(path)
		}
	}
	w.busy("acme")
	look()
	redistest.Await(t, "the first look is over", func() bool {
		return strings.Contains(w.get("").body, "Checked ") && strings.Contains(w.get("customers").body, "of all customers")
	})
	before := redistest.Calls(t, w.client)
	var all sync.WaitGroup
	for range 25 {
		all.Go(look)
	}
	all.Wait()
	after := redistest.Calls(t, w.client)
	for name, calls := range after {
		if name != "info" && calls != before[name] {
			t.Errorf("%d calls of %s more", calls-before[name], name)
		}
	}
}

// When Redis stops, what was read last stays, with its age and a message, and nothing
// is changed by halves. When it is back, so is the page.
func TestTheLastGoodDataStayWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.count("acme", 30)
	must(w.admin.Apply(t.Context(), control.Rules{Policy: priority.Policy{Thresholds: []int64{-3}}}, control.Change{By: "john", Why: "few levels"}))(t)
	w.busy("acme")
	for _, path := range []string{"", "customer?c=acme", "policy", "log"} {
		w.get(path).has(t, 200)
	}
	w.redis.Kill()
	for path, known := range map[string]string{"": `href="customer?c=acme"`, "customer?c=acme": "count &lt; -3 <strong>◂ -30</strong>", "policy": "few levels", "log": "few levels"} {
		redistest.Await(t, path+" says that Redis is away", func() bool {
			return strings.Contains(w.get(path).body, "Not up to date")
		})
		w.get(path).has(t, 200, known, "cannot be reached", "What you see was read")
	}
	w.get("customer?c=other").has(t, 200, "cannot be reached")
	w.post("override", "c", "acme", "kind", "pin", "level", "1", "for", "1h", "replaces", "0", "why", "x").has(t, http.StatusServiceUnavailable, "definitely not changed")
	w.post("reset", "c", "acme", "replaces", "0", "why", "x").has(t, http.StatusServiceUnavailable, "definitely not changed")
	w.redis.Restart()
	redistest.Await(t, "the page is back", func() bool { return !strings.Contains(w.get("log").body, "Not up to date") })
	w.get("policy").has(t, 200, "operators have set no policy") // this server keeps nothing
}

// A page that was never read says so, and no more.
func TestWithoutRedisThePageSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.redis.Kill()
	w.get("").has(t, 200, "cannot be reached", "✗ Something does not work")
	for _, path := range []string{"customers", "workers", "log"} {
		w.get(path).has(t, http.StatusServiceUnavailable, "cannot be reached", "Try again")
	}
	w.get("customer?c=acme").has(t, 200, "cannot be reached")
	w.get("policy").has(t, 200, "is not known now")
	for _, path := range []string{"override?c=acme&kind=pin&level=1&for=1h", "compare?version=own"} {
		w.get(path).has(t, http.StatusServiceUnavailable)
	}
}

// Junk in the key of what operators have set is named, and the workers' own options
// are shown.
func TestACorruptPolicyIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.client.Set(t.Context(), "priority:{control}:rules", "junk", 0)
	w.count("acme", 30)
	w.get("policy").has(t, 200, "corrupt", "priority:{control}:rules", "is not known now", "count &lt; -20")
	w.get("customer?c=acme").has(t, 200, "corrupt", `next document</dt><dd><strong class="figure">9</strong>`)
	w.post("apply", "rules", "{}", "replaces", "0", "why", "repair").has(t, http.StatusSeeOther)
	w.get("policy").has(t, 200, "decides now", "repair")
}

// After Close nothing is looked up any more.
func TestAClosedPageSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if err := w.page.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.get("log").has(t, http.StatusServiceUnavailable, "the page was closed")
}
