package page

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/docpriority/priority/control"
)

// mostBytes bounds what may be sent: the rules of many tiers are some 100 kB.
const mostBytes = 1 << 20

// write handles a POST, if the sender may write.
func (v *visit) write(route route) {
	if err := v.origins.Check(v.r); err != nil {
		v.problem(http.StatusForbidden, "Nothing was changed", problem{Says: []string{
			"This was sent from another site, and is refused.",
			"If it was sent from this page, a proxy before it must pass on the header Host as it is.",
		}})
		return
	}
	if !route.reads && !v.writes {
		v.problem(http.StatusForbidden, "Nothing was changed", problem{Says: []string{"You may look at everything here, but change nothing."}})
		return
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, mostBytes)
	err := v.r.ParseForm() // ParseMultipartForm would hide its error
	if err == nil {
		err = v.r.ParseMultipartForm(mostBytes) // it fits into memory
	}
	if errors.Is(err, http.ErrNotMultipart) {
		err = nil
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		v.problem(http.StatusRequestEntityTooLarge, "Nothing was changed", problem{Says: []string{"That is more than 1 MiB."}})
		return
	case err != nil:
		v.badRequest("What was sent is no form of this page.", "", "")
		return
	}
	route.post(v)
}

// form returns the values of the body; values of the URL change nothing.
func (v *visit) form() url.Values { return v.r.PostForm }

// change reads who makes the change, why, and which version it replaces, or says
// what is missing.
func (v *visit) change(back, link string) (control.Change, bool) {
	why := strings.TrimSpace(v.form().Get("why"))
	replaces, err := strconv.ParseInt(v.form().Get("replaces"), 10, 64)
	switch {
	case why == "":
		v.badRequest("Say why: the log records it for those who ask later.", back, link)
	case len(why) > control.MaxWhyBytes:
		v.badRequest("Say why in at most 1,000 bytes.", back, link)
	case err != nil || replaces < 0:
		v.badRequest("What was sent does not say which version it replaces.", back, link)
	default:
		return control.Change{By: v.actor, Why: why, Replaces: replaces}, true
	}
	return control.Change{}, false
}

// led leads to the page that shows a change.
func (v *visit) led(to string) {
	v.cache.expire()
	v.redirect(to)
}

// done returns the version of the change that led here, or 0.
func (v *visit) done() int64 {
	version, err := strconv.ParseInt(v.r.URL.Query().Get("done"), 10, 64)
	if err != nil {
		return 0
	}
	return max(version, 0)
}
