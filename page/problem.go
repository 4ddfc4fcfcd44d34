package page

import (
	"errors"
	"net/http"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// problem is a page that only says what is wrong.
type problem struct {
	Says []string
	Now  []string // the present state
	Back string   // a URL
	Link string   // the text of Back
}

func (v *visit) problem(status int, heading string, p problem) {
	if p.Link == "" {
		p.Back, p.Link = "./", "All customers"
	}
	v.show(status, "problem", heading, p)
}

func (v *visit) notFound() {
	p := problem{Says: []string{"There is no page of this name."}}
	if v.name != "" {
		// If the page is mounted without a slash at its end, this is its path.
		p.Says = append(p.Says, "If the page itself is at this address, its address ends with a slash.")
		p.Back, p.Link = "./"+escapedSegment(v.name)+"/", "Add the slash"
	}
	v.problem(http.StatusNotFound, "Not found", p)
}

func (v *visit) notAllowed(route route) {
	var methods []string
	if route.get != nil {
		methods = append(methods, http.MethodGet, http.MethodHead)
	}
	if route.post != nil {
		methods = append(methods, http.MethodPost)
	}
	v.w.Header().Set("Allow", strings.Join(methods, ", "))
	v.problem(http.StatusMethodNotAllowed, "Not done", problem{Says: []string{"Nothing can be done here in this way, and nothing was changed."}})
}

// badRequest says what is wrong with what was sent.
func (v *visit) badRequest(says string, back, link string) {
	v.problem(http.StatusBadRequest, "Nothing was changed", problem{Says: []string{says}, Back: back, Link: link})
}

// badCustomer says why the request names no customer.
func (v *visit) badCustomer(err error) {
	v.badRequest("Name a customer of 1 to 512 bytes. "+insight.OneLine(err), "./", "All customers")
}

// failed says why something could not be read that was never read before.
func (v *visit) failed(err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, priority.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, control.ErrNotFound):
		status = http.StatusNotFound
	}
	v.stale = nil // this page says it itself
	says := "Redis has not answered yet."
	if err != nil {
		says = v.cache.text(err)
	}
	link := "Try again"
	if !mayPass(err) {
		link = "Look again"
	}
	v.problem(status, "Cannot be read", problem{Says: []string{says, "There is no earlier reading either."}, Back: v.again(), Link: link})
}

// again returns the URL of the visited page.
func (v *visit) again() string {
	again := "./" + v.name
	if v.r.URL.RawQuery != "" && v.r.Method != http.MethodPost {
		again += "?" + v.r.URL.RawQuery
	}
	return again
}

// notChanged says why a change failed. now returns the present state.
func (v *visit) notChanged(err error, back, link string, now func(*insight.Inspector) []string) {
	v.cache.expire()
	if insight.Forbidden(err) {
		err = v.cache.own.Explained(v.r.Context(), err, "", "") // which rights are missing
	}
	p := problem{Says: []string{v.cache.text(err)}, Back: back, Link: link}
	switch {
	case errors.Is(err, control.ErrConflict):
		p.Says = []string{"Somebody else has changed it since you looked. Nothing of yours was changed. Look at what there is now, and decide again."}
		if found := v.cache.inspector.get(v.r.Context()); found.err == nil && !found.late {
			p.Now = now(found.value)
		}
		v.problem(http.StatusConflict, "Nothing was changed", p)
	case errors.Is(err, control.ErrNotInForce):
		p.Says = append(p.Says, "It is recorded, but not in force yet. Do the same again.")
		v.problem(http.StatusBadGateway, "Written down, but not in force", p)
	case errors.Is(err, priority.ErrOutcomeUnknown):
		p.Says = append(p.Says, "Nobody can tell yet whether it was changed: look before you do it again.")
		v.problem(http.StatusBadGateway, "It may have been changed", p)
	case errors.Is(err, priority.ErrInvalid):
		v.problem(http.StatusBadRequest, "Nothing was changed", p)
	case errors.Is(err, control.ErrNotFound):
		v.problem(http.StatusNotFound, "Nothing was changed", p)
	default:
		p.Says = append(p.Says, "It was definitely not changed.")
		if mayPass(err) {
			p.Says = append(p.Says, "You can try again.")
		}
		v.problem(http.StatusServiceUnavailable, "Nothing was changed", p)
	}
}

// mayPass reports whether an error of Redis may pass by itself.
func mayPass(err error) bool {
	return !insight.Forbidden(err) && !errors.Is(err, control.ErrTooMany) &&
		!errors.Is(err, control.ErrCorrupt) && !errors.Is(err, control.ErrNewer)
}
