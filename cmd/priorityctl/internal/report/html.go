package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

var (
	//go:embed page.gohtml
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string

	pageTemplate = template.Must(template.New("page").Parse(pageText))
)

// Page is a report for readers who do not run the command themselves.
type Page struct {
	Command     string // that made it
	Simulations []Simulation
}

// WriteHTML writes one page that needs nothing else.
func (p Page) WriteHTML(to io.Writer) error {
	v := pageView{
		Title:   "Who waits how long",
		Policy:  contentPolicy(),
		Style:   template.CSS(pageStyle),
		Script:  template.JS(pageScript),
		Command: graphic(p.Command),
	}
	for _, s := range p.Simulations {
		v.Sections = append(v.Sections, s.section())
	}
	if len(p.Simulations) == 1 {
		v.Sections[0].ID = "scenario" // a trace's name is any text
	} else {
		v.Overview = newOverview(p.Simulations)
	}
	return pageTemplate.Execute(to, v)
}

type pageView struct {
	Title    string
	Policy   template.HTMLAttr
	Style    template.CSS
	Script   template.JS
	Command  string
	Overview *overview // nil: there is one section
	Sections []section
}

// contentPolicy lets the page load nothing, and run and use only what is in it.
func contentPolicy() template.HTMLAttr {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return template.HTMLAttr(fmt.Sprintf(
		`content="default-src 'none'; style-src %s; script-src %s; img-src data:; base-uri 'none'; form-action 'none'"`,
		hash(pageStyle), hash(pageScript)))
}

// section is a scenario or a trace. Its Summary is empty where the Story is all
// there is to say.
type section struct {
	ID, Name, Story     string
	Summary, Conditions string
	Seeds               int
	Findings            []string
	Logarithmic         bool // the scale of the bars
	Bars                []figure
	Key                 []keyed
	Waits, Dots, Levels []figure
	LevelKey            []band
	Targets             []targetLine
	Columns             []string
	Summaries           []summaryRow
	Distributions       []figure
}

// figure is a plot and what it shows.
type figure struct {
	Title, Note string
	Plot        template.HTML
}

// keyed is a group and how it is drawn.
type keyed struct {
	Mark template.HTML
	Name string
}

type targetLine struct {
	Reached bool
	Text    string
}

// summaryRow is a scheduler in the table.
type summaryRow struct {
	Scheduler string
	Waits     []string // p50 and p99 of each group
	Jain      string
	Least     string
	Makespan  string
}

func (s Simulation) section() section {
	groups, ways := s.shownGroups(), s.ways()
	v := section{
		ID:         s.About.Name,
		Name:       shownName(s.About.Name),
		Conditions: s.Conditions(),
		Seeds:      s.Seeds,
		Findings:   finding(groups, ways),
	}
	if s.About.Recorded {
		v.Story = "Recorded traffic, replayed: " + s.About.Summary + "."
	} else {
		v.Story, v.Summary = stories[s.About.Name], s.About.Summary
	}
	v.addBars(groups, ways, s.plottedGroups())
	v.addPictures(s, ways)
	for _, r := range s.Results {
		v.Targets = append(v.Targets, targetLine{r.Reached, sentence(r)})
	}
	for _, g := range groups {
		v.Columns = append(v.Columns, g.audience)
	}
	for _, outcome := range s.Outcomes {
		v.Summaries = append(v.Summaries, s.summary(outcome, groups))
		if outcome.Series.Levels != nil {
			name := wayName(outcome.Scheduler)
			v.Levels = append(v.Levels, figure{Title: capital(name), Plot: levelPlot(name, outcome.Series)})
			v.LevelKey = levelBands(len(outcome.Series.Levels))
		}
	}
	return v
}

// addBars adds before and after. Groups that are plotted have their colours.
func (v *section) addBars(groups []group, ways []way, plotted []string) {
	shortest, longest := math.Inf(1), 0.0
	for _, g := range groups {
		for _, w := range ways {
			shortest, longest = min(shortest, g.typical(w.outcome)), max(longest, g.unlucky(w.outcome))
		}
	}
	waits := linearWaits(longest, "")
	if v.Logarithmic = longest > 20*shortest; v.Logarithmic {
		waits = logarithmOfWaits(shortest/1.2, longest, "")
	}
	for _, g := range groups {
		var bars []bar
		for _, w := range ways {
			bars = append(bars, bar{w.title, g.typical(w.outcome), g.unlucky(w.outcome), w.outcome.Measures[g.name+"_wait_p99_s"].Within})
		}
		color := "other"
		if i := slices.Index(plotted, g.name); i >= 0 {
			color = fmt.Sprintf("g%d", i)
		}
		note := thousands(int(math.Round(g.documents))) + " documents"
		if g.name == simulation.WorstCustomer {
			note = "not always the same one"
		}
		v.Bars = append(v.Bars, figure{Title: capital(g.audience), Plot: barPlot("Waits of "+g.audience, note, bars, color, waits)})
	}
}

// addPictures adds what is drawn of the first seed.
func (v *section) addPictures(s Simulation, ways []way) {
	groups := s.plottedGroups()
	for i, group := range groups {
		v.Key = append(v.Key, keyed{keyMark(i), audience(group)})
	}
	waits := s.waitScale(ways, groups)
	sent := sentScale(ways)
	for _, w := range ways {
		v.Waits = append(v.Waits, figure{Title: capital(w.title), Plot: waitPlot(w.title, w.outcome.Series, groups, waits)})
		v.Dots = append(v.Dots, figure{capital(w.title), dotsInWords(w.outcome.Series.Dots), dotPlot(w.title, w.outcome.Series, groups, sent, waits)})
	}
	longest := 0.0
	for _, outcome := range s.Outcomes {
		for _, group := range groups {
			longest = max(longest, last(outcome.Series.Quantiles[group]))
		}
	}
	all := logarithmOfWaits(waits.from, longest, "wait")
	for i, group := range groups {
		v.Distributions = append(v.Distributions, figure{Title: capital(audience(group)), Plot: distributionPlot(s.Outcomes, group, i, all)})
	}
}

// plottedGroups returns those that have a series.
func (s Simulation) plottedGroups() []string {
	var groups []string
	for _, group := range s.Outcomes[0].Series.Groups {
		if len(s.Outcomes[0].Series.Quantiles[group]) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// waitScale returns one that the lines and the dots of all ways fit on, but for
// some that are as good as 0.
func (s Simulation) waitScale(ways []way, groups []string) scale {
	shortest, longest := math.Inf(1), 0.0
	include := func(waits []float64) {
		if len(waits) > 0 {
			slices.Sort(waits)
			shortest, longest = min(shortest, waits[len(waits)/5]), max(longest, last(waits))
		}
	}
	for _, w := range ways {
		for _, group := range groups {
			include(slices.DeleteFunc(slices.Clone(w.outcome.Series.Waits[group]), math.IsNaN))
		}
		var waits []float64
		for _, dot := range w.outcome.Series.Dots {
			waits = append(waits, dot.Waited.Most)
		}
		include(waits)
	}
	return logarithmOfWaits(max(shortest, longest/1e5), longest, "mean wait")
}

// sentScale returns one that all dots fit on.
func sentScale(ways []way) scale {
	least, most := math.Inf(1), 1.0
	for _, w := range ways {
		for _, dot := range w.outcome.Series.Dots {
			least, most = min(least, dot.Sent.Least), max(most, dot.Sent.Most)
		}
	}
	least = min(least, most)
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	sent := logarithm(math.Pow(10, from), math.Pow(10, max(to, from+1)), "documents sent")
	sent.inset = 10
	return sent
}

func last(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return values[len(values)-1]
}

func (s Simulation) summary(outcome simulation.Outcome, groups []group) summaryRow {
	row := summaryRow{Scheduler: outcome.Scheduler}
	for _, g := range groups {
		row.Waits = append(row.Waits,
			s.cell(outcome, column{"", g.name + "_wait_p50_s", false}),
			s.cell(outcome, column{"", g.name + "_wait_p99_s", s.Seeds > 1}))
	}
	row.Jain = s.cell(outcome, column{"", "jain", false})
	row.Least = s.cell(outcome, column{"", "smallest_share", false})
	row.Makespan = s.cell(outcome, column{"", "makespan_s", false})
	return row
}

// keyMark is how a group is drawn: its line, and its dot.
func keyMark(group int) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="key-mark" width="38" height="14" aria-hidden="true">`+
		`<path class="line g%[1]d" d="M0 7h38"/><g class="dot g%[1]d">%[2]s</g></svg>`, group, mark(group, 19, 7, 4.5, "")))
}
