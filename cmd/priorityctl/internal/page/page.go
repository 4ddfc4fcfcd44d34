// Package page shows operators a fleet in a browser: what happens now, a customer, the
// workers, the policy and the log. It only reads, so it is safe without a login: where an
// operator would act, it shows the command of priorityctl to copy. Anyone who reaches it
// reads customers' names and the log.
//
// It is an http.Handler at the root of a server. All its URLs are relative, so it works
// behind a proxy that strips a prefix.
package page

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

// mostRows is how many rows of a table a page shows.
const mostRows = 200

// Page is the page of one fleet.
type Page struct {
	looks

	inspector *insight.Inspector
	redis     string        // the flag -redis that commands get, if any
	interval  time.Duration // between two looks
}

// New returns the page of an Inspector's fleet. The URL of Redis is for the commands to
// copy; empty: their environment names it.
func New(inspector *insight.Inspector, redis string) *Page {
	p := &Page{inspector: inspector, interval: 5 * time.Second} // workers report as often
	if redis != "" {
		p.redis = " -redis " + insight.ShellQuoted(redis)
	}
	return p
}

//go:embed assets
var assets embed.FS

// Handler returns the page's HTTP handler.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /assets/", http.FileServerFS(assets))
	for name, show := range map[string]func(*visit) (heading string, data any){
		"now": (*visit).now, "customer": (*visit).customer,
		"workers": (*visit).workers, "policy": (*visit).policy, "log": (*visit).log,
	} {
		path := name
		if name == "now" {
			path = "{$}"
		}
		mux.HandleFunc("GET /"+path, func(w http.ResponseWriter, r *http.Request) {
			p.show(w, &visit{Page: p, request: r, Name: name, status: http.StatusOK}, show)
		})
	}
	return guarded(mux)
}

// guarded keeps other sites out of the page, and the page out of other sites.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		header.Set("X-Frame-Options", "DENY")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer") // customers are in URLs
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// visit is one request, and the frame of its page.
type visit struct {
	*Page
	request *http.Request
	status  int

	Name    string   // the page's
	Look    *look    // nil if Redis was never reached
	Away    bool     // whether Redis cannot be reached now
	Stale   []string // why something is missing, or older than it should be
	Heading string
	Data    any
}

func (p *Page) show(w http.ResponseWriter, v *visit, content func(*visit) (heading string, data any)) {
	var away error
	if v.Look, away = p.look(v.request.Context()); away != nil {
		v.Away = true
		v.note(away)
	} else {
		for _, err := range v.Look.missing {
			v.note(err)
		}
	}
	v.Heading = "Redis was not reached yet"
	if v.Look != nil {
		v.Heading, v.Data = content(v)
	}
	var page bytes.Buffer // which is sent only if it is whole
	if err := templates[v.Name].ExecuteTemplate(&page, "layout", v); err != nil {
		http.Error(w, "page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(v.status)
	_, _ = w.Write(page.Bytes())
}

// note says on the page why something is missing, once.
func (v *visit) note(err error) {
	if says := v.text(err); !slices.Contains(v.Stale, says) {
		v.Stale = append(v.Stale, says)
	}
}

// text returns an error as a page may show it.
func (p *Page) text(err error) string {
	text := insight.OneLine(p.inspector.Hidden(err))
	if _, away := errors.AsType[insight.Away](err); insight.Unreachable(err) && !away {
		return "Redis at " + p.inspector.Address + " cannot be reached: " + text
	}
	return text
}

// Inspector is for the frame, which names what is looked at.
func (v *visit) Inspector() *insight.Inspector { return v.inspector }

// Refresh is how often the page is fetched.
func (v *visit) Refresh() time.Duration { return v.interval }

// Command returns a command of priorityctl to copy.
func (v *visit) Command(command string) string { return v.inspector.Command(command + v.redis) }

// functions are what the templates call.
var functions = template.FuncMap{
	"group": insight.Group, "moment": insight.Moment, "quoted": insight.Quoted,
	"number": insight.Number,
	"byLoad": func(rule priority.Rule) bool { return rule == priority.ByLoad },
	"shown":  insight.Shown, "span": insight.Span, "about": insight.About, "resets": insight.Resets, "worst": insight.Worst,
	"turns":    func() string { return insight.Turns },
	"inOrder":  func() string { return insight.InOrder },
	"stamp":    func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
	"since":    func(at time.Time) string { return insight.Span(time.Since(at).Round(time.Second)) },
	"bare":     func(text string) string { return strings.TrimPrefix(strings.TrimPrefix(text, "load "), "count ") }, // as the heading has the word
	"customer": pathOf,
}

// pathOf returns the path of a customer's page.
func pathOf(customer string) string { return "customer?" + url.Values{"c": {customer}}.Encode() }

//go:embed templates
var files embed.FS

// templates has each page within the layout.
var templates = func() map[string]*template.Template {
	all := make(map[string]*template.Template)
	for _, page := range []string{"now", "customer", "workers", "policy", "log"} {
		all[page] = template.Must(template.New(page).Funcs(functions).ParseFS(files,
			"templates/layout.gohtml", "templates/parts.gohtml", "templates/"+page+".gohtml"))
	}
	return all
}()
