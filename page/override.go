package page

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
)

// The kinds of overrides, as forms name them.
const (
	pinned   = "pin"
	notLater = "latest"
	notEarly = "earliest"
	ending   = "end"
)

// overrideView shows what an override would do, before it is set or ended.
type overrideView struct {
	Customer string
	Kind     string
	Level    priority.Level
	Lasts    string
	Says     string // what the override will do
	Until    time.Time
	Present  *insight.Overridden
	Replaces int64
	Ends     bool

	// The level of the next document: without an override, now, and then.
	Known            bool
	Ruled, Now, Next priority.Level
	Pending          int64
	Consequence      string
	Failure          string
	Back             string
}

// previewOverride shows what will happen to a customer's levels.
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
	present := v.cache.override.get(v.reading, customer)
	if inspector.Settings == nil || present.at.IsZero() {
		v.failed(cmp.Or(present.err, v.cache.inspector.known().err))
		return
	}
	noteStale(v, present)
	view := overrideView{
		Customer: customer, Kind: kind, Lasts: lasts.String(), Ends: kind == ending, Back: back,
		Present: present.value, Until: inspector.Now().Add(lasts),
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
		view.Says = insight.Says(override)
	}
	found := v.cache.customers.get(v.reading, customer)
	if found.err != nil || found.late {
		view.Failure = unread
		noteStale(v, found)
	} else {
		view.compare(found.value, override)
		if !view.Ends {
			view.Consequence = v.consequence(found.value.Customer, override)
		}
	}
	v.show(200, "override", insight.Shown(customer), view)
}

// compare fills in the levels now, and the levels with the override.
func (view *overrideView) compare(found customerLook, override priority.Override) {
	view.Known, view.Pending = true, found.Pending
	view.Now, view.Ruled = found.NextLevel, found.Ruled()
	view.Next = view.Ruled
	if !view.Ends {
		view.Next = override.Level(view.Ruled, found.by.Own.Last())
	}
}

// override sets or ends an override.
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
		version, err = v.cache.own.Admin.EndOverride(v.r.Context(), customer, change)
	} else {
		version, err = v.cache.own.Admin.SetOverride(v.r.Context(), customer, override, lasts, change)
	}
	if err != nil {
		v.notChanged(err, back, link, func(inspector *insight.Inspector) []string {
			present, err := inspector.OverrideOf(v.r.Context(), customer)
			switch {
			case err != nil:
				return []string{v.cache.text(err)}
			case present == nil:
				return []string{"The customer has no override now."}
			}
			return []string{fmt.Sprintf("The customer is %s until %s, by %s: %s", present.Says, insight.Moment(present.Until), insight.Shown(present.By), insight.Quoted(present.Why))}
		})
		return
	}
	v.led(customerURL("customer", customer, "done", strconv.FormatInt(version, 10)))
}

// consequence says what an override does, by what the workers report.
func (v *visit) consequence(customer *insight.Customer, override priority.Override) string {
	reports := v.cache.reports.get(v.reading)
	noteStale(v, reports)
	return insight.ConsequenceOf(customer.Exact(), priority.State{NextLevel: customer.NextLevel, Ruled: customer.RuledLevel, Pending: customer.Pending}, override, v.options.Levels, fleet.Add(reports.value)).Says
}

// obeyed says who obeys a change.
type obeyed struct {
	Says string
	All  bool // it is in force, and all workers obey
}

func obeyedBy(o insight.Obedience) obeyed {
	return obeyed{o.String(), o.Obeying == o.Workers && o.Error == ""}
}

// obeyChange says whether a change of a customer's override is in force. present is the
// override now, or nil.
func (v *visit) obeyChange(entry insight.Logged, present *insight.Overridden) obeyed {
	switch {
	case entry.Kind == "reset":
		return obeyed{"the customer's numbers are forgotten", true}
	case entry.New == nil:
		return obeyed{"the override has ended", present == nil}
	case present == nil:
		return obeyed{Says: "it is over"}
	case !present.InForce:
		return obeyed{Says: present.Trouble()}
	}
	reports := v.cache.reports.get(v.reading)
	noteStale(v, reports)
	return obeyedBy(insight.ObeyOverride(reports.value, present.Override()))
}

// overrideOf reads an override and how long it should last.
func (v *visit) overrideOf(values url.Values) (priority.Override, time.Duration, error) {
	kind := values.Get("kind")
	if kind == ending {
		return priority.Override{}, 0, nil
	}
	level, err := levelOf(values)
	if err != nil || level > v.options.Levels {
		return priority.Override{}, 0, fmt.Errorf("choose a level from 1 to %d", v.options.Levels)
	}
	lasts, err := time.ParseDuration(values.Get("for"))
	if err != nil || lasts < time.Millisecond || lasts > control.MaxOverride {
		return priority.Override{}, 0, fmt.Errorf("say for how long: 90m or 36h, at most %s", insight.Span(control.MaxOverride))
	}
	switch kind {
	case pinned:
		return priority.Override{Earliest: level, Latest: level}, lasts, nil
	case notLater:
		return priority.Override{Latest: level}, lasts, nil
	case notEarly:
		return priority.Override{Earliest: level}, lasts, nil
	}
	return priority.Override{}, 0, fmt.Errorf("choose what the override does")
}

func levelOf(values url.Values) (priority.Level, error) {
	level, err := strconv.ParseUint(values.Get("level"), 10, 8)
	if err == nil && level == 0 {
		err = strconv.ErrRange
	}
	return priority.Level(level), err
}
