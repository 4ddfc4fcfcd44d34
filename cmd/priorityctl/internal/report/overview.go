package report

import (
	"html/template"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

// overview has all the scenarios of a page at a glance: how long an unlucky
// document waits.
type overview struct {
	Ways      []keyed
	Scale     template.HTML
	Scenarios []overviewScenario
}

type overviewScenario struct {
	ID, Name string
	Columns  int
	Rows     []overviewRow
}

// overviewRow is a group of a scenario.
type overviewRow struct {
	Audience string
	Waits    []string // by way
	Plot     template.HTML
}

// newOverview has a line for each group of each scenario. All scenarios have the
// ways of the first.
func newOverview(simulations []Simulation) *overview {
	v := new(overview)
	ways := simulations[0].ways()
	for i, w := range ways {
		v.Ways = append(v.Ways, keyed{wayMark(i), capital(w.name)})
	}
	shortest, longest := math.Inf(1), 0.0
	for _, s := range simulations {
		for _, g := range s.glanceGroups() {
			for _, w := range s.ways() {
				shortest, longest = min(shortest, g.unlucky(w.outcome)), max(longest, g.unlucky(w.outcome))
			}
		}
	}
	scale := logarithmOfWaits(shortest, longest, "")
	v.Scale = scalePlot(scale)
	for _, s := range simulations {
		scenario := overviewScenario{ID: s.About.Name, Name: s.About.Name, Columns: len(ways) + 2}
		for _, g := range s.glanceGroups() {
			row := overviewRow{Audience: g.audience}
			var waits []float64
			for _, w := range s.ways() {
				waits = append(waits, g.unlucky(w.outcome))
				row.Waits = append(row.Waits, lasting(g.unlucky(w.outcome)))
			}
			row.Plot = markPlot(s.About.Name+", "+g.audience, waits, scale)
			scenario.Rows = append(scenario.Rows, row)
		}
		v.Scenarios = append(v.Scenarios, scenario)
	}
	return v
}

// glanceGroups returns those that an overview has: of a scenario in which all
// customers are in one group, only the light half and all.
func (s Simulation) glanceGroups() []group {
	return slices.DeleteFunc(s.shownGroups(), func(g group) bool { return g.name == simulation.WorstCustomer })
}

// wayMark is the mark of a way to schedule.
func wayMark(way int) template.HTML {
	return template.HTML(`<svg class="key-mark" width="16" height="14" aria-hidden="true"><g class="way` +
		string(rune('0'+way)) + `">` + mark(way, 8, 7, wayRadius(way), "") + `</g></svg>`)
}

// wayRadius lets the first way's mark, which is hollow, be seen round another.
func wayRadius(way int) float64 {
	if way == 0 {
		return 6.5
	}
	return 4
}

// capital makes the first letter a capital.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
