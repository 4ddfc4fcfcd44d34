package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/docpriority/priority/internal/insight"
)

// resetView shows what a reset would forget.
type resetView struct {
	Customer string
	Held     string
	Next     string // what the next document will get
	Back     string
}

// resetTime bounds how long a reset waits for Redis.
const resetTime = 5 * time.Second

// previewReset shows what would be forgotten.
func (v *visit) previewReset() {
	customer, err := customerOf(v.r.URL.Query())
	if err != nil {
		v.badCustomer(err)
		return
	}
	v.inspector()
	held := v.cache.held.get(v.reading, customer)
	noteStale(v, held)
	view := resetView{Customer: customer, Held: cmp.Or(held.value, "what Redis holds, which is not known now"), Back: customerURL("customer", customer)}
	view.Next = "The next document is counted as the first and gets level 1"
	override := v.cache.override.get(v.reading, customer)
	noteStale(v, override)
	if override := override.value; override != nil && override.InForce {
		view.Next += ", but for the override, which stays: " + override.Says
	}
	v.show(200, "reset", insight.Shown(customer), view)
}

// reset forgets a customer's count, pending documents and usage, once the log has it.
func (v *visit) reset() {
	customer, err := customerOf(v.form())
	if err != nil {
		v.badCustomer(err)
		return
	}
	back, link := customerURL("customer", customer), "Back to the customer"
	change, ok := v.change(back, link)
	if !ok {
		return
	}
	// A client that goes away must not leave it half done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), resetTime)
	defer cancel()
	if err := v.cache.own.OfLaterVersion(ctx, customer); err != nil {
		v.problem(http.StatusConflict, "Nothing was changed", problem{Says: []string{v.cache.text(err)}, Back: back, Link: link})
		return
	}
	version, err := v.cache.own.Admin.NoteReset(ctx, customer, change)
	if err != nil {
		v.notChanged(err, back, link, func(*insight.Inspector) []string { return nil })
		return
	}
	if _, err := v.cache.own.ResetNumbers(ctx, customer); err != nil {
		v.cache.expire()
		v.problem(503, "Written down, but not reset", problem{
			Says: []string{fmt.Sprintf("Version %d of the log has the reset, but it failed: %s", version, v.cache.text(err)), "Reset the customer again."},
			Back: back, Link: link,
		})
		return
	}
	v.led(customerURL("customer", customer, "done", strconv.FormatInt(version, 10)))
}
