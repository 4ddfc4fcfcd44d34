// Package page shows operators a fleet in a browser: what happens now, the customers, the
// workers, the policy and the log. It changes nothing of that: where an operator would act,
// it shows the command of priorityctl to copy.
//
// It is an http.Handler at the root of a server. All its URLs are relative, so a proxy that
// takes a prefix away may stand before it.
package page

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"time"

	"github.com/docpriority/priority/internal/insight"
)

const (
	mostText = 512 // bytes of a field of a URL
	mostRows = 200 // of a table
)

// Page is the page of one fleet.
type Page struct {
	cache

	// own goes by the workers' own options.
	own *insight.Inspector

	redis string // the flag -redis of commands

	interval time.Duration // how long an answer of Redis is shown, to everybody

	// The cache's lock guards what operators had set at the last reading, and whether Redis
	// has lost it since.
	settled int64
	lost    string
}

// New returns the page of the fleet that an Inspector knows by the workers' own options.
// The URL of Redis is for the commands to copy; empty: their environment names it.
func New(own *insight.Inspector, redis string) *Page {
	p := &Page{own: own, interval: 2 * time.Second, cache: cache{known: make(map[string]*answer)}}
	if redis != "" {
		p.redis = " -redis " + insight.ShellQuoted(redis)
	}
	return p
}

//go:embed assets
var assets embed.FS

// Handler returns what answers requests.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /assets/", http.FileServerFS(assets))
	for path, show := range map[string]func(*visit) (heading string, data any){
		"{$}": (*visit).now, "customers": (*visit).customers, "customer": (*visit).customer,
		"workers": (*visit).workers, "policy": (*visit).policy, "log": (*visit).log,
	} {
		name := path
		if path == "{$}" {
			name = "now"
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

	Name        string        // of the page
	Refresh     time.Duration // the page is fetched again after so long; 0: it is not
	Stale       []string      // why what is shown is older than it should be
	oldest      time.Time
	unreachable bool // one of Stale says so
	Heading     string
	Data        any
}

func (p *Page) show(w http.ResponseWriter, v *visit, of func(*visit) (string, any)) {
	v.Heading, v.Data = of(v)
	var page bytes.Buffer // so that no half page is sent
	if err := templates[v.Name].ExecuteTemplate(&page, "layout", v); err != nil {
		http.Error(w, "page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(v.status)
	_, _ = w.Write(page.Bytes())
}

// ask returns a field of the URL, of a length that can be shown and searched for.
func (v *visit) ask(field string) string {
	text := v.request.URL.Query().Get(field)
	return text[:min(len(text), mostText)]
}

// Server, Prefix and Lost are for the frame.
func (v *visit) Server() string { return v.own.Server.Address }
func (v *visit) Prefix() string { return v.own.Prefix }
func (v *visit) Lost() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lost
}

// Age says how old the oldest reading on the page is.
func (v *visit) Age() string {
	if v.oldest.IsZero() {
		return ""
	}
	return insight.Span(time.Since(v.oldest).Round(time.Second))
}

// Command returns a command of priorityctl to copy.
func (v *visit) Command(command string) string { return v.own.Command(command + v.redis) }

// inspector returns an Inspector that follows what operators have set, as far as that is
// known.
func (v *visit) inspector() *insight.Inspector {
	followed, ok := read(v, "rules", v.interval, func(ctx context.Context) (*insight.Inspector, error) {
		next, err := v.own.Follow(ctx)
		if err == nil {
			v.noteLoss(next)
		}
		return next, err
	})
	if !ok {
		return v.own
	}
	return followed
}

//go:embed templates
var files embed.FS

// templates has each page within the layout.
var templates = func() map[string]*template.Template {
	all := make(map[string]*template.Template)
	for _, page := range []string{"now", "customers", "customer", "workers", "policy", "log"} {
		all[page] = template.Must(template.New(page).Funcs(functions).ParseFS(files,
			"templates/layout.gohtml", "templates/parts.gohtml", "templates/"+page+".gohtml"))
	}
	return all
}()
