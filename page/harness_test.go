package page_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lua"
	"github.com/docpriority/priority/page"
)

// world is a fleet's Redis, a worker's store on it, and the page on a web server.
type world struct {
	t      *testing.T
	redis  *redistest.Server
	client *redis.Client
	store  *priority.RedisStore
	admin  *control.Admin
	page   *page.Page
	web    *httptest.Server
	root   string // the page's address, with a slash at its end
}

// prefix is where most tests mount the page.
const prefix = "/ops/priority/"

// actor is the header by which tests say who they are.
const actor = "X-Actor"

func byHeader(r *http.Request) (string, bool) { return r.Header.Get(actor), r.Header.Get(actor) != "" }

// newWorld mounts the page under a prefix. Who names themselves may write. Nil opts are
// the defaults, but for a short interval.
func newWorld(t *testing.T, opts *page.Options) *world {
	t.Helper()
	server := redistest.Start(t)
	return worldOn(t, server, redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second}), opts)
}

func worldOn(t *testing.T, server *redistest.Server, client *redis.Client, opts *page.Options) *world {
	t.Helper()
	if opts == nil {
		opts = &page.Options{}
	}
	options := *opts
	if options.Interval == 0 {
		options.Interval = 100 * time.Millisecond
	}
	if options.Authorize == nil {
		options.Authorize = byHeader
	}
	if options.Store.Timeout == 0 {
		options.Store.Timeout = time.Minute
	}
	w := &world{t: t, redis: server, client: client}
	w.store = must(priority.NewRedisStore(client, &options.Store))(t)
	w.admin = must(control.NewAdmin(client, &control.AdminOptions{Prefix: options.Store.Prefix, Timeout: time.Minute}))(t)
	w.page = must(page.New(client, &options))(t)
	web := mounted(t, w.page)
	w.web, w.root = web.web, web.root
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := w.page.Close(ctx); err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	return w
}

func TestMain(m *testing.M) {
	logging.Disable() // what matters is on the page
	m.Run()
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// mounted is a web server with a page, and nothing else of a world.
func mounted(t *testing.T, p *page.Page) *world {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(prefix, http.StripPrefix(strings.TrimSuffix(prefix, "/"), p))
	w := &world{t: t, page: p, web: httptest.NewServer(mux)}
	w.root = w.web.URL + prefix
	t.Cleanup(w.web.Close)
	return w
}

// answer is what the page has sent.
type answer struct {
	*http.Response
	body string
}

// do sends a request, and follows no redirect.
func (w *world) do(method, path string, form url.Values, headers ...string) answer {
	w.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	request := must(http.NewRequestWithContext(w.t.Context(), method, w.root+path, body))(w.t)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response := must(client.Do(request))(w.t)
	defer response.Body.Close()
	return answer{response, string(must(io.ReadAll(response.Body))(w.t))}
}

// get returns a page as somebody sees it who may write.
func (w *world) get(path string) answer {
	w.t.Helper()
	return w.do(http.MethodGet, path, nil, actor, "mary")
}

// post sends a form as somebody who may write.
func (w *world) post(path string, fields ...string) answer {
	w.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return w.do(http.MethodPost, path, form, actor, "mary", "Sec-Fetch-Site", "same-origin")
}

// has fails the test unless the page has a status and all texts.
func (a answer) has(t testing.TB, status int, texts ...string) {
	t.Helper()
	if a.StatusCode != status {
		t.Errorf("%s: status %d, want %d\n%s", a.Request.URL, a.StatusCode, status, a.main())
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Errorf("%s: no %q in\n%s", a.Request.URL, text, a.main())
		}
	}
}

// main is the main part of a page.
func (a answer) main() string {
	_, main, _ := strings.Cut(a.body, "<main")
	main, _, _ = strings.Cut(main, "</main>")
	return main
}

// field returns the value of a hidden field of the page's form.
func (a answer) field(t testing.TB, name string) string {
	t.Helper()
	found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(a.body)
	if found == nil {
		t.Fatalf("%s: no field %s in\n%s", a.Request.URL, name, a.main())
	}
	return found[1]
}

// report writes the report of a process.
func (w *world) report(r fleet.Report) {
	w.t.Helper()
	if r.Levels == 0 {
		r.Levels = 9
	}
	text := must(json.Marshal(r))(w.t)
	const key = "priority:{fleet}:"
	if err := w.client.Eval(w.t.Context(), lua.Report, []string{key + r.ID, key + "members"}, r.ID, text).Err(); err != nil {
		w.t.Fatal(err)
	}
}

// busy writes a report of a process that has counted documents of customers.
func (w *world) busy(customers ...string) {
	w.t.Helper()
	r := fleet.Report{ID: "busy", Name: "worker-1", Language: "go", Host: "a", Overrides: true, Window: time.Minute, ByCount: map[priority.Level]int64{9: int64(len(customers))}}
	for _, customer := range customers {
		r.Busiest = append(r.Busiest, fleet.Busy{Customer: customer, Documents: 1, Rule: priority.ByCount, Level: 9, Count: -30})
	}
	w.report(r)
}

// count counts documents of a customer.
func (w *world) count(customer string, documents int) {
	w.t.Helper()
	must(w.store.NextN(w.t.Context(), customer, documents))(w.t)
}

// document is what operators have set.
type document struct {
	control.Settings
	Overrides map[string]control.Held
}

func (w *world) document() document {
	w.t.Helper()
	d := document{must(w.admin.Settings(w.t.Context()))(w.t), make(map[string]control.Held)}
	for _, held := range must(w.admin.Overrides(w.t.Context()))(w.t) {
		d.Overrides[held.Customer] = held
	}
	return d
}

// pin is an override by which all documents get a level.
func pin(level priority.Level) priority.Override {
	return priority.Override{Earliest: level, Latest: level}
}
