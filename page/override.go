package page

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// What an override does, as forms name it.
const (
	pinned   = "pin"
	notLater = "latest"
	notEarly = "earliest"
	ending   = "end"
)

// overrideView is what an override would do, before it is set or ended.
type overrideView struct {
	Customer string
	Kind     string
	Level    priority.Level
	Lasts    string
	Says     string // what is to hold
	Until    time.Time
	Present  *insight.Overridden
	Replaces int64
	Ends     bool

	// The level of the next document: without an override, now, and then.
	Known            bool
	Ruled, Now, Next priority.Level
	Pending          int64
	Failure          string
	Back             string
}

// previewOverride shows what happens to a customer's levels.
func (v *visit) previewOverride() {
	customer, err := customerOf(v.r.URL.Query())
	if err != nil {
		v.badCustomer(err)
		return
	}
	back := customerURL("customer", customer)
	kind := v.r.URL.Query().Get("kind")
	override, lasts, err := v.overrideOf(v.r.URL.Query())
	if err != nil {
		v.badRequest(insight.OneLine(err), back, "Back to the customer")
		return
	}
	inspector := v.inspector()
	if inspector.Document == nil {
		v.failed(v.fleet.inspector.known().err)
		return
	}
	view := overrideView{
		Customer: customer, Kind: kind, Lasts: lasts.String(), Ends: kind == ending, Back: back,
		Present: inspector.OverrideOf(customer), Until: inspector.Now.Add(lasts),
	}
	view.Level, _ = levelOf(v.r.URL.Query())
	if view.Present != nil {
		view.Replaces = view.Present.Version
	}
	if view.Ends && view.Present == nil {
		v.badRequest("There is no override of this customer any more.", back, "Back to the customer")
		return
	}
	if !view.Ends {
		view.Says = override.String()
	}
	found := v.fleet.customers.get(v.reading, customer)
	if found.err != nil || found.late {
		view.Failure = unread
		noteStale(v, found)
	} else {
		view.compare(found.value, override)
	}
	v.show(200, "override", insight.Shown(customer), view)
}

// compare fills in the levels now, and those with the override.
func (view *overrideView) compare(found customerLook, override control.Override) {
	view.Known, view.Pending = true, found.Pending
	view.Now, view.Ruled = found.NextLevel, found.Ruled()
	view.Next = view.Ruled
	if !view.Ends {
		view.Next = override.Level(view.Ruled, found.by.Own.Last())
	}
}

// override sets or ends one.
func (v *visit) override() {
	form := v.form()
	customer, err := customerOf(form)
	if err != nil {
		v.badCustomer(err)
		return
	}
	back, link := customerURL("customer", customer), "Back to the customer"
	override, lasts, err := v.overrideOf(form)
	if err != nil {
		v.badRequest(insight.OneLine(err), back, link)
		return
	}
	change, ok := v.change(back, link)
	if !ok {
		return
	}
	var version int64
	if form.Get("kind") == ending {
		version, err = v.fleet.own.Admin.EndOverride(v.r.Context(), customer, change)
	} else {
		version, err = v.fleet.own.Admin.SetOverride(v.r.Context(), customer, override, lasts, change)
	}
	if err != nil {
		v.notChanged(err, back, link, func(inspector *insight.Inspector) []string {
			present := inspector.OverrideOf(customer)
			if present == nil {
				return []string{"The customer has no override now."}
			}
			return []string{fmt.Sprintf("The customer is %s until %s, by %s: %s", present.Says, insight.Moment(present.Until), insight.Shown(present.By), insight.Quoted(present.Why))}
		})
		return
	}
	v.led(customerURL("customer", customer, "done", strconv.FormatInt(version, 10)))
}

// overrideOf reads an override and for how long it is to hold.
func (v *visit) overrideOf(values url.Values) (control.Override, time.Duration, error) {
	kind := values.Get("kind")
	if kind == ending {
		return control.Override{}, 0, nil
	}
	level, err := levelOf(values)
	if err != nil || level > v.options.Levels {
		return control.Override{}, 0, fmt.Errorf("choose a level from 1 to %d", v.options.Levels)
	}
	lasts, err := time.ParseDuration(values.Get("for"))
	if err != nil || lasts < time.Millisecond || lasts > control.MaxOverride {
		return control.Override{}, 0, fmt.Errorf("say for how long: 90m or 36h, at most %s", insight.Span(control.MaxOverride))
	}
	switch kind {
	case pinned:
		return control.Pin(level), lasts, nil
	case notLater:
		return control.Override{Latest: level}, lasts, nil
	case notEarly:
		return control.Override{Earliest: level}, lasts, nil
	}
	return control.Override{}, 0, fmt.Errorf("choose what the override does")
}

func levelOf(values url.Values) (priority.Level, error) {
	level, err := strconv.ParseUint(values.Get("level"), 10, 8)
	if err == nil && level == 0 {
		err = strconv.ErrRange
	}
	return priority.Level(level), err
}
