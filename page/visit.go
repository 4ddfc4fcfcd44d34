package page

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// visit is one request for a page.
type visit struct {
	*Page
	w http.ResponseWriter
	r *http.Request

	reading context.Context // bounds the time for all readings

	name   string // of the page
	actor  string
	writes bool        // the actor may write
	stale  []staleness // why what is shown is older than it should be
}

// guarded sets the headers that keep other sites out.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		header.Set("X-Frame-Options", "DENY")
		header.Set("X-Content-Type-Options", "nosniff")
		// Customers are in URLs. "no-referrer" would take the Origin from forms too.
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// authorize asks who has sent the request.
func (v *visit) authorize() {
	if v.options.Authorize == nil {
		return
	}
	actor, ok := v.options.Authorize(v.r)
	if ok && actor != "" && len(actor) <= control.MaxByBytes {
		v.actor, v.writes = actor, true
	}
}

// layout is the frame of every page.
type layout struct {
	Title   string // of the fleet's page
	Heading string
	Page    string // the name of the visited one
	Server  insight.Server
	Prefix  string
	Actor   string
	Writes  bool
	Stale   []staleness
	Lost    *loss
	Refresh int64 // in milliseconds; 0: the page does not change by itself
	Assets  string
	Data    any
}

// show sends a page.
func (v *visit) show(status int, template, heading string, data any) {
	v.send(status, template, layout{Heading: heading, Data: data})
}

// showLive sends a page whose main part is refreshed.
func (v *visit) showLive(template, heading string, data any) {
	v.send(http.StatusOK, template, layout{Heading: heading, Data: data, Refresh: max(v.options.Interval, time.Second).Milliseconds()})
}

func (v *visit) send(status int, template string, l layout) {
	l.Title, l.Page, l.Server, l.Prefix = v.options.Title, v.name, v.options.Server, v.cache.own.Prefix
	l.Actor, l.Writes, l.Stale, l.Assets = v.actor, v.writes, v.stale, assetsVersion
	l.Lost = v.cache.lost.Load()
	var page bytes.Buffer // so that no half page is sent
	if err := templates[template].ExecuteTemplate(&page, "layout", l); err != nil {
		http.Error(v.w, "page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(page.Bytes())
}

// redirect leads to another page after a change. http.Redirect would make the URL
// absolute with a path whose prefix may have been stripped.
func (v *visit) redirect(to string) {
	v.w.Header().Set("Location", to)
	v.w.WriteHeader(http.StatusSeeOther)
}

// addSlash leads to the same path with a slash at its end, and reports whether the slash
// was missing. Only the server that got the request knows the stripped prefix.
func (v *visit) addSlash() bool {
	path, _, _ := strings.Cut(v.r.RequestURI, "?")
	last := path[strings.LastIndexByte(path, '/')+1:]
	if last == "" {
		return false
	}
	to := "./" + last + "/" // so that a colon in a name does not look like a scheme
	if v.r.URL.RawQuery != "" {
		to += "?" + v.r.URL.RawQuery
	}
	v.w.Header().Set("Location", to)
	v.w.WriteHeader(http.StatusPermanentRedirect)
	return true
}

// staleness is why something that is shown is older than it should be.
type staleness struct {
	why  string
	away bool      // Redis does not answer
	read time.Time // when the oldest of it was read; zero: never
}

// String is what the page says.
func (s staleness) String() string {
	if s.read.IsZero() {
		return s.why
	}
	return fmt.Sprintf("%s What you see was read %s ago.", s.why, insight.Span(time.Since(s.read).Round(time.Second)))
}

// noteStale notes why the result of a lookup is older than it should be, if it is.
// The page says the same thing only once, and only once that Redis does not answer.
func noteStale[T any](v *visit, found looked[T]) {
	if found.err == nil && !found.late {
		return
	}
	noted := staleness{"Redis has not answered yet.", true, found.at}
	if found.err != nil {
		noted.why, noted.away = v.cache.text(found.err), insight.Unreachable(found.err)
	}
	for i, said := range v.stale {
		if said.why != noted.why && !(said.away && noted.away) {
			continue
		}
		if said.read.IsZero() || !noted.read.IsZero() && noted.read.Before(said.read) {
			v.stale[i].read = noted.read
		}
		return
	}
	v.stale = append(v.stale, noted)
}

// inspector returns an inspector that follows what operators have set, and notes if
// that may be out of date.
func (v *visit) inspector() *insight.Inspector {
	found := v.cache.inspector.get(v.reading)
	noteStale(v, found)
	if found.value == nil {
		return v.cache.own
	}
	return found.value
}
