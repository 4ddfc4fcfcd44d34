package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// compareView shows what other rules would do, with the forms that apply them.
type compareView struct {
	Rules    control.Rules
	JSON     string
	Name     string
	Tables   []policyTable
	Found    *insight.Compared
	Matrix   matrix
	Age      string
	Failure  string
	Progress int
	Bands    []bandTable

	Version  int64  // of the history; 0: the rules are not from there
	Again    string // the URL of this page; empty: the rules were sent
	Own      bool   // the rules are the workers' own options
	Same     bool   // the rules equal the present rules
	Known    bool   // what operators have set is known
	Replaces int64  // the present version
	Lost     bool   // Redis lost what operators set
	Set      bool   // operators have set the present rules
}

// bandTable compares the policies of a tier, or of customers without a tier.
type bandTable struct {
	Tier   string
	Counts []insight.Band
	Loads  []insight.Band
	TurnsA int64
	TurnsB int64
}

// compareVersion compares what decides with the rules of the URL's version: a version
// of the history, or "own".
func (v *visit) compareVersion() {
	version := v.r.URL.Query().Get("version")
	inspector := v.inspector()
	if inspector.Settings == nil {
		v.failed(v.cache.inspector.known().err)
		return
	}
	view := compareView{}
	if version == "own" {
		view.Own, view.Name = true, v.cache.own.Policy.Name
		view.Rules = v.cache.own.Rules()
	} else {
		number, err := strconv.ParseInt(version, 10, 64)
		history := v.cache.history.get(v.reading)
		if history.err != nil {
			v.failed(history.err)
			return
		}
		for _, item := range history.value {
			if err == nil && item.Version == number {
				view.Version, view.Rules = number, item.Rules
				view.Name = fmt.Sprintf("version %d, by %s", item.Version, insight.Shown(item.By))
			}
		}
		if view.Version == 0 {
			v.problem(404, "Not found", problem{Says: []string{"There is no such version of the policy any more."}, Back: "policy", Link: "Policy"})
			return
		}
	}
	view.Again = v.again()
	v.compareWith(inspector, view)
}

// compareRules compares what decides with rules that were sent.
func (v *visit) compareRules() {
	rules, err := v.sentRules()
	if err != nil {
		v.badRequest(insight.OneLine(err), "policy", "Policy")
		return
	}
	inspector := v.inspector()
	if inspector.Settings == nil {
		v.failed(v.cache.inspector.known().err)
		return
	}
	v.compareWith(inspector, compareView{Rules: rules, Name: "what you gave"})
}

// sentRules reads rules from the form: a file that was chosen, else what was typed.
func (v *visit) sentRules() (control.Rules, error) {
	text := []byte(v.form().Get("rules"))
	if file, _, err := v.r.FormFile("file"); err == nil {
		defer file.Close()
		if held, err := io.ReadAll(file); err != nil {
			return control.Rules{}, err
		} else if len(held) > 0 {
			text = held
		}
	}
	rules, err := insight.ParseRules(text)
	if err != nil {
		return rules, err
	}
	return rules, rules.Validate(v.options.Levels)
}

func (v *visit) compareWith(inspector *insight.Inspector, view compareView) {
	current := insight.NamedRules{Rules: inspector.Rules(), Name: inspector.Policy.Name}
	view.Lost, view.Known, view.Set = v.cache.lost.Load() != nil, true, inspector.Settings.Rules != nil
	if view.Set {
		view.Replaces = inspector.Settings.Rules.Version
	}
	text, err := json.Marshal(view.Rules)
	now, err2 := json.Marshal(current.Rules)
	if err := errors.Join(err, err2); err != nil {
		v.failed(err)
		return
	}
	view.JSON, view.Same = string(text), string(text) == string(now)
	view.Tables, view.Bands = tablesOf(view.Rules), bandsOf(current.Rules, view.Rules)
	found, progress := v.compare.of(v.reading, inspector, current, insight.NamedRules{Rules: view.Rules, Name: view.Name})
	switch {
	case !found.at.IsZero():
		view.Found, view.Matrix = &found.value, shiftsOf(found.value)
		view.Age = insight.Span(time.Since(found.at).Round(time.Second))
	case found.err != nil && !errors.Is(found.err, errUnwatched):
		view.Failure = v.cache.text(found.err)
	default:
		view.Progress = progress
	}
	v.show(200, "compare", "Compare", view)
}

// bandsOf compares all policies, tier by tier. If rules do not have a tier, its
// customers have the policy of customers without a tier there.
func bandsOf(a, b control.Rules) []bandTable {
	var tables []bandTable
	for _, tier := range insight.TiersOf(a, b) {
		a, b := insight.PolicyOfTier(a, tier), insight.PolicyOfTier(b, tier)
		tables = append(tables, bandTable{tier, insight.CountBands(a, b), insight.LoadBands(a, b), int64(a.Turns), int64(b.Turns)})
	}
	return tables
}
